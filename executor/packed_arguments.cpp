#include "packed_arguments.h"

#include <cstring>

#include "builtin.h"

namespace rondo {
namespace {

constexpr std::size_t argument_alignment = 16;  // no parameter that a schedule can pass asks for more

const char* describe(ExpressionFault fault) noexcept {
  return fault == ExpressionFault::overflow ? "an expression overflows 64 bits for these values"
                                            : "an expression divides by zero for these values";
}

bool depends_on_steps(const PlanArgument& argument) noexcept {
  return !argument.value.is_fixed() || (argument.extent && !argument.extent->is_fixed()) ||
         argument.kind == PlanArgument::Kind::float_param;
}

}  // namespace

PackedArguments::PackedArguments(const Plan& plan, const DeviceProperties& device,
                                 std::span<const FunctionInfo> functions,
                                 std::span<const DevicePointer> buffers, DevicePointer slots)
    : plan_(plan), device_(device), functions_(functions), buffers_(buffers), slots_(slots) {
  std::size_t bytes = 0;
  for (const PlanNode& plan_node : plan.nodes) {
    Node node{.begin = bytes,
              .bytes = plan_node.argument_bytes,
              .shape = {},
              .next_shape = {},
              .first_dynamic = dynamic_.size(),
              .end_dynamic = 0};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      node.shape_is_fixed =
          node.shape_is_fixed && plan_node.grid[axis].is_fixed() && plan_node.block[axis].is_fixed();
    }
    node.shape_is_fixed = node.shape_is_fixed && plan_node.shared.is_fixed();
    nodes_.push_back(node);
    const auto index = static_cast<std::uint32_t>(nodes_.size() - 1);
    for (std::uint32_t i = 0; i < plan_node.arguments.size(); ++i) {
      if (depends_on_steps(plan_node.arguments[i])) dynamic_.push_back(make_dynamic(index, i));
    }
    nodes_.back().end_dynamic = dynamic_.size();
    bytes += (plan_node.argument_bytes + argument_alignment - 1) / argument_alignment * argument_alignment;
  }
  current_.resize(bytes);
  next_.resize(bytes);
}

Status PackedArguments::refuse(ExpressionFault fault, std::uint32_t node,
                               std::optional<std::uint32_t> argument) noexcept {
  fault_ = {.node = node, .argument = argument};
  return {ErrorCode::bad_argument, 0, "", describe(fault)};
}

Status PackedArguments::refuse(const char* why, std::uint32_t node, std::optional<std::uint32_t> argument,
                               std::int64_t value, std::int64_t limit) noexcept {
  fault_ = {.node = node, .argument = argument, .has_value = true, .value = value, .limit = limit};
  return {ErrorCode::bad_argument, 0, "", why};
}

Status PackedArguments::stage(std::uint32_t node, std::span<const ParamInfo> params,
                              std::span<const std::int64_t> integers) noexcept {
  Node& at = nodes_[node];
  if (at.stage_all || !at.shape_is_fixed) {
    if (const Status status = stage_shape(node, integers); !status.ok()) return status;
  }
  // What a disabled node's arguments would be does not matter, and may be out of range.
  if (!at.next_enabled) {
    std::memcpy(next_.data() + at.begin, current_.data() + at.begin, at.bytes);
    return {};
  }
  if (at.stage_all) {
    for (std::uint32_t i = 0; i < plan_.nodes[node].arguments.size(); ++i) {
      if (const Status status = stage_argument(node, i, params, integers); !status.ok()) return status;
    }
    return {};
  }
  for (std::size_t i = at.first_dynamic; i < at.end_dynamic; ++i) {
    if (stage_dynamic(dynamic_[i], params, integers)) continue;
    if (const Status status = stage_argument(node, dynamic_[i].position, params, integers); !status.ok())
      return status;
  }
  return {};
}

