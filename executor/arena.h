// Where temporaries lie: one piece of memory for all of them, each in it while it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan.h"
#include "reachability.h"

namespace rondo {

// From the first to the last node that uses it, both included, in the order in which nodes are emitted.
struct Lifetime {
  std::uint32_t first, last;
};

// Where the temporaries lie. Without an arena (each buffer on its own) all offsets are empty.
struct Arena {
  std::size_t bytes = 0;
  std::size_t peak_bytes = 0;  // the largest sum of sizes, each rounded up to 256, that live at the same time
  std::vector<std::optional<std::size_t>> offsets;  // by buffer; multiples of 256
  std::vector<std::optional<Lifetime>> lifetimes;   // by buffer; of temporaries that are used
  Reachability order;                               // of the nodes as it would be without shared memory
};

// Several placements are tried. Of those that are at most 5% or 1 MiB larger than the smallest, the one is
// taken that makes the fewest nodes wait that could run side by side. After match_signatures.
Arena place_temporaries(const Plan& plan);
Arena without_arena(const Plan& plan);

}  // namespace rondo
