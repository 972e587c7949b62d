#include "packed_arguments.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "builtin.h"
#include "rondo/error.h"

namespace rondo {
namespace {

constexpr std::size_t argument_alignment = 16;  // no parameter that a schedule can pass asks for more

const char* describe(ExpressionFault fault) noexcept {
  return fault == ExpressionFault::overflow ? "an expression overflows 64 bits for these values"
                                            : "an expression divides by zero for these values";
}

// The arguments of a launch of ours, which lie in current_ or next_.
std::byte* writable(const KernelLaunch& launch) noexcept { return const_cast<std::byte*>(launch.arguments); }

void copy_arguments(const KernelLaunch& from, const KernelLaunch& to) noexcept {
  std::memcpy(writable(to), from.arguments, from.argument_bytes);
}

bool depends_on_steps(const PlanArgument& argument) noexcept {
  return !argument.value.is_fixed() || (argument.extent && !argument.extent->is_fixed()) ||
         argument.kind == PlanArgument::Kind::float_param;
}

}  // namespace

PackedArguments::PackedArguments(const Plan& plan, const DeviceProperties& device,
                                 std::span<const FunctionHandle> functions,
                                 std::span<const FunctionInfo> infos, const Source& source)
    : plan_(plan), device_(device), infos_(infos), source_(source) {
  const auto room = [](const PlanNode& node) {
    return (node.argument_bytes + argument_alignment - 1) / argument_alignment * argument_alignment;
  };
  std::size_t bytes = 0;
  for (const PlanNode& node : plan.nodes) bytes += room(node);
  current_.resize(bytes);
  next_.resize(bytes);
  refreshed_in_.resize(plan.nodes.size());
  for (const PlanParam& param : plan.params) safe_.push_back({param.info.smallest, param.info.largest});
  std::size_t begin = 0;
  for (std::uint32_t index = 0; index < plan.nodes.size(); ++index) {
    const PlanNode& plan_node = plan.nodes[index];
    Node node{.current = {.node = index,
                          .launch = {.function = functions[plan_node.kernel],
                                     .shape = {},
                                     .arguments = current_.data() + begin,
                                     .argument_bytes = plan_node.argument_bytes}},
              .first_dynamic = static_cast<std::uint32_t>(dynamic_.size()),
              .end_dynamic = 0};
    if (!plan_node.attributes.are_default()) {
      LaunchAttributes& attributes = attributes_.emplace_back(plan_node.attributes);
      for (const PlanArgument& argument : plan_node.arguments) {
        if (attributes.argument_offsets.size() == argument.parameter)  // its first
          attributes.argument_offsets.push_back(argument.offset);
      }
      node.current.launch.attributes = &attributes;
    }
    Staged staged{.next = node.current};
    staged.next.launch.arguments = next_.data() + begin;
    begin += room(plan_node);
    staged.shape_is_fixed = plan_node.shared.is_fixed();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      staged.shape_is_fixed =
          staged.shape_is_fixed && plan_node.grid[axis].is_fixed() && plan_node.block[axis].is_fixed();
    }
    staged.is_plain = staged.shape_is_fixed;
    for (std::uint32_t i = 0; i < plan_node.arguments.size(); ++i) {
      if (!depends_on_steps(plan_node.arguments[i])) continue;
      dynamic_.push_back(make_dynamic(plan_node.arguments[i], i));
      staged.is_plain = staged.is_plain && dynamic_.back().form != Dynamic::Form::general;
    }
    node.end_dynamic = static_cast<std::uint32_t>(dynamic_.size());
    // Its shape is that of the node which is added to the graph, and checked there.
    node.current.launch.is_checked = staged.is_plain;
    nodes_.push_back(node);
    staged_.push_back(staged);
  }
  if (plan.slots > 0) slots_ = writable(staged_[publish_node].next.launch);
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

Status PackedArguments::stage(std::uint32_t node) noexcept {
  const Node& at = nodes_[node];
  const Staged& staged = staged_[node];
  if (staged.stage_all || !staged.shape_is_fixed) {
    if (const Status status = stage_shape(node); !status.ok()) return status;
  }
  // What a disabled node's arguments would be does not matter, and may be out of range.
  if (!staged.next.enabled) {
    copy_arguments(at.current.launch, staged.next.launch);
    return {};
  }
  const auto arguments = static_cast<std::uint32_t>(plan_.nodes[node].arguments.size());
  for (std::uint32_t i = 0; staged.stage_all && i < arguments; ++i) {
    if (const Status status = stage_argument(node, i); !status.ok()) return status;
  }
  for (std::uint32_t i = at.first_dynamic; !staged.stage_all && i < at.end_dynamic; ++i) {
    if (const Status status = stage_argument(node, dynamic_[i].position); !status.ok()) return status;
  }
  return {};
}

// Narrows the param's safe range to the values for which scale * v + addend is within smallest and largest.
void PackedArguments::make_safe(std::uint32_t param, const Value::Affine& form, std::int64_t smallest,
                                std::int64_t largest) {
  __extension__ typedef __int128 Wide;
  const auto floor = [](Wide a, Wide b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0); };
  const auto ceiling = [&](Wide a, Wide b) { return -floor(-a, b); };
  IntegerRange& safe = safe_[param];
  if (form.scale == 0) {
    if (form.addend < smallest || form.addend > largest) safe = {1, 0};
    return;
  }
  Wide from = Wide{smallest} - form.addend, to = Wide{largest} - form.addend;
  if (form.scale < 0) std::swap(from, to);
  from = std::max<Wide>(ceiling(from, form.scale), safe.smallest);
  to = std::min<Wide>(floor(to, form.scale), safe.largest);
  safe = from > to ? IntegerRange{1, 0}
                   : IntegerRange{static_cast<std::int64_t>(from), static_cast<std::int64_t>(to)};
}

