// What the handles of the libcuda double stand for, and the way into every call.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control.h"
#include "cuda/api.h"
#include "node_arguments.h"
#include "registry.h"
#include "rondo/error.h"
#include "runtime.h"

struct CUlib_st;

namespace rondo::cuda {

using Library = CUlib_st*;

// cuda.h (CUDA 13.0), CUresult, beyond what Rondo tells apart.
inline constexpr auto out_of_memory = static_cast<Result>(2);
inline constexpr auto not_initialized = static_cast<Result>(3);
inline constexpr auto invalid_device = static_cast<Result>(101);
inline constexpr auto invalid_image = static_cast<Result>(200);
inline constexpr auto invalid_context = static_cast<Result>(201);
inline constexpr auto no_binary_for_gpu = static_cast<Result>(209);
inline constexpr auto invalid_handle = static_cast<Result>(400);
inline constexpr auto not_found = static_cast<Result>(500);
inline constexpr auto not_ready = static_cast<Result>(600);
inline constexpr auto context_is_destroyed = static_cast<Result>(709);
inline constexpr auto not_permitted = static_cast<Result>(800);
inline constexpr auto not_supported = static_cast<Result>(801);
inline constexpr auto unknown_error = static_cast<Result>(999);

struct StreamObject {
  StreamHandle native;
  ~StreamObject() { doubles::host().destroy_stream(native); }
};

struct EventObject {
  EventHandle native;
  std::atomic<bool> recorded{false};
  ~EventObject() { doubles::host().destroy_event(native); }
};

struct ModuleObject {
  ModuleHandle native = nullptr;
  std::atomic<bool> loaded{true};  // false: unloaded, and kept only for those who still ask
  std::mutex mutex;
  std::map<std::string, Function> functions;  // under the mutex
};

struct FunctionObject {
  std::string name;
  FunctionHandle native;
  std::shared_ptr<ModuleObject> module;
  std::vector<ParameterLayout> parameters;
  std::atomic<int> max_dynamic_shared{48 * 1024};  // without opt-in
};

// A kernel of a library, which has a function for the one context there is code for.
struct KernelObject {
  Function function;
};
struct LibraryObject {
  Module module;
  std::vector<Kernel> kernels;
};

// A kernel node's parameters as the node owns them.
struct NodeParameters {
  Function handle = nullptr;  // what the caller named: a function, or a kernel and a context
  Kernel kernel = nullptr;
  Context context = nullptr;
  std::shared_ptr<FunctionObject> function;
  LaunchShape shape;
  NodeArguments arguments;
};

struct NodeObject {
  std::uint64_t graph;  // GraphObject::id
  std::size_t index;    // in the order in which the nodes were added
  NodeType type = NodeType::kernel;
  NodeParameters parameters;  // kernel
  bool is_cooperative = false;
  Dim3 cluster{0, 0, 0};
  Memcpy3D copy{};             // memcpy
  MemsetNodeParameters set{};  // memset
  Graph child = nullptr;       // child_graph: the node's own
  int priority = 0;            // kernel
};

struct GraphObject {
  std::uint64_t id;
  std::vector<Node> nodes;
  std::set<std::pair<std::size_t, std::size_t>> edges;  // of indices of nodes
  std::set<std::pair<std::size_t, std::size_t>> programmatic_edges;  // those among them; they run as full ones
  bool is_of_a_node = false;                            // a child graph: its node destroys it
};

struct ExecObject {
  struct Work {
    NodeHandle native;
    std::shared_ptr<ModuleObject> module;  // of a kernel
  };
  GraphHandle native_graph = nullptr;
  ExecHandle native = nullptr;
  std::map<Node, Work> nodes;  // of the graph that it was made from and its child graphs
  std::mutex launching;
  EventHandle last_launch = doubles::host().create_event();  // under the mutex, to be waited for by the next

