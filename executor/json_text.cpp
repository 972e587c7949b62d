#include "json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

namespace rondo {
namespace {

// The offset of the first byte that is not part of well-formed UTF-8 (Unicode, table 3-7), or of a NUL.
std::optional<std::size_t> find_bad_byte(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(0);
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char first = byte(i), second = byte(i + 1);
    if (first != 0 && first < 0x80) {
      i += 1;
    } else if (first >= 0xc2 && first <= 0xdf && continues(i + 1)) {
      i += 2;
    } else if (first >= 0xe0 && first <= 0xef && continues(i + 1) && continues(i + 2) &&
               !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second > 0x9f)) {
      i += 3;
    } else if (first >= 0xf0 && first <= 0xf4 && continues(i + 1) && continues(i + 2) && continues(i + 3) &&
               !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second > 0x8f)) {
      i += 4;
    } else {
      return i;
    }
  }
  return std::nullopt;
}

std::string shorten(std::string_view text) {
  constexpr std::size_t longest = 60;
  if (text.size() <= longest) return std::string(text);
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

// Receives nlohmann's events and builds the values.
class Builder {
 public:
  Builder(const std::string& text, std::vector<JsonError>& errors) : text_(text), errors_(errors) {}

  JsonValue take() { return std::move(root_); }

  bool null() { return add({nullptr}); }
  bool boolean(bool value) { return add({value}); }
  bool number_integer(std::int64_t value) { return add({value}); }
  bool number_unsigned(std::uint64_t value) {
    if (value <= static_cast<std::uint64_t>(INT64_MAX)) return add({static_cast<std::int64_t>(value)});
    return add({value});
  }
  bool number_float(double value, const std::string& written) {
    if (written.find_first_of(".eE") == std::string::npos) return add({HugeInteger{written}});
    return add({value});
  }
  bool string(std::string& value) { return add({std::move(value)}); }
  bool binary(std::vector<std::uint8_t>&) { return false; }  // JSON text has none
  bool start_object(std::size_t) { return open({JsonObject{}}); }
  bool start_array(std::size_t) { return open({JsonArray{}}); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    Level& level = levels_.back();
    level.key = name;
    const std::size_t times = ++level.keys[name];
    level.is_duplicate = times > 1;
    if (times == 2 && skipped_depth_ == 0) {
      const std::string pointer = child_pointer(path(levels_.size() - 1), name);
      const std::size_t first = locate(text_, pointer, JsonPart::key);
      errors_.push_back({locate(text_, pointer, JsonPart::last_key), pointer,
                         fmt::format("duplicate key \"{}\"; it is already on line {}", shorten(name),
                                     position_at(text_, first).line),
                         "Remove one of the two: JSON readers disagree on which of them counts."});
      if (errors_.size() >= max_duplicates) return false;
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& exception) {
    errors_.push_back(explain(position, token, exception.what()));
    return false;
  }

 private:
  static constexpr std::size_t max_duplicates = 100;  // each of them walks the text

  struct Level {
    JsonValue value;
    std::string key;  // of the member now being read
    bool is_duplicate = false;
    std::unordered_map<std::string, std::size_t> keys;  // how often each
  };

  // The pointer of the value now read at `depth` levels.
  std::string path(std::size_t depth) const {
    std::string pointer;
    for (std::size_t i = 0; i < depth; ++i) {
      const JsonArray* array = levels_[i].value.get<JsonArray>();
      pointer = array ? child_pointer(pointer, array->size()) : child_pointer(pointer, levels_[i].key);
    }
    return pointer;
  }

  bool add(JsonValue value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Level& level = levels_.back();
    if (auto* array = std::get_if<JsonArray>(&level.value.data)) {
      array->push_back(std::move(value));
    } else if (!level.is_duplicate) {
      std::get<JsonObject>(level.value.data).emplace_back(level.key, std::move(value));
    }
    return true;
  }

  bool open(JsonValue value) {
    if (levels_.size() == max_json_depth) {
      const std::string pointer = path(levels_.size());
      errors_.push_back({locate(text_, pointer), pointer,
                         fmt::format("JSON nested more than {} levels deep", max_json_depth), ""});
      return false;
    }
    if (skipped_depth_ != 0 || (!levels_.empty() && levels_.back().is_duplicate)) ++skipped_depth_;
    levels_.push_back({std::move(value), "", false, {}});
    return true;
  }

  bool close() {
    JsonValue value = std::move(levels_.back().value);
    levels_.pop_back();
    if (skipped_depth_ != 0) --skipped_depth_;
    return add(std::move(value));
  }

  JsonError explain(std::size_t position, const std::string& token, std::string_view what) const;

  const std::string& text_;
  std::vector<JsonError>& errors_;
  JsonValue root_;
  std::vector<Level> levels_;
  std::size_t skipped_depth_ = 0;  // levels below a duplicate key, in which nothing is reported
};

// nlohmann counts the bytes read, the last of the offending token among them; `token` starts with the last
// string or number, and is the offending token where that is one of these.
JsonError Builder::explain(std::size_t position, const std::string& token, std::string_view what) const {
  const std::size_t read = std::min(position, text_.size());
  const auto says = [what](std::string_view words) { return what.find(words) != std::string_view::npos; };
  const bool is_token =
      says("unexpected string literal") || says("unexpected number literal") || says("number overflow");
  std::size_t offset = read - std::min(read, is_token ? token.size() : 1);
  const auto is_letter = [this](std::size_t at) { return text_[at] >= 'a' && text_[at] <= 'z'; };
  while (!is_token && offset > 0 && is_letter(offset) && is_letter(offset - 1)) --offset;
  const std::string pointer = path(levels_.empty() ? 0 : levels_.size() - 1);
  const auto error = [&](std::size_t at, std::string message, std::string hint = {}) {
    return JsonError{at, pointer, std::move(message), std::move(hint)};
  };
  if (says("unexpected end of input") || text_.empty()) {
    return error(text_.size(), "the JSON text ends too early", "Look for a missing } or ].");
  }
  if (says("missing closing quote") || says("control character")) {
    return error(read - 1, "a string is not closed on its line",
                 "A line end inside a string is written \\n.");
  }
  if (says("forbidden character after backslash") || says("'\\u'") || says("surrogate")) {
    return error(read - 1, "bad escape in a string",
                 "JSON knows \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX.");
  }
  if (says("number overflow"))
    return error(offset, fmt::format("the number {} is too large", shorten(token)));
  // A token that was not finished: what it starts with says more than where it ends.
  while (offset < text_.size() &&
         (text_[offset] == ' ' || text_[offset] == '\n' || text_[offset] == '\r' || text_[offset] == '\t'))
    ++offset;
  if (offset >= text_.size())
    return error(text_.size(), "the JSON text ends too early", "Look for a missing } or ].");
  const char c = text_[offset];
  const std::size_t before = offset == 0 ? std::string::npos : text_.find_last_not_of(" \t\r\n", offset - 1);
  if ((c == '}' || c == ']') && before != std::string::npos && text_[before] == ',') {
    return error(before, fmt::format("',' before '{}'", c), "JSON allows no comma after the last entry.");
  }
  if (c == '/' || c == '#')
    return error(offset, "comments are not JSON", "A schedule has a \"description\" for prose.");
  if (c == '\'') return error(offset, "strings are written with \"double quotes\"");
  const auto byte = static_cast<unsigned char>(c);
  const std::string got =
      byte > 0x20 && byte < 0x7f ? fmt::format("'{}'", c) : fmt::format("byte 0x{:02x}", byte);
  const std::size_t expected = what.rfind("; expected ");
  const std::string wanted =
      expected == std::string_view::npos ? "a JSON value" : std::string(what.substr(expected + 11));
  return error(offset, fmt::format("not JSON: expected {}, got {}", wanted, got));
}

// A reader that only finds the ends of things.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) { skip_space(); }

  std::size_t position() const { return position_; }
  bool at(char c) const { return position_ < text_.size() && text_[position_] == c; }
  bool accept(char c) {
    if (!at(c)) return false;
    ++position_;
    skip_space();
    return true;
  }
  void skip_space() {
    const std::size_t next = text_.find_first_not_of(" \t\r\n", position_);
    position_ = next == std::string_view::npos ? text_.size() : next;
  }
  // Behind a string; the text between its quotes.
  std::string_view skip_string() {
    const std::size_t start = ++position_;
    while (position_ < text_.size() && text_[position_] != '"') position_ += text_[position_] == '\\' ? 2 : 1;
    position_ = std::min(position_, text_.size());
    const std::string_view inside = text_.substr(start, position_ - start);
    if (position_ < text_.size()) ++position_;
    skip_space();
    return inside;
  }
  void skip_value() {
    std::size_t depth = 0;
    do {
      if (at('"')) {
        skip_string();
        continue;
      }
      if (position_ >= text_.size()) return;
      const char c = text_[position_];
      if (depth == 0 && (c == ',' || c == '}' || c == ']' || c == ':')) return;
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (c == '{' || c == '[' || c == '}' || c == ']' || c == ',' || c == ':') {
        ++position_;
      } else {
        const std::size_t end = text_.find_first_of("{}[],:\" \t\r\n", position_);
        position_ = end == std::string_view::npos ? text_.size() : end;
      }
      skip_space();
    } while (depth > 0);
  }
  void restart(std::size_t position) { position_ = position; }

 private:
  std::string_view text_;
  std::size_t position_ = 0;
};

// How many bytes of UTF-8 an escape stands for, and how many it takes in the text; `raw` starts with the
// backslash.
std::pair<std::size_t, std::size_t> measure_escape(std::string_view raw) {
  if (raw.size() < 6 || raw[1] != 'u') return {1, 2};
  const auto code_at = [&](std::size_t at) {
    return std::strtoul(std::string(raw.substr(at, 4)).c_str(), nullptr, 16);
  };
  const unsigned long code = code_at(2);
  if (code >= 0xd800 && code < 0xdc00 && raw.size() >= 12) return {4, 12};
  return {code < 0x80 ? 1 : code < 0x800 ? 2 : 3, 6};
}

std::string unescape(std::string_view raw) {
  if (raw.find('\\') == std::string_view::npos) return std::string(raw);
  const auto value = nlohmann::json::parse(fmt::format("\"{}\"", raw), nullptr, false);
  return value.is_string() ? value.get<std::string>() : std::string(raw);
}

std::vector<std::string> split_pointer(std::string_view pointer) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      keys.emplace_back();
    } else if (!keys.empty() && pointer[i] == '~' && i + 1 < pointer.size()) {
      keys.back() += pointer[++i] == '1' ? '/' : '~';
    } else if (!keys.empty()) {
      keys.back() += pointer[i];
    }
  }
  return keys;
}