PackedArguments::Dynamic PackedArguments::make_dynamic(const PlanArgument& argument, std::uint32_t position) {
  Dynamic dynamic{.to = static_cast<std::uint32_t>(argument.offset),
                  .param = argument.param,
                  .buffer = argument.buffer,
                  .position = position,
                  .type = argument.type,
                  .bytes = static_cast<std::uint8_t>(info(argument.type).block_bytes)};
  if (argument.kind == PlanArgument::Kind::float_param) {
    // `set` has seen to it that the param's own type holds the value; a fill may have another one.
    if (argument.type == plan_.params[argument.param].info.type) dynamic.form = Dynamic::Form::real;
    return dynamic;
  }
  const std::optional<Value::Affine> form = argument.value.affine(plan_);
  if (!form) return dynamic;
  dynamic.param = form->param;
  dynamic.scale = static_cast<std::uint64_t>(form->scale);
  dynamic.addend = static_cast<std::uint64_t>(form->addend);
  if (argument.kind == PlanArgument::Kind::integer && !info(argument.type).is_float) {
    const IntegerRange range = integer_range(argument.type);
    make_safe(form->param, *form, range.smallest, range.largest);
    dynamic.form = Dynamic::Form::integer;
  } else if (argument.kind == PlanArgument::Kind::buffer) {
    const PlanBuffer& buffer = plan_.buffers[argument.buffer];
    const bool extent_is_fixed = !argument.extent || argument.extent->is_fixed();
    const std::int64_t extent = argument.extent ? argument.extent->fixed : 1;
    if (!extent_is_fixed || extent < 0 || buffer.type().block_elements != 1) return dynamic;
    make_safe(form->param, *form, 0, static_cast<std::int64_t>(buffer.elements) - extent);
    dynamic.scale *= buffer.type().block_bytes;
    dynamic.addend *= buffer.type().block_bytes;
    dynamic.form = Dynamic::Form::pointer;
  }
  return dynamic;
}

bool PackedArguments::put_float(const Dynamic& argument, std::byte* arguments) const noexcept {
  std::uint64_t bits = 0;
  store_float(argument.type, real(argument.param), &bits);
  return replace(arguments + argument.to, bits, argument.bytes);
}

