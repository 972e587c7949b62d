#include "match_signatures.h"

#include <fmt/format.h>

#include <algorithm>

#include "driver.h"
#include "scope.h"

namespace rondo {
namespace {

std::string describe(const rtc::Parameter& parameter) {
  const std::string type = parameter.type ? name(*parameter.type) : "";
  switch (parameter.kind) {
    case rtc::ParameterKind::scalar:
      return type.empty() ? fmt::format("a scalar of {} bytes", parameter.size) : type;
    case rtc::ParameterKind::structure:
      return fmt::format("a struct of {} bytes", parameter.size);
    case rtc::ParameterKind::pointer:
      break;
  }
  const std::string constness = parameter.is_const ? "const " : "";
  if (!type.empty()) return fmt::format("a pointer to {}{}", constness, type);
  if (parameter.element_size == 0) return fmt::format("a pointer to {}void", constness);
  return fmt::format("a pointer to {}structs of {} bytes", constness, parameter.element_size);
}

// Whether memory of elements of `type` may go where the kernel has this pointer: the same type, plain bytes
// or void, or for block types a struct of a block's size.
bool accepts(const rtc::Parameter& parameter, DataType type) {
  if (parameter.type) return *parameter.type == type || *parameter.type == DataType::u8;
  return parameter.element_size == 0 || (!is_plain(type) && parameter.element_size == info(type).block_bytes);
}

class Matcher {
 public:
  explicit Matcher(const Plan& plan) : plan_(plan) {}

  // What is wrong with passing `argument` to `parameter`; "" where nothing is. Completes the argument.
  std::string match(PlanArgument& argument, const rtc::Parameter& parameter) const {
    using Kind = PlanArgument::Kind;
    const bool is_pointer = argument.kind == Kind::buffer || argument.kind == Kind::slot;
    if (parameter.kind == rtc::ParameterKind::structure) {
      return fmt::format("expected {} by value, which {{\"table\": …}} fills with pointers; got {}",
                         describe(parameter), given(argument));
    }
    if (!is_pointer && argument.named_step && parameter.kind == rtc::ParameterKind::pointer)
      return match_slot(argument, parameter);
    if (is_pointer != (parameter.kind == rtc::ParameterKind::pointer)) return expected(argument, parameter);
    if (is_pointer) return match_pointer(argument, parameter);
    if (!parameter.type) return expected(argument, parameter);
    argument.type = *parameter.type;
    return match_scalar(argument, parameter);
  }

  // The same for all pointers of a table.
  std::string match_table(std::span<PlanArgument> pointers, const rtc::Parameter& parameter,
                          std::size_t position, const std::string& kernel) const {
    const std::size_t bytes = pointers.size() * sizeof(DevicePointer),
                      columns = pointers.front().table_columns;
    const std::string table = fmt::format(
        "the table has {} pointers{}, {} bytes", pointers.size(),
        pointers.size() == columns ? "" : fmt::format(" ({} × {})", pointers.size() / columns, columns),
        bytes);
    if (parameter.kind != rtc::ParameterKind::structure)
      return fmt::format("{}; parameter {} of kernel \"{}\" is {}, not a struct by value", table, position,
                         kernel, describe(parameter));
    if (parameter.size != bytes)
      return fmt::format("{}; parameter {} of kernel \"{}\" is {}", table, position, kernel,
                         describe(parameter));
    if (parameter.alignment != alignof(DevicePointer)) {
      return fmt::format(
          "{}; parameter {} of kernel \"{}\" is {} aligned to {}, and a struct of pointers is aligned to {}",
          table, position, kernel, describe(parameter), parameter.alignment, alignof(DevicePointer));
    }
    const std::size_t offset = pointers.front().offset;
    for (std::size_t i = 0; i < pointers.size(); ++i) pointers[i].offset = offset + i * sizeof(DevicePointer);
    return "";
  }

  // What is wrong with one pointer of a table, of whose pointee the signature tells nothing. Completes it.
  std::string match_table_pointer(PlanArgument& argument) const {
    const BufferInfo& buffer = plan_.buffers[argument.buffer].info;
    const bool is_weight = buffer.role == Role::weight;
    argument.type = DataType::u64;
    argument.writes =
        argument.access == Access::write || (argument.access == Access::by_signature && !is_weight);
    return is_weight && argument.writes
               ? fmt::format("\"{}\" is a weight, which no kernel may write", buffer.name)
               : "";
  }

