// Values of a JSON file of ours (a site map, a picture of a graph), the first complaint thrown with its
// place.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json_text.h"

namespace rondo {

class JsonReader {
 public:
  struct Value {
    const JsonValue* value;
    std::string pointer;
  };

  // Throws Error(bad_argument), as all below do, with `file`, line, column and JSON pointer. `text` outlives
  // this.
  JsonReader(const std::string& text, std::string file);

  Value root() const { return {&value_, ""}; }
  [[noreturn]] void fail(const Value& at, std::string message, std::string hint = {}) const;

  // An object that has no keys but these.
  const JsonObject& object(const Value& at, std::initializer_list<std::string_view> keys) const;
  const JsonObject& object(const Value& at) const;  // with any keys
  Value member(const Value& object, std::string_view key) const;
  std::optional<Value> optional_member(const Value& object, std::string_view key) const;
  std::vector<Value> items(const Value& array) const;
  const std::string& text(const Value& at) const;
  bool boolean(const Value& at) const;
  std::int64_t integer(const Value& at, std::int64_t least = 0, std::int64_t most = INT64_MAX) const;
  std::uint32_t small(const Value& at) const;  // 0 to 2³² − 1
  // A version that the key has to have at the root.
  void expect_version(std::string_view key, std::int64_t version) const;

 private:
  [[noreturn]] void expected(const Value& at, const std::string& what) const;

  const std::string& text_;
  const std::string file_;
  JsonValue value_;
};

}  // namespace rondo
