#include "match_signatures.h"

#include <fmt/format.h>

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
    if (parameter.kind == rtc::ParameterKind::structure)
      return "a struct by value, which a schedule cannot pass in version 1";
    if (!is_pointer && argument.named_step && parameter.kind == rtc::ParameterKind::pointer)
      return match_slot(argument, parameter);
    if (is_pointer != (parameter.kind == rtc::ParameterKind::pointer)) return expected(argument, parameter);
    if (is_pointer) return match_pointer(argument, parameter);
    if (!parameter.type) return expected(argument, parameter);
    argument.type = *parameter.type;
    return match_scalar(argument, parameter);
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

}  // namespace

void match_signatures(Plan& plan, const Schedule& schedule, std::span<const rtc::Binary> binaries,
                      std::size_t max_argument_bytes) {
  Complaints complaints(schedule);
  const Matcher matcher(plan);
  std::vector<std::vector<std::size_t>> offsets_of_kernel(plan.kernels.size());
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    PlanNode& node = plan.nodes[i];
    if (node.is_builtin) continue;
    const PlanKernel& kernel = plan.kernels[node.kernel];
    const rtc::Entry& entry = binaries[kernel.unit].entries[kernel.entry];
    if (entry.parameters.size() != node.arguments.size()) {
      std::vector<std::string> parameters;
      for (const rtc::Parameter& parameter : entry.parameters) parameters.push_back(describe(parameter));
      complaints.add(
          {.place = plan.place(schedule, i),
           .message = fmt::format("the kernel {} takes {} arguments, the op gives {}", entry.expression,
                                  entry.parameters.size(), node.arguments.size()),
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
                      .hint = ""});
    }
    for (std::size_t k = 0; k < node.arguments.size(); ++k) {
      node.arguments[k].offset = offsets[k];
      std::string wrong = matcher.match(node.arguments[k], entry.parameters[k]);
      if (!wrong.empty())
        complaints.add({.place = plan.place(schedule, i, k), .message = std::move(wrong), .hint = ""});
    }
  }
  complaints.throw_if_any();
}

}  // namespace rondo
