// What the calls about graphs have in common.
#pragma once

#include "node_kernels.h"
#include "objects.h"

namespace rondo::cuda {

// All that a launch is made of, copied and checked as far as CUDA does before it takes it. A node keeps its
// attributes when its parameters change.
Result read_parameters(const KernelNodeParameters& from, NodeParameters& to, bool is_cooperative = false);

KernelLaunch launch_of(const NodeParameters& parameters);

// What a copy or a fill is to the host; invalid_value where it is none: memory that is no allocation's,
// nothing to do, a kind of memory that the double has not.
Result read_copy(const Memcpy3D& copy, doubles::CopyArguments& arguments);
Result read_fill(const MemsetNodeParameters& set, doubles::FillArguments& arguments);

template <class Body>
Result with_graph(const char* name, Graph graph, Body body) noexcept {
  return in_context(name, [&] {
    const auto object = objects().graphs.find(graph);
    return object == nullptr ? Result::invalid_value : body(*object);
  });
}

// Of any type, or of one.
template <class Body>
Result with_node(const char* name, Node node, Body body) noexcept {
  return in_context(name, [&] {
    const auto object = objects().nodes.find(node);
    return object == nullptr ? Result::invalid_value : body(*object);
  });
}
template <class Body>
Result with_node(const char* name, Node node, NodeType type, Body body) noexcept {
  return with_node(name, node, [&](NodeObject& object) {
    return object.type != type ? Result::invalid_value : body(object);
  });
}

}  // namespace rondo::cuda
