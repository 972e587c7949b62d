// The ops of a schedule.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "name_template.h"
#include "schedule_parser.h"

namespace rondo {
namespace {

using Reader = ScheduleReader;

constexpr std::size_t max_repeat_depth = 8;

// The name stands alone in the text, but for `{…}` in it.
bool is_name_alone(const std::string& text) { return is_valid_name(text, true); }

}  // namespace

std::vector<Op> ScheduleParser::ops(const Node& node) {
  std::vector<Op> result;
  const JsonArray* items = reader_.array(node, "an array of ops");
  if (!items) return result;
  for (std::size_t i = 0; i < items->size(); ++i) {
    if (auto read = op({&(*items)[i], child_pointer(node.pointer, i)})) result.push_back(std::move(*read));
  }
  return result;
}

std::optional<Op> ScheduleParser::op(const Node& node) {
  const std::string what = "an op (an object with one of the keys kernel, copy, fill, repeat)";
  const JsonObject* object = reader_.object(node, what);
  if (!object) return std::nullopt;
  const std::array<const ScheduleKeys*, 4> kinds = {&schedule_keys::kernel_op, &schedule_keys::copy_op,
                                                    &schedule_keys::fill_op, &schedule_keys::repeat_op};
  // The first key of each table is the one that makes the kind.
  std::vector<const ScheduleKeys*> found;
  std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(found), [&](const ScheduleKeys* kind) {
    return Reader::member(*object, "", kind->keys.front().name).has_value();
  });
  if (found.size() != 1) {
    std::string near;
    for (const auto& [key, value] : *object) {
      if (near.empty() && found.empty()) near = suggest(key, {"kernel", "copy", "fill", "repeat"});
    }
    reader_.report(node.pointer, fmt::format("expected {}, got {} of these.{}", what,
                                             found.empty() ? "none" : "several", near));
    return std::nullopt;
  }
  reader_.object(node, *found.front());
  Op op;
  op.pointer = node.pointer;
  if (const auto label = Reader::member(*object, node.pointer, "name"))
    op.label = reader_.text(*label, "a label (a string)");
  if (const auto when = Reader::member(*object, node.pointer, "when"))
    op.when = reader_.placed_expression(*when, Use::constants, true);
  if (found.front() == &schedule_keys::kernel_op) op.what = kernel_op(*object, node.pointer);
  if (found.front() == &schedule_keys::copy_op) op.what = copy_op(*object, node.pointer);
  if (found.front() == &schedule_keys::fill_op) op.what = fill_op(*object, node.pointer);
  if (found.front() == &schedule_keys::repeat_op) op.what = repeat_op(*object, node.pointer);
  return op;
}

KernelOp ScheduleParser::kernel_op(const JsonObject& object, const std::string& pointer) {
  KernelOp op;
  if (auto name =
          reader_.name_template(*Reader::member(object, pointer, "kernel"), "a kernel's name (a string)")) {
    const NameSet& kernels = reader_.symbols.kernels();
    if (!kernels.may_have(name->value)) {
      reader_.report(name->pointer, fmt::format("unknown kernel \"{}\".{}", name->value,
                                                suggest(name->value, kernels.names())));
    }
    op.kernel = std::move(*name);
  }
  op.grid = launch_shape(object, pointer, "grid", Use::steps);
  op.block = launch_shape(object, pointer, "block", Use::steps);
  if (const auto shared = Reader::member(object, pointer, "shared"))
    op.shared = reader_.expression_template(*shared, Use::steps);
  if (const auto cooperative = Reader::member(object, pointer, "cooperative"))
    op.cooperative = reader_.placed_expression(*cooperative, Use::constants, true);
  op.cluster = launch_shape(object, pointer, "cluster", Use::constants);
  if (const auto priority = Reader::member(object, pointer, "priority"))
    op.priority = reader_.expression_template(*priority, Use::constants);
  if (const auto args = Reader::member(object, pointer, "args")) {
    if (const JsonArray* items = reader_.array(*args, "an array of arguments")) {
      for (std::size_t i = 0; i < items->size(); ++i) {
        if (auto read = argument({&(*items)[i], child_pointer(args->pointer, i)}))
          op.args.push_back(std::move(*read));
      }
    }
  }
  return op;
}

std::vector<Template> ScheduleParser::launch_shape(const JsonObject& object, const std::string& pointer,
                                                   std::string_view key, Use use) {
  std::vector<Template> sizes;
  const auto node = Reader::member(object, pointer, key);
  if (!node) return sizes;
  const JsonArray* items = reader_.array(*node, "an array of 1 to 3 sizes (x, y, z)");
  if (!items) return sizes;
  if (items->empty() || items->size() > 3) {
    reader_.report(node->pointer,
                   fmt::format("expected an array of 1 to 3 sizes (x, y, z), got {}", items->size()));
    return sizes;
  }
  for (std::size_t i = 0; i < items->size(); ++i) {
    if (auto size = reader_.expression_template({&(*items)[i], child_pointer(node->pointer, i)}, use)) {
      sizes.push_back(std::move(*size));
    }
  }
  return sizes;
}