PackedArguments::Dynamic PackedArguments::make_dynamic(std::uint32_t node, std::uint32_t position) const {
  const PlanArgument& argument = plan_.nodes[node].arguments[position];
  Dynamic dynamic{.type = argument.type,
                  .position = position,
                  .param = argument.param,
                  .buffer = argument.buffer,
                  .to = nodes_[node].begin + argument.offset};
  if (argument.kind == PlanArgument::Kind::float_param) {
    dynamic.form = Dynamic::Form::real;
    return dynamic;
  }
  const std::optional<Value::Affine> form = argument.value.affine(plan_);
  if (!form) return dynamic;
  dynamic.param = form->param;
  dynamic.scale = form->scale;
  dynamic.addend = form->addend;
  if (argument.kind == PlanArgument::Kind::integer) {
    const IntegerRange range = integer_range(argument.type);
    dynamic.smallest = range.smallest;
    dynamic.largest = range.largest;
    dynamic.form = Dynamic::Form::integer;
  } else if (argument.kind == PlanArgument::Kind::buffer) {
    const PlanBuffer& buffer = plan_.buffers[argument.buffer];
    const bool extent_is_fixed = !argument.extent || argument.extent->is_fixed();
    // An extent outside the buffer is refused by the general form.
    const std::int64_t extent = argument.extent ? argument.extent->fixed : 1;
    const auto elements = static_cast<std::int64_t>(buffer.elements);
    if (!extent_is_fixed || extent < 0 || extent > elements || buffer.type().block_elements != 1)
      return dynamic;
    dynamic.largest = elements - extent;
    dynamic.element_bytes = buffer.type().block_bytes;
    dynamic.form = Dynamic::Form::pointer;
  }
  return dynamic;
}

bool PackedArguments::stage_dynamic(const Dynamic& argument, std::span<const ParamInfo> params,
                                    std::span<const std::int64_t> integers) noexcept {
  std::byte* const to = next_.data() + argument.to;
  if (argument.form == Dynamic::Form::general) return false;
  if (argument.form == Dynamic::Form::real) {
    const double value = params[argument.param].real;
    if (!fits_float(argument.type, value)) return false;
    store_float(argument.type, value, to);
    return true;
  }
  // Cannot overflow: Expression::affine has seen to that for every value of the param.
  const std::int64_t value = argument.scale * integers[argument.param] + argument.addend;
  if (value < argument.smallest || value > argument.largest) return false;
  if (argument.form == Dynamic::Form::integer) {
    store_integer(argument.type, value, to);
  } else {
    const DevicePointer pointer =
        buffers_[argument.buffer] + static_cast<std::uint64_t>(value) * argument.element_bytes;
    std::memcpy(to, &pointer, sizeof pointer);
  }
  return true;
}

Status PackedArguments::stage_argument(std::uint32_t index, std::uint32_t position,
                                       std::span<const ParamInfo> params,
                                       std::span<const std::int64_t> integers) noexcept {
  const PlanArgument& argument = plan_.nodes[index].arguments[position];
  std::byte* const to = next_.data() + nodes_[index].begin + argument.offset;
  switch (argument.kind) {
    case PlanArgument::Kind::integer: {
      std::int64_t value = 0;
      if (const auto fault = argument.value.evaluate(integers, &value); fault != ExpressionFault::none) {
        return refuse(fault, index, position);
      }
      const IntegerRange range = integer_range(argument.type);
      if (value < range.smallest || value > range.largest) {
        return refuse("an argument is outside what its type holds", index, position, value, range.largest);
      }
      store_integer(argument.type, value, to);
      return {};
    }
    case PlanArgument::Kind::literal:
      store_float(argument.type, argument.literal, to);
      return {};
    case PlanArgument::Kind::float_param:
      // A fill may have another type than the param.
      if (!fits_float(argument.type, params[argument.param].real)) {
        fault_ = {.node = index, .argument = position};
        return {ErrorCode::bad_argument, 0, "", "a float is beyond what its type holds"};
      }
      store_float(argument.type, params[argument.param].real, to);
      return {};
    case PlanArgument::Kind::slot: {
      const DevicePointer pointer = slots_ + *plan_.params[argument.param].slot * slot_bytes;
      std::memcpy(to, &pointer, sizeof pointer);
      return {};
    }
    case PlanArgument::Kind::buffer:
      return stage_pointer(index, position, integers);
  }
  return {};
}

Status PackedArguments::stage_pointer(std::uint32_t index, std::uint32_t position,
                                      std::span<const std::int64_t> integers) noexcept {
  const PlanArgument& argument = plan_.nodes[index].arguments[position];
  const PlanBuffer& buffer = plan_.buffers[argument.buffer];
  const auto elements = static_cast<std::int64_t>(buffer.elements);
  std::int64_t extent = 1, offset = 0;
  if (argument.extent) {
    if (const auto fault = argument.extent->evaluate(integers, &extent); fault != ExpressionFault::none) {
      return refuse(fault, index, position);
    }
    if (extent < 0 || extent > elements)
      return refuse("an extent is outside its buffer", index, position, extent, elements);
  }
  if (const auto fault = argument.value.evaluate(integers, &offset); fault != ExpressionFault::none) {
    return refuse(fault, index, position);
  }
  if (offset < 0 || offset > elements - extent) {
    return refuse("an offset is outside its buffer", index, position, offset, elements - extent);
  }
  if (offset % static_cast<std::int64_t>(buffer.type().block_elements) != 0) {
    return refuse("an offset is not a whole number of blocks", index, position, offset, elements - extent);
  }
  const DevicePointer pointer =
      buffers_[argument.buffer] + buffer.byte_offset(static_cast<std::size_t>(offset));
  std::memcpy(next_.data() + nodes_[index].begin + argument.offset, &pointer, sizeof pointer);
  return {};
}

