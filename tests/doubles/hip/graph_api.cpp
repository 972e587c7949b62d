// libamdhip64: graphs and their executable form.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "modes.h"
#include "node_kernels.h"
#include "node_parameters.h"
#include "objects.h"

namespace rondo::doubles::hip {

// hipGraphNodeType, as ROCm 6 numbers them; ROCm 5.4 and older begin with 1.
enum class NodeType : unsigned { kernel = 0, memcpy = 1, memset = 2, child_graph = 4, empty = 5 };

struct NodeObject {
  const Graph graph;
  const NodeType type;
  std::unique_ptr<NodeParameters> parameters;  // kernel
  Memcpy3D copy{};                             // memcpy
  MemsetNodeParameters set{};                  // memset
  Graph child = nullptr;                       // child_graph: the node's own
};

struct GraphObject {
  std::vector<Node> nodes;  // in the order in which they were added
  std::set<std::pair<Node, Node>> edges;
  bool is_of_a_node = false;  // a child graph: its node destroys it
};

// An executable graph has its own copy of every argument (in the host's), and of the structure: nothing of it
// is the source graph's but the nodes' handles.
struct ExecObject : OfDevice {
  struct Clone {
    NativeFunction function;          // kernel
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

// The call that adds a node: `fill(object)` says what it is, or why not.
template <class Fill>
Result add_node(Node* node, Graph graph, const Node* dependencies, std::size_t count, NodeType type,
                Fill fill) {
  const auto found = objects().graphs.find(graph);
  if (node == nullptr || found == nullptr) return Result::invalid_value;
  if (count != 0 && (dependencies == nullptr || !are_nodes_of(graph, dependencies, count))) {
    return Result::invalid_value;
  }
  if (std::set<Node>(dependencies, dependencies + count).size() != count) return Result::invalid_value;
  auto object = std::make_shared<NodeObject>(NodeObject{graph, type, nullptr, {}, {}, nullptr});
  if (const Result result = fill(*object); result != Result::success) return result;
  const Node added = nodes().add(std::move(object));
  found->nodes.push_back(added);
  for (std::size_t i = 0; i < count; ++i) found->edges.emplace(dependencies[i], added);
  *node = added;
  return Result::success;
}

Result fill_kernel(NodeObject& object, const KernelNodeParameters* parameters) {
  if (parameters == nullptr || parameters->function == nullptr) return Result::invalid_value;
  // Of the two kinds of `function` there are, the double knows module functions alone.
  if (is_rocm_5_4()) return Result::invalid_device_function;
  const auto function = function_of(*parameters);
  if (const Result result = check_launch(function.get(), *parameters); result != Result::success)
    return result;
  object.parameters = std::make_unique<NodeParameters>(*parameters, *function);
  return Result::success;
}

// A node of a type, or null.
std::shared_ptr<NodeObject> find_node(Node node, NodeType type) {
  auto found = nodes().find(node);
  return found != nullptr && found->type == type ? found : nullptr;
}

void destroy_nodes(const GraphObject& graph) {
  for (const Node node : graph.nodes) {
    const auto taken = nodes().take(node);
    if (taken->child == nullptr) continue;
    if (const auto child = objects().graphs.take(taken->child)) destroy_nodes(*child);
  }
}

// The graph of a child graph node: with nodes of its own.
Graph clone(const GraphObject& graph) {
  auto made = std::make_shared<GraphObject>();
  made->is_of_a_node = true;
  const Graph handle = objects().graphs.add(made);
  std::map<Node, Node> clones;
  for (const Node node : graph.nodes) {
    const auto from = nodes().find(node);
    auto to =
        std::make_shared<NodeObject>(NodeObject{handle, from->type, nullptr, from->copy, from->set, nullptr});
    if (from->parameters != nullptr) {
      const KernelNodeParameters& own = from->parameters->get();
      to->parameters = std::make_unique<NodeParameters>(own, *function_of(own));
    }
    if (from->child != nullptr) to->child = clone(*objects().graphs.find(from->child));
    clones[node] = nodes().add(std::move(to));
    made->nodes.push_back(clones[node]);
  }
  for (const auto& [before, after] : graph.edges) made->edges.emplace(clones.at(before), clones.at(after));
  return handle;
}

bool is_on_device(CopyKind kind, CopyKind one_sided) {
  return kind == one_sided || kind == CopyKind::device_to_device;
}

// One end of a copy: its first byte, null for what is refused.
std::byte* read_end(bool is_device, const PitchedPointer& pointer, const Position& position,
                    const Memcpy3D& copy) {
  if (pointer.pointer == nullptr) return nullptr;
  auto* const first = static_cast<std::byte*>(pointer.pointer) + position.x +
                      (position.y + position.z * pointer.y_rows) * pointer.pitch;
  const std::size_t bytes =
      ((copy.depth - 1) * pointer.y_rows + copy.height - 1) * pointer.pitch + copy.width;
  return is_device && !is_device_memory(first, bytes) ? nullptr : first;
}

Result read_copy(const Memcpy3D& copy, CopyArguments& arguments) {
  if (copy.from_array != nullptr || copy.to_array != nullptr || copy.width == 0 || copy.height == 0 ||
      copy.depth == 0 || copy.kind > CopyKind::device_to_device)
    return Result::invalid_value;
  std::byte* const from =
      read_end(is_on_device(copy.kind, CopyKind::device_to_host), copy.from, copy.from_position, copy);
  std::byte* const to =
      read_end(is_on_device(copy.kind, CopyKind::host_to_device), copy.to, copy.to_position, copy);
  if (from == nullptr || to == nullptr) return Result::invalid_value;
  arguments = {to,
               from,
               copy.width,
               copy.height,
               copy.depth,
               copy.to.pitch,
               copy.from.pitch,
               copy.to.pitch * copy.to.y_rows,
               copy.from.pitch * copy.from.y_rows};
  return Result::success;
}

Result read_fill(const MemsetNodeParameters& set, FillArguments& arguments) {
  const std::size_t row = set.width * set.element_bytes;
  if (set.width == 0 || set.height == 0 ||
      (set.element_bytes != 1 && set.element_bytes != 2 && set.element_bytes != 4) ||
      (set.height > 1 && set.pitch < row) || !is_device_memory(set.to, (set.height - 1) * set.pitch + row))
    return Result::invalid_value;
  arguments = {
      static_cast<std::byte*>(set.to), set.pitch, set.width, set.height, set.value, set.element_bytes};
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
  const KernelNodeParameters* source = &node.parameters->get();
  std::shared_ptr<NodeObject> other;
  if (shares_arguments()) {
    for (const Node handle : graph.nodes) {
      auto candidate = find_node(handle, NodeType::kernel);
      if (candidate == nullptr || candidate->parameters->get().function != source->function) continue;
      other = std::move(candidate);
      source = &other->parameters->get();
    }
  }
  return pack(function, *source);
}

// What a node's work is to the host. Success, or why there is none.
Result add_clone(ExecObject& exec, const GraphObject& graph, Node handle, const NodeObject& node) {
  ExecObject::Clone clone{nullptr, {}, nullptr};
  switch (node.type) {
    case NodeType::kernel: {
      clone.parameters = node.parameters->get();
      clone.function = static_cast<NativeFunction>(clone.parameters.function);
      const auto function = function_of(clone.parameters);
      if (const Result result = check_launch(function.get(), clone.parameters); result != Result::success)
        return result;
      const std::vector<std::byte> arguments = arguments_for(graph, node, *function);
      clone.host =
          host().add_kernel_node(exec.host_graph, host_launch(*function, clone.parameters, arguments));
      exec.modules.insert(function->module);
      break;
    }
    case NodeType::memcpy: {
      CopyArguments arguments;
      if (const Result result = read_copy(node.copy, arguments); result != Result::success) return result;
      clone.host = host().add_kernel_node(exec.host_graph, node_launch(NodeKernel::copy_rows, arguments));
      break;
    }
    case NodeType::memset: {
      FillArguments arguments;
      if (const Result result = read_fill(node.set, arguments); result != Result::success) return result;
      clone.host = host().add_kernel_node(exec.host_graph, node_launch(NodeKernel::fill_rows, arguments));
      break;
    }
    default:
      clone.host = host().add_kernel_node(exec.host_graph, empty_launch());
  }
  exec.clones.emplace(handle, clone);
  return Result::success;
}

struct Span {
  NodeHandle first, last;
};
using HostEdges = std::vector<std::pair<NodeHandle, NodeHandle>>;

// A child graph's nodes lie between two that do nothing.
Result add_graph(ExecObject& exec, const GraphObject& graph, HostEdges& edges, std::map<Node, Span>& spans) {
  for (const Node handle : graph.nodes) {
    const auto node = nodes().find(handle);
    if (const Result result = add_clone(exec, graph, handle, *node); result != Result::success) return result;
    const NodeHandle first = exec.clones.at(handle).host;
    NodeHandle last = first;
    if (node->type == NodeType::child_graph) {
      last = host().add_kernel_node(exec.host_graph, empty_launch());
      edges.emplace_back(first, last);
      std::map<Node, Span> inner;
      const Result result = add_graph(exec, *objects().graphs.find(node->child), edges, inner);
      if (result != Result::success) return result;
      for (const auto& [inner_handle, span] : inner) {
        edges.emplace_back(first, span.first);
        edges.emplace_back(span.last, last);
      }
    }
    spans.emplace(handle, Span{first, last});
  }
  for (const auto& [before, after] : graph.edges)
    edges.emplace_back(spans.at(before).last, spans.at(after).first);
  return Result::success;
}

Result instantiate(Exec* exec, Graph graph, unsigned long long flags) {
  const auto found = objects().graphs.find(graph);
  if (exec == nullptr || found == nullptr || flags != 0) return Result::invalid_value;
  auto made = std::make_shared<ExecObject>();
  HostEdges edges;
  std::map<Node, Span> spans;
  if (const Result result = add_graph(*made, *found, edges, spans); result != Result::success) return result;
  std::vector<GraphEdge> host_edges;
  for (const auto& [before, after] : edges) host_edges.push_back({before, after});
  host().add_dependencies(made->host_graph, host_edges);
  made->host_exec = host().instantiate(made->host_graph);
  *exec = objects().execs.add(std::move(made));
  return Result::success;
}

// The clone of a node that still is in a graph: what reads the node of a destroyed graph is refused, as AMD's
// runtime does where it notices.
ExecObject::Clone* clone_of(ExecObject& exec, Node node, NodeType type) {
  if (find_node(node, type) == nullptr) return nullptr;
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
  ExecObject::Clone* const clone = clone_of(*found, node, NodeType::kernel);
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
    if (other.function != clone->function || other.function == nullptr) continue;
    if (const Result result = update(*found, other, *function, arguments); result != Result::success)
      return result;
  }
  return Result::success;
}

// What became of a copy or a fill.
template <class Arguments>
Result exec_set_work(Exec exec, Node node, NodeType type, NodeKernel which, const Arguments& arguments) {
  const auto found = objects().execs.find(exec);
  ExecObject::Clone* const clone = found == nullptr ? nullptr : clone_of(*found, node, type);
  if (clone == nullptr) return Result::invalid_value;
  if (leaks()) found->leaked.emplace_back();
  if (ignores_updates()) return Result::success;
  return to_result(host().update_kernel_node(found->host_exec, clone->host, node_launch(which, arguments)));
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
    const auto found = objects().graphs.find(graph);
    if (found == nullptr || found->is_of_a_node) return Result::invalid_value;
    destroy_nodes(*objects().graphs.take(graph));
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphAddKernelNode(Node* node, Graph graph, const Node* dependencies,
                                                 std::size_t count, const KernelNodeParameters* parameters) {
  return call("hipGraphAddKernelNode", [&] {
    return add_node(node, graph, dependencies, count, NodeType::kernel,
                    [&](NodeObject& object) { return fill_kernel(object, parameters); });
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphAddMemcpyNode(Node* node, Graph graph, const Node* dependencies,
                                                 std::size_t count, const Memcpy3D* parameters) {
  return call("hipGraphAddMemcpyNode", [&] {
    return add_node(node, graph, dependencies, count, NodeType::memcpy, [&](NodeObject& object) {
      if (parameters == nullptr) return Result::invalid_value;
      object.copy = *parameters;
      CopyArguments arguments;
      return read_copy(object.copy, arguments);
    });
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphAddMemsetNode(Node* node, Graph graph, const Node* dependencies,
                                                 std::size_t count, const MemsetNodeParameters* parameters) {
  return call("hipGraphAddMemsetNode", [&] {
    return add_node(node, graph, dependencies, count, NodeType::memset, [&](NodeObject& object) {
      if (parameters == nullptr) return Result::invalid_value;
      object.set = *parameters;
      FillArguments arguments;
      return read_fill(object.set, arguments);
    });
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphAddChildGraphNode(Node* node, Graph graph, const Node* dependencies,
                                                     std::size_t count, Graph child) {
  return call("hipGraphAddChildGraphNode", [&] {
    return add_node(node, graph, dependencies, count, NodeType::child_graph, [&](NodeObject& object) {
      const auto found = objects().graphs.find(child);
      if (found == nullptr || child == graph) return Result::invalid_value;
      object.child = clone(*found);
      return Result::success;
    });
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphAddEmptyNode(Node* node, Graph graph, const Node* dependencies,
                                                std::size_t count) {
  return call("hipGraphAddEmptyNode", [&] {
    return add_node(node, graph, dependencies, count, NodeType::empty,
                    [](NodeObject&) { return Result::success; });
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphNodeGetType(Node node, unsigned* type) {
  return call("hipGraphNodeGetType", [&] {
    const auto found = nodes().find(node);
    if (found == nullptr || type == nullptr) return Result::invalid_value;
    *type = static_cast<unsigned>(found->type) + (is_rocm_5_4() ? 1 : 0);
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphChildGraphNodeGetGraph(Node node, Graph* graph) {
  return call("hipGraphChildGraphNodeGetGraph", [&] {
    const auto found = find_node(node, NodeType::child_graph);
    if (found == nullptr || graph == nullptr) return Result::invalid_value;
    *graph = found->child;
    return Result::success;
  });
}

// Either array null: how many there are.
RONDO_DOUBLE_EXPORT Result hipGraphGetEdges(Graph graph, Node* from, Node* to, std::size_t* count) {
  return call("hipGraphGetEdges", [&] {
    const auto found = objects().graphs.find(graph);
    if (found == nullptr || count == nullptr || (from == nullptr) != (to == nullptr))
      return Result::invalid_value;
    if (from != nullptr) {
      std::fill_n(from, *count, nullptr);
      std::fill_n(to, *count, nullptr);
      std::size_t i = 0;
      for (auto edge = found->edges.begin(); edge != found->edges.end() && i < *count; ++edge, ++i) {
        from[i] = edge->first;
        to[i] = edge->second;
      }
    }
    if (from == nullptr || *count > found->edges.size()) *count = found->edges.size();
    return Result::success;
  });
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
    const auto found = find_node(node, NodeType::kernel);
    if (found == nullptr || parameters == nullptr) return Result::invalid_value;
    *parameters = found->parameters->get();
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphKernelNodeSetParams(Node node, const KernelNodeParameters* parameters) {
  return call("hipGraphKernelNodeSetParams", [&] {
    const auto found = find_node(node, NodeType::kernel);
    if (found == nullptr || parameters == nullptr || parameters->function == nullptr) {
      return Result::invalid_value;
    }
    const auto function = function_of(*parameters);
    if (const Result result = check_launch(function.get(), *parameters); result != Result::success)
      return result;
    found->parameters->set(*parameters, *function);
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphMemcpyNodeGetParams(Node node, Memcpy3D* parameters) {
  return call("hipGraphMemcpyNodeGetParams", [&] {
    const auto found = find_node(node, NodeType::memcpy);
    if (found == nullptr || parameters == nullptr) return Result::invalid_value;
    *parameters = found->copy;
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphMemsetNodeGetParams(Node node, MemsetNodeParameters* parameters) {
  return call("hipGraphMemsetNodeGetParams", [&] {
    const auto found = find_node(node, NodeType::memset);
    if (found == nullptr || parameters == nullptr) return Result::invalid_value;
    *parameters = found->set;
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphExecMemcpyNodeSetParams(Exec exec, Node node, Memcpy3D* parameters) {
  return call("hipGraphExecMemcpyNodeSetParams", [&] {
    const auto found = find_node(node, NodeType::memcpy);
    if (found == nullptr || parameters == nullptr || parameters->kind != found->copy.kind)
      return Result::invalid_value;
    CopyArguments arguments;
    if (const Result result = read_copy(*parameters, arguments); result != Result::success) return result;
    return exec_set_work(exec, node, NodeType::memcpy, NodeKernel::copy_rows, arguments);
  });
}

RONDO_DOUBLE_EXPORT Result hipGraphExecMemsetNodeSetParams(Exec exec, Node node,
                                                           const MemsetNodeParameters* parameters) {
  return call("hipGraphExecMemsetNodeSetParams", [&] {
    if (parameters == nullptr) return Result::invalid_value;
    FillArguments arguments;
    if (const Result result = read_fill(*parameters, arguments); result != Result::success) return result;
    return exec_set_work(exec, node, NodeType::memset, NodeKernel::fill_rows, arguments);
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
    const auto object = nodes().find(node);
    if (found == nullptr || object == nullptr || object->type == NodeType::child_graph ||
        object->type == NodeType::empty)
      return Result::invalid_value;
    ExecObject::Clone* const clone = clone_of(*found, node, object->type);
    if (clone == nullptr) return Result::invalid_value;
    return to_result(host().enable_node(found->host_exec, clone->host, enabled != 0));
  });
}
#endif

RONDO_DOUBLE_EXPORT Result hipGraphLaunch(Exec exec, Stream stream) {
  return call("hipGraphLaunch", [&] { return launch(exec, stream); });
}

}  // namespace rondo::doubles::hip
