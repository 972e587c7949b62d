#include "foreign_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "context.h"
#include "rondo/error.h"

namespace rondo::cuda {
namespace {

Graph native(GraphHandle handle) noexcept { return reinterpret_cast<Graph>(handle); }
Node native(NodeHandle handle) noexcept { return reinterpret_cast<Node>(handle); }
Exec native(ExecHandle handle) noexcept { return reinterpret_cast<Exec>(handle); }

// CUDA takes packed arguments for all but cooperative kernels. Beyond the 4,096 bytes that every driver
// takes, and for what takes none, an array of pointers into our packed buffer; for more parameters than this
// there is no such array.
constexpr std::size_t most_packed_bytes = 4096;
constexpr std::size_t most_pointers = 1024;

constexpr const char* of_another_context = "belongs to another context than the device's primary one";
constexpr const char* too_many_parameters = "has more than 1,024 parameters and cannot take them packed";
// cuda.h, cuGraphExecMemcpyNodeSetParams and cuGraphExecMemsetNodeSetParams (CUDA 13.0).
constexpr const char* multidimensional = "copies more than one row, and CUDA updates copies of one row alone";
constexpr const char* of_arrays = "copies from or to an array, which has no address";
constexpr const char* no_copy_updates =
    "takes cuGraphExecMemcpyNodeSetParams, which the driver does not have";
constexpr const char* no_set_updates = "takes cuGraphExecMemsetNodeSetParams, which the driver does not have";

// Which updates need a context current on the calling thread. By cuda.h (CUDA 13.0) none:
// CUDA_KERNEL_NODE_PARAMS_v2's `ctx` is "ignored if func is set", and the others are given theirs. But CUDA
// 13.0's driver ends in a segmentation fault where a kernel node of any kind is updated on a thread that has
// none; which context it is does not matter. tests/conformance/context_need shows it.
struct NeedsScope {
  static constexpr bool kernel = true;
  static constexpr bool memcpy = false;
  static constexpr bool memset = false;
};

bool takes_pointers(const ForeignKernel& kernel) noexcept {
  return kernel.is_cooperative || kernel.arguments.size() > most_packed_bytes;
}

// The parameters of a node with a CUfunction that takes its arguments packed.
KernelNodeParameters parameters_of(const ForeignKernel& kernel, void** extra) noexcept {
  // The driver's struct begins as ours does, which makes one copy of eight.
  static_assert(offsetof(ForeignKernel, function) == offsetof(KernelNodeParameters, function) &&
                offsetof(ForeignKernel, shape) == offsetof(KernelNodeParameters, grid_x) &&
                offsetof(LaunchShape, shared_bytes) == 6 * sizeof(unsigned) &&
                sizeof(LaunchShape) == 7 * sizeof(unsigned));
  KernelNodeParameters parameters;
  std::memcpy(&parameters, &kernel, offsetof(ForeignKernel, shape) + sizeof(LaunchShape));
  parameters.kernel_parameters = nullptr;
  parameters.extra = extra;
  parameters.kernel = nullptr;
  parameters.context = nullptr;
  return parameters;
}

std::byte* bytes_of(const ForeignKernel& kernel) noexcept {
  return const_cast<std::byte*>(kernel.arguments.data());  // the driver reads it only
}

class alignas(64) CudaForeignGraphs final : public ForeignGraphs {
 public:
  CudaForeignGraphs(const Api& api, Context context)
      : api_(api), context_(context), set_kernel_parameters_(api.cuGraphExecKernelNodeSetParams_v2) {}

  std::vector<NodeHandle> nodes(GraphHandle graph) override;
  std::vector<std::pair<NodeHandle, NodeHandle>> edges(GraphHandle graph) override;
  ForeignNodeKind kind(NodeHandle node) override;
  GraphHandle child_graph(NodeHandle node) override;
  ForeignKernel read_kernel(NodeHandle node, const CodeObjects* code_objects) override;
  ForeignMemcpy read_memcpy(NodeHandle node) override;
  ForeignMemset read_memset(NodeHandle node) override;
  Status update(ExecHandle exec, NodeHandle node, const ForeignKernel& kernel) noexcept override;
  Status update(ExecHandle exec, NodeHandle node, const ForeignMemcpy& copy) noexcept override;
  Status update(ExecHandle exec, NodeHandle node, const ForeignMemset& set) noexcept override;
  std::optional<AddressRange> allocation(std::uint64_t address) noexcept override;