 private:
  // A step param by its name, where the kernel takes a pointer: that is its slot.
  std::string match_slot(PlanArgument& argument, const rtc::Parameter& parameter) const {
    const PlanParam& param = plan_.params[*argument.named_step];
    if (parameter.type != param.info.type) return expected(argument, parameter);
    if (param.update == UpdateWay::node) {
      return fmt::format(
          "\"{}\" is declared with \"update\": \"node\", and the kernel takes a pointer to it; it would have "
          "to "
          "take {} by value",
          param.info.name, name(param.info.type));
    }
    argument.kind = PlanArgument::Kind::slot;
    argument.param = *argument.named_step;
    argument.value = Value::of(0);
    return match_pointer(argument, parameter);
  }

  std::string match_pointer(PlanArgument& argument, const rtc::Parameter& parameter) const {
    argument.type = DataType::u64;
    const bool is_slot = argument.kind == PlanArgument::Kind::slot;
    const DataType type =
        is_slot ? plan_.params[argument.param].info.type : plan_.buffers[argument.buffer].info.type;
    const bool fits = is_slot ? parameter.type == type : accepts(parameter, type);
    if (!fits) return expected(argument, parameter);
    if (is_slot && !parameter.is_const)
      return "a slot may only be read: the kernel's parameter must be a pointer to const";
    if (argument.access == Access::write && parameter.is_const) {
      return "the op says that the kernel writes this buffer, and the kernel's parameter is a pointer to "
             "const";
    }
    if (argument.access == Access::read && !parameter.is_const) {
      return "the op says that the kernel only reads this buffer, and the kernel's parameter is a pointer to "
             "non-const";
    }
    argument.writes = !parameter.is_const;
    if (argument.writes && !is_slot && plan_.buffers[argument.buffer].info.role == Role::weight) {
      return fmt::format(
          "\"{}\" is a weight, which no kernel may write, and the parameter is a pointer to non-const",
          plan_.buffers[argument.buffer].info.name);
    }
    return "";
  }

  std::string match_scalar(PlanArgument& argument, const rtc::Parameter& parameter) const {
    const DataTypeInfo& type = info(*parameter.type);
    switch (argument.kind) {
      case PlanArgument::Kind::float_param:
        return plan_.params[argument.param].info.type == *parameter.type ? "" : expected(argument, parameter);
      case PlanArgument::Kind::literal:
        return type.is_float && fits_float(*parameter.type, argument.literal) ? ""
                                                                              : expected(argument, parameter);
      default:
        break;
    }
    if (type.is_float) {
      const bool is_literal = argument.value.is_fixed();
      if (!is_literal) return expected(argument, parameter);
      argument.kind = PlanArgument::Kind::literal;
      argument.literal = static_cast<double>(argument.value.fixed);
      return fits_float(*parameter.type, argument.literal) ? "" : expected(argument, parameter);
    }
    const IntegerRange range = integer_range(*parameter.type);
    if (argument.value.is_fixed() &&
        (argument.value.fixed < range.smallest || argument.value.fixed > range.largest)) {
      return fmt::format("expected {}, which holds {} to {}; got {}", type.name, range.smallest,
                         range.largest, argument.value.fixed);
    }
    return "";
  }

  std::string given(const PlanArgument& argument) const {
    using Kind = PlanArgument::Kind;
    if (argument.named_step && argument.kind == Kind::integer) {
      const ParamInfo& param = plan_.params[*argument.named_step].info;
      return fmt::format("the param \"{}\" of type {}", param.name, name(param.type));
    }
    switch (argument.kind) {
      case Kind::integer:
        return argument.value.is_fixed()
                   ? fmt::format("the integer {}", argument.value.fixed)
                   : fmt::format("the integer expression \"{}\"", argument.value.expression->text());
      case Kind::literal:
        return fmt::format("the float {}", argument.literal);
      case Kind::float_param: {
        const ParamInfo& param = plan_.params[argument.param].info;
        return fmt::format("the param \"{}\" of type {}", param.name, name(param.type));
      }
      case Kind::buffer: {
        const BufferInfo& buffer = plan_.buffers[argument.buffer].info;
        return fmt::format("the buffer \"{}\" of type {}", buffer.name, name(buffer.type));
      }
      case Kind::slot: {
        const ParamInfo& param = plan_.params[argument.param].info;
        return fmt::format("the slot of \"{}\", a pointer to {}", param.name, name(param.type));
      }
    }
    return "";
  }

