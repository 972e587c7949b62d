// Launches, and graphs in their executable form.
#include <algorithm>

#include "graph_access.h"

namespace rondo::cuda {
namespace {

using Edges = std::vector<std::pair<NodeHandle, NodeHandle>>;

struct Span {
  NodeHandle first, last;
};

// What a node's work is to the host. Success, or why there is none.
Result add_work(ExecObject& exec, const NodeObject& node, NodeHandle& native) {
  Driver& host = doubles::host();
  switch (node.type) {
    case NodeType::kernel: {
      if (!node.parameters.function->module->loaded) return invalid_handle;
      if (node.is_cooperative && node.parameters.arguments.is_extra()) return Result::invalid_value;
      native = host.add_kernel_node(exec.native_graph, launch_of(node.parameters));
      return Result::success;
    }
    case NodeType::memcpy: {
      doubles::CopyArguments arguments;
      if (const Result result = read_copy(node.copy, arguments); result != Result::success) return result;
      native =
          host.add_kernel_node(exec.native_graph, node_launch(doubles::NodeKernel::copy_rows, arguments));
      return Result::success;
    }
    case NodeType::memset: {
      doubles::FillArguments arguments;
      if (const Result result = read_fill(node.set, arguments); result != Result::success) return result;
      native =
          host.add_kernel_node(exec.native_graph, node_launch(doubles::NodeKernel::fill_rows, arguments));
      return Result::success;
    }
    default:
      native = host.add_kernel_node(exec.native_graph, doubles::empty_launch());
      return Result::success;
  }
}

// A child graph's nodes lie between two that do nothing.
Result add_graph(ExecObject& exec, const GraphObject& graph, Edges& edges, std::vector<Span>& spans) {
  for (Node handle : graph.nodes) {
    const auto node = objects().nodes.find(handle);
    NodeHandle first = nullptr;
    if (const Result result = add_work(exec, *node, first); result != Result::success) return result;
    NodeHandle last = first;
    if (node->type == NodeType::child_graph) {
      last = doubles::host().add_kernel_node(exec.native_graph, doubles::empty_launch());
      edges.emplace_back(first, last);
      std::vector<Span> inner;
      const Result result = add_graph(exec, *objects().graphs.find(node->child), edges, inner);
      if (result != Result::success) return result;
      for (const Span& span : inner) {
        edges.emplace_back(first, span.first);
        edges.emplace_back(span.last, last);
      }
    }
    const auto& function = node->parameters.function;
    exec.nodes.emplace(handle, ExecObject::Work{first, function != nullptr ? function->module : nullptr});
    spans.push_back({first, last});
  }
  for (const auto& [before, after] : graph.edges) edges.emplace_back(spans[before].last, spans[after].first);
  return Result::success;
}

Result instantiate(Exec* exec, const GraphObject& graph) {
  Driver& host = doubles::host();
  auto object = std::make_shared<ExecObject>();
  object->native_graph = host.create_graph();
  Edges edges;
  std::vector<Span> spans;
  if (const Result result = add_graph(*object, graph, edges, spans); result != Result::success) return result;
  std::vector<GraphEdge> host_edges;
  for (const auto& [before, after] : edges) host_edges.push_back({before, after});
  host.add_dependencies(object->native_graph, host_edges);
  object->native = host.instantiate(object->native_graph);
  *exec = objects().execs.add(std::move(object));
  return Result::success;
}

// cuda.h, cuGraphExecKernelNodeSetParams (CUDA 13.0): the node is that of the graph from which the exec was
// instantiated, and must not have been removed from it. A kernel's update needs a current context: without one the
// driver of CUDA 13.0 crashes, where copies' and fills' updates work.
template <class Check, class Body>
Result with_node_of(const char* name, Check check, Exec exec, Node node, Body body) noexcept {
  return call(name, check, [&] {
    const auto executable = objects().execs.find(exec);
    const auto object = objects().nodes.find(node);
    if (executable == nullptr || object == nullptr) return Result::invalid_value;
    const auto work = executable->nodes.find(node);
    return work == executable->nodes.end() ? Result::invalid_value : body(*executable, work->second, *object);
  });
}

bool is_one_row(const Memcpy3D& copy) { return copy.height == 1 && copy.depth == 1; }

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

// Of attributes it knows priorities, which are a hint.
Result cuLaunchKernelEx(const LaunchConfig* config, Function function, void** kernel_parameters,
                        void** extra) {
  if (config == nullptr || (config->attribute_count != 0 && config->attributes == nullptr))
    return Result::invalid_value;
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    if (config->attributes[i].id != LaunchAttribute::priority) return not_supported;
  }
  return cuLaunchKernel(function, config->grid_x, config->grid_y, config->grid_z, config->block_x,
                        config->block_y, config->block_z, config->shared_bytes, config->stream,
                        kernel_parameters, extra);
}

Result cuGraphInstantiateWithFlags(Exec* exec, Graph graph, unsigned long long flags) {
  return with_graph("cuGraphInstantiateWithFlags", graph, [&](const GraphObject& object) {
    if (exec == nullptr) return Result::invalid_value;
    // Priorities are a hint, and here nothing runs sooner for them.
    return flags == 0 || flags == use_node_priority ? instantiate(exec, object) : not_supported;
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
  return with_node_of("cuGraphExecKernelNodeSetParams_v2", check_context, exec, node,
                      [&](ExecObject& object, ExecObject::Work& work, const NodeObject& of) {
                        if (parameters == nullptr || of.type != NodeType::kernel)
                          return Result::invalid_value;
                        NodeParameters copied;
                        const Result result = read_parameters(*parameters, copied, of.is_cooperative);
                        if (result != Result::success) return result;
                        const Status status =
                            doubles::host().update_kernel_node(object.native, work.native, launch_of(copied));
                        if (status.ok()) work.module = copied.function->module;
                        return to_result(status, out_of_memory);
                      });
}

// cuda.h: one row before and after, from and to the same kinds of memory.
Result cuGraphExecMemcpyNodeSetParams(Exec exec, Node node, const Memcpy3D* parameters, Context context) {
  return with_node_of(
      "cuGraphExecMemcpyNodeSetParams", check_initialized, exec, node,
      [&](ExecObject& object, ExecObject::Work& work, const NodeObject& of) {
        if (parameters == nullptr || context == nullptr || of.type != NodeType::memcpy ||
            !is_one_row(of.copy) || !is_one_row(*parameters) || of.copy.from_type != parameters->from_type ||
            of.copy.to_type != parameters->to_type)
          return Result::invalid_value;
        doubles::CopyArguments arguments;
        if (const Result result = read_copy(*parameters, arguments); result != Result::success) return result;
        const KernelLaunch launch = node_launch(doubles::NodeKernel::copy_rows, arguments);
        return to_result(doubles::host().update_kernel_node(object.native, work.native, launch),
                         out_of_memory);
      });
}

// cuda.h: value and address may change, and no dimension of a fill of several rows.
Result cuGraphExecMemsetNodeSetParams(Exec exec, Node node, const MemsetNodeParameters* parameters,
                                      Context context) {
  return with_node_of(
      "cuGraphExecMemsetNodeSetParams", check_initialized, exec, node,
      [&](ExecObject& object, ExecObject::Work& work, const NodeObject& of) {
        if (parameters == nullptr || context == nullptr || of.type != NodeType::memset ||
            of.set.height != parameters->height || of.set.width != parameters->width ||
            of.set.element_bytes != parameters->element_bytes ||
            (of.set.height > 1 && of.set.pitch != parameters->pitch))
          return Result::invalid_value;
        doubles::FillArguments arguments;
        if (const Result result = read_fill(*parameters, arguments); result != Result::success) return result;
        const KernelLaunch launch = node_launch(doubles::NodeKernel::fill_rows, arguments);
        return to_result(doubles::host().update_kernel_node(object.native, work.native, launch),
                         out_of_memory);
      });
}

Result cuGraphNodeSetEnabled(Exec exec, Node node, unsigned enabled) {
  return with_node_of(
      "cuGraphNodeSetEnabled", check_context, exec, node,
      [&](ExecObject& object, ExecObject::Work& work, const NodeObject& of) {
        if (of.type != NodeType::kernel && of.type != NodeType::memcpy && of.type != NodeType::memset)
          return Result::invalid_value;
        return to_result(doubles::host().enable_node(object.native, work.native, enabled != 0),
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
    const bool loaded = std::all_of(object->nodes.begin(), object->nodes.end(), [](const auto& node) {
      return node.second.module == nullptr || node.second.module->loaded;
    });
    if (!loaded) return invalid_handle;
    // cuda.h, cuGraphLaunch (CUDA 13.0): "Each launch is ordered behind both any previous work in hStream and
    // any previous launches of hGraphExec."
    const std::lock_guard lock(object->launching);
    Driver& host = doubles::host();
    Status status = host.wait(on->native, object->last_launch);
    if (status.ok()) status = host.launch_graph(object->native, on->native);
    if (status.ok()) status = host.record(object->last_launch, on->native);
    return to_result(status, Result::launch_failed);
  });
}
}

}  // namespace rondo::cuda
