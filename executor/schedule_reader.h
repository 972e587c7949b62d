// The pieces that a schedule is read from: typed values out of JSON, each complaint with its place.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "json_text.h"
#include "rondo/error.h"
#include "schedule.h"
#include "schedule_keys.h"
#include "schedule_symbols.h"

namespace rondo {

// A value of the JSON text, and where it stands.
struct Node {
  const JsonValue* value;
  std::string pointer;
};

class ScheduleReader {
 public:
  ScheduleReader(const JsonObject& schedule, const std::string& text) : symbols(schedule), text_(text) {}

  void report(const std::string& pointer, std::string message, std::string hint = {}, std::size_t inside = 0,
              JsonPart part = JsonPart::value);
  void report(JsonError error);
  void expected(const Node& node, const std::string& what, std::string hint = {});
  std::vector<JsonError> take_errors();  // in the order of the text

  // The node's object, after its keys were compared with the table: unknown and missing ones are reported.
  // nullptr, and reported, where it is no object.
  const JsonObject* object(const Node& node, const ScheduleKeys& keys);
  const JsonObject* object(const Node& node, const std::string& what);  // with keys of the user's own
  const JsonArray* array(const Node& node, const std::string& what);
  static std::optional<Node> member(const JsonObject& object, const std::string& pointer,
                                    std::string_view key);

  std::optional<std::string> text(const Node& node, const std::string& what);  // not empty
  std::optional<DataType> data_type(const Node& node);
  // A template whose braces match and enclose known names.
  std::optional<Template> name_template(const Node& node, const std::string& what);
  bool check_template(const std::string& text, const std::string& pointer, std::size_t inside = 0);
  // A name of the schedule's own, from the key of a declaration.
  bool check_name(const std::string& name, const std::string& pointer, bool braces,
                  JsonPart part = JsonPart::key);
  // Whether a loop variable may be called so.
  bool check_variable(const std::string& name, const std::string& pointer, JsonPart part);

  std::optional<Expression> expression(const Node& node, Use use, bool truth = false);
  // An expression's text that may have `{…}` in it.
  std::optional<Template> expression_template(const Node& node, Use use);
  void check_expression_text(const std::string& text, const std::string& pointer, std::size_t inside,
                             Use use);
  std::optional<PlacedExpression> placed_expression(const Node& node, Use use, bool truth = false);
  // A number of type `type`, in whose range a literal must be; any number where the type is not known.
  std::optional<PlacedNumber> number(const Node& node, std::optional<DataType> type, Use use);
  std::optional<std::uint64_t> count(const Node& node, const std::string& what);
  std::optional<ForClause> for_clause(const Node& node);

  // "x", "x[offset]" or "x[offset : extent]".
  std::optional<BufferReference> buffer_reference(const Node& node);
  void check_buffer(const std::string& name, const std::string& pointer, std::size_t inside);

  Symbols symbols;

 private:
  std::optional<Expression> parse(const std::string& text, const std::string& pointer, std::size_t inside,
                                  Use use);
  std::optional<PlacedNumber> integer_literal(const Node& node, std::int64_t value,
                                              std::optional<DataType> type);
  std::optional<PlacedNumber> float_literal(const Node& node, double value, std::optional<DataType> type);

  const std::string& text_;
  std::vector<JsonError> errors_;
  std::size_t left_out_ = 0;
  std::map<Use, std::unordered_set<std::string>>
      good_texts_;  // expressions outside loops that are known to be right
};

}  // namespace rondo