  std::string expected(const PlanArgument& argument, const rtc::Parameter& parameter) const {
    return fmt::format("expected {}, got {}", describe(parameter), given(argument));
  }

  const Plan& plan_;
};

// Of a node that gives as many arguments as the kernel has parameters, which begin at `offsets`.
void match_arguments(Plan& plan, const Schedule& schedule, std::size_t index, const rtc::Entry& entry,
                     std::span<const std::size_t> offsets, Complaints& complaints) {
  const Matcher matcher(plan);
  PlanNode& node = plan.nodes[index];
  const auto complain = [&](std::size_t argument, std::string wrong) {
    if (!wrong.empty())
      complaints.add(
          {.place = plan.place(schedule, index, argument), .message = std::move(wrong), .hint = ""});
  };
  for (std::size_t k = 0; k < node.arguments.size();) {
    PlanArgument& argument = node.arguments[k];
    const std::uint32_t position = argument.parameter;
    const rtc::Parameter& parameter = entry.parameters[position];
    argument.offset = offsets[position];
    if (argument.table_columns == 0) {
      complain(k++, matcher.match(argument, parameter));
      continue;
    }
    const auto first = node.arguments.begin() + static_cast<std::ptrdiff_t>(k);
    const auto end = std::find_if(first, node.arguments.end(),
                                  [&](const PlanArgument& other) { return other.parameter != position; });
    std::string wrong =
        matcher.match_table({first, end}, parameter, position, plan.kernels[node.kernel].name);
    if (!wrong.empty()) {
      Place place = schedule.place(fmt::format("{}/args/{}", node.pointer, position));
      place.op = node.label;
      place.kernel = plan.kernels[node.kernel].name;
      place.argument = position;
      complaints.add({.place = std::move(place), .message = std::move(wrong), .hint = ""});
    }
    for (const std::size_t after = k + static_cast<std::size_t>(end - first); k < after; ++k)
      complain(k, matcher.match_table_pointer(node.arguments[k]));
  }
}

}  // namespace

void match_signatures(Plan& plan, const Schedule& schedule, std::span<const rtc::Binary> binaries,
                      std::size_t max_argument_bytes) {
  Complaints complaints(schedule);
  std::vector<std::vector<std::size_t>> offsets_of_kernel(plan.kernels.size());
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    PlanNode& node = plan.nodes[i];
    if (node.is_builtin) continue;
    const PlanKernel& kernel = plan.kernels[node.kernel];
    const rtc::Entry& entry = binaries[kernel.unit].entries[kernel.entry];
    const std::size_t given = node.arguments.empty() ? 0 : node.arguments.back().parameter + std::size_t{1};
    if (entry.parameters.size() != given) {
      std::vector<std::string> parameters;
      for (const rtc::Parameter& parameter : entry.parameters) parameters.push_back(describe(parameter));
      complaints.add({.place = plan.place(schedule, i),
                      .message = fmt::format("the kernel {} takes {} arguments, the op gives {}",
                                             entry.expression, entry.parameters.size(), given),
                      .hint = fmt::format("It takes: {}.", fmt::join(parameters, ", "))});
      continue;
    }
    std::vector<std::size_t>& offsets = offsets_of_kernel[node.kernel];
    if (offsets.empty()) offsets = entry.offsets();
    node.argument_bytes = offsets.empty() ? 0 : offsets.back() + entry.parameters.back().size;
    if (node.argument_bytes > max_argument_bytes) {
      complaints.add({.place = plan.place(schedule, i),
                      .message = fmt::format("the arguments of {} take {} bytes; this device has {}",
                                             entry.expression, node.argument_bytes, max_argument_bytes),
                      .hint = argument_bytes_hint});
    }
    match_arguments(plan, schedule, i, entry, offsets, complaints);
  }
  complaints.throw_if_any();
}

}  // namespace rondo
