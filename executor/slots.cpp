#include "slots.h"

#include <fmt/format.h>

#include "builtin.h"
#include "scope.h"

namespace rondo {
namespace {

class SlotDemands {
 public:
  SlotDemands(const Plan& plan, const Schedule& schedule)
      : plan_(plan), schedule_(schedule), complaints_(schedule) {}

  void check() {
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      const PlanNode& node = plan_.nodes[i];
      for (std::size_t axis = 0; axis < 3; ++axis) {
        check_host_use(node.grid[axis], i, "the grid of this op depends on it");
        check_host_use(node.block[axis], i, "the block of this op depends on it");
      }
      check_host_use(node.shared, i, "the shared memory of this op depends on it");
      for (std::size_t k = 0; k < node.arguments.size(); ++k) check_argument(i, k);
    }
    complaints_.throw_if_any();
  }

 private:
  bool wants_slot(std::uint32_t param) const { return plan_.params[param].update == UpdateWay::slot; }

  template <typename Visit>
  void for_each_param(const Value& value, const Visit& visit) const {
    for (const Value::Operand& operand : value.operands) {
      if (operand.is_step && wants_slot(static_cast<std::uint32_t>(operand.value)))
        visit(static_cast<std::uint32_t>(operand.value));
    }
  }

  void complain(std::uint32_t param, std::size_t node, std::optional<std::size_t> argument,
                const std::string& why, std::string hint) {
    complaints_.add({.place = plan_.place(schedule_, node, argument),
                     .message = fmt::format("\"{}\" is declared with \"update\": \"slot\", and {}",
                                            plan_.params[param].info.name, why),
                     .hint = std::move(hint)});
  }

  // What the host works out before a launch.
  void check_host_use(const Value& value, std::size_t node, const char* why) {
    for_each_param(value, [&](std::uint32_t param) {
      complain(param, node, {}, why, "What the host works out takes a node update: leave \"update\" out.");
    });
  }

  void check_argument(std::size_t node, std::size_t index) {
    const PlanArgument& argument = plan_.nodes[node].arguments[index];
    const auto complain_here = [&](std::uint32_t param, const char* why, std::string hint) {
      complain(param, node, index, why, std::move(hint));
    };
    const auto take_pointer = [&](std::uint32_t param) {
      return plan_.nodes[node].is_builtin
                 ? std::string(
                       "Copies and fills read no slots: leave \"update\" out, or write a kernel that does.")
                 : fmt::format(
                       "Let the kernel take `const {}*` here, and the op give the param by its name alone.",
                       cpp_name(plan_.params[param].info.type));
    };
    if (argument.kind == PlanArgument::Kind::float_param) {
      if (wants_slot(argument.param))
        complain_here(argument.param, "the kernel takes it by value", take_pointer(argument.param));
    } else if (argument.kind == PlanArgument::Kind::buffer) {
      const auto complain_range = [&](std::uint32_t param) {
        complain_here(param, "the part of a buffer that this op gets depends on it",
                      "Give the op the whole buffer, and let the kernel find the part by the slot.");
      };
      for_each_param(argument.value, complain_range);
      if (argument.extent) for_each_param(*argument.extent, complain_range);
    } else if (argument.kind == PlanArgument::Kind::integer) {
      for_each_param(argument.value, [&](std::uint32_t param) {
        complain_here(param,
                      argument.named_step ? "the kernel takes it by value"
                                          : "this is an expression, which the host works out",
                      take_pointer(param));
      });
    }
  }

  // As it is written in a kernel.
  static const char* cpp_name(DataType type) {
    switch (type) {
      case DataType::boolean:
        return "bool";
      case DataType::i8:
        return "signed char";
      case DataType::u8:
        return "unsigned char";
      case DataType::i16:
        return "short";
      case DataType::u16:
        return "unsigned short";
      case DataType::i32:
        return "int";
      case DataType::u32:
        return "unsigned";
      case DataType::i64:
        return "long long";
      case DataType::u64:
        return "unsigned long long";
      case DataType::f32:
        return "float";
      case DataType::f64:
        return "double";
      default:
        return name(type);
    }
  }

  const Plan& plan_;
  const Schedule& schedule_;
  Complaints complaints_;
};

}  // namespace

bool add_slots(Plan& plan, const Schedule& schedule, const DeviceProperties& device) {
  SlotDemands(plan, schedule).check();
  for (const PlanNode& node : plan.nodes) {
    for (const PlanArgument& argument : node.arguments) {
      if (argument.kind != PlanArgument::Kind::slot) continue;
      std::optional<std::uint32_t>& slot = plan.params[argument.param].slot;
      if (!slot) slot = plan.slots++;
    }
  }
  if (plan.slots == 0) return false;
  PlanNode node;
  rtc::CompileRequest unit = builtin_unit();
  unit.entries.push_back(make_publish(node, plan));
  unit.architecture = device.architecture;
  node.label = "publish slots";
  node.kernel = static_cast<std::uint32_t>(plan.kernels.size());
  if (node.argument_bytes > device.max_argument_bytes) {
    throw Error(ErrorCode::bad_schedule,
                fmt::format("{} slots take {} bytes of kernel arguments; this device has {}", plan.slots,
                            node.argument_bytes, device.max_argument_bytes));
  }
  plan.kernels.push_back({.name = unit.entries.front(),
                          .unit = static_cast<std::uint32_t>(plan.units.size()),
                          .entry = 0,
                          .pointer = "",
                          .pdl = true});
  plan.units.push_back(std::move(unit));
  // The root: what comes first in program order comes first in the graph.
  plan.nodes.insert(plan.nodes.begin() + publish_node, std::move(node));
  return true;
}

}  // namespace rondo
