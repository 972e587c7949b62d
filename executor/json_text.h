// JSON text → values, with everything that a schedule's errors need: exact integers, duplicate keys, limited
// depth, positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rondo {

struct JsonValue;
using JsonArray = std::vector<JsonValue>;
using JsonObject =
    std::vector<std::pair<std::string, JsonValue>>;  // in the order of the text; a duplicate key is left out
// An integer that 64 bits do not hold, as written.
struct HugeInteger {
  std::string text;
};
struct JsonValue {
  // Integers are std::int64_t where that holds them. What has a fraction or an exponent is a double.
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, HugeInteger, double, std::string, JsonArray,
               JsonObject>
      data;

  template <typename T>
  const T* get() const noexcept {
    return std::get_if<T>(&data);
  }
};

// For messages: "an object", "the number 3", "the string \"x\"" (cut where it is long).
std::string describe(const JsonValue& value);

struct JsonError {
  std::size_t offset;   // in bytes
  std::string pointer;  // of the value, or of its parent where there is none
  std::string message, hint;
};

inline constexpr std::size_t max_json_depth = 64;

// Reads the whole text. Duplicate keys leave a value and errors; after anything else (syntax, UTF-8, byte
// order mark, depth) the last of the errors says it, and the value is null.
JsonValue parse_json(const std::string& text, std::vector<JsonError>& errors);

struct TextPosition {
  std::size_t line, column;  // counted from 1, the column in bytes
};
TextPosition position_at(std::string_view text, std::size_t offset) noexcept;

enum class JsonPart : std::uint8_t {
  value,
  key,       // the key of the member that the pointer names
  last_key,  // of the last member of that name, where there are several
};
// The byte offset of what a pointer names, found by walking the text; of the nearest parent's value where
// there is no such thing. With `inside`, that many bytes into a string value, its escapes counted. Any text
// is walked safely, JSON or not.
std::size_t locate(std::string_view text, std::string_view pointer, JsonPart part = JsonPart::value,
                   std::size_t inside = 0);

// `pointer` with one more key, escaped as RFC 6901 asks.
std::string child_pointer(const std::string& pointer, std::string_view key);
std::string child_pointer(const std::string& pointer, std::size_t index);

}  // namespace rondo
