// libamdhip64: graphs of kernel nodes and their executable form.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "modes.h"
#include "node_parameters.h"
#include "objects.h"

namespace rondo::doubles::hip {

struct NodeObject {
  NodeObject(Graph owner, const KernelNodeParameters& given, const FunctionObject& function)
      : graph(owner), parameters(given, function) {}
  const Graph graph;
  NodeParameters parameters;
};

struct GraphObject {
  std::vector<Node> nodes;  // in the order in which they were added
  std::set<std::pair<Node, Node>> edges;
};

// An executable graph has its own copy of every argument (in the host's), and of the structure: nothing of it
// is the source graph's but the nodes' handles.
struct ExecObject : OfDevice {
  struct Clone {
    NativeFunction function;
    KernelNodeParameters parameters;  // of which the dimensions alone are used again
    NodeHandle host;
  };

  ExecObject() : host_graph(host().create_graph()) {}
  ~ExecObject() {
    if (host_exec != nullptr) host().destroy_exec(host_exec);
    host().destroy_graph(host_graph);
  }
  ExecObject(const ExecObject&) = delete;
  ExecObject& operator=(const ExecObject&) = delete;

  const GraphHandle host_graph;
  ExecHandle host_exec = nullptr;
  std::map<Node, Clone> clones;
  std::set<std::shared_ptr<ModuleObject>> modules;  // of all functions that it has, or has had
  std::vector<Leak> leaked;
};

namespace {

Registry<Node, NodeObject>& nodes() {
  static auto& nodes = *new Registry<Node, NodeObject>;
  return nodes;
}

bool are_nodes_of(Graph graph, const Node* handles, std::size_t count) {
  return std::all_of(handles, handles + count, [&](Node handle) {
    const auto node = nodes().find(handle);
    return node != nullptr && node->graph == graph;
  });
}

std::shared_ptr<FunctionObject> function_of(const KernelNodeParameters& parameters) {
  return objects().functions.find(static_cast<NativeFunction>(parameters.function));
}

Result add_kernel_node(Node* node, Graph graph, const Node* dependencies, std::size_t count,
                       const KernelNodeParameters* parameters) {
  const auto found = objects().graphs.find(graph);
  if (node == nullptr || found == nullptr || parameters == nullptr || parameters->function == nullptr) {
    return Result::invalid_value;
  }
  if (count != 0 && (dependencies == nullptr || !are_nodes_of(graph, dependencies, count))) {
    return Result::invalid_value;
  }
  if (std::set<Node>(dependencies, dependencies + count).size() != count) return Result::invalid_value;
  // Of the two kinds of `function` there are, the double knows module functions alone.
  if (is_rocm_5_4()) return Result::invalid_device_function;
  const auto function = function_of(*parameters);
  if (const Result result = check_launch(function.get(), *parameters); result != Result::success)
    return result;
  const Node added = nodes().add(std::make_shared<NodeObject>(graph, *parameters, *function));
  found->nodes.push_back(added);
  for (std::size_t i = 0; i < count; ++i) found->edges.emplace(dependencies[i], added);
  *node = added;
  return Result::success;
}

Result add_dependencies(Graph graph, const Node* from, const Node* to, std::size_t count) {
  const auto found = objects().graphs.find(graph);
  if (found == nullptr) return Result::invalid_value;
  if (count == 0) return Result::success;
  if (from == nullptr || to == nullptr || !are_nodes_of(graph, from, count) ||
      !are_nodes_of(graph, to, count)) {
    return Result::invalid_value;
  }
  auto edges = found->edges;
  for (std::size_t i = 0; i < count; ++i) {
    if (from[i] == to[i] || !edges.emplace(from[i], to[i]).second) return Result::invalid_value;
  }
  found->edges = std::move(edges);
  return Result::success;
}

// With share_arguments, a node has the arguments of the last one of the same function.
std::vector<std::byte> arguments_for(const GraphObject& graph, const NodeObject& node,
                                     const FunctionObject& function) {
  const KernelNodeParameters* source = &node.parameters.get();
  std::shared_ptr<NodeObject> other;
  if (shares_arguments()) {
    for (const Node handle : graph.nodes) {
      auto candidate = nodes().find(handle);
      if (candidate->parameters.get().function != source->function) continue;
      other = std::move(candidate);
      source = &other->parameters.get();
    }
  }
  return pack(function, *source);
}

Result instantiate(Exec* exec, Graph graph, unsigned long long flags) {
  const auto found = objects().graphs.find(graph);
  if (exec == nullptr || found == nullptr || flags != 0) return Result::invalid_value;
  auto made = std::make_shared<ExecObject>();
  for (const Node handle : found->nodes) {
    const auto node = nodes().find(handle);
    const KernelNodeParameters& parameters = node->parameters.get();
    const auto function = function_of(parameters);
    if (const Result result = check_launch(function.get(), parameters); result != Result::success)
      return result;
    const std::vector<std::byte> arguments = arguments_for(*found, *node, *function);
    const NodeHandle added =
        host().add_kernel_node(made->host_graph, host_launch(*function, parameters, arguments));
    made->clones.emplace(
        handle, ExecObject::Clone{static_cast<NativeFunction>(parameters.function), parameters, added});
    made->modules.insert(function->module);
  }
  std::vector<NodeHandle> from, to;
  for (const auto& [before, after] : found->edges) {
    from.push_back(made->clones.at(before).host);
    to.push_back(made->clones.at(after).host);
  }
  host().add_dependencies(made->host_graph, from, to);
  made->host_exec = host().instantiate(made->host_graph);
  *exec = objects().execs.add(std::move(made));
  return Result::success;
}

// The clone of a node that still is in a graph: what reads the node of a destroyed graph is refused, as AMD's
// runtime does where it notices.
ExecObject::Clone* clone_of(ExecObject& exec, Node node) {
  if (nodes().find(node) == nullptr) return nullptr;
  const auto found = exec.clones.find(node);
  return found == exec.clones.end() ? nullptr : &found->second;
}

Result update(ExecObject& exec, ExecObject::Clone& clone, const FunctionObject& function,
              const std::vector<std::byte>& arguments) {
  return to_result(host().update_kernel_node(exec.host_exec, clone.host,
                                             host_launch(function, clone.parameters, arguments)));
}

Result exec_set_parameters(Exec exec, Node node, const KernelNodeParameters* parameters) {
  const auto found = objects().execs.find(exec);
  if (found == nullptr || parameters == nullptr || parameters->function == nullptr) {
    return Result::invalid_value;
  }
  ExecObject::Clone* const clone = clone_of(*found, node);
  if (clone == nullptr) return Result::invalid_value;
  const auto function = function_of(*parameters);
  if (const Result result = check_launch(function.get(), *parameters); result != Result::success)
    return result;
  if (leaks()) found->leaked.emplace_back();
  if (ignores_updates()) return Result::success;
  const std::vector<std::byte> arguments = pack(*function, *parameters);
  found->modules.insert(function->module);
  ExecObject::Clone changed{static_cast<NativeFunction>(parameters->function), *parameters, clone->host};
  if (const Result result = update(*found, changed, *function, arguments); result != Result::success)
    return result;
  *clone = changed;
  if (!shares_arguments()) return Result::success;
  for (auto& [handle, other] : found->clones) {
    if (other.function != clone->function) continue;
    if (const Result result = update(*found, other, *function, arguments); result != Result::success)
      return result;
  }
  return Result::success;
}

Result launch(Exec exec, Stream stream) {
  const auto found = objects().execs.find(exec);
  const auto queue = objects().streams.find(stream);
  if (found == nullptr) return Result::invalid_value;
  if (queue == nullptr || queue->device != found->device) return invalid_handle;
  const bool is_broken = std::any_of(found->modules.begin(), found->modules.end(),
                                     [](const auto& module) { return module->unloaded.load(); });
  if (is_broken) return Result::invalid_device_function;
  return to_result(host().launch_graph(found->host_exec, queue->host));
}

}  // namespace

RONDO_DOUBLE_EXPORT Result hipGraphCreate(Graph* graph, unsigned flags) {
  return call("hipGraphCreate", [&] {
    if (graph == nullptr || flags != 0) return Result::invalid_value;
    *graph = objects().graphs.add(std::make_shared<GraphObject>());
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphDestroy(Graph graph) {
  return call("hipGraphDestroy", [&] {
    const auto taken = objects().graphs.take(graph);
    if (taken == nullptr) return Result::invalid_value;
    for (const Node node : taken->nodes) nodes().take(node);
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphAddKernelNode(Node* node, Graph graph, const Node* dependencies,
                                                 std::size_t count, const KernelNodeParameters* parameters) {
  return call("hipGraphAddKernelNode",
              [&] { return add_kernel_node(node, graph, dependencies, count, parameters); });
}

RONDO_DOUBLE_EXPORT Result hipGraphAddDependencies(Graph graph, const Node* from, const Node* to,
                                                   std::size_t count) {
  return call("hipGraphAddDependencies", [&] { return add_dependencies(graph, from, to, count); });
}

// `handles` null: how many there are. More room than nodes: the rest is null.
RONDO_DOUBLE_EXPORT Result hipGraphGetNodes(Graph graph, Node* handles, std::size_t* count) {
  return call("hipGraphGetNodes", [&] {
    const auto found = objects().graphs.find(graph);
    if (found == nullptr || count == nullptr) return Result::invalid_value;
    if (handles != nullptr) {
      std::fill_n(handles, *count, nullptr);
      std::copy_n(found->nodes.begin(), std::min(*count, found->nodes.size()), handles);
    }
    if (handles == nullptr || *count > found->nodes.size()) *count = found->nodes.size();
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphKernelNodeGetParams(Node node, KernelNodeParameters* parameters) {
  return call("hipGraphKernelNodeGetParams", [&] {
    const auto found = nodes().find(node);
    if (found == nullptr || parameters == nullptr) return Result::invalid_value;
    *parameters = found->parameters.get();
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphKernelNodeSetParams(Node node, const KernelNodeParameters* parameters) {
  return call("hipGraphKernelNodeSetParams", [&] {
    const auto found = nodes().find(node);
    if (found == nullptr || parameters == nullptr || parameters->function == nullptr) {
      return Result::invalid_value;
    }
    const auto function = function_of(*parameters);
    if (const Result result = check_launch(function.get(), *parameters); result != Result::success)
      return result;
    found->parameters.set(*parameters, *function);
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphInstantiateWithFlags(Exec* exec, Graph graph, unsigned long long flags) {
  return call("hipGraphInstantiateWithFlags", [&] { return instantiate(exec, graph, flags); });
}

RONDO_DOUBLE_EXPORT Result hipGraphExecDestroy(Exec exec) {
  return call("hipGraphExecDestroy", [&] {
    return objects().execs.take(exec) == nullptr ? Result::invalid_value : Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphExecKernelNodeSetParams(Exec exec, Node node,
                                                           const KernelNodeParameters* parameters) {
  return call("hipGraphExecKernelNodeSetParams", [&] { return exec_set_parameters(exec, node, parameters); });
}

#ifndef RONDO_DOUBLE_ROCM_5_4
RONDO_DOUBLE_EXPORT Result hipGraphUpload(Exec exec, Stream stream) {
  return call("hipGraphUpload", [&] {
    const auto found = objects().execs.find(exec);
    const auto queue = objects().streams.find(stream);
    if (found == nullptr || queue == nullptr) return Result::invalid_value;
    host().upload(found->host_exec, queue->host);
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphNodeSetEnabled(Exec exec, Node node, unsigned enabled) {
  return call("hipGraphNodeSetEnabled", [&] {
    const auto found = objects().execs.find(exec);
    ExecObject::Clone* const clone = found == nullptr ? nullptr : clone_of(*found, node);
    if (clone == nullptr) return Result::invalid_value;
    return to_result(host().enable_node(found->host_exec, clone->host, enabled != 0));
  });
}
#endif

RONDO_DOUBLE_EXPORT Result hipGraphLaunch(Exec exec, Stream stream) {
  return call("hipGraphLaunch", [&] { return launch(exec, stream); });
}

}  // namespace rondo::doubles::hip