std::optional<Argument> ScheduleParser::argument(const Node& node) {
  if (const std::string* text = node.value->get<std::string>()) {
    if (text->find('[') != std::string::npos) {
      auto buffer = reader_.buffer_reference(node);
      if (!buffer) return std::nullopt;
      return Argument{BufferArgument{std::move(*buffer), Access::by_signature}, node.pointer};
    }
    check_argument_text(*text, node.pointer);
    return Argument{NumberArgument{Template{*text, node.pointer}}, node.pointer};
  }
  if (const JsonObject* object = node.value->get<JsonObject>()) {
    const auto has = [&](std::string_view key) {
      return Reader::member(*object, node.pointer, key).has_value();
    };
    const auto placed = [&](auto value) {
      return value ? std::optional(Argument{std::move(*value), node.pointer}) : std::nullopt;
    };
    if (has("table")) return placed(table(node));
    if (has("read")) return placed(buffer_argument(node, Access::read));
    if (!has("slot")) return placed(buffer_argument(node, Access::write));
    reader_.object(node, schedule_keys::slot_argument);
    return placed(slot(*Reader::member(*object, node.pointer, "slot")));
  }
  if (const bool* truth = node.value->get<bool>()) {
    return Argument{NumberArgument{Template{*truth ? "true" : "false", node.pointer}}, node.pointer};
  }
  if (const double* real = node.value->get<double>()) return Argument{NumberArgument{*real}, node.pointer};
  if (const std::int64_t* integer = node.value->get<std::int64_t>()) {
    return Argument{NumberArgument{Template{std::to_string(*integer), node.pointer}}, node.pointer};
  }
  reader_.expected(
      node, "a number of 64 bits, a string, {\"read\": …}, {\"write\": …}, {\"slot\": …} or {\"table\": …}");
  return std::nullopt;
}

// {"read": …} or {"write": …}
std::optional<BufferArgument> ScheduleParser::buffer_argument(const Node& node, Access access) {
  const ScheduleKeys& keys =
      access == Access::read ? schedule_keys::read_argument : schedule_keys::write_argument;
  const JsonObject* object = reader_.object(node, keys);
  const auto inner = Reader::member(*object, node.pointer, keys.keys.front().name);
  auto buffer = inner ? reader_.buffer_reference(*inner) : std::nullopt;
  return buffer ? std::optional(BufferArgument{std::move(*buffer), access}) : std::nullopt;
}

std::optional<TableArgument> ScheduleParser::table(const Node& node) {
  const JsonObject* object = reader_.object(node, schedule_keys::table_argument);
  TableArgument table;
  const auto family = Reader::member(*object, node.pointer, "for");
  if (family) table.family = reader_.for_clause(*family);
  // After an error in "for", its variable would be unknown.
  if (family && !table.family) return std::nullopt;
  const LoopScope scope(reader_.symbols, table.family);
  const Node list = *Reader::member(*object, node.pointer, "table");
  const JsonArray* items = reader_.array(list, "an array of buffers, or parts of them");
  if (!items) return std::nullopt;
  if (items->empty())
    reader_.report(list.pointer, "a table has one pointer or more, and this is an empty array");
  for (std::size_t i = 0; i < items->size(); ++i) {
    const Node item{&(*items)[i], child_pointer(list.pointer, i)};
    if (auto pointer = table_pointer(item)) table.pointers.push_back({std::move(*pointer), item.pointer});
  }
  return table;
}

std::optional<BufferArgument> ScheduleParser::table_pointer(const Node& node) {
  if (node.value->get<std::string>()) {
    auto buffer = reader_.buffer_reference(node);
    return buffer ? std::optional(BufferArgument{std::move(*buffer), Access::by_signature}) : std::nullopt;
  }
  if (const JsonObject* object = node.value->get<JsonObject>()) {
    if (Reader::member(*object, node.pointer, "read")) return buffer_argument(node, Access::read);
    if (Reader::member(*object, node.pointer, "write")) return buffer_argument(node, Access::write);
  }
  reader_.expected(node, "a buffer or a part of it (a string), {\"read\": …} or {\"write\": …}",
                   "A table has pointers to buffers alone; numbers and slots are arguments of their own.");
  return std::nullopt;
}