// Moves from the start of a container to the value of its member `key`; where it is a member of an object,
// *key_position is set. False, and back at the start, where there is none.
bool enter(Walker& walker, const std::string& key, bool last, std::size_t* key_position) {
  const std::size_t start = walker.position();
  std::optional<std::size_t> found;
  if (walker.accept('{')) {
    while (walker.at('"') && (last || !found)) {
      const std::size_t at_key = walker.position();
      const bool same = unescape(walker.skip_string()) == key;
      walker.accept(':');
      if (same) {
        found = walker.position();
        *key_position = at_key;
      }
      walker.skip_value();
      walker.accept(',');
    }
  } else if (walker.accept('[')) {
    for (std::size_t index = 0; !walker.at(']') && !found; ++index) {
      const std::size_t at_value = walker.position();
      if (std::to_string(index) == key) found = at_value;
      walker.skip_value();
      walker.accept(',');
      if (walker.position() == at_value) break;  // not JSON
    }
  }
  walker.restart(found.value_or(start));
  return found.has_value();
}

}  // namespace

JsonValue parse_json(const std::string& text, std::vector<JsonError>& errors) {
  if (text.starts_with("\xef\xbb\xbf")) {
    errors.push_back({0, "", "the file starts with a byte order mark", "Save it as UTF-8 without one."});
    return {nullptr};
  }
  if (const auto bad = find_bad_byte(text)) {
    errors.push_back({*bad, "",
                      fmt::format("byte 0x{:02x} is not UTF-8 text", static_cast<unsigned char>(text[*bad])),
                      "Save the file as UTF-8."});
    return {nullptr};
  }
  Builder builder(text, errors);
  if (!nlohmann::json::sax_parse(text, &builder)) return {nullptr};
  return builder.take();
}

