#include "schedule_symbols.h"

#include <fmt/format.h>

#include <algorithm>

#include "name_template.h"
#include "rondo/error.h"

namespace rondo {
namespace {

const JsonValue* find(const JsonObject& object, std::string_view key) {
  const auto found =
      std::find_if(object.begin(), object.end(), [key](const auto& member) { return member.first == key; });
  return found == object.end() ? nullptr : &found->second;
}

const JsonObject* find_object(const JsonObject& object, std::string_view key) {
  const JsonValue* value = find(object, key);
  return value ? value->get<JsonObject>() : nullptr;
}

std::optional<DataType> type_of(const JsonValue& declaration) {
  const JsonObject* object = declaration.get<JsonObject>();
  const JsonValue* type = object ? find(*object, "type") : nullptr;
  const std::string* name = type ? type->get<std::string>() : nullptr;
  return name ? parse_data_type(*name) : std::nullopt;
}

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Where `name` stands in the text as a whole name.
std::size_t offset_of(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_name_byte(text[at - 1])) && (end == text.size() || !is_name_byte(text[end])))
      return at;
  }
  return 0;
}

}  // namespace

const std::vector<std::string>& device_names() {
  static const std::vector<std::string> names = {"device.warp_size",
                                                 "device.processors",
                                                 "device.max_threads_per_block",
                                                 "device.max_shared_bytes",
                                                 "device.is_host",
                                                 "device.max_cluster_blocks",
                                                 "device.has_cooperative_launches",
                                                 "device.compute_capability"};
  return names;
}

void NameSet::add(const std::string& name) {
  (name.find('{') == std::string::npos ? plain_ : families_).insert(name);
}

bool NameSet::may_have(const std::string& name) const {
  if (has_exactly(name)) return true;
  const auto matches = [&](const std::string& known) { return may_be_same_name(name, known); };
  if (std::any_of(families_.begin(), families_.end(), matches)) return true;
  return name.find('{') != std::string::npos && std::any_of(plain_.begin(), plain_.end(), matches);
}

std::vector<std::string> NameSet::names() const {
  std::vector<std::string> all(plain_.begin(), plain_.end());
  all.insert(all.end(), families_.begin(), families_.end());
  std::sort(all.begin(), all.end());  // so that equally near suggestions are always the same
  return all;
}

Symbols::Symbols(const JsonObject& schedule) {
  if (const JsonObject* params = find_object(schedule, "params")) {
    for (const auto& [name, declaration] : *params) {
      const JsonObject* object = declaration.get<JsonObject>();
      const bool is_step = object && find(*object, "step") && !find(*object, "constant");
      params_.emplace(name, Param{type_of(declaration), is_step});
    }
  }
  if (const JsonObject* buffers = find_object(schedule, "buffers")) {
    for (const auto& [name, declaration] : *buffers) {
      buffers_.add(name);
      buffer_types_.emplace(name, type_of(declaration));
    }
  }
  if (const JsonObject* kernels = find_object(schedule, "kernels")) {
    for (const auto& [name, declaration] : *kernels) kernels_.add(name);
  }
}

const Symbols::Param* Symbols::param(const std::string& name) const {
  const auto found = params_.find(name);
  return found == params_.end() ? nullptr : &found->second;
}

std::optional<DataType> Symbols::buffer_type(const std::string& name) const {
  const auto found = buffer_types_.find(name);
  return found == buffer_types_.end() ? std::nullopt : found->second;
}

const Symbols::LoopVariable* Symbols::loop(const std::string& name) const {
  const auto found =
      std::find_if(loops.begin(), loops.end(), [&](const LoopVariable& loop) { return loop.name == name; });
  return found == loops.end() ? nullptr : &*found;
}

std::vector<std::string> Symbols::numbers() const {
  std::vector<std::string> names;
  for (const auto& [name, param] : params_) names.push_back(name);
  std::sort(names.begin(), names.end());
  for (const LoopVariable& variable : loops) names.push_back(variable.name);
  names.insert(names.end(), device_names().begin(), device_names().end());
  return names;
}

std::string Symbols::problem(const std::string& name, bool stands_alone, Use use) const {
  if (const LoopVariable* variable = loop(name)) {
    if (!variable->is_text) return "";
    return fmt::format("\"{0}\" stands for names here, not for numbers; it can be used in a name, as {{{0}}}",
                       name);
  }
  const std::vector<std::string>& device = device_names();
  if (std::find(device.begin(), device.end(), name) != device.end()) return "";
  const Param* found = param(name);
  if (found == nullptr) {
    if (buffers_.may_have(name)) return fmt::format("\"{}\" is a buffer; an expression takes numbers", name);
    return fmt::format("unknown name \"{}\".{}", name, suggest(name, numbers()));
  }
  const bool steps = use == Use::steps || use == Use::steps_or_float;
  if (found->is_step && !steps) {
    return fmt::format(
        "\"{}\" is a step param, which may change before any launch; only constants can be used here", name);
  }
  const bool float_alone = (use == Use::constants_or_float || use == Use::steps_or_float) && stands_alone;
  if (found->type && info(*found->type).is_float && !float_alone) {
    return fmt::format(
        "\"{}\" is of type {}, and expressions are over integers; a float param can only be a whole argument "
        "or value",
        name, rondo::name(*found->type));
  }
  return "";
}

std::vector<Symbols::Problem> Symbols::problems(const Expression& expression, Use use) const {
  std::vector<Problem> found;
  for (const std::string& name : expression.variables()) {
    const std::string& text = expression.text();
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    const bool stands_alone = first != std::string::npos &&
                              text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1) == name;
    const std::string message = problem(name, stands_alone, use);
    if (!message.empty()) found.push_back({message, offset_of(text, name)});
  }
  return found;
}

void Symbols::check_inner(std::string_view inner) const {
  const std::string text(inner);
  const LoopVariable* variable = loop(text);
  if (variable && variable->is_text) return;
  constexpr std::string_view suffix = ".type";
  if (text.ends_with(suffix) && !param(text)) {
    const std::string buffer = text.substr(0, text.size() - suffix.size());
    if (buffers_.may_have(buffer)) return;
    throw ExpressionError(fmt::format("unknown buffer \"{}\".{}", buffer, suggest(buffer, buffers_.names())),
                          0);
  }
  if (text.find('{') != std::string::npos) return;  // what it will be is not known yet
  const std::vector<Problem> found = problems(Expression::parse(text), Use::constants);
  if (!found.empty()) throw ExpressionError(found.front().message, found.front().offset);
}

}  // namespace rondo
