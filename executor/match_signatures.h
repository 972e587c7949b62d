// Compiled kernels' signatures against what the schedule passes: types, sizes, places in the packed buffer,
// who reads and writes.
#pragma once

#include <span>

#include "plan.h"

namespace rondo {

// Completes every node's arguments. `binaries` in the order of plan.units. Throws Error(bad_schedule) with
// every disagreement: op, kernel, the argument's position, what was expected and what was given.
void match_signatures(Plan& plan, const Schedule& schedule, std::span<const rtc::Binary> binaries,
                      std::size_t max_argument_bytes);

}  // namespace rondo
