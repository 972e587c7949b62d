// Who must wait for whom: hazards between nodes, in program order, and where temporaries lie in the arena.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "plan.h"

namespace rondo {

// Where the temporaries lie. Without an arena (each buffer on its own) all offsets are empty.
struct Arena {
  std::size_t bytes = 0;
  std::vector<std::optional<std::size_t>> offsets;  // by buffer; multiples of 256
};

// Places each temporary, for the time between the first and the last node that uses it, in the lowest gap
// that is free then. After match_signatures.
Arena place_temporaries(const Plan& plan);

// Fills in PlanNode::dependencies: read after write, write after read and write after write on the same
// bytes, arena memory included, less what follows from others. Ranges count where an argument's offset and
// extent are fixed; whole buffers otherwise.
void find_dependencies(Plan& plan, const Arena& arena);

// Throws Error(bad_schedule) for a temporary that is read before anything in the same step has written it.
void check_temporaries(const Plan& plan, const Schedule& schedule);

}  // namespace rondo
