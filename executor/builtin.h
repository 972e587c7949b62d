// Rondo's own kernels: device copies and fills, so that there is one kind of node and one way to update it,
// and the kernel that publishes the slots.
#pragma once

#include <string>
#include <string_view>

#include "plan.h"

namespace rondo {

extern const std::string_view builtin_source;  // executor/builtin.cu
rtc::CompileRequest builtin_unit();            // with no entry and for no architecture yet

// Each fills in a node's shape and arguments, offsets in the packed buffer included, and gives the entry of
// its kernel in builtin_source.

// `count` elements from `from` to `to`.
std::string make_copy(PlanNode& node, const DeviceProperties& device, const DataTypeInfo& type,
                      PlanArgument from, PlanArgument to, const Value& count);

// to.extent elements of a plain type.
std::string make_fill(PlanNode& node, const DeviceProperties& device, const DataTypeInfo& type,
                      PlanArgument to, PlanArgument value);

// All slot values are by-value arguments of this one small kernel: changing any number of them is one
// ordinary node update, and launches already queued keep their own values. Each slot is 8 bytes, of which the
// first hold the param in its own type.
std::string make_publish(PlanNode& node, const Plan& plan);
inline constexpr std::size_t slot_bytes = 8;

}  // namespace rondo
