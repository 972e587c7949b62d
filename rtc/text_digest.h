// A 128-bit digest of an ordered list of texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::rtc {

// XXH3_128 in hexadecimal. Each text is preceded by its length, so that no two lists run together.
std::string text_digest(const std::vector<std::string_view>& texts);

}  // namespace rondo::rtc
