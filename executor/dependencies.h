// Who must wait for whom: hazards between nodes, in program order.
#pragma once

#include <cstdint>
#include <vector>

#include "arena.h"
#include "plan.h"
#include "reachability.h"

namespace rondo {

// Two nodes that wait for each other because `later` uses memory that `earlier` has used for another
// temporary, and could run side by side otherwise.
struct ReuseWait {
  std::uint32_t earlier, later;                // nodes
  std::uint32_t earlier_buffer, later_buffer;  // the two temporaries
};

struct FoundDependencies {
  std::vector<ReuseWait> reuse_waits;
  std::size_t redundant = 0;  // pairs of nodes with a hazard whose order follows from others
};

// Who comes before whom where no two buffers share memory. After match_signatures.
Reachability order_of_nodes(const Plan& plan);

// Fills in PlanNode::dependencies: read after write, write after read and write after write on the same
// bytes, arena memory included, less what follows from others. Ranges count where an argument's offset and
// extent are fixed; whole buffers otherwise.
FoundDependencies find_dependencies(Plan& plan, const Arena& arena);

// Throws Error(bad_schedule) for a temporary that is read before anything in the same step has written it.
void check_temporaries(const Plan& plan, const Schedule& schedule);

}  // namespace rondo
