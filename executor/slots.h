// Which step params reach kernels through device memory: one small kernel, the root of the graph, writes all
// of their values there.
#pragma once

#include "plan.h"

namespace rondo {

// The node that publishes the slots, where there are any.
inline constexpr std::uint32_t publish_node = 0;

// After match_signatures: every step param that some node reads as a slot gets a place among the slots, and
// the node that publishes them is added in front of all others. Its kernel is a unit of its own, the plan's
// last, which is still to be compiled; false where there are no slots. Throws Error(bad_schedule) for a param
// that the schedule wants in a slot, with every use of it that cannot be one.
bool add_slots(Plan& plan, const Schedule& schedule, const DeviceProperties& device);

}  // namespace rondo
