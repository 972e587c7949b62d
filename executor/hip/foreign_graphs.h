// Graphs that others made, through the HIP runtime.
#pragma once

#include <memory>

#include "../foreign_graphs.h"
#include "api.h"

namespace rondo::hip {

// Of one device. `api` outlives what is returned.
std::unique_ptr<ForeignGraphs> make_foreign_graphs(const Api& api, int device);

}  // namespace rondo::hip
