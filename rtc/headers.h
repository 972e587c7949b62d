// The names in a text's #include lines.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace rondo::rtc {

// The text with `#include "a"` as `#include "b"` for each a → b in `names`; as many lines as before.
std::string rename_includes(std::string_view text, const std::map<std::string, std::string>& names);

}  // namespace rondo::rtc
