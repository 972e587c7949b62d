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

static_assert(std::endian::native == std::endian::little, "an argument is the low bytes of its 64 bits");

// Whether that changed anything.
template <class T>
bool replace(std::byte* at, T value) noexcept {
  T before;
  std::memcpy(&before, at, sizeof value);
  std::memcpy(at, &value, sizeof value);
  return before != value;
}
bool replace(std::byte* at, std::uint64_t bits, std::size_t bytes) noexcept {
  switch (bytes) {
    case 1:
      return replace(at, static_cast<std::uint8_t>(bits));
    case 2:
      return replace(at, static_cast<std::uint16_t>(bits));
    case 4:
      return replace(at, static_cast<std::uint32_t>(bits));
    default:
      return replace(at, bits);
  }
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
  for (const PlanParam& param : plan.params) safe_.push_back({param.info.smallest, param.info.largest});
  std::size_t bytes = 0;
  for (std::uint32_t index = 0; index < plan.nodes.size(); ++index) {
    const PlanNode& plan_node = plan.nodes[index];
    const std::size_t size =
        (plan_node.argument_bytes + argument_alignment - 1) / argument_alignment * argument_alignment;
    if (size > UINT32_MAX - bytes) {
      throw Error(ErrorCode::bad_schedule, "the arguments of all nodes together take more than 4 GiB");
    }
    Node node{.begin = static_cast<std::uint32_t>(bytes),
              .bytes = static_cast<std::uint32_t>(plan_node.argument_bytes),
              .first_dynamic = static_cast<std::uint32_t>(dynamic_.size()),
              .end_dynamic = 0,
              .shape = {}};
    bytes += size;
    Staged staged;
    staged.shape_is_fixed = plan_node.shared.is_fixed();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      staged.shape_is_fixed =
          staged.shape_is_fixed && plan_node.grid[axis].is_fixed() && plan_node.block[axis].is_fixed();
    }
    nodes_.push_back(node);
    staged_.push_back(staged);
    bool is_plain = staged.shape_is_fixed;
    for (std::uint32_t i = 0; i < plan_node.arguments.size(); ++i) {
      if (!depends_on_steps(plan_node.arguments[i])) continue;
      dynamic_.push_back(make_dynamic(index, i));
      is_plain = is_plain && dynamic_.back().form != Dynamic::Form::general;
    }
    nodes_.back().end_dynamic = static_cast<std::uint32_t>(dynamic_.size());
    nodes_.back().is_plain = is_plain;
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
  const Node& at = nodes_[node];
  const Staged& staged = staged_[node];
  if (staged.stage_all || !staged.shape_is_fixed) {
    if (const Status status = stage_shape(node, integers); !status.ok()) return status;
  }
  // What a disabled node's arguments would be does not matter, and may be out of range.
  if (!staged.is_enabled) {
    std::memcpy(next_.data() + at.begin, current_.data() + at.begin, at.bytes);
    return {};
  }
  const auto arguments = static_cast<std::uint32_t>(plan_.nodes[node].arguments.size());
  for (std::uint32_t i = 0; staged.stage_all && i < arguments; ++i) {
    if (const Status status = stage_argument(node, i, params, integers); !status.ok()) return status;
  }
  for (std::uint32_t i = at.first_dynamic; !staged.stage_all && i < at.end_dynamic; ++i) {
    if (const Status status = stage_argument(node, dynamic_[i].position, params, integers); !status.ok())
      return status;
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

PackedArguments::Dynamic PackedArguments::make_dynamic(std::uint32_t node, std::uint32_t position) {
  const PlanArgument& argument = plan_.nodes[node].arguments[position];
  Dynamic dynamic{.to = static_cast<std::uint32_t>(nodes_[node].begin + argument.offset),
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

std::uint64_t PackedArguments::bits(const Dynamic& argument, std::span<const ParamInfo> params,
                                    std::span<const std::int64_t> integers) const noexcept {
  if (argument.form == Dynamic::Form::real) {
    std::uint64_t bits = 0;
    store_float(argument.type, params[argument.param].real, &bits);
    return bits;
  }
  const std::uint64_t value =
      argument.scale * static_cast<std::uint64_t>(integers[argument.param]) + argument.addend;
  return argument.form == Dynamic::Form::pointer ? buffers_[argument.buffer] + value : value;
}

bool PackedArguments::refresh(std::uint32_t node, std::uint64_t step, std::span<const ParamInfo> params,
                              std::span<const std::int64_t> integers) noexcept {
  Node& at = nodes_[node];
  if (at.refreshed_in == step) return false;
  at.refreshed_in = step;
  bool has_changed = false;
  for (std::uint32_t i = at.first_dynamic; i < at.end_dynamic; ++i) {
    const Dynamic& argument = dynamic_[i];
    if (replace(current_.data() + argument.to, bits(argument, params, integers), argument.bytes))
      has_changed = true;
  }
  return has_changed;
}

void PackedArguments::fetch(std::uint32_t node) const noexcept {
  const Node& at = nodes_[node];
  __builtin_prefetch(dynamic_.data() + at.first_dynamic);
  __builtin_prefetch(current_.data() + at.begin, 1);
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
  Staged& node = staged_[index];
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
  node.is_enabled = enabled;
  // A disabled node keeps the shape it had: no driver takes an empty grid.
  node.shape = nodes_[index].shape;
  if (!enabled) return {};
  const auto dim = [](const std::int64_t(&n)[3]) {
    return Dim3{static_cast<std::uint32_t>(n[0]), static_cast<std::uint32_t>(n[1]),
                static_cast<std::uint32_t>(n[2])};
  };
  node.shape = {.grid = dim(grid), .block = dim(block), .shared_bytes = static_cast<std::uint32_t>(shared)};
  return {};
}

NodeUpdate PackedArguments::next(std::uint32_t node) const noexcept {
  const Node& at = nodes_[node];
  return {.node = node,
          .arguments = {next_.data() + at.begin, at.bytes},
          .shape = staged_[node].shape,
          .enabled = staged_[node].is_enabled};
}

bool PackedArguments::arguments_or_shape_changed(std::uint32_t node) const noexcept {
  const Node& at = nodes_[node];
  return at.shape != staged_[node].shape ||
         std::memcmp(current_.data() + at.begin, next_.data() + at.begin, at.bytes) != 0;
}

bool PackedArguments::enabled_changed(std::uint32_t node) const noexcept {
  return nodes_[node].is_enabled != staged_[node].is_enabled;
}

void PackedArguments::accept(std::uint32_t node) noexcept {
  Node& at = nodes_[node];
  Staged& staged = staged_[node];
  std::memcpy(current_.data() + at.begin, next_.data() + at.begin, at.bytes);
  at.shape = staged.shape;
  at.is_enabled = staged.is_enabled;
  // The arguments of a disabled node have not been staged.
  staged.stage_all = staged.stage_all && !at.is_enabled;
}

}  // namespace rondo
