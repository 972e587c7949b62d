// Launches, graphs and their executable form.
#include <algorithm>
#include <optional>

#include "objects.h"

namespace rondo::cuda {
namespace {

// All that a launch is made of, copied and checked as far as CUDA does before it takes it.
Result read_parameters(const KernelNodeParameters& from, NodeParameters& to) {
  // A CUkernel in place of a function is beyond the double, and so is another context.
  if (from.kernel != nullptr || from.context != nullptr) return not_supported;
  to.handle = from.function;
  to.function = objects().functions.find(from.function);
  if (to.function == nullptr) return invalid_handle;
  to.shape = {
      {from.grid_x, from.grid_y, from.grid_z}, {from.block_x, from.block_y, from.block_z}, from.shared_bytes};
  if (from.shared_bytes > static_cast<unsigned>(to.function->max_dynamic_shared))
    return Result::invalid_value;
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

template <class Body>
Result with_graph(const char* name, Graph graph, Body body) noexcept {
  return in_context(name, [&] {
    const auto object = objects().graphs.find(graph);
    return object == nullptr ? Result::invalid_value : body(*object);
  });
}

template <class Body>
Result with_node(const char* name, Node node, Body body) noexcept {
  return in_context(name, [&] {
    const auto object = objects().nodes.find(node);
    return object == nullptr ? Result::invalid_value : body(*object);
  });
}

// cuda.h, cuGraphExecKernelNodeSetParams (CUDA 13.0): the node is that of the graph from which the exec was
// instantiated, and must not have been removed from it.
template <class Body>
Result with_node_of(const char* name, Exec exec, Node node, Body body) noexcept {
  return in_context(name, [&] {
    const auto executable = objects().execs.find(exec);
    const auto object = objects().nodes.find(node);
    if (executable == nullptr || object == nullptr || object->graph != executable->graph ||
        object->index >= executable->nodes.size())
      return Result::invalid_value;
    return body(*executable, object->index);
  });
}

Result add_node(Node* node, GraphObject& graph, std::span<const Node> dependencies,
                const KernelNodeParameters* parameters) {
  NodeParameters copied;
  if (const Result result = read_and_check(parameters, copied); result != Result::success) return result;
  Edges edges;
  for (Node dependency : dependencies) {
    const auto before = objects().nodes.find(dependency);
    if (before == nullptr || before->graph != graph.id) return Result::invalid_value;
    if (!edges.emplace(before->index, graph.nodes.size()).second) return Result::invalid_value;
  }
  graph.nodes.reserve(graph.nodes.size() + 1);
  *node = objects().nodes.add(
      std::make_shared<NodeObject>(NodeObject{graph.id, graph.nodes.size(), std::move(copied)}));
  graph.nodes.push_back(*node);
  graph.edges.merge(edges);
  return Result::success;
}

Result instantiate(Exec* exec, const GraphObject& graph) {
  Driver& host = doubles::host();
  auto object = std::make_shared<ExecObject>();
  object->graph = graph.id;
  object->native_graph = host.create_graph();
  for (Node node : graph.nodes) {
    const NodeParameters& parameters = objects().nodes.find(node)->parameters;
    if (!parameters.function->module->loaded) return invalid_handle;
    object->modules.push_back(parameters.function->module);
    object->nodes.push_back(host.add_kernel_node(object->native_graph, launch_of(parameters)));
  }
  std::vector<NodeHandle> from, to;
  for (const auto& [before, after] : graph.edges) {
    from.push_back(object->nodes[before]);
    to.push_back(object->nodes[after]);
  }
  host.add_dependencies(object->native_graph, from, to);
  object->native = host.instantiate(object->native_graph);
  *exec = objects().execs.add(std::move(object));
  return Result::success;
}

}  // namespace

extern "C" {

Result cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream,
                      void** kernel_parameters, void** extra) {
  return in_context("cuLaunchKernel", [&] {
    const auto on = find_stream(stream);
    if (on == nullptr) return invalid_handle;
    NodeParameters copied;
    const Result result = read_parameters({function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                           shared_bytes, kernel_parameters, extra, nullptr, nullptr},
                                          copied);
    if (result != Result::success) return result;
    return to_result(doubles::host().launch(launch_of(copied), on->native), Result::launch_failed);
  });
}

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
  return in_context("cuGraphDestroy", [&] {
    const auto object = objects().graphs.take(graph);
    if (object == nullptr) return Result::invalid_value;
    for (Node node : object->nodes) objects().nodes.take(node);
    return Result::success;
  });
}

Result cuGraphAddKernelNode_v2(Node* node, Graph graph, const Node* dependencies, std::size_t count,
                               const KernelNodeParameters* parameters) {
  return with_graph("cuGraphAddKernelNode_v2", graph, [&](GraphObject& object) {
    if (node == nullptr || (count != 0 && dependencies == nullptr)) return Result::invalid_value;
    return add_node(node, object, {dependencies, count}, parameters);
  });
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

Result cuGraphKernelNodeGetParams_v2(Node node, KernelNodeParameters* parameters) {
  return with_node("cuGraphKernelNodeGetParams_v2", node, [&](NodeObject& object) {
    if (parameters == nullptr) return Result::invalid_value;
    NodeParameters& own = object.parameters;
    const NodeArguments::View view = own.arguments.view(own.function->parameters);
    const LaunchShape& shape = own.shape;
    *parameters = {own.handle,    shape.grid.x,  shape.grid.y,       shape.grid.z,           shape.block.x,
                   shape.block.y, shape.block.z, shape.shared_bytes, view.kernel_parameters, view.extra,
                   nullptr,       nullptr};
    return Result::success;
  });
}

Result cuGraphKernelNodeSetParams_v2(Node node, const KernelNodeParameters* parameters) {
  return with_node("cuGraphKernelNodeSetParams_v2", node, [&](NodeObject& object) {
    NodeParameters copied;
    if (const Result result = read_and_check(parameters, copied); result != Result::success) return result;
    object.parameters = std::move(copied);
    return Result::success;
  });
}

Result cuGraphInstantiateWithFlags(Exec* exec, Graph graph, unsigned long long flags) {
  return with_graph("cuGraphInstantiateWithFlags", graph, [&](const GraphObject& object) {
    if (exec == nullptr) return Result::invalid_value;
    return flags == 0 ? instantiate(exec, object) : not_supported;
  });
}

Result cuGraphExecDestroy(Exec exec) {
  return in_context("cuGraphExecDestroy", [&] {
    return objects().execs.take(exec) != nullptr ? Result::success : Result::invalid_value;
  });
}

Result cuGraphUpload(Exec exec, Stream stream) {
  return in_context("cuGraphUpload", [&] {
    if (find_stream(stream) == nullptr) return invalid_handle;
    return objects().execs.find(exec) != nullptr ? Result::success : Result::invalid_value;
  });
}

Result cuGraphExecKernelNodeSetParams_v2(Exec exec, Node node, const KernelNodeParameters* parameters) {
  return with_node_of(
      "cuGraphExecKernelNodeSetParams_v2", exec, node, [&](ExecObject& object, std::size_t index) {
        if (parameters == nullptr) return Result::invalid_value;
        NodeParameters copied;
        const Result result = read_parameters(*parameters, copied);
        if (result != Result::success) return result;
        const Status status =
            doubles::host().update_kernel_node(object.native, object.nodes[index], launch_of(copied));
        if (status.ok()) object.modules[index] = copied.function->module;
        return to_result(status, out_of_memory);
      });
}

Result cuGraphNodeSetEnabled(Exec exec, Node node, unsigned enabled) {
  return with_node_of("cuGraphNodeSetEnabled", exec, node, [&](ExecObject& object, std::size_t index) {
    return to_result(doubles::host().enable_node(object.native, object.nodes[index], enabled != 0),
                     out_of_memory);
  });
}

Result cuGraphLaunch(Exec exec, Stream stream) {
  return in_context("cuGraphLaunch", [&] {
    const auto on = find_stream(stream);
    const auto object = objects().execs.find(exec);
    if (on == nullptr) return invalid_handle;
    if (object == nullptr) return Result::invalid_value;
    // A real driver would run code that is gone.
    const bool loaded = std::all_of(object->modules.begin(), object->modules.end(),
                                    [](const auto& module) { return module->loaded.load(); });
    if (!loaded) return invalid_handle;
    return to_result(doubles::host().launch_graph(object->native, on->native), Result::launch_failed);
  });
}
}

}  // namespace rondo::cuda
