// Graphs through the HIP runtime.
#pragma once

#include "graph_maker.h"

namespace rondo::conformance {

std::unique_ptr<GraphMaker> make_hip_graph_maker();

}  // namespace rondo::conformance
