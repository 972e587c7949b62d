// Text of others on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

// What would steer a terminal (ASCII's control characters but those in `kept`, and U+0080 to U+009F) as it is
// written in C: "\x1b".
inline std::string printable(std::string_view text, std::string_view kept = "") {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto code = static_cast<unsigned char>(text[i]);
    const bool is_c1 = i > 0 && text[i - 1] == '\xc2' && code >= 0x80 && code < 0xa0;  // in UTF-8
    const bool steers = (code < 0x20 || code == 0x7f) && kept.find(text[i]) == std::string_view::npos;
    if (!is_c1 && !steers) {
      shown += text[i];
      continue;
    }
    if (is_c1) shown.pop_back();
    shown += "\\x";
    shown += digits[code / 16];
    shown += digits[code % 16];
  }
  return shown;
}

}  // namespace rondo