  ~ExecObject() {
    doubles::host().destroy_event(last_launch);
    if (native != nullptr) doubles::host().destroy_exec(native);
    if (native_graph != nullptr) doubles::host().destroy_graph(native_graph);
  }
};

struct Objects {
  doubles::Registry<Stream, StreamObject> streams;
  doubles::Registry<Event, EventObject> events;
  doubles::Registry<Module, ModuleObject> modules;
  doubles::Registry<Function, FunctionObject> functions;  // these go with their module
  doubles::Registry<Library, LibraryObject> libraries;
  doubles::Registry<Kernel, KernelObject> kernels;  // these go with their library
  doubles::Registry<Context, int> contexts;         // that cuCtxCreate made
  doubles::Registry<Graph, GraphObject> graphs;
  doubles::Registry<Node, NodeObject> nodes;  // these with their graph
  doubles::Registry<Exec, ExecObject> execs;

  std::mutex memory_mutex;
  std::map<DeviceAddress, std::size_t> memory;  // bytes by address
};

// Never destroyed: calls may come as late as the process's end.
Objects& objects();

// Null for what is none; a null handle is the null stream.
std::shared_ptr<StreamObject> find_stream(Stream stream);

// Whether the bytes lie within one allocation.
bool is_device_memory(DeviceAddress address, std::size_t bytes);

// The allocation that an address lies in; 0 bytes: none.
std::pair<DeviceAddress, std::size_t> allocation_of(DeviceAddress address);

// Success, or why a call cannot go on: cuInit was not called; this thread runs a host function, which may
// make no CUDA call (cuda.h, cuLaunchHostFunc); no context is current on this thread.
Result check_initialized() noexcept;
Result check_context() noexcept;

// What a failure of the host device is to CUDA; `otherwise` where it is not the caller's argument.
Result to_result(const Status& status, Result otherwise) noexcept;

// Counts the call, checks what `Check` checks, and keeps what is thrown on this side of the C interface.
template <class Check, class Body>
Result call(const char* name, Check check, Body body) noexcept {
  if (const int fault = doubles::enter(name); fault != 0) return static_cast<Result>(fault);
  if (const Result result = check(); result != Result::success) return result;
  try {
    return body();
  } catch (const Error& error) {
    return error.code() == ErrorCode::bad_argument ? Result::invalid_value : out_of_memory;
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  } catch (const std::exception&) {
    return unknown_error;
  }
}

template <class Body>
Result in_context(const char* name, Body body) noexcept {
  return call(name, check_context, body);
}

extern "C" {
#define RONDO_CUDA_DECLARE(name, version, need, parameters) Result name parameters;
RONDO_CUDA_FUNCTIONS(RONDO_CUDA_DECLARE)
#undef RONDO_CUDA_DECLARE

// What captured graphs and their owners call besides.
Result cuCtxCreate_v2(Context* context, unsigned flags, Device device);
Result cuCtxDestroy_v2(Context context);
Result cuLibraryLoadData(Library* library, const void* code, JitOption* options, void** values,
                         unsigned option_count, void* library_options, void** library_values,
                         unsigned library_option_count);
Result cuLibraryUnload(Library library);
Result cuLibraryGetKernel(Kernel* kernel, Library library, const char* name);
Result cuGraphAddMemcpyNode(Node* node, Graph graph, const Node* dependencies, std::size_t count,
                            const Memcpy3D* parameters, Context context);
Result cuGraphAddMemsetNode(Node* node, Graph graph, const Node* dependencies, std::size_t count,
                            const MemsetNodeParameters* parameters, Context context);
Result cuGraphAddChildGraphNode(Node* node, Graph graph, const Node* dependencies, std::size_t count,
                                Graph child);
Result cuGraphAddEmptyNode(Node* node, Graph graph, const Node* dependencies, std::size_t count);
Result cuGraphKernelNodeSetAttribute(Node node, LaunchAttribute attribute, const LaunchAttributeValue* value);
Result cuGetErrorString(Result result, const char** text);
Result cuGraphKernelNodeSetParams_v2(Node node, const KernelNodeParameters* parameters);
}

}  // namespace rondo::cuda
