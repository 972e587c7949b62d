#include "schedule_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "name_template.h"

namespace rondo {
namespace {

constexpr std::size_t max_errors = 100;  // each of them walks the text
constexpr std::size_t max_name_bytes = 256;

double largest_of(DataType type) {
  switch (type) {
    case DataType::f16:
      return 65504.0;
    case DataType::bf16:
      return std::ldexp(255.0, 120);
    case DataType::f32:
      return static_cast<double>(std::numeric_limits<float>::max());
    default:
      return std::numeric_limits<double>::max();
  }
}

// An integer that a double holds exactly, such as 1e6.
std::optional<std::int64_t> to_integer(double value) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (value != std::trunc(value) || std::abs(value) > exact) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace

void ScheduleReader::report(const std::string& pointer, std::string message, std::string hint,
                            std::size_t inside, JsonPart part) {
  if (errors_.size() >= max_errors) {
    ++left_out_;
    return;
  }
  errors_.push_back({locate(text_, pointer, part, inside), pointer, std::move(message), std::move(hint)});
}

void ScheduleReader::report(JsonError error) { errors_.push_back(std::move(error)); }

void ScheduleReader::expected(const Node& node, const std::string& what, std::string hint) {
  report(node.pointer, fmt::format("expected {}, got {}", what, describe(*node.value)), std::move(hint));
}

std::vector<JsonError> ScheduleReader::take_errors() {
  std::stable_sort(errors_.begin(), errors_.end(),
                   [](const JsonError& a, const JsonError& b) { return a.offset < b.offset; });
  if (left_out_ != 0) {
    errors_.push_back(
        {errors_.back().offset, "", fmt::format("{} more errors are not listed", left_out_), ""});
  }
  return std::move(errors_);
}

const JsonObject* ScheduleReader::object(const Node& node, const ScheduleKeys& keys) {
  const JsonObject* object = node.value->get<JsonObject>();
  if (!object) {
    expected(node, fmt::format("an object ({})", keys.title));
    return nullptr;
  }
  for (const auto& [key, value] : *object) {
    const auto is_same = [&key = key](const ScheduleKey& known) { return known.name == key; };
    if (std::any_of(keys.keys.begin(), keys.keys.end(), is_same)) continue;
    const std::vector<std::string> known = keys.names();
    report(child_pointer(node.pointer, key),
           fmt::format("unknown key \"{}\" in {}.{}", key, keys.title, suggest(key, known)),
           fmt::format("Known here: {}.", fmt::join(known, ", ")), 0, JsonPart::key);
  }
  for (const ScheduleKey& key : keys.keys) {
    if (key.is_required && !member(*object, node.pointer, key.name)) {
      report(node.pointer, fmt::format("{} needs the key \"{}\"", keys.title, key.name));
    }
  }
  return object;
}

const JsonObject* ScheduleReader::object(const Node& node, const std::string& what) {
  const JsonObject* object = node.value->get<JsonObject>();
  if (!object) expected(node, what);
  return object;
}

const JsonArray* ScheduleReader::array(const Node& node, const std::string& what) {
  const JsonArray* array = node.value->get<JsonArray>();
  if (!array) expected(node, what);
  return array;
}

std::optional<Node> ScheduleReader::member(const JsonObject& object, const std::string& pointer,
                                           std::string_view key) {
  for (const auto& [name, value] : object) {
    if (name == key) return Node{&value, child_pointer(pointer, key)};
  }
  return std::nullopt;
}

std::optional<std::string> ScheduleReader::text(const Node& node, const std::string& what) {
  const std::string* text = node.value->get<std::string>();
  if (text && !text->empty()) return *text;
  expected(node, what);
  return std::nullopt;
}

std::optional<DataType> ScheduleReader::data_type(const Node& node) {
  const std::optional<std::string> text = this->text(node, "the name of a type, such as \"f32\"");
  if (!text) return std::nullopt;
  const std::optional<DataType> type = parse_data_type(*text);
  if (!type) {
    std::vector<std::string> known;
    for (std::size_t i = 0; i < data_type_count; ++i) known.emplace_back(name(static_cast<DataType>(i)));
    report(node.pointer, fmt::format("unknown type \"{}\".{}", *text, suggest(*text, known)),
           fmt::format("Known: {}.", fmt::join(known, ", ")));
  }
  return type;
}

bool ScheduleReader::check_template(const std::string& text, const std::string& pointer, std::size_t inside) {
  if (text.find_first_of("{}") == std::string::npos) return true;
  try {
    interpolate({text, pointer}, [&](std::string_view inner) {
      symbols.check_inner(inner);
      return std::string("{}");  // any text, for whatever stands around it
    });
    return true;
  } catch (const ExpressionError& error) {
    report(pointer, error.what(), "", inside + error.offset());
    return false;
  }
}

std::optional<Template> ScheduleReader::name_template(const Node& node, const std::string& what) {
  std::optional<std::string> text = this->text(node, what);
  if (!text || !check_template(*text, node.pointer)) return std::nullopt;
  return Template{std::move(*text), node.pointer};
}

bool ScheduleReader::check_name(const std::string& name, const std::string& pointer, bool braces,
                                JsonPart part) {
  if (name.size() > max_name_bytes) {
    report(pointer, fmt::format("a name of {} bytes; at most {} are allowed", name.size(), max_name_bytes),
           "", 0, part);
    return false;
  }
  if (!is_valid_name(name, braces)) {
    report(pointer, fmt::format("\"{}\" cannot be a name", name),
           fmt::format(
               "Names have letters, digits and _, start with no digit, and may have parts joined by dots{}.",
               braces ? ", and {…} in place of parts" : ""),
           0, part);
    return false;
  }
  if (name == "true" || name == "false" || name == "device" || name.starts_with("device.")) {
    report(pointer, fmt::format("the name \"{}\" is reserved", name), "", 0, part);
    return false;
  }
  return true;
}

bool ScheduleReader::check_variable(const std::string& name, const std::string& pointer, JsonPart part) {
  if (!check_name(name, pointer, false, part)) return false;
  const auto clash = [&](const std::string& with) {
    report(pointer, fmt::format("the loop variable \"{}\" has the name of {}", name, with),
           "Give it a name of its own.", 0, part);
    return false;
  };
  if (symbols.param(name)) return clash("a param");
  if (symbols.buffers().has_exactly(name)) return clash("a buffer");
  if (symbols.loop(name)) return clash("an outer loop variable");
  return true;
}

std::optional<Expression> ScheduleReader::parse(const std::string& text, const std::string& pointer,
                                                std::size_t inside, Use use) {
  try {
    Expression expression = Expression::parse(text);
    for (const Symbols::Problem& problem : symbols.problems(expression, use)) {
      report(pointer, problem.message, "", inside + problem.offset);
    }
    if (expression.variables().empty()) expression.evaluate_or_throw({});
    return expression;
  } catch (const ExpressionError& error) {
    const bool brace = error.offset() < text.size() && text[error.offset()] == '{';
    report(pointer, error.what(), brace ? "{…} makes names; in an expression a name stands by itself." : "",
           inside + error.offset());
    return std::nullopt;
  }
}

std::optional<Expression> ScheduleReader::expression(const Node& node, Use use, bool truth) {
  if (const std::string* text = node.value->get<std::string>()) return parse(*text, node.pointer, 0, use);
  if (const std::int64_t* integer = node.value->get<std::int64_t>()) return Expression::literal(*integer);
  if (const double* number = node.value->get<double>()) {
    if (const auto integer = to_integer(*number)) return Expression::literal(*integer);
  }
  const bool* boolean = node.value->get<bool>();
  if (truth && boolean) return Expression::literal(*boolean ? 1 : 0);
  expected(node, "an integer of 64 bits or an expression (a string)");
  return std::nullopt;
}

std::optional<PlacedExpression> ScheduleReader::placed_expression(const Node& node, Use use, bool truth) {
  std::optional<Expression> expression = this->expression(node, use, truth);
  if (!expression) return std::nullopt;
  return PlacedExpression{std::move(*expression), node.pointer};
}

void ScheduleReader::check_expression_text(const std::string& text, const std::string& pointer,
                                           std::size_t inside, Use use) {
  if (text.find_first_of("{}") != std::string::npos) {
    check_template(text, pointer, inside);
    return;
  }
  // Where ops are written out, the same few texts come again and again.
  const bool may_be_known = symbols.loops.empty();
  std::unordered_set<std::string>& good = good_texts_[use];
  if (may_be_known && good.contains(text)) return;
  const std::size_t errors = errors_.size() + left_out_;
  parse(text, pointer, inside, use);
  if (may_be_known && errors_.size() + left_out_ == errors) good.insert(text);
}

std::optional<Template> ScheduleReader::expression_template(const Node& node, Use use) {
  if (const std::string* text = node.value->get<std::string>()) {
    check_expression_text(*text, node.pointer, 0, use);
    return Template{*text, node.pointer};
  }
  const std::optional<Expression> literal = expression(node, use);
  if (!literal) return std::nullopt;
  return Template{literal->text(), node.pointer};
}

std::optional<PlacedNumber> ScheduleReader::integer_literal(const Node& node, std::int64_t value,
                                                            std::optional<DataType> type) {
  if (type && info(*type).is_float) return float_literal(node, static_cast<double>(value), type);
  if (type && info(*type).is_integer) {
    const IntegerRange range = integer_range(*type);
    if (value < range.smallest || value > range.largest) {
      report(node.pointer, fmt::format("{} is out of the range of {}, which is {} to {}", value, name(*type),
                                       range.smallest, range.largest));
      return std::nullopt;
    }
  }
  return PlacedNumber{Expression::literal(value), node.pointer};
}

std::optional<PlacedNumber> ScheduleReader::float_literal(const Node& node, double value,
                                                          std::optional<DataType> type) {
  if (type && info(*type).is_integer) {
    if (const auto integer = to_integer(value)) return integer_literal(node, *integer, type);
    report(node.pointer, fmt::format("expected an integer, for the type is {}, got {}", name(*type), value));
    return std::nullopt;
  }
  if (type && info(*type).is_float && std::abs(value) > largest_of(*type)) {
    report(node.pointer,
           fmt::format("{} is out of the range of {}, which is ±{}", value, name(*type), largest_of(*type)));
    return std::nullopt;
  }
  return PlacedNumber{value, node.pointer};
}

std::optional<PlacedNumber> ScheduleReader::number(const Node& node, std::optional<DataType> type, Use use) {
  const bool is_float = type && info(*type).is_float;
  if (const std::int64_t* integer = node.value->get<std::int64_t>())
    return integer_literal(node, *integer, type);
  if (const double* real = node.value->get<double>()) return float_literal(node, *real, type);
  const bool* truth = node.value->get<bool>();
  if (truth && type == DataType::boolean)
    return PlacedNumber{Expression::literal(*truth ? 1 : 0), node.pointer};
  if (const std::uint64_t* wide = node.value->get<std::uint64_t>(); wide && is_float) {
    return float_literal(node, static_cast<double>(*wide), type);
  }
  if (const HugeInteger* huge = node.value->get<HugeInteger>(); huge && is_float) {
    return float_literal(node, std::strtod(huge->text.c_str(), nullptr), type);
  }
  if (const std::string* text = node.value->get<std::string>()) {
    if (!type || is_float)
      use = use == Use::steps ? Use::steps_or_float : use == Use::constants ? Use::constants_or_float : use;
    std::optional<Expression> expression = parse(*text, node.pointer, 0, use);
    if (!expression) return std::nullopt;
    if (expression->variables().empty() && !integer_literal(node, expression->evaluate_or_throw({}), type))
      return std::nullopt;
    return PlacedNumber{std::move(*expression), node.pointer};
  }
  if (node.value->get<std::uint64_t>() || node.value->get<HugeInteger>()) {
    expected(node, "a number that a signed 64-bit integer holds",
             "Rondo's integers are signed, u64 included: up to 9223372036854775807.");
  } else if (truth) {
    expected(node, "a number or an expression (a string)", "true and false are values of the type bool.");
  } else {
    expected(node, "a number or an expression (a string)");
  }
  return std::nullopt;
}

std::optional<std::uint64_t> ScheduleReader::count(const Node& node, const std::string& what) {
  const std::int64_t* integer = node.value->get<std::int64_t>();
  if (integer && *integer >= 0) return static_cast<std::uint64_t>(*integer);
  if (const std::uint64_t* wide = node.value->get<std::uint64_t>()) return *wide;
  expected(node, what);
  return std::nullopt;
}

std::optional<ForClause> ScheduleReader::for_clause(const Node& node) {
  const std::string what = "an object with one variable, such as {\"layer\": \"n_layers\"}";
  const JsonObject* object = this->object(node, what);
  if (!object) return std::nullopt;
  if (object->size() != 1) {
    report(node.pointer, fmt::format("expected {}, got one with {} keys", what, object->size()));
    return std::nullopt;
  }
  const auto& [variable, value] = object->front();
  const Node child{&value, child_pointer(node.pointer, variable)};
  if (!check_variable(variable, child.pointer, JsonPart::key)) return std::nullopt;
  if (const JsonArray* names = value.get<JsonArray>()) {
    std::vector<std::string> texts;
    if (names->empty()) report(child.pointer, "expected one name or more, got an empty array");
    for (std::size_t i = 0; i < names->size(); ++i) {
      const Node item{&(*names)[i], child_pointer(child.pointer, i)};
      const std::optional<std::string> text = this->text(item, "a name (a string)");
      if (!text) continue;
      // Put behind a letter, so that a name such as "8bit" can be one: it only is a part of a name.
      if (!is_valid_name("x" + *text, false))
        report(item.pointer, fmt::format("\"{}\" cannot be part of a name", *text));
      if (std::find(texts.begin(), texts.end(), *text) != texts.end())
        report(item.pointer, fmt::format("\"{}\" is listed twice", *text));
      texts.push_back(*text);
    }
    return ForClause{variable, std::move(texts), node.pointer};
  }
  std::optional<Expression> count = expression(child, Use::constants);
  if (!count) return std::nullopt;
  return ForClause{variable, std::move(*count), node.pointer};
}

void ScheduleReader::check_buffer(const std::string& name, const std::string& pointer, std::size_t inside) {
  if (!check_template(name, pointer, inside)) return;
  if (name.size() <= max_name_bytes && symbols.buffers().may_have(name)) return;
  const std::string what = symbols.param(name) ? fmt::format("\"{}\" is a param, not a buffer", name)
                                               : fmt::format("unknown buffer \"{}\".{}", name,
                                                             suggest(name, symbols.buffers().names()));
  report(pointer, what, "", inside);
}

std::optional<BufferReference> ScheduleReader::buffer_reference(const Node& node) {
  const std::optional<std::string> text =
      this->text(node, "a buffer: \"x\", \"x[offset]\" or \"x[offset : extent]\"");
  if (!text) return std::nullopt;
  const auto fail = [&](std::size_t offset, std::string message) {
    report(node.pointer, std::move(message),
           "A part of a buffer is written x[offset] or x[offset : extent], in elements.", offset);
    return std::nullopt;
  };
  const std::size_t open = std::min(text->find('['), text->size());
  const std::size_t name_end = open == 0 ? 0 : text->find_last_not_of(' ', open - 1) + 1;
  const std::string name = text->substr(0, name_end);
  if (name.empty()) return fail(0, "expected the name of a buffer before '['");
  BufferReference reference{{name, node.pointer}, std::nullopt, std::nullopt};
  check_buffer(name, node.pointer, 0);
  if (open == text->size()) return reference;

  std::size_t close = std::string::npos, colon = std::string::npos;
  int parentheses = 0;
  for (std::size_t i = open + 1; i < text->size() && close == std::string::npos; ++i) {
    const char c = (*text)[i];
    if (c == '[') return fail(i, "'[' inside '[…]'");
    if (c == '(') ++parentheses;
    if (c == ')') --parentheses;
    if (c == ':' && parentheses == 0 && colon != std::string::npos) return fail(i, "a second ':'");
    if (c == ':' && parentheses == 0) colon = i;
    if (c == ']') close = i;
  }
  if (close == std::string::npos) return fail(text->size(), "expected ']', got the end");
  const std::size_t after = text->find_first_not_of(' ', close + 1);
  if (after != std::string::npos) return fail(after, "expected nothing after ']'");
  const auto part = [&](std::size_t begin, std::size_t end) {
    const std::string expression = text->substr(begin, end - begin);
    check_expression_text(expression, node.pointer, begin, Use::steps);
    return Template{expression, node.pointer};
  };
  reference.offset = part(open + 1, std::min(colon, close));
  if (colon != std::string::npos) reference.extent = part(colon + 1, close);
  return reference;
}

}  // namespace rondo
