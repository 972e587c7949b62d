// Graphs that others made, through the CUDA driver.
#pragma once

#include <memory>

#include "../foreign_graphs.h"
#include "api.h"

namespace rondo::cuda {

// Of the device whose primary context this is. Both outlive what is returned.
std::unique_ptr<ForeignGraphs> make_foreign_graphs(const Api& api, Context context);

}  // namespace rondo::cuda
