// How wide a graph is, and the limit to it: launching a graph costs the host time for each branch that runs
// beside others, not for each node.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan.h"

namespace rondo {

struct GraphShape {
  std::size_t depth = 0;   // nodes of the longest chain
  std::size_t widest = 0;  // most nodes at the same distance from the start
};
GraphShape shape_of(const Plan& plan);

// Before edges have kinds: all are full ones afterwards. Lays the nodes out in at most `lanes` chains, where
// the graph is wider than that: a node that nobody had to wait for waits for the last one of a lane. What
// becomes redundant is removed. Narrower graphs, and all of them for `lanes` == 0, stay as they are. How many
// edges were added.
//
// A node goes where it starts earliest, if each took the same time, but not into the lane of a node on which
// more depends than on itself.
std::size_t limit_lanes(Plan& plan, std::uint32_t lanes);

}  // namespace rondo