Status PackedArguments::stage_shape(std::uint32_t index, std::span<const std::int64_t> integers) noexcept {
  const PlanNode& plan = plan_.nodes[index];
  Node& node = nodes_[index];
  const FunctionInfo& function = functions_[plan.kernel];
  const std::uint32_t max_grid[3] = {device_.max_grid.x, device_.max_grid.y, device_.max_grid.z};
  const std::uint32_t max_block[3] = {device_.max_block.x, device_.max_block.y, device_.max_block.z};
  std::int64_t grid[3], block[3], shared = 0;
  bool enabled = true;
  for (std::size_t i = 0; i < 3; ++i) {
    if (const auto fault = plan.grid[i].evaluate(integers, &grid[i]); fault != ExpressionFault::none) {
      return refuse(fault, index);
    }
    if (const auto fault = plan.block[i].evaluate(integers, &block[i]); fault != ExpressionFault::none) {
      return refuse(fault, index);
    }
    if (grid[i] < 0 || grid[i] > static_cast<std::int64_t>(max_grid[i])) {
      return refuse("a grid dimension is outside what the device takes", index, {}, grid[i], max_grid[i]);
    }
    if (block[i] < 1 || block[i] > static_cast<std::int64_t>(max_block[i])) {
      return refuse("a block dimension is outside what the device takes", index, {}, block[i], max_block[i]);
    }
    enabled = enabled && grid[i] != 0;
  }
  const auto most_threads = static_cast<std::int64_t>(function.max_threads_per_block);
  if (block[0] * block[1] * block[2] > most_threads) {
    return refuse("a block has more threads than the kernel or device takes", index, {},
                  block[0] * block[1] * block[2], most_threads);
  }
  if (const auto fault = plan.shared.evaluate(integers, &shared); fault != ExpressionFault::none) {
    return refuse(fault, index);
  }
  const std::int64_t most_shared = static_cast<std::int64_t>(device_.max_shared_bytes) -
                                   static_cast<std::int64_t>(function.static_shared_bytes);
  if (shared < 0 || shared > most_shared) {
    return refuse("more shared memory than the device has beside the kernel's own", index, {}, shared,
                  most_shared);
  }
  node.next_enabled = enabled;
  // A disabled node keeps the shape it had: no driver takes an empty grid.
  node.next_shape = node.shape;
  if (!enabled) return {};
  const auto dim = [](const std::int64_t(&n)[3]) {
    return Dim3{static_cast<std::uint32_t>(n[0]), static_cast<std::uint32_t>(n[1]),
                static_cast<std::uint32_t>(n[2])};
  };
  node.next_shape = {
      .grid = dim(grid), .block = dim(block), .shared_bytes = static_cast<std::uint32_t>(shared)};
  return {};
}

NodeUpdate PackedArguments::next(std::uint32_t node) const noexcept {
  const Node& at = nodes_[node];
  return {.node = node,
          .arguments = {next_.data() + at.begin, at.bytes},
          .shape = at.next_shape,
          .enabled = at.next_enabled};
}

NodeUpdate PackedArguments::current(std::uint32_t node) const noexcept {
  const Node& at = nodes_[node];
  return {.node = node,
          .arguments = {current_.data() + at.begin, at.bytes},
          .shape = at.shape,
          .enabled = at.enabled};
}

bool PackedArguments::arguments_or_shape_changed(std::uint32_t node) const noexcept {
  const Node& at = nodes_[node];
  return at.shape != at.next_shape ||
         std::memcmp(current_.data() + at.begin, next_.data() + at.begin, at.bytes) != 0;
}

bool PackedArguments::enabled_changed(std::uint32_t node) const noexcept {
  return nodes_[node].enabled != nodes_[node].next_enabled;
}

void PackedArguments::accept(std::uint32_t node) noexcept {
  Node& at = nodes_[node];
  std::memcpy(current_.data() + at.begin, next_.data() + at.begin, at.bytes);
  at.shape = at.next_shape;
  at.enabled = at.next_enabled;
  // The arguments of a disabled node have not been staged.
  at.stage_all = at.stage_all && !at.enabled;
}

}  // namespace rondo
