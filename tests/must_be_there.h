// Which devices a test may skip because they are missing.
#pragma once

#include <cstdlib>
#include <string_view>

namespace rondo {

// There is always a host; and every vendor's device where RONDO_TEST_DOUBLES says that its libraries are
// doubles.
inline bool must_be_there(std::string_view spec) {
  return spec == "host" || std::getenv("RONDO_TEST_DOUBLES") != nullptr;
}

}  // namespace rondo