// A buffer's name, or else a number.
void ScheduleParser::check_argument_text(const std::string& text, const std::string& pointer) {
  Symbols& symbols = reader_.symbols;
  const bool has_braces = text.find_first_of("{}") != std::string::npos;
  if (!has_braces && is_name_alone(text) && !symbols.param(text) && !symbols.loop(text)) {
    const auto& device = device_names();
    if (symbols.buffers().may_have(text) || std::find(device.begin(), device.end(), text) != device.end())
      return;
    std::vector<std::string> known = symbols.numbers();
    const std::vector<std::string> buffers = symbols.buffers().names();
    known.insert(known.end(), buffers.begin(), buffers.end());
    if (text != "true" && text != "false") {
      reader_.report(pointer, fmt::format("unknown name \"{}\": neither buffer nor param.{}", text,
                                          suggest(text, known)));
    }
    return;
  }
  if (!has_braces) return reader_.check_expression_text(text, pointer, 0, Use::steps_or_float);
  if (!reader_.check_template(text, pointer) || !is_name_alone(text)) return;
  if (symbols.buffers().may_have(text)) return;
  const std::vector<std::string> numbers = symbols.numbers();
  const bool known = std::any_of(numbers.begin(), numbers.end(),
                                 [&](const std::string& name) { return may_be_same_name(text, name); });
  if (!known && text.find_first_not_of("{", 0) != std::string::npos) {
    reader_.report(pointer, fmt::format("unknown name \"{}\": neither buffer nor param.{}", text,
                                        suggest(text, symbols.buffers().names())));
  }
}

std::optional<SlotArgument> ScheduleParser::slot(const Node& node) {
  const auto name = reader_.text(node, "a step param's name (a string)");
  if (!name) return std::nullopt;
  const Symbols::Param* param = reader_.symbols.param(*name);
  if (!param) {
    reader_.report(node.pointer,
                   fmt::format("unknown param \"{}\".{}", *name, suggest(*name, reader_.symbols.numbers())));
  } else if (!param->is_step) {
    reader_.report(node.pointer, fmt::format("\"{}\" is a constant; a slot is for step params", *name),
                   "Pass a constant by value: its name alone.");
  }
  return SlotArgument{*name};
}

CopyOp ScheduleParser::copy_op(const JsonObject& object, const std::string& pointer) {
  CopyOp op;
  const auto read = [&](std::string_view key, BufferReference& buffer, std::string& place) {
    const auto node = Reader::member(object, pointer, key);
    if (!node) return;
    place = node->pointer;
    if (auto reference = reader_.buffer_reference(*node)) buffer = std::move(*reference);
  };
  read("copy", op.from, op.from_pointer);
  read("to", op.to, op.to_pointer);
  return op;
}

FillOp ScheduleParser::fill_op(const JsonObject& object, const std::string& pointer) {
  FillOp op{{}, {Expression::literal(0), ""}, ""};
  const Node buffer = *Reader::member(object, pointer, "fill");
  op.buffer_pointer = buffer.pointer;
  if (auto reference = reader_.buffer_reference(buffer)) op.buffer = std::move(*reference);
  if (const auto value = Reader::member(object, pointer, "value")) {
    const std::optional<DataType> type = reader_.symbols.buffer_type(op.buffer.name.value);
    if (type && !is_plain(*type)) {
      reader_.report(buffer.pointer,
                     fmt::format("a buffer of the block type {} cannot be filled", name(*type)));
    } else if (auto number = reader_.number(*value, type, Use::steps)) {
      op.value = std::move(*number);
    }
  }
  return op;
}

RepeatOp ScheduleParser::repeat_op(const JsonObject& object, const std::string& pointer) {
  RepeatOp op{"", {Expression::literal(0), pointer}, {}};
  const Node variable = *Reader::member(object, pointer, "repeat");
  const auto count = Reader::member(object, pointer, "count");
  if (count) {
    if (auto expression = reader_.placed_expression(*count, Use::constants))
      op.count = std::move(*expression);
  }
  const auto name = reader_.text(variable, "the loop variable's name (a string)");
  if (repeat_depth_ == max_repeat_depth) {
    reader_.report(pointer, fmt::format("repeat nested more than {} levels deep", max_repeat_depth));
    return op;
  }
  const auto body = Reader::member(object, pointer, "ops");
  // Without its variable, the body would only be full of unknown names.
  if (!name || !reader_.check_variable(*name, variable.pointer, JsonPart::value) || !body) return op;
  op.variable = *name;
  reader_.symbols.loops.push_back({*name, false});
  ++repeat_depth_;
  op.ops = ops(*body);
  --repeat_depth_;
  reader_.symbols.loops.pop_back();
  return op;
}

}  // namespace rondo
