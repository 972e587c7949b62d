#include "name_template.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace rondo {
namespace {

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n\r") - first + 1);
}

// What a template can be matched by: characters, and '{' for each outermost `{…}`.
std::string to_pattern(std::string_view text) {
  std::string pattern;
  int depth = 0;
  for (const char c : text) {
    if (c == '{' && depth++ == 0) pattern += '{';
    if (c == '}') {
      depth = std::max(0, depth - 1);
    } else if (depth == 0) {
      pattern += c;
    }
  }
  return pattern;
}

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

std::string interpolate(const Template& text,
                        const std::function<std::string(std::string_view inner)>& resolve) {
  struct Level {
    std::string text;
    std::size_t open;  // offset of its '{'
  };
  std::vector<Level> levels{{"", 0}};
  for (std::size_t i = 0; i < text.value.size(); ++i) {
    const char c = text.value[i];
    if (c == '{') {
      levels.push_back({"", i});
    } else if (c == '}') {
      if (levels.size() == 1) throw ExpressionError("'}' without '{'", i);
      const Level level = std::move(levels.back());
      levels.pop_back();
      const std::string_view inner = trim(level.text);
      if (inner.empty()) throw ExpressionError("nothing between '{' and '}'", level.open);
      try {
        levels.back().text += resolve(inner);
      } catch (const ExpressionError& error) {
        const std::size_t start = level.open + 1 + static_cast<std::size_t>(inner.data() - level.text.data());
        throw ExpressionError(error.what(), std::min(start + error.offset(), i));
      }
    } else {
      levels.back().text += c;
    }
  }
  if (levels.size() > 1) throw ExpressionError("'{' without '}'", levels.back().open);
  return std::move(levels.front().text);
}

bool may_be_same_name(std::string_view a, std::string_view b) {
  const std::string left = to_pattern(a), right = to_pattern(b);
  // reachable[j]: the first i characters of left and j of right can match; '{' matches any text.
  std::vector<char> reachable(right.size() + 1, 0), next(right.size() + 1, 0);
  reachable[0] = 1;
  for (std::size_t i = 0;; ++i) {
    std::fill(next.begin(), next.end(), char{0});
    for (std::size_t j = 0; j <= right.size(); ++j) {
      if (!reachable[j]) continue;
      const bool left_any = i < left.size() && left[i] == '{';
      const bool right_any = j < right.size() && right[j] == '{';
      if ((left_any || right_any) && j < right.size()) reachable[j + 1] = 1;
      if ((left_any || right_any) && i < left.size()) next[j] = 1;
      if (i < left.size() && j < right.size() && left[i] == right[j]) next[j + 1] = 1;
    }
    if (i == left.size()) return reachable[right.size()] != 0;
    std::swap(reachable, next);
  }
}

bool is_valid_name(std::string_view name, bool braces) {
  bool at_start_of_part = true;
  bool first_part = true;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (braces && c == '{') {
      int depth = 0;
      for (; i < name.size(); ++i) {
        if (name[i] == '{') ++depth;
        if (name[i] == '}' && --depth == 0) break;
      }
      if (i == name.size()) return false;
    } else if (c == '.') {
      if (at_start_of_part) return false;
      at_start_of_part = true;
      first_part = false;
      continue;
    } else if (!is_name_byte(c) || (at_start_of_part && first_part && c >= '0' && c <= '9')) {
      return false;
    }
    at_start_of_part = false;
  }
  return !at_start_of_part;
}

}  // namespace rondo