std::string describe(const JsonValue& value) {
  struct Describer {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool truth) const { return truth ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return fmt::format("the number {}", number); }
    std::string operator()(std::uint64_t number) const { return fmt::format("the number {}", number); }
    std::string operator()(const HugeInteger& number) const {
      return fmt::format("the number {}", shorten(number.text));
    }
    std::string operator()(double number) const { return fmt::format("the number {}", number); }
    std::string operator()(const std::string& string) const {
      return fmt::format("the string \"{}\"", shorten(string));
    }
    std::string operator()(const JsonArray&) const { return "an array"; }
    std::string operator()(const JsonObject&) const { return "an object"; }
  };
  return std::visit(Describer{}, value.data);
}

TextPosition position_at(std::string_view text, std::size_t offset) noexcept {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line_ends = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t last = before.rfind('\n');
  return {line_ends + 1, before.size() - (last == std::string_view::npos ? 0 : last + 1) + 1};
}

std::size_t locate(std::string_view text, std::string_view pointer, JsonPart part, std::size_t inside) {
  Walker walker(text);
  const std::vector<std::string> keys = split_pointer(pointer);
  std::size_t key_position = std::string_view::npos;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool is_last = i + 1 == keys.size();
    if (!enter(walker, keys[i], is_last && part == JsonPart::last_key, &key_position))
      return walker.position();
    if (is_last && part != JsonPart::value && key_position != std::string_view::npos) return key_position;
    key_position = std::string_view::npos;
  }
  if (inside == 0 || !walker.at('"')) return walker.position();
  const std::size_t start = walker.position() + 1;
  const std::string_view raw = walker.skip_string();
  std::size_t decoded = 0, at = 0;
  while (decoded < inside && at < raw.size()) {
    const auto [bytes, length] =
        raw[at] == '\\' ? measure_escape(raw.substr(at)) : std::pair<std::size_t, std::size_t>{1, 1};
    decoded += bytes;
    at += length;
  }
  return start + std::min(at, raw.size());
}

std::string child_pointer(const std::string& pointer, std::string_view key) {
  std::string child = pointer + '/';
  for (const char c : key) {
    if (c == '~') {
      child += "~0";
    } else if (c == '/') {
      child += "~1";
    } else {
      child += c;
    }
  }
  return child;
}

std::string child_pointer(const std::string& pointer, std::size_t index) {
  return pointer + '/' + std::to_string(index);
}

}  // namespace rondo