Status PackedArguments::stage_argument(std::uint32_t index, std::uint32_t position) noexcept {
  const PlanArgument& argument = plan_.nodes[index].arguments[position];
  std::byte* const to = writable(staged_[index].next.launch) + argument.offset;
  switch (argument.kind) {
    case PlanArgument::Kind::integer: {
      std::int64_t value = 0;
      if (const auto fault = argument.value.evaluate(source_.values, &value);
          fault != ExpressionFault::none) {
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
      if (!fits_float(argument.type, real(argument.param))) {
        fault_ = {.node = index, .argument = position};
        return {ErrorCode::bad_argument, 0, "", "a float is beyond what its type holds"};
      }
      store_float(argument.type, real(argument.param), to);
      return {};
    case PlanArgument::Kind::slot: {
      const DevicePointer pointer = source_.slots + *plan_.params[argument.param].slot * slot_bytes;
      std::memcpy(to, &pointer, sizeof pointer);
      return {};
    }
    case PlanArgument::Kind::buffer:
      return stage_pointer(index, position);
  }
  return {};
}

Status PackedArguments::stage_pointer(std::uint32_t index, std::uint32_t position) noexcept {
  const PlanArgument& argument = plan_.nodes[index].arguments[position];
  const PlanBuffer& buffer = plan_.buffers[argument.buffer];
  const auto elements = static_cast<std::int64_t>(buffer.elements);
  std::int64_t extent = 1, offset = 0;
  if (argument.extent) {
    if (const auto fault = argument.extent->evaluate(source_.values, &extent);
        fault != ExpressionFault::none) {
      return refuse(fault, index, position);
    }
    if (extent < 0 || extent > elements)
      return refuse("an extent is outside its buffer", index, position, extent, elements);
  }
  if (const auto fault = argument.value.evaluate(source_.values, &offset); fault != ExpressionFault::none) {
    return refuse(fault, index, position);
  }
  if (offset < 0 || offset > elements - extent) {
    return refuse("an offset is outside its buffer", index, position, offset, elements - extent);
  }
  if (offset % static_cast<std::int64_t>(buffer.type().block_elements) != 0) {
    return refuse("an offset is not a whole number of blocks", index, position, offset, elements - extent);
  }
  const DevicePointer pointer =
      source_.buffers[argument.buffer] + buffer.byte_offset(static_cast<std::size_t>(offset));
  std::memcpy(writable(staged_[index].next.launch) + argument.offset, &pointer, sizeof pointer);
  return {};
}

Status PackedArguments::stage_shape(std::uint32_t index) noexcept {
  const PlanNode& plan = plan_.nodes[index];
  NodeUpdate& node = staged_[index].next;
  const FunctionInfo& function = infos_[plan.kernel];
  const std::uint32_t max_grid[3] = {device_.max_grid.x, device_.max_grid.y, device_.max_grid.z};
  const std::uint32_t max_block[3] = {device_.max_block.x, device_.max_block.y, device_.max_block.z};
  std::int64_t grid[3], block[3], shared = 0;
  bool enabled = true;
  for (std::size_t i = 0; i < 3; ++i) {
    if (const auto fault = plan.grid[i].evaluate(source_.values, &grid[i]); fault != ExpressionFault::none) {
      return refuse(fault, index);
    }
    if (const auto fault = plan.block[i].evaluate(source_.values, &block[i]);
        fault != ExpressionFault::none) {
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
  if (const auto fault = plan.shared.evaluate(source_.values, &shared); fault != ExpressionFault::none) {
    return refuse(fault, index);
  }
  const std::int64_t most_shared = static_cast<std::int64_t>(device_.max_shared_bytes) -
                                   static_cast<std::int64_t>(function.static_shared_bytes);
  if (shared < 0 || shared > most_shared) {
    return refuse("more shared memory than the device has beside the kernel's own", index, {}, shared,
                  most_shared);
  }
  const Dim3 cluster = plan.attributes.cluster;
  const std::uint32_t sizes[3] = {cluster.x, cluster.y, cluster.z};
  for (std::size_t i = 0; i < 3 && plan.attributes.has_cluster(); ++i) {
    if (grid[i] % sizes[i] != 0)
      return refuse("a grid dimension is no multiple of the cluster's", index, {}, grid[i], sizes[i]);
  }
  node.enabled = enabled;
  // A disabled node keeps the shape it had: no driver takes an empty grid.
  node.launch.shape = nodes_[index].current.launch.shape;
  if (!enabled) return {};
  const auto dim = [](const std::int64_t(&n)[3]) {
    return Dim3{static_cast<std::uint32_t>(n[0]), static_cast<std::uint32_t>(n[1]),
                static_cast<std::uint32_t>(n[2])};
  };
  node.launch.shape = {
      .grid = dim(grid), .block = dim(block), .shared_bytes = static_cast<std::uint32_t>(shared)};
  return {};
}

bool PackedArguments::arguments_or_shape_changed(std::uint32_t node) const noexcept {
  const KernelLaunch &now = current(node).launch, &next = this->next(node).launch;
  return now.shape != next.shape || std::memcmp(now.arguments, next.arguments, now.argument_bytes) != 0;
}

bool PackedArguments::enabled_changed(std::uint32_t node) const noexcept {
  return current(node).enabled != next(node).enabled;
}

void PackedArguments::accept(std::uint32_t node) noexcept {
  NodeUpdate& now = nodes_[node].current;
  Staged& staged = staged_[node];
  copy_arguments(staged.next.launch, now.launch);
  now.launch.shape = staged.next.launch.shape;
  now.enabled = staged.next.enabled;
  // The arguments of a disabled node have not been staged.
  staged.stage_all = staged.stage_all && !now.enabled;
}

}  // namespace rondo
