#include "schedule_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "name_template.h"

namespace rondo {
namespace {

using Reader = ScheduleReader;

constexpr Role roles[] = {Role::input, Role::output, Role::weight, Role::state, Role::temporary};

std::optional<Role> parse_role(const std::string& text) {
  for (const Role role : roles) {
    if (text == name(role)) return role;
  }
  return std::nullopt;
}

bool is_identifier(const std::string& name) {
  return is_valid_name(name, false) && name.find('.') == std::string::npos;
}

// The reader has evaluated every expression without names, and let none pass that faults.
bool is_literal(const Expression& expression) { return expression.variables().empty(); }

}  // namespace

void ScheduleParser::parse(const JsonValue& root_value) {
  const Node root{&root_value, ""};
  if (const JsonObject* object = root_value.get<JsonObject>()) {
    const auto version = Reader::member(*object, "", "rondo");
    const std::int64_t* number = version ? version->value->get<std::int64_t>() : nullptr;
    if (version && (!number || *number != 1)) {
      // Nothing else can be judged by this version's rules.
      reader_.report(version->pointer,
                     fmt::format("expected the version 1, got {}", describe(*version->value)),
                     "This program knows version 1 of the schedule format.");
      return;
    }
  }
  const JsonObject* object = reader_.object(root, schedule_keys::schedule);
  if (!object) return;
  head(*object);
  const auto each = [&](std::string_view key, auto read) {
    const auto node = Reader::member(*object, "", key);
    if (!node) return;
    const JsonObject* members = reader_.object(*node, fmt::format("an object of {}, by their names", key));
    if (!members) return;
    for (const auto& [name, value] : *members) read(name, Node{&value, child_pointer(node->pointer, name)});
  };
  if (const auto node = Reader::member(*object, "", "graph")) graph(*node);
  each("params", [this](const std::string& name, const Node& node) { param(name, node); });
  check_cycles();
  if (const auto node = Reader::member(*object, "", "require")) {
    if (const JsonArray* items = reader_.array(*node, "an array of requirements")) {
      for (std::size_t i = 0; i < items->size(); ++i)
        requirement({&(*items)[i], child_pointer(node->pointer, i)});
    }
  }
  each("buffers", [this](const std::string& name, const Node& node) { buffer(name, node); });
  each("kernels", [this](const std::string& name, const Node& node) { kernel(name, node); });
  if (const auto node = Reader::member(*object, "", "ops")) schedule_.ops = ops(*node);
}

void ScheduleParser::head(const JsonObject& root) {
  if (const auto node = Reader::member(root, "", "name")) {
    schedule_.name = reader_.text(*node, "the schedule's name (a string)").value_or("");
  }
  if (const auto node = Reader::member(root, "", "$schema"))
    reader_.text(*node, "the path of a JSON schema (a string)");
  if (const auto node = Reader::member(root, "", "description")) {
    const std::string* text = node->value->get<std::string>();
    if (text) {
      schedule_.description = *text;
    } else {
      reader_.expected(*node, "a string");
    }
  }
}

void ScheduleParser::graph(const Node& node) {
  const JsonObject* object = reader_.object(node, schedule_keys::graph);
  const auto lanes = object ? Reader::member(*object, node.pointer, "lanes") : std::nullopt;
  if (lanes) schedule_.lanes = reader_.placed_expression(*lanes, Use::constants);
}

void ScheduleParser::param(const std::string& name, const Node& node) {
  reader_.check_name(name, node.pointer, false);
  const JsonObject* object = reader_.object(node, schedule_keys::param);
  if (!object) return;
  ParamDeclaration param;
  param.name = name;
  param.pointer = node.pointer;
  if (const auto type_node = Reader::member(*object, node.pointer, "type")) {
    const std::optional<DataType> type = reader_.data_type(*type_node);
    if (!type) return;  // its value cannot be judged
    if (!is_plain(*type)) {
      reader_.report(type_node->pointer,
                     fmt::format("a param cannot be of the block type {}", rondo::name(*type)));
      return;
    }
    param.type = *type;
    param_value(*object, param);
    param_range(*object, param);
    param_update(*object, param);
    check_literals(param);
  }
  schedule_.params.push_back(std::move(param));
}

void ScheduleParser::param_value(const JsonObject& object, ParamDeclaration& param) {
  const auto constant = Reader::member(object, param.pointer, "constant");
  const auto step = Reader::member(object, param.pointer, "step");
  if (constant.has_value() == step.has_value()) {
    reader_.report(param.pointer,
                   fmt::format("a param has either \"constant\" or \"step\", and \"{}\" has {}", param.name,
                               constant ? "both" : "neither"));
    return;
  }
  param.is_step = step.has_value();
  const Node& node = constant ? *constant : *step;
  const JsonObject* source = node.value->get<JsonObject>();
  if (!source) {
    if (auto number = reader_.number(node, param.type, Use::constants)) param.value = std::move(*number);
    return;
  }
  if (param.is_step) {
    reader_.expected(node, "a number or an expression (a string)",
                     "Only constants have a source, such as a weight file's metadata.");
    return;
  }
  std::vector<std::string_view> found;
  for (const std::string_view key : {"metadata", "tensor", "types"}) {
    if (Reader::member(*source, node.pointer, key)) found.push_back(key);
  }
  if (found.size() != 1) {
    reader_.report(
        node.pointer,
        fmt::format(
            "the source of a constant has one of \"metadata\", \"tensor\" and \"types\", and this has {}",
            found.empty() ? "none" : "several"));
    return;
  }
  const auto set = [&param](auto value) {
    if (value) param.value = std::move(*value);
  };
  if (found.front() == "metadata") {
    set(metadata_source(node, param.type));
  } else if (found.front() == "tensor") {
    set(tensor_source(node, param.type));
  } else {
    set(types_source(node, param.type));
  }
}

void ScheduleParser::param_update(const JsonObject& object, ParamDeclaration& param) {
  const auto node = Reader::member(object, param.pointer, "update");
  if (!node) return;
  const std::string* text = node->value->get<std::string>();
  if (text == nullptr || (*text != "node" && *text != "slot")) {
    reader_.expected(*node, "\"node\" or \"slot\"", "Without \"update\", each kernel's signature decides.");
  } else if (!param.is_step) {
    reader_.report(node->pointer, fmt::format("\"{}\" is a constant, which is never updated", param.name),
                   "\"update\" is for step params.");
  } else {
    param.update = *text == "node" ? UpdateWay::node : UpdateWay::slot;
  }
}

// A string, or an array of strings of which the first that the weight file has is meant.
std::vector<std::string> ScheduleParser::alternatives(const Node& node, const char* what) {
  std::vector<std::string> texts;
  const JsonArray* array = node.value->get<JsonArray>();
  if (!array) {
    texts.push_back(reader_.text(node, what).value_or(""));
    return texts;
  }
  if (array->empty()) reader_.expected(node, what);
  for (std::size_t i = 0; i < array->size(); ++i)
    texts.push_back(reader_.text({&(*array)[i], child_pointer(node.pointer, i)}, what).value_or(""));
  return texts;
}

std::optional<MetadataSource> ScheduleParser::metadata_source(const Node& node, DataType type) {
  const JsonObject* object = reader_.object(node, schedule_keys::metadata_source);
  if (!object) return std::nullopt;
  MetadataSource source;
  if (const auto key = Reader::member(*object, node.pointer, "metadata")) {
    source.keys = alternatives(*key, "a metadata key (a string), or an array of them");
  }
  if (const auto is = Reader::member(*object, node.pointer, "is")) {
    const std::string* text = is->value->get<std::string>();
    if (text) {
      source.equals = *text;
    } else {
      reader_.expected(*is, "a string to compare with");
    }
    if (!info(type).is_integer)
      reader_.report(is->pointer, fmt::format("\"is\" gives 0 or 1, and the type is {}", name(type)));
  }
  if (const auto fallback = Reader::member(*object, node.pointer, "default")) {
    source.fallback = reader_.number(*fallback, type, Use::constants);
  }
  return source;
}

std::optional<TensorSource> ScheduleParser::tensor_source(const Node& node, DataType type) {
  const JsonObject* object = reader_.object(node, schedule_keys::tensor_source);
  if (!object) return std::nullopt;
  TensorSource source;
  if (const auto tensor = Reader::member(*object, node.pointer, "tensor")) {
    source.tensors = alternatives(*tensor, "a tensor's name (a string), or an array of them");
  }
  if (const auto dimension = Reader::member(*object, node.pointer, "dimension")) {
    source.dimension = reader_.count(*dimension, "the index of a dimension, 0 for the slowest");
  }
  if (!info(type).is_integer) {
    reader_.report(node.pointer,
                   fmt::format("what is known about a tensor is an integer, and the type is {}", name(type)));
  }
  return source;
}

std::optional<TypesSource> ScheduleParser::types_source(const Node& node, DataType type) {
  const JsonObject* object = reader_.object(node, schedule_keys::types_source);
  if (!object) return std::nullopt;
  TypesSource source;
  const auto family = Reader::member(*object, node.pointer, "for");
  if (family) source.family = reader_.for_clause(*family);
  // After an error in "for", its variable would be unknown.
  if (family && !source.family) return std::nullopt;
  const LoopScope scope(reader_.symbols, source.family);
  const auto each = [&](std::string_view key, const char* what, auto read) {
    const auto list = Reader::member(*object, node.pointer, key);
    const JsonArray* items = list ? reader_.array(*list, fmt::format("an array of {}", what)) : nullptr;
    if (!items) return;
    if (items->empty())
      reader_.report(list->pointer, fmt::format("expected one of {} or more, got an empty array", what));
    for (std::size_t i = 0; i < items->size(); ++i) read({&(*items)[i], child_pointer(list->pointer, i)});
  };
  each("types", "buffers' names", [&](const Node& item) {
    const auto name = reader_.text(item, "a buffer's name (a string)");
    if (!name) return;
    reader_.check_buffer(*name, item.pointer, 0);
    source.buffers.push_back({*name, item.pointer});
  });
  each("are", "element types", [&](const Node& item) {
    if (const auto one = reader_.data_type(item)) source.types.push_back(*one);
  });
  if (!info(type).is_integer) {
    reader_.report(node.pointer, fmt::format("\"types\" gives 0 or 1, and the type is {}", name(type)));
  }
  return source;
}

void ScheduleParser::param_range(const JsonObject& object, ParamDeclaration& param) {
  const auto bound = [&](std::string_view key) -> std::optional<PlacedExpression> {
    const auto node = Reader::member(object, param.pointer, key);
    if (!node) return std::nullopt;
    if (!info(param.type).is_integer) {
      reader_.report(node->pointer,
                     fmt::format("\"{}\" is for integer params, and the type is {}", key, name(param.type)));
      return std::nullopt;
    }
    return reader_.placed_expression(*node, Use::constants);
  };
  param.smallest = bound("min");
  param.largest = bound("max");
}

void ScheduleParser::check_literals(const ParamDeclaration& param) {
  const bool has_smallest = param.smallest && is_literal(param.smallest->value);
  const bool has_largest = param.largest && is_literal(param.largest->value);
  const std::int64_t smallest = has_smallest ? param.smallest->value.evaluate_or_throw({}) : 0;
  const std::int64_t largest = has_largest ? param.largest->value.evaluate_or_throw({}) : 0;
  if (has_smallest && has_largest && smallest > largest) {
    reader_.report(param.largest->pointer,
                   fmt::format("\"max\" is {}, below \"min\", which is {}", largest, smallest));
    return;
  }
  const auto* number = std::get_if<PlacedNumber>(&param.value);
  const auto* expression = number ? std::get_if<Expression>(&number->value) : nullptr;
  if (!expression || !is_literal(*expression)) return;
  const std::int64_t value = expression->evaluate_or_throw({});
  if (has_smallest && value < smallest) {
    reader_.report(number->pointer, fmt::format("{} is below \"min\", which is {}", value, smallest));
  }
  if (has_largest && value > largest) {
    reader_.report(number->pointer, fmt::format("{} is above \"max\", which is {}", value, largest));
  }
}

// Takes away constants whose expressions use none that is left; what cannot be taken away is in a cycle, or
// uses one that is.
void ScheduleParser::check_cycles() {
  std::unordered_map<std::string, const Expression*> left;
  for (const ParamDeclaration& param : schedule_.params) {
    const PlacedNumber* number = std::get_if<PlacedNumber>(&param.value);
    const auto* source = std::get_if<MetadataSource>(&param.value);
    if (source && source->fallback) number = &*source->fallback;
    const Expression* expression = number ? std::get_if<Expression>(&number->value) : nullptr;
    if (expression && !param.is_step && !expression->variables().empty())
      left.emplace(param.name, expression);
  }
  std::unordered_map<std::string, std::vector<std::string>> users;
  std::unordered_map<std::string, std::size_t> waiting;
  std::vector<std::string> ready;
  for (const auto& [name, expression] : left) {
    for (const std::string& used : expression->variables()) {
      if (!left.contains(used)) continue;
      users[used].push_back(name);
      ++waiting[name];
    }
    if (!waiting.contains(name)) ready.push_back(name);
  }
  while (!ready.empty()) {
    const std::string name = std::move(ready.back());
    ready.pop_back();
    left.erase(name);
    for (const std::string& user : users[name]) {
      if (--waiting[user] == 0) ready.push_back(user);
    }
  }
  // Everything that is left uses something that is left.
  const auto next_in_cycle = [&](const Expression& expression) {
    return &*std::find_if(expression.variables().begin(), expression.variables().end(),
                          [&](const std::string& name) { return left.contains(name); });
  };
  std::unordered_set<std::string> seen;
  for (const ParamDeclaration& param : schedule_.params) {
    if (!left.contains(param.name)) continue;
    std::vector<std::string> path;
    const std::string* name = &param.name;
    for (; seen.insert(*name).second; name = next_in_cycle(*left.at(*name))) path.push_back(*name);
    const auto start = std::find(path.begin(), path.end(), *name);
    if (start == path.end()) continue;  // leads to a cycle that was reported
    reader_.report(child_pointer("/params", *name),
                   fmt::format("the constant \"{}\" depends on itself: {} → {}", *name,
                               fmt::join(start, path.end(), " → "), *name));
  }
}

void ScheduleParser::requirement(const Node& node) {
  const JsonObject* object = reader_.object(node, schedule_keys::requirement);
  if (!object) return;
  const auto that = Reader::member(*object, node.pointer, "that");
  const auto otherwise = Reader::member(*object, node.pointer, "else");
  std::optional<PlacedExpression> expression;
  std::optional<std::string> message;
  if (that) expression = reader_.placed_expression(*that, Use::constants, true);
  if (otherwise) message = reader_.text(*otherwise, "what to say where it does not hold (a string)");
  if (expression && message) schedule_.requirements.push_back({std::move(*expression), std::move(*message)});
}

std::optional<ForClause> ScheduleParser::family(const JsonObject& object, const std::string& name,
                                                const std::string& pointer) {
  const auto node = Reader::member(object, pointer, "for");
  if (!node) return std::nullopt;
  std::optional<ForClause> clause = reader_.for_clause(*node);
  if (clause && name.find('{') == std::string::npos) {
    reader_.report(node->pointer,
                   fmt::format("\"for\" makes several, and all of them would be called \"{}\"", name),
                   fmt::format("Use the variable in the name: \"{}.{{{}}}\".", name, clause->variable));
  }
  return clause;
}

void ScheduleParser::buffer(const std::string& name, const Node& node) {
  const bool is_name = reader_.check_name(name, node.pointer, true);
  if (reader_.symbols.param(name)) {
    reader_.report(node.pointer,
                   fmt::format("\"{}\" is a param already; params and buffers share their names", name), "",
                   0, JsonPart::key);
  }
  const JsonObject* object = reader_.object(node, schedule_keys::buffer);
  if (!object) return;
  BufferDeclaration buffer;
  buffer.name = {name, node.pointer};
  buffer.pointer = node.pointer;
  buffer.family = family(*object, name, node.pointer);
  const LoopScope scope(reader_.symbols, buffer.family);
  // After an error in "for", its variable would be unknown.
  const bool family_known = buffer.family.has_value() || !Reader::member(*object, node.pointer, "for");
  if (!family_known) return;
  if (is_name) reader_.check_template(name, node.pointer);
  const auto role_node = Reader::member(*object, node.pointer, "role");
  const auto role_text = role_node ? reader_.text(*role_node, "a role (a string)") : std::nullopt;
  const auto role = role_text ? parse_role(*role_text) : std::nullopt;
  if (role_text && !role) {
    std::vector<std::string> known;
    for (const Role one : roles) known.push_back(rondo::name(one));
    reader_.report(role_node->pointer,
                   fmt::format("unknown role \"{}\".{}", *role_text, suggest(*role_text, known)),
                   fmt::format("Known: {}.", fmt::join(known, ", ")));
  }
  if (const auto type = Reader::member(*object, node.pointer, "type")) buffer.type = reader_.data_type(*type);
  const auto shape = Reader::member(*object, node.pointer, "shape");
  if (shape) {
    if (const JsonArray* sizes = reader_.array(*shape, "an array of sizes, slowest dimension first")) {
      for (std::size_t i = 0; i < sizes->size(); ++i) {
        const Node size{&(*sizes)[i], child_pointer(shape->pointer, i)};
        auto expression = reader_.placed_expression(size, Use::constants);
        if (!expression) continue;
        if (is_literal(expression->value) && expression->value.evaluate_or_throw({}) < 0) {
          reader_.report(size.pointer, "a size cannot be negative");
        }
        buffer.shape.push_back(std::move(*expression));
      }
    }
  }
  if (!role) return;
  buffer.role = *role;
  buffer.shape_from_tensor = *role == Role::weight && !shape;
  if (*role != Role::weight) {
    for (const char* key : {"type", "shape"}) {
      if (!Reader::member(*object, node.pointer, key)) {
        reader_.report(node.pointer,
                       fmt::format("a buffer of the role {} needs the key \"{}\"", *role_text, key),
                       "Only weights can take it from their tensor.");
      }
    }
  }
  buffer_weight(*object, buffer);
  if (const auto fill = Reader::member(*object, node.pointer, "fill")) buffer_fill(*fill, buffer);
  schedule_.buffers.push_back(std::move(buffer));
}

void ScheduleParser::buffer_weight(const JsonObject& object, BufferDeclaration& buffer) {
  const auto tensor = Reader::member(object, buffer.pointer, "tensor");
  const auto file = Reader::member(object, buffer.pointer, "file");
  if (buffer.role != Role::weight) {
    for (const auto& node : {tensor, file}) {
      if (node)
        reader_.report(node->pointer, "only a buffer of the role weight is read from a file", "", 0,
                       JsonPart::key);
    }
    return;
  }
  if (file) {
    if (auto path = reader_.text(*file, "a file's path (a string)"))
      buffer.file = {std::move(*path), file->pointer};
  }
  if (!tensor) {
    reader_.report(buffer.pointer, "a buffer of the role weight needs the key \"tensor\"",
                   "It names the tensor in the weight file; several names in an array stand for the first "
                   "that the file has.");
    return;
  }
  const auto add = [&](const Node& node) {
    if (auto name = reader_.name_template(node, "a tensor's name (a string), or an array of them"))
      buffer.tensors.push_back(std::move(*name));
  };
  const JsonArray* names = tensor->value->get<JsonArray>();
  if (!names) return add(*tensor);
  if (names->empty()) reader_.report(tensor->pointer, "expected one tensor name or more, got an empty array");
  for (std::size_t i = 0; i < names->size(); ++i) add({&(*names)[i], child_pointer(tensor->pointer, i)});
}

void ScheduleParser::buffer_fill(const Node& node, BufferDeclaration& buffer) {
  if (buffer.role == Role::weight) {
    reader_.report(node.pointer, "a buffer of the role weight has its values from its tensor, and no fill",
                   "", 0, JsonPart::key);
    return;
  }
  if (buffer.role == Role::temporary) {
    reader_.report(node.pointer,
                   "a temporary shares its memory with others, and an initial fill would not last",
                   "Put {\"fill\": …, \"value\": …} in \"ops\", or use the role state.", 0, JsonPart::key);
    return;
  }
  if (buffer.type && !is_plain(*buffer.type)) {
    reader_.report(node.pointer,
                   fmt::format("a buffer of the block type {} cannot be filled", name(*buffer.type)), "", 0,
                   JsonPart::key);
    return;
  }
  if (node.value->get<JsonObject>()) {
    const JsonObject* object = reader_.object(node, schedule_keys::random_fill);
    const auto seed_node = Reader::member(*object, node.pointer, "random");
    const auto seed = seed_node ? reader_.count(*seed_node, "a seed (an integer from 0)") : std::nullopt;
    if (seed) buffer.fill = RandomFill{*seed};
    return;
  }
  if (auto number = reader_.number(node, buffer.type, Use::constants)) buffer.fill = std::move(*number);
}

void ScheduleParser::kernel(const std::string& name, const Node& node) {
  const bool is_name = reader_.check_name(name, node.pointer, true);
  const JsonObject* object = reader_.object(node, schedule_keys::kernel);
  if (!object) return;
  KernelDeclaration kernel;
  kernel.name = {name, node.pointer};
  kernel.pointer = node.pointer;
  kernel.family = family(*object, name, node.pointer);
  const LoopScope scope(reader_.symbols, kernel.family);
  if (!kernel.family && Reader::member(*object, node.pointer, "for")) return;
  if (is_name) reader_.check_template(name, node.pointer);
  const auto source = Reader::member(*object, node.pointer, "source");
  const auto code = Reader::member(*object, node.pointer, "code");
  if (source.has_value() == code.has_value()) {
    reader_.report(
        node.pointer,
        fmt::format(
            "a kernel has either \"source\" (a file) or \"code\" (the text itself), and \"{}\" has {}", name,
            source ? "both" : "neither"));
  }
  if (source) {
    if (auto path = reader_.text(*source, "a file's path (a string)"))
      kernel.source = {std::move(*path), source->pointer};
  }
  if (code) {
    if (auto text = reader_.text(*code, "the kernel's code (a string)"))
      kernel.code = {std::move(*text), code->pointer};
  }
  if (const auto entry = Reader::member(*object, node.pointer, "entry")) {
    if (auto text =
            reader_.name_template(*entry, "a C++ name or expression of the kernel's function (a string)"))
      kernel.entry = std::move(*text);
  }
  if (const auto node_of_defines = Reader::member(*object, node.pointer, "defines"))
    defines(*node_of_defines, kernel);
  if (const auto pdl = Reader::member(*object, node.pointer, "pdl"))
    kernel.pdl = reader_.placed_expression(*pdl, Use::constants, true);
  schedule_.kernels.push_back(std::move(kernel));
}

void ScheduleParser::defines(const Node& node, KernelDeclaration& kernel) {
  const JsonObject* object = reader_.object(node, "an object of macros, by their names");
  if (!object) return;
  for (const auto& [macro, value] : *object) {
    const Node child{&value, child_pointer(node.pointer, macro)};
    if (!is_identifier(macro))
      reader_.report(child.pointer, fmt::format("\"{}\" cannot be a macro's name", macro), "", 0,
                     JsonPart::key);
    if (auto text = reader_.expression_template(child, Use::constants))
      kernel.defines.emplace_back(macro, std::move(*text));
  }
}

}  // namespace rondo
