// Graphs: their nodes and edges, added and read.
#include <algorithm>
#include <optional>

#include "graph_access.h"
#include "thread_state.h"

namespace rondo::cuda {
namespace {

// The host device checks grid, block and size when a node is added; a graph that is thrown away asks it.
Result check_launch(const NodeParameters& parameters) {
  Driver& host = doubles::host();
  const GraphHandle graph = host.create_graph();
  Result result = Result::success;
  try {
    host.add_kernel_node(graph, launch_of(parameters));
  } catch (const Error& error) {
    result = error.code() == ErrorCode::bad_argument ? Result::invalid_value : out_of_memory;
  }
  host.destroy_graph(graph);
  return result;
}

Result read_and_check(const KernelNodeParameters* from, NodeParameters& to) {
  if (from == nullptr) return Result::invalid_value;
  if (const Result result = read_parameters(*from, to); result != Result::success) return result;
  return check_launch(to);
}

using Edges = std::set<std::pair<std::size_t, std::size_t>>;

// False: a node of another graph, one that would wait for itself, or a dependency that is there already.
bool add_edge(const GraphObject& graph, Node from, Node to, Edges& edges) {
  const auto before = objects().nodes.find(from), after = objects().nodes.find(to);
  if (before == nullptr || after == nullptr || before->graph != graph.id || after->graph != graph.id ||
      before == after)
    return false;
  return edges.emplace(before->index, after->index).second;
}

// Checks the dependencies of a node that is to be the graph's next one.
Result read_dependencies(const GraphObject& graph, const Node* dependencies, std::size_t count,
                         Edges& edges) {
  if (count != 0 && dependencies == nullptr) return Result::invalid_value;
  for (std::size_t i = 0; i < count; ++i) {
    const auto before = objects().nodes.find(dependencies[i]);
    if (before == nullptr || before->graph != graph.id) return Result::invalid_value;
    if (!edges.emplace(before->index, graph.nodes.size()).second) return Result::invalid_value;
  }
  return Result::success;
}

void append(Node* node, GraphObject& graph, NodeObject&& object) {
  object.graph = graph.id;
  object.index = graph.nodes.size();
  graph.nodes.reserve(graph.nodes.size() + 1);
  *node = objects().nodes.add(std::make_shared<NodeObject>(std::move(object)));
  graph.nodes.push_back(*node);
}

// The call that adds a node: `fill(object)` says what it is, or why not.
template <class Fill>
Result add_node(const char* name, Node* node, Graph graph, const Node* dependencies, std::size_t count,
                NodeType type, Fill fill) noexcept {
  return with_graph(name, graph, [&](GraphObject& owner) {
    if (node == nullptr) return Result::invalid_value;
    NodeObject object{owner.id, 0, type, {}, false, {0, 0, 0}, {}, {}, nullptr};
    Edges edges;
    if (const Result result = read_dependencies(owner, dependencies, count, edges); result != Result::success)
      return result;
    if (const Result result = fill(object); result != Result::success) return result;
    append(node, owner, std::move(object));
    owner.edges.merge(edges);
    return Result::success;
  });
}

void destroy(const GraphObject& graph) {
  for (Node node : graph.nodes) {
    const auto object = objects().nodes.take(node);
    if (object->child == nullptr) continue;
    if (const auto child = objects().graphs.take(object->child)) destroy(*child);
  }
}

Graph clone(const GraphObject& graph) {
  auto made = std::make_shared<GraphObject>();
  made->id = doubles::new_handle();
  made->is_of_a_node = true;
  made->edges = graph.edges;
  for (Node node : graph.nodes) {
    const auto from = objects().nodes.find(node);
    const NodeParameters& own = from->parameters;
    NodeObject to{
        made->id,
        0,
        from->type,
        NodeParameters{own.handle, own.kernel, own.context, own.function, own.shape, own.arguments.clone()},
        from->is_cooperative,
        from->cluster,
        from->copy,
        from->set,
        nullptr};
    if (from->child != nullptr) to.child = clone(*objects().graphs.find(from->child));
    Node added = nullptr;
    append(&added, *made, std::move(to));
  }
  return objects().graphs.add(std::move(made));
}

// One end of a copy: its first byte's address, 0 for what is refused, and what lies between rows and slices.
std::uintptr_t read_end(MemoryType type, const void* host, DeviceAddress device, std::size_t x, std::size_t y,
                        std::size_t z, std::size_t pitch, std::size_t height, const Memcpy3D& copy) {
  const std::size_t offset = x + (y + z * height) * pitch;
  if (type == MemoryType::host) return host == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(host) + offset;
  if (type != MemoryType::device) return 0;
  const std::size_t bytes = ((copy.depth - 1) * height + copy.height - 1) * pitch + copy.width_bytes;
  return is_device_memory(device + offset, bytes) ? device + offset : 0;
}

Result check_context_given(Context context) {
  return context != nullptr && context == thread_state().contexts.back() ? Result::success
                                                                         : Result::invalid_value;
}

}  // namespace

Result read_parameters(const KernelNodeParameters& from, NodeParameters& to, bool is_cooperative) {
  if ((from.function == nullptr) == (from.kernel == nullptr)) return Result::invalid_value;
  to.handle = from.function;
  if (from.kernel != nullptr) {
    const auto kernel = objects().kernels.find(from.kernel);
    if (kernel == nullptr) return invalid_handle;
    to.kernel = from.kernel;
    to.context = from.context;
    if (to.context == nullptr) {
      if (const Result result = check_context(); result != Result::success) return result;
      to.context = thread_state().contexts.back();
    }
  }
  to.function = objects().functions.find(
      from.kernel != nullptr ? objects().kernels.find(from.kernel)->function : from.function);
  if (to.function == nullptr) return invalid_handle;
  to.shape = {
      {from.grid_x, from.grid_y, from.grid_z}, {from.block_x, from.block_y, from.block_z}, from.shared_bytes};
  if (from.shared_bytes > static_cast<unsigned>(to.function->max_dynamic_shared))
    return Result::invalid_value;
  // Seen on an H200 (CUDA 13.0): a cooperative kernel does not take its arguments packed.
  if (is_cooperative && from.extra != nullptr) return Result::invalid_value;
  auto arguments = NodeArguments::copy(to.function->parameters, from.kernel_parameters, from.extra);
  if (!arguments) return Result::invalid_value;
  to.arguments = std::move(*arguments);
  // The host device takes no more; no schedule has a kernel with as many.
  if (to.arguments.packed().size() > doubles::host().properties().max_argument_bytes) return not_supported;
  return Result::success;
}

KernelLaunch launch_of(const NodeParameters& parameters) {
  const auto packed = parameters.arguments.packed();
  return {parameters.function->native, parameters.shape, packed.data(), packed.size()};
}

Result read_copy(const Memcpy3D& copy, doubles::CopyArguments& arguments) {
  if (copy.width_bytes == 0 || copy.height == 0 || copy.depth == 0) return Result::invalid_value;
  const auto from = read_end(copy.from_type, copy.from_host, copy.from_device, copy.from_x_bytes, copy.from_y,
                             copy.from_z, copy.from_pitch, copy.from_height, copy);
  const auto to = read_end(copy.to_type, copy.to_host, copy.to_device, copy.to_x_bytes, copy.to_y, copy.to_z,
                           copy.to_pitch, copy.to_height, copy);
  if (from == 0 || to == 0) return Result::invalid_value;
  arguments = {reinterpret_cast<std::byte*>(to),
               reinterpret_cast<const std::byte*>(from),
               copy.width_bytes,
               copy.height,
               copy.depth,
               copy.to_pitch,
               copy.from_pitch,
               copy.to_pitch * copy.to_height,
               copy.from_pitch * copy.from_height};
  return Result::success;
}

Result read_fill(const MemsetNodeParameters& set, doubles::FillArguments& arguments) {
  const std::size_t row = set.width * set.element_bytes;
  if (set.width == 0 || set.height == 0 ||
      (set.element_bytes != 1 && set.element_bytes != 2 && set.element_bytes != 4) ||
      (set.height > 1 && set.pitch < row) || !is_device_memory(set.to, (set.height - 1) * set.pitch + row))
    return Result::invalid_value;
  arguments = {
      reinterpret_cast<std::byte*>(set.to), set.pitch, set.width, set.height, set.value, set.element_bytes};
  return Result::success;
}

extern "C" {

Result cuGraphCreate(Graph* graph, unsigned flags) {
  return in_context("cuGraphCreate", [&] {
    if (graph == nullptr || flags != 0) return Result::invalid_value;
    auto object = std::make_shared<GraphObject>();
    object->id = doubles::new_handle();
    *graph = objects().graphs.add(std::move(object));
    return Result::success;
  });
}

Result cuGraphDestroy(Graph graph) {
  return with_graph("cuGraphDestroy", graph, [&](const GraphObject& object) {
    if (object.is_of_a_node) return Result::invalid_value;
    const auto taken = objects().graphs.take(graph);
    destroy(*taken);
    return Result::success;
  });
}

Result cuGraphAddKernelNode_v2(Node* node, Graph graph, const Node* dependencies, std::size_t count,
                               const KernelNodeParameters* parameters) {
  return add_node("cuGraphAddKernelNode_v2", node, graph, dependencies, count, NodeType::kernel,
                  [&](NodeObject& object) { return read_and_check(parameters, object.parameters); });
}

Result cuGraphAddMemcpyNode(Node* node, Graph graph, const Node* dependencies, std::size_t count,
                            const Memcpy3D* parameters, Context context) {
  return add_node("cuGraphAddMemcpyNode", node, graph, dependencies, count, NodeType::memcpy,
                  [&](NodeObject& object) {
                    if (parameters == nullptr) return Result::invalid_value;
                    if (const Result result = check_context_given(context); result != Result::success)
                      return result;
                    object.copy = *parameters;
                    doubles::CopyArguments arguments;
                    return read_copy(object.copy, arguments);
                  });
}

Result cuGraphAddMemsetNode(Node* node, Graph graph, const Node* dependencies, std::size_t count,
                            const MemsetNodeParameters* parameters, Context context) {
  return add_node("cuGraphAddMemsetNode", node, graph, dependencies, count, NodeType::memset,
                  [&](NodeObject& object) {
                    if (parameters == nullptr) return Result::invalid_value;
                    if (const Result result = check_context_given(context); result != Result::success)
                      return result;
                    object.set = *parameters;
                    doubles::FillArguments arguments;
                    return read_fill(object.set, arguments);
                  });
}

// The node has a copy of the child graph, with nodes of its own.
Result cuGraphAddChildGraphNode(Node* node, Graph graph, const Node* dependencies, std::size_t count,
                                Graph child) {
  return add_node("cuGraphAddChildGraphNode", node, graph, dependencies, count, NodeType::child_graph,
                  [&](NodeObject& object) {
                    const auto found = objects().graphs.find(child);
                    if (found == nullptr || child == graph) return Result::invalid_value;
                    object.child = clone(*found);
                    return Result::success;
                  });
}

Result cuGraphAddEmptyNode(Node* node, Graph graph, const Node* dependencies, std::size_t count) {
  return add_node("cuGraphAddEmptyNode", node, graph, dependencies, count, NodeType::empty,
                  [](NodeObject&) { return Result::success; });
}

Result cuGraphAddDependencies(Graph graph, const Node* from, const Node* to, std::size_t count) {
  return with_graph("cuGraphAddDependencies", graph, [&](GraphObject& object) {
    if (count != 0 && (from == nullptr || to == nullptr)) return Result::invalid_value;
    Edges edges = object.edges;
    for (std::size_t i = 0; i < count; ++i) {
      if (!add_edge(object, from[i], to[i], edges)) return Result::invalid_value;
    }
    object.edges = std::move(edges);
    return Result::success;
  });
}

// cuda.h, CUgraphEdgeData (CUDA 13.0): zeros are an ordinary edge; a programmatic one leaves a kernel node by
// one of two ports and ends at a kernel node. Null data: all of them ordinary.
Result cuGraphAddDependencies_v2(Graph graph, const Node* from, const Node* to, const EdgeData* data,
                                 std::size_t count) {
  return with_graph("cuGraphAddDependencies_v2", graph, [&](GraphObject& object) {
    if (count != 0 && (from == nullptr || to == nullptr)) return Result::invalid_value;
    Edges edges = object.edges;
    auto programmatic = object.programmatic_edges;
    for (std::size_t i = 0; i < count; ++i) {
      if (!add_edge(object, from[i], to[i], edges)) return Result::invalid_value;
      if (data == nullptr || (data[i].type == 0 && data[i].from_port == 0 && data[i].to_port == 0)) continue;
      const auto before = objects().nodes.find(from[i]), after = objects().nodes.find(to[i]);
      const bool is_programmatic = data[i].type == 1 && (data[i].from_port == 1 || data[i].from_port == 2);
      if (!is_programmatic || data[i].to_port != 0 || before->type != NodeType::kernel ||
          after->type != NodeType::kernel)
        return Result::invalid_value;
      programmatic.emplace(before->index, after->index);
    }
    object.edges = std::move(edges);
    object.programmatic_edges = std::move(programmatic);
    return Result::success;
  });
}

Result cuGraphGetNodes(Graph graph, Node* nodes, std::size_t* count) {
  return with_graph("cuGraphGetNodes", graph, [&](const GraphObject& object) {
    if (count == nullptr) return Result::invalid_value;
    if (nodes != nullptr) {
      // cuda.h: entries beyond the graph's are set to null, and the number of nodes is returned.
      for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < object.nodes.size() ? object.nodes[i] : nullptr;
      *count = std::min(*count, object.nodes.size());
    } else {
      *count = object.nodes.size();
    }
    return Result::success;
  });
}

Result cuGraphGetEdges_v2(Graph graph, Node* from, Node* to, EdgeData* data, std::size_t* count) {
  return with_graph("cuGraphGetEdges_v2", graph, [&](const GraphObject& object) {
    if (count == nullptr || (from == nullptr) != (to == nullptr) || (data != nullptr && from == nullptr))
      return Result::invalid_value;
    if (from != nullptr) {
      std::fill_n(from, *count, nullptr);
      std::fill_n(to, *count, nullptr);
      std::size_t i = 0;
      for (auto edge = object.edges.begin(); edge != object.edges.end() && i < *count; ++edge, ++i) {
        from[i] = object.nodes[edge->first];
        to[i] = object.nodes[edge->second];
        if (data != nullptr)
          data[i] = object.programmatic_edges.count(*edge) != 0 ? programmatic_edge : full_edge;
      }
      *count = i;
    } else {
      *count = object.edges.size();
    }
    return Result::success;
  });
}

Result cuGraphNodeGetType(Node node, NodeType* type) {
  return with_node("cuGraphNodeGetType", node, [&](const NodeObject& object) {
    if (type == nullptr) return Result::invalid_value;
    *type = object.type;
    return Result::success;
  });
}

// cuda.h: the call does not clone the graph, and the node keeps it.
Result cuGraphChildGraphNodeGetGraph(Node node, Graph* graph) {
  return with_node("cuGraphChildGraphNodeGetGraph", node, NodeType::child_graph,
                   [&](const NodeObject& object) {
                     if (graph == nullptr) return Result::invalid_value;
                     *graph = object.child;
                     return Result::success;
                   });
}

Result cuGraphKernelNodeGetParams_v2(Node node, KernelNodeParameters* parameters) {
  return with_node("cuGraphKernelNodeGetParams_v2", node, NodeType::kernel, [&](NodeObject& object) {
    if (parameters == nullptr) return Result::invalid_value;
    NodeParameters& own = object.parameters;
    const NodeArguments::View view = own.arguments.view(own.function->parameters);
    const LaunchShape& shape = own.shape;
    *parameters = {own.handle,    shape.grid.x,  shape.grid.y,       shape.grid.z,           shape.block.x,
                   shape.block.y, shape.block.z, shape.shared_bytes, view.kernel_parameters, view.extra,
                   own.kernel,    own.context};
    return Result::success;
  });
}

Result cuGraphKernelNodeSetParams_v2(Node node, const KernelNodeParameters* parameters) {
  return with_node("cuGraphKernelNodeSetParams_v2", node, NodeType::kernel, [&](NodeObject& object) {
    NodeParameters copied;
    if (const Result result = read_and_check(parameters, copied); result != Result::success) return result;
    object.parameters = std::move(copied);
    return Result::success;
  });
}

Result cuGraphKernelNodeGetAttribute(Node node, LaunchAttribute attribute, LaunchAttributeValue* value) {
  return with_node("cuGraphKernelNodeGetAttribute", node, NodeType::kernel, [&](const NodeObject& object) {
    if (value == nullptr) return Result::invalid_value;
    switch (attribute) {
      case LaunchAttribute::cooperative:
        value->cooperative = object.is_cooperative ? 1 : 0;
        return Result::success;
      case LaunchAttribute::cluster_dimension:
        value->cluster = {object.cluster.x, object.cluster.y, object.cluster.z};
        return Result::success;
      case LaunchAttribute::priority:
        value->priority = object.priority;
        return Result::success;
    }
    return Result::invalid_value;
  });
}

Result cuGraphKernelNodeSetAttribute(Node node, LaunchAttribute attribute,
                                     const LaunchAttributeValue* value) {
  return with_node("cuGraphKernelNodeSetAttribute", node, NodeType::kernel, [&](NodeObject& object) {
    if (value == nullptr) return Result::invalid_value;
    switch (attribute) {
      case LaunchAttribute::cooperative:
        object.is_cooperative = value->cooperative != 0;
        return Result::success;
      case LaunchAttribute::cluster_dimension:
        object.cluster = {value->cluster.x, value->cluster.y, value->cluster.z};
        return Result::success;
      case LaunchAttribute::priority:
        object.priority = value->priority;
        return Result::success;
    }
    return Result::invalid_value;
  });
}

Result cuGraphMemcpyNodeGetParams(Node node, Memcpy3D* parameters) {
  return with_node("cuGraphMemcpyNodeGetParams", node, NodeType::memcpy, [&](const NodeObject& object) {
    if (parameters == nullptr) return Result::invalid_value;
    *parameters = object.copy;
    return Result::success;
  });
}

Result cuGraphMemsetNodeGetParams(Node node, MemsetNodeParameters* parameters) {
  return with_node("cuGraphMemsetNodeGetParams", node, NodeType::memset, [&](const NodeObject& object) {
    if (parameters == nullptr) return Result::invalid_value;
    *parameters = object.set;
    return Result::success;
  });
}
}

}  // namespace rondo::cuda
