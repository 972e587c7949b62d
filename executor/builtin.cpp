#include "builtin.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondo {
namespace {

// The largest word, up to 8 bytes, that one element (or block) is made of.
std::size_t word_bytes(const DataTypeInfo& type) {
  std::size_t bytes = 8;
  while (type.block_bytes % bytes != 0) bytes /= 2;
  return bytes;
}

// Enough blocks to fill the device, few enough that each has something to do.
void set_shape(PlanNode& node, const DeviceProperties& device, const Value& count) {
  const bool is_host = device.warp_size == 1;
  const std::int64_t threads = is_host ? 1 : 256;
  const std::int64_t a_block = is_host ? 16384 : threads * 4;  // elements
  const std::int64_t most = static_cast<std::int64_t>(device.processors) * (is_host ? 1 : 8);
  const std::int64_t wanted = count.is_fixed() ? (count.fixed - 1) / a_block + 1 : most;
  node.grid[0] = Value::of(std::clamp<std::int64_t>(wanted, 1, most));
  node.block[0] = Value::of(threads);
}

PlanArgument integer(Value value, std::size_t offset) {
  PlanArgument argument;
  argument.type = DataType::i64;
  argument.value = std::move(value);
  argument.offset = offset;
  return argument;
}

// Whether 16 bytes at a time can be moved: everything about the copy is known, and whole. Buffers start on
// 256 bytes unless the caller binds memory of its own, which session.cpp asks to be aligned to 16.
bool is_wide(const PlanArgument& from, const PlanArgument& to, const DataTypeInfo& type, const Value& count) {
  const auto whole = [&](const Value& elements) {
    return elements.is_fixed() &&
           static_cast<std::size_t>(elements.fixed) / type.block_elements * type.block_bytes % 16 == 0;
  };
  return whole(from.value) && whole(to.value) && whole(count);
}

}  // namespace

rtc::CompileRequest builtin_unit() {
  rtc::CompileRequest unit;
  unit.file = "builtin.cu";
  unit.source = std::string(builtin_source);
  unit.headers = rtc::collect_headers(unit.file, unit.source);
  return unit;
}

std::string make_copy(PlanNode& node, const DeviceProperties& device, const DataTypeInfo& type,
                      PlanArgument from, PlanArgument to, const Value& count) {
  const bool wide = is_wide(from, to, type, count);
  from.offset = 0;
  from.writes = false;
  to.offset = 8;
  const auto per_block = static_cast<std::int64_t>(type.block_bytes / word_bytes(type));
  Value elements = wide ? Value::of(count.fixed / static_cast<std::int64_t>(type.block_elements) *
                                    static_cast<std::int64_t>(type.block_bytes) / 16)
                        : count;
  set_shape(node, device, elements);
  node.is_builtin = true;
  node.arguments = {std::move(from), std::move(to), integer(std::move(elements), 16),
                    integer(Value::of(wide ? 1 : static_cast<std::int64_t>(type.block_elements)), 24),
                    integer(Value::of(wide ? 1 : per_block), 32)};
  node.argument_bytes = 40;
  return fmt::format("rondo_builtin::copy<{}>", wide ? 16 : word_bytes(type));
}

std::string make_fill(PlanNode& node, const DeviceProperties& device, const DataTypeInfo& type,
                      PlanArgument to, PlanArgument value) {
  to.offset = 0;
  value.offset = 8;
  Value count = *to.extent;
  set_shape(node, device, count);
  node.is_builtin = true;
  const std::size_t count_offset = 8 + std::max<std::size_t>(type.block_bytes, 8);
  node.arguments = {std::move(to), std::move(value), integer(std::move(count), count_offset)};
  node.argument_bytes = count_offset + 8;
  return fmt::format("rondo_builtin::fill<{}>", type.block_bytes);
}

std::string make_publish(PlanNode& node, const Plan& plan) {
  node.is_builtin = true;
  node.block[0] = Value::of(std::min<std::int64_t>(plan.slots, 256));
  node.arguments.resize(plan.slots + 1);
  PlanArgument& target = node.arguments.back();
  for (std::uint32_t i = 0; i < plan.params.size(); ++i) {
    const PlanParam& param = plan.params[i];
    if (!param.slot) continue;
    if (*param.slot == 0) target.param = i;  // the first slot is where all of them begin
    PlanArgument& argument = node.arguments[*param.slot];
    argument.type = param.info.type;
    argument.offset = *param.slot * slot_bytes;
    argument.param = i;
    if (info(param.info.type).is_float) {
      argument.kind = PlanArgument::Kind::float_param;
    } else {
      argument.value.expression = std::make_shared<const Expression>(Expression::parse(param.info.name));
      argument.value.operands = {{true, i}};
    }
  }
  target.kind = PlanArgument::Kind::slot;
  target.offset = plan.slots * slot_bytes;
  node.argument_bytes = target.offset + 8;
  return fmt::format("rondo_builtin::publish<{}>", plan.slots);
}

}  // namespace rondo
