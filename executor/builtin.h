// Rondo's own kernels: device copies and fills, so that there is one kind of node and one way to update it,
// and the kernel that publishes the slots.
#pragma once

#include <string>
#include <string_view>

#include "plan.h"

namespace rondo {

extern const std::string_view builtin_source;  // executor/builtin.cu

// Fill in a node's shape and arguments, offsets in the packed buffer included; its kernel is named by the
// …_entry function. `count` elements from `from` to `to`.
void make_copy(PlanNode& node, const DeviceProperties& device, const DataTypeInfo& type, PlanArgument from,
               PlanArgument to, const Value& count);
std::string copy_entry(const PlanNode& node, const DataTypeInfo& type);

// to.extent elements of a plain type.
void make_fill(PlanNode& node, const DeviceProperties& device, const DataTypeInfo& type, PlanArgument to,
               PlanArgument value);
std::string fill_entry(const DataTypeInfo& type);

// All slot values are by-value arguments of this one small kernel: changing any number of them is one
// ordinary node update, and launches already queued keep their own values. Each slot is 8 bytes, of which the
// first hold the param in its own type.
void make_publish(PlanNode& node, const Plan& plan);
std::string publish_entry(std::uint32_t slots);
inline constexpr std::size_t slot_bytes = 8;

}  // namespace rondo
