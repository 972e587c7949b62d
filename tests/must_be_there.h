// Which devices a test may skip because they are missing.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "rondo/device.h"
#include "rondo/error.h"

namespace rondo {

// There is always a host; and every vendor's device where RONDO_TEST_DOUBLES says that its libraries are
// doubles.
inline bool must_be_there(std::string_view spec) {
  return spec == "host" || std::getenv("RONDO_TEST_DOUBLES") != nullptr;
}

// The last thing in a SetUp: the device, or the test is skipped.
inline void open_or_skip(const std::string& spec, std::shared_ptr<Device>& device) {
  try {
    device = open_device(spec);
  } catch (const Error& error) {
    if (must_be_there(spec)) throw;
    GTEST_SKIP() << error.what();
  }
}

}  // namespace rondo
