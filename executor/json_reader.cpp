#include "json_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "rondo/error.h"

namespace rondo {
namespace {

Diagnostic diagnostic_at(const std::string& file, const std::string& text, std::size_t offset,
                         std::string pointer) {
  Diagnostic diagnostic;
  const TextPosition position = position_at(text, offset);
  diagnostic.place.file = file;
  diagnostic.place.line = position.line;
  diagnostic.place.column = position.column;
  diagnostic.place.pointer = std::move(pointer);
  return diagnostic;
}

}  // namespace

JsonReader::JsonReader(const std::string& text, std::string file) : text_(text), file_(std::move(file)) {
  std::vector<JsonError> errors;
  value_ = parse_json(text, errors);
  if (errors.empty()) return;
  std::vector<Diagnostic> diagnostics;
  for (JsonError& error : errors) {
    Diagnostic diagnostic = diagnostic_at(file_, text, error.offset, std::move(error.pointer));
    diagnostic.message = std::move(error.message);
    diagnostic.hint = std::move(error.hint);
    diagnostics.push_back(std::move(diagnostic));
  }
  throw Error(ErrorCode::bad_argument, std::move(diagnostics));
}

void JsonReader::fail(const Value& at, std::string message, std::string hint) const {
  Diagnostic diagnostic = diagnostic_at(file_, text_, locate(text_, at.pointer), at.pointer);
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  throw Error(ErrorCode::bad_argument, std::move(diagnostic));
}

void JsonReader::expected(const Value& at, const std::string& what) const {
  fail(at, fmt::format("expected {}, found {}", what, describe(*at.value)));
}

const JsonObject& JsonReader::object(const Value& at) const {
  const auto* object = at.value->get<JsonObject>();
  if (object == nullptr) expected(at, "an object");
  return *object;
}

const JsonObject& JsonReader::object(const Value& at, std::initializer_list<std::string_view> keys) const {
  const JsonObject& members = object(at);
  for (const auto& [key, value] : members) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const std::vector<std::string> known(keys.begin(), keys.end());
    fail({&value, child_pointer(at.pointer, key)},
         fmt::format("unknown key \"{}\".{}", key, suggest(key, known)),
         fmt::format("known here: {}", fmt::join(known, ", ")));
  }
  return members;
}

std::optional<JsonReader::Value> JsonReader::optional_member(const Value& at, std::string_view key) const {
  for (const auto& [name, value] : object(at)) {
    if (name == key) return Value{&value, child_pointer(at.pointer, key)};
  }
  return std::nullopt;
}

JsonReader::Value JsonReader::member(const Value& at, std::string_view key) const {
  if (auto found = optional_member(at, key)) return *std::move(found);
  fail(at, fmt::format("there is no \"{}\"", key));
}

std::vector<JsonReader::Value> JsonReader::items(const Value& at) const {
  const auto* array = at.value->get<JsonArray>();
  if (array == nullptr) expected(at, "an array");
  std::vector<Value> items;
  items.reserve(array->size());
  for (const JsonValue& item : *array) items.push_back({&item, child_pointer(at.pointer, items.size())});
  return items;
}

const std::string& JsonReader::text(const Value& at) const {
  const auto* text = at.value->get<std::string>();
  if (text == nullptr) expected(at, "a string");
  return *text;
}

bool JsonReader::boolean(const Value& at) const {
  const auto* boolean = at.value->get<bool>();
  if (boolean == nullptr) expected(at, "true or false");
  return *boolean;
}

std::int64_t JsonReader::integer(const Value& at, std::int64_t least, std::int64_t most) const {
  const auto* integer = at.value->get<std::int64_t>();
  if (integer == nullptr || *integer < least || *integer > most) {
    expected(at, most == INT64_MAX && least == INT64_MIN
                     ? "an integer"
                     : fmt::format("an integer from {} to {}", least, most));
  }
  return *integer;
}

std::uint32_t JsonReader::small(const Value& at) const {
  return static_cast<std::uint32_t>(integer(at, 0, UINT32_MAX));
}

void JsonReader::expect_version(std::string_view key, std::int64_t version) const {
  const Value at = member(root(), key);
  const std::int64_t found = integer(at, INT64_MIN);
  if (found != version) fail(at, fmt::format("expected version {}, found version {}", version, found));
}

}  // namespace rondo
