// Text in a graph that Graphviz draws.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

// As a quoted string of its language, DOT. A line's end becomes \l, which puts the line at the left; other
// control characters become spaces.
inline std::string dot_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\n') {
      quoted += "\\l";
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return quoted + '"';
}

}  // namespace rondo