 private:
  Status update_otherwise(ExecHandle exec, NodeHandle node, const ForeignKernel& kernel) const noexcept;
  void need(bool is_there, const char* function, int version) const;
  std::string name_of(const ForeignKernel& kernel) const;
  std::vector<ParameterLayout> layout_of(const ForeignKernel& kernel, const CodeObjects* code_objects) const;
  void read_attributes(Node node, ForeignKernel& kernel) const;
  const char* why_fixed(const ForeignKernel& kernel) const noexcept;

  const Api& api_;
  const Context context_;
  // Beside the pointer to this object's functions, where the table's own lies in a cache line of its own.
  const decltype(Api::cuGraphExecKernelNodeSetParams_v2) set_kernel_parameters_;
};

#define RONDO_CUDA_ENTER_OR_THROW(doing) \
  const Current current(api_, context_); \
  check(current.status(), doing)
#define RONDO_CUDA_NEED(function, version) need(api_.function != nullptr, #function, version)

Status refuse(const char* why) noexcept { return {ErrorCode::bad_argument, 0, "", why}; }

void CudaForeignGraphs::need(bool is_there, const char* function, int version) const {
  if (is_there) return;
  throw Error(ErrorCode::missing_backend,
              fmt::format("reading a graph that others made takes {}, which a driver for CUDA {}.{} or later "
                          "has; this one is for "
                          "CUDA {}.{}",
                          function, version / 1000, version % 1000 / 10, api_.driver_version / 1000,
                          api_.driver_version % 1000 / 10),
              "update the NVIDIA driver");
}

std::vector<NodeHandle> CudaForeignGraphs::nodes(GraphHandle graph) {
  constexpr const char* doing = "listing a graph's nodes";
  RONDO_CUDA_NEED(cuGraphGetNodes, 10000);
  RONDO_CUDA_ENTER_OR_THROW(doing);
  std::size_t count = 0;
  check(RONDO_CUDA(api_, cuGraphGetNodes, native(graph), nullptr, &count), doing);
  std::vector<NodeHandle> handles(count);
  if (count == 0) return handles;
  static_assert(sizeof(NodeHandle) == sizeof(Node));
  check(RONDO_CUDA(api_, cuGraphGetNodes, native(graph), reinterpret_cast<Node*>(handles.data()), &count),
        doing);
  handles.resize(std::min(handles.size(), count));
  return handles;
}

// With room for the edges' data, without which a graph with programmatic edges is refused
// (CUDA_ERROR_LOSSY_QUERY).
std::vector<std::pair<NodeHandle, NodeHandle>> CudaForeignGraphs::edges(GraphHandle graph) {
  constexpr const char* doing = "listing a graph's edges";
  RONDO_CUDA_NEED(cuGraphGetEdges_v2, 12030);
  RONDO_CUDA_ENTER_OR_THROW(doing);
  std::size_t count = 0;
  check(RONDO_CUDA(api_, cuGraphGetEdges_v2, native(graph), nullptr, nullptr, nullptr, &count), doing);
  std::vector<std::pair<NodeHandle, NodeHandle>> edges;
  if (count == 0) return edges;
  std::vector<Node> from(count), to(count);
  std::vector<EdgeData> data(count);
  check(RONDO_CUDA(api_, cuGraphGetEdges_v2, native(graph), from.data(), to.data(), data.data(), &count),
        doing);
  for (std::size_t i = 0; i < std::min(count, from.size()); ++i) {
    edges.emplace_back(reinterpret_cast<NodeHandle>(from[i]), reinterpret_cast<NodeHandle>(to[i]));
  }
  return edges;
}

ForeignNodeKind CudaForeignGraphs::kind(NodeHandle node) {
  RONDO_CUDA_NEED(cuGraphNodeGetType, 10000);
  RONDO_CUDA_ENTER_OR_THROW("asking for a node's type");
  NodeType type{};
  check(RONDO_CUDA(api_, cuGraphNodeGetType, native(node), &type), "asking for a node's type");
  switch (type) {
    case NodeType::kernel:
      return ForeignNodeKind::kernel;
    case NodeType::memcpy:
      return ForeignNodeKind::memcpy;
    case NodeType::memset:
      return ForeignNodeKind::memset;
    case NodeType::host:
      return ForeignNodeKind::host;
    case NodeType::child_graph:
      return ForeignNodeKind::child_graph;
    case NodeType::empty:
      return ForeignNodeKind::empty;
    case NodeType::wait_event:
    case NodeType::event_record:
      return ForeignNodeKind::event;
    case NodeType::memory_allocation:
    case NodeType::memory_free:
      return ForeignNodeKind::memory;
    case NodeType::conditional:
      return ForeignNodeKind::conditional;
  }
  return ForeignNodeKind::other;
}

GraphHandle CudaForeignGraphs::child_graph(NodeHandle node) {
  RONDO_CUDA_NEED(cuGraphChildGraphNodeGetGraph, 10000);
  RONDO_CUDA_ENTER_OR_THROW("asking for a child graph");
  Graph graph = nullptr;
  check(RONDO_CUDA(api_, cuGraphChildGraphNodeGetGraph, native(node), &graph), "asking for a child graph");
  return reinterpret_cast<GraphHandle>(graph);
}

// "" where the driver cannot tell: before CUDA 12.3.
std::string CudaForeignGraphs::name_of(const ForeignKernel& kernel) const {
  const char* name = nullptr;
  Status status;
  if (kernel.is_library_kernel && api_.cuKernelGetName != nullptr) {
    status = RONDO_CUDA(api_, cuKernelGetName, &name, static_cast<Kernel>(kernel.function));
  } else if (!kernel.is_library_kernel && api_.cuFuncGetName != nullptr) {
    status = RONDO_CUDA(api_, cuFuncGetName, &name, static_cast<Function>(kernel.function));
  }
  check(status, "asking for a kernel's name");
  return name != nullptr ? name : "";
}

// Asked for one parameter after another: how many there are, only the refusal behind the last one tells.
std::vector<ParameterLayout> CudaForeignGraphs::layout_of(const ForeignKernel& kernel,
                                                          const CodeObjects* code_objects) const {
  const bool is_known =
      kernel.is_library_kernel ? api_.cuKernelGetParamInfo != nullptr : api_.cuFuncGetParamInfo != nullptr;
  if (!is_known) {
    std::optional<std::vector<ParameterLayout>> found;
    if (code_objects != nullptr && !kernel.name.empty()) found = code_objects->layout(kernel.name);
    if (found) return *std::move(found);
    throw Error(ErrorCode::bad_argument,
                fmt::format("the layout of kernel \"{}\" is not known: a driver for CUDA {}.{} cannot be "
                            "asked for it, and no code "
                            "object that was searched has it.{}",
                            kernel.name, api_.driver_version / 1000, api_.driver_version % 1000 / 10,
                            code_objects != nullptr ? code_objects->left_out() : ""),
                "name the file with the kernel's code (a cubin, or what it was linked into), or update the "
                "driver to CUDA 12.4 or later");
  }
  std::vector<ParameterLayout> layout;
  for (std::size_t i = 0;; ++i) {
    ParameterLayout parameter{};
    const Result result = kernel.is_library_kernel
                              ? api_.cuKernelGetParamInfo(static_cast<Kernel>(kernel.function), i,
                                                          &parameter.offset, &parameter.size)
                              : api_.cuFuncGetParamInfo(static_cast<Function>(kernel.function), i,
                                                        &parameter.offset, &parameter.size);
    if (result == Result::invalid_value) return layout;
    check(to_status(api_, result, "cuFuncGetParamInfo", "cuFuncGetParamInfo"),
          "asking for a kernel's parameters");
    layout.push_back(parameter);
  }
}

void CudaForeignGraphs::read_attributes(Node node, ForeignKernel& kernel) const {
  constexpr const char* doing = "asking for a kernel node's attributes";
  RONDO_CUDA_NEED(cuGraphKernelNodeGetAttribute, 11000);
  LaunchAttributeValue value{};
  check(RONDO_CUDA(api_, cuGraphKernelNodeGetAttribute, node, LaunchAttribute::cooperative, &value), doing);
  kernel.is_cooperative = value.cooperative != 0;
  value = {};
  check(RONDO_CUDA(api_, cuGraphKernelNodeGetAttribute, node, LaunchAttribute::cluster_dimension, &value),
        doing);
  kernel.cluster = {value.cluster.x, value.cluster.y, value.cluster.z};
}

// The values that a node's `extra` list holds: pairs of a key and a value in any order, up to the end's key.
std::span<const std::byte> packed_values(void* const* extra) {
  if (extra == nullptr) return {};
  const std::byte* buffer = nullptr;
  std::size_t size = 0;
  for (; *extra != launch_end(); extra += 2) {
    if (*extra == launch_buffer()) {
      buffer = static_cast<const std::byte*>(extra[1]);
    } else if (*extra == launch_buffer_size()) {
      size = *static_cast<const std::size_t*>(extra[1]);
    } else {
      throw Error(ErrorCode::run_time, "a kernel node's packed arguments come with a key that is not known");
    }
  }
  return {buffer, buffer != nullptr ? size : 0};
}

const char* CudaForeignGraphs::why_fixed(const ForeignKernel& kernel) const noexcept {
  if (kernel.context != nullptr && kernel.context != context_) return of_another_context;
  if (takes_pointers(kernel) && kernel.layout.size() > most_pointers) return too_many_parameters;
  return nullptr;
}

ForeignKernel CudaForeignGraphs::read_kernel(NodeHandle node, const CodeObjects* code_objects) {
  constexpr const char* doing = "reading a kernel node's parameters";
  RONDO_CUDA_NEED(cuGraphKernelNodeGetParams_v2, 12000);
  RONDO_CUDA_ENTER_OR_THROW(doing);
  KernelNodeParameters native_parameters{};
  check(RONDO_CUDA(api_, cuGraphKernelNodeGetParams_v2, native(node), &native_parameters), doing);
  ForeignKernel kernel;
  kernel.is_library_kernel = native_parameters.function == nullptr;
  kernel.function =
      kernel.is_library_kernel ? static_cast<void*>(native_parameters.kernel) : native_parameters.function;
  if (kernel.function == nullptr) throw Error(ErrorCode::run_time, "a kernel node without a kernel");
  kernel.context = native_parameters.context;
  if (kernel.is_library_kernel && kernel.context == nullptr) kernel.context = context_;
  kernel.shape = {{native_parameters.grid_x, native_parameters.grid_y, native_parameters.grid_z},
                  {native_parameters.block_x, native_parameters.block_y, native_parameters.block_z},
                  native_parameters.shared_bytes};
  kernel.name = name_of(kernel);
  read_attributes(native(node), kernel);
  kernel.layout = layout_of(kernel, code_objects);
  void* const* const pointers = native_parameters.kernel_parameters;
  kernel.arguments = copy_arguments(
      kernel, pointers,
      pointers == nullptr ? packed_values(native_parameters.extra) : std::span<const std::byte>());
  kernel.fixed = why_fixed(kernel);
  kernel.needs_scope = NeedsScope::kernel;
  kernel.is_plain = kernel.fixed == nullptr && !kernel.is_library_kernel && !takes_pointers(kernel);
  return kernel;
}

// The offsets are folded into the address, so that it is the first byte's.
ForeignMemcpy::End fold(MemoryType type, const void* host, DeviceAddress& device, std::size_t& x_bytes,
                        std::size_t& y, std::size_t& z, std::size_t pitch, std::size_t height) {
  if (type != MemoryType::device && type != MemoryType::unified)
    return {false, type == MemoryType::host ? reinterpret_cast<std::uintptr_t>(host) : 0};
  device += x_bytes + (y + z * height) * pitch;
  x_bytes = y = z = 0;
  return {true, device};
}

ForeignMemcpy CudaForeignGraphs::read_memcpy(NodeHandle node) {
  RONDO_CUDA_NEED(cuGraphMemcpyNodeGetParams, 10000);
  RONDO_CUDA_ENTER_OR_THROW("reading a memcpy node's parameters");
  Memcpy3D native_copy{};
  check(RONDO_CUDA(api_, cuGraphMemcpyNodeGetParams, native(node), &native_copy),
        "reading a memcpy node's parameters");
  ForeignMemcpy copy;
  copy.from =
      fold(native_copy.from_type, native_copy.from_host, native_copy.from_device, native_copy.from_x_bytes,
           native_copy.from_y, native_copy.from_z, native_copy.from_pitch, native_copy.from_height);
  copy.to = fold(native_copy.to_type, native_copy.to_host, native_copy.to_device, native_copy.to_x_bytes,
                 native_copy.to_y, native_copy.to_z, native_copy.to_pitch, native_copy.to_height);
  copy.width_bytes = native_copy.width_bytes;
  copy.height = native_copy.height;
  copy.depth = native_copy.depth;
  copy.context = context_;
  copy.needs_scope = NeedsScope::memcpy;
  if (native_copy.from_type == MemoryType::array || native_copy.to_type == MemoryType::array) {
    copy.fixed = of_arrays;
  } else if (copy.height > 1 || copy.depth > 1) {
    copy.fixed = multidimensional;
  } else if (api_.cuGraphExecMemcpyNodeSetParams == nullptr) {
    copy.fixed = no_copy_updates;
  }
  static_assert(sizeof native_copy <= sizeof copy.native);
  std::memcpy(copy.native.data(), &native_copy, sizeof native_copy);
  return copy;
}

ForeignMemset CudaForeignGraphs::read_memset(NodeHandle node) {
  RONDO_CUDA_NEED(cuGraphMemsetNodeGetParams, 10000);
  RONDO_CUDA_ENTER_OR_THROW("reading a memset node's parameters");
  MemsetNodeParameters native_set{};
  check(RONDO_CUDA(api_, cuGraphMemsetNodeGetParams, native(node), &native_set),
        "reading a memset node's parameters");
  ForeignMemset set;
  set.address = native_set.to;
  set.pitch = native_set.pitch;
  set.width = native_set.width;
  set.height = native_set.height;
  set.value = native_set.value;
  set.element_bytes = native_set.element_bytes;
  set.context = context_;
  set.needs_scope = NeedsScope::memset;
  if (api_.cuGraphExecMemsetNodeSetParams == nullptr) set.fixed = no_set_updates;
  return set;
}

Status CudaForeignGraphs::update(ExecHandle exec, NodeHandle node, const ForeignKernel& kernel) noexcept {
  if (!kernel.is_plain) return update_otherwise(exec, node, kernel);
  std::size_t bytes = kernel.arguments.size();
  void* extra[] = {launch_buffer(), bytes_of(kernel), launch_buffer_size(), &bytes, launch_end()};
  const auto parameters = parameters_of(kernel, bytes != 0 ? extra : nullptr);
  return RONDO_CUDA_STATUS(api_, cuGraphExecKernelNodeSetParams_v2,
                           set_kernel_parameters_(native(exec), native(node), &parameters));
}

// By itself, so that only these updates touch so much of the stack.
[[gnu::noinline]] Status CudaForeignGraphs::update_otherwise(ExecHandle exec, NodeHandle node,
                                                             const ForeignKernel& kernel) const noexcept {
  if (kernel.fixed != nullptr) return refuse(kernel.fixed);
  std::size_t bytes = kernel.arguments.size();
  void* extra[] = {launch_buffer(), bytes_of(kernel), launch_buffer_size(), &bytes, launch_end()};
  void* pointers[most_pointers];
  auto parameters = parameters_of(kernel, bytes != 0 ? extra : nullptr);
  if (takes_pointers(kernel)) {
    for (std::size_t i = 0; i < kernel.layout.size(); ++i)
      pointers[i] = bytes_of(kernel) + kernel.layout[i].offset;
    parameters.kernel_parameters = pointers;
    parameters.extra = nullptr;
  }
  if (kernel.is_library_kernel) {
    parameters.function = nullptr;
    parameters.kernel = static_cast<Kernel>(kernel.function);
    parameters.context = static_cast<Context>(kernel.context);
  }
  return RONDO_CUDA(api_, cuGraphExecKernelNodeSetParams_v2, native(exec), native(node), &parameters);
}

Status CudaForeignGraphs::update(ExecHandle exec, NodeHandle node, const ForeignMemcpy& copy) noexcept {
  if (copy.fixed != nullptr) return refuse(copy.fixed);
  Memcpy3D native_copy;
  std::memcpy(&native_copy, copy.native.data(), sizeof native_copy);
  if (copy.from.is_device) native_copy.from_device = copy.from.address;
  if (copy.to.is_device) native_copy.to_device = copy.to.address;
  return RONDO_CUDA(api_, cuGraphExecMemcpyNodeSetParams, native(exec), native(node), &native_copy,
                    static_cast<Context>(copy.context));
}

Status CudaForeignGraphs::update(ExecHandle exec, NodeHandle node, const ForeignMemset& set) noexcept {
  if (set.fixed != nullptr) return refuse(set.fixed);
  const MemsetNodeParameters native_set{set.address,       set.pitch, set.value,
                                        set.element_bytes, set.width, set.height};
  return RONDO_CUDA(api_, cuGraphExecMemsetNodeSetParams, native(exec), native(node), &native_set,
                    static_cast<Context>(set.context));
}

// cuPointerGetAttributes gives zeros for what CUDA does not know, where cuMemGetAddressRange would fail: most
// words that are asked about are no addresses.
std::optional<AddressRange> CudaForeignGraphs::allocation(std::uint64_t address) noexcept {
  const Current current(api_, context_);
  if (!current.status().ok() || address == 0) return std::nullopt;
  MemoryType type{};
  DeviceAddress begin = 0;
  std::size_t bytes = 0;
  PointerAttribute attributes[] = {PointerAttribute::memory_type, PointerAttribute::range_start,
                                   PointerAttribute::range_bytes};
  void* values[] = {&type, &begin, &bytes};
  if (api_.cuPointerGetAttributes(3, attributes, values, address) != Result::success) return std::nullopt;
  const AddressRange range{begin, bytes};
  if (type != MemoryType::device || !range.contains(address)) return std::nullopt;
  return range;
}

}  // namespace

std::unique_ptr<ForeignGraphs> make_foreign_graphs(const Api& api, Context context) {
  return std::make_unique<CudaForeignGraphs>(api, context);
}

}  // namespace rondo::cuda
