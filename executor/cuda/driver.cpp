#include "driver.h"

#include <fmt/format.h>

#include <vector>

#include "context.h"
#include "foreign_graphs.h"
#include "launch_limits.h"
#include "module.h"
#include "packed_launch.h"
#include "properties.h"
#include "rondo/error.h"

namespace rondo::cuda {
namespace {

// Rondo's handles are the driver's own.
Stream native(StreamHandle handle) noexcept { return reinterpret_cast<Stream>(handle); }
Event native(EventHandle handle) noexcept { return reinterpret_cast<Event>(handle); }
Module native(ModuleHandle handle) noexcept { return reinterpret_cast<Module>(handle); }
Function native(FunctionHandle handle) noexcept { return reinterpret_cast<Function>(handle); }
Graph native(GraphHandle handle) noexcept { return reinterpret_cast<Graph>(handle); }
Node native(NodeHandle handle) noexcept { return reinterpret_cast<Node>(handle); }
Exec native(ExecHandle handle) noexcept { return reinterpret_cast<Exec>(handle); }

// The device's primary context, held.
class PrimaryContext {
 public:
  PrimaryContext(const Api& api, Device device) : api_(api), device_(device) {
    check(RONDO_CUDA(api_, cuDevicePrimaryCtxRetain, &context_, device),
          "retaining the device's primary context");
  }
  ~PrimaryContext() { api_.cuDevicePrimaryCtxRelease_v2(device_); }
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  Context get() const noexcept { return context_; }

 private:
  const Api& api_;
  const Device device_;
  Context context_ = nullptr;
};

class CudaDriver final : public Driver {
 public:
  CudaDriver(std::shared_ptr<const Api> api, int ordinal)
      : api_(std::move(api)),
        properties_(cuda::properties(*api_, ordinal)),
        reads_host_pages_(attribute(*api_, device_of(*api_, ordinal),
                                    DeviceAttribute::pageable_access_by_host_page_tables) != 0),
        context_(*api_, device_of(*api_, ordinal)),
        foreign_graphs_(make_foreign_graphs(*api_, context_.get())) {}

  const DeviceProperties& properties() const noexcept override { return properties_; }

  DevicePointer allocate(std::size_t bytes) override;
  void release(DevicePointer pointer) noexcept override {
    if (pointer != 0) quietly([&] { return api_->cuMemFree_v2(pointer); });
  }
  Status write(DevicePointer to, const void* from, std::size_t bytes, StreamHandle stream) noexcept override;
  Status read(void* to, DevicePointer from, std::size_t bytes, StreamHandle stream) noexcept override;
  Status fill_bytes(DevicePointer to, std::uint8_t value, std::size_t bytes,
                    StreamHandle stream) noexcept override;

  StreamHandle create_stream() override;
  void destroy_stream(StreamHandle stream) noexcept override {
    // cuStreamDestroy returns at once while work is queued (cuda.h 13.0), and its kernels' arguments may
    // still be in use.
    if (stream == nullptr) return;
    quietly([&] { return api_->cuStreamSynchronize(native(stream)); });
    quietly([&] { return api_->cuStreamDestroy_v2(native(stream)); });
  }
  Status synchronize(StreamHandle stream) noexcept override;
  EventHandle create_event() override;
  void destroy_event(EventHandle event) noexcept override {
    if (event != nullptr) quietly([&] { return api_->cuEventDestroy_v2(native(event)); });
  }
  Status record(EventHandle event, StreamHandle stream) noexcept override;
  Status synchronize_event(EventHandle event) noexcept override;
  Status wait(StreamHandle stream, EventHandle event) noexcept override;
  Status elapsed_ms(EventHandle from, EventHandle to, float* milliseconds) noexcept override;
  Status launch_host_function(StreamHandle stream, void (*call)(void*), void* data) noexcept override;

  ModuleHandle load_module(std::span<const std::byte> binary) override;
  void unload_module(ModuleHandle module) noexcept override {
    if (module != nullptr) quietly([&] { return api_->cuModuleUnload(native(module)); });
  }
  FunctionHandle function(ModuleHandle module, const std::string& name) override;
  FunctionInfo function_info(FunctionHandle kernel, std::size_t parameters) override;
  void allow_dynamic_shared(FunctionHandle kernel, std::size_t bytes) override;
  std::size_t resident_blocks(FunctionHandle kernel, const LaunchShape& shape) override;

  Status enter(std::intptr_t* pushed) noexcept override { return cuda::enter(*api_, context_.get(), pushed); }
  void leave(std::intptr_t pushed) noexcept override { cuda::leave(*api_, pushed); }
  Status launch(const KernelLaunch& launch, StreamHandle stream) noexcept override;

  GraphHandle create_graph() override;
  void destroy_graph(GraphHandle graph) noexcept override {
    if (graph != nullptr) quietly([&] { return api_->cuGraphDestroy(native(graph)); });
  }
  NodeHandle add_kernel_node(GraphHandle graph, const KernelLaunch& launch) override;
  void add_dependencies(GraphHandle graph, std::span<const GraphEdge> edges) override;
  ExecHandle instantiate(GraphHandle graph, bool by_node_priority) override;
  void destroy_exec(ExecHandle exec) noexcept override {
    if (exec != nullptr) quietly([&] { return api_->cuGraphExecDestroy(native(exec)); });
  }
  void upload(ExecHandle exec, StreamHandle stream) override;
  Status update_kernel_node(ExecHandle exec, NodeHandle node, const KernelLaunch& launch) noexcept override;
  Status enable_node(ExecHandle exec, NodeHandle node, bool enabled) noexcept override;
  Status launch_graph(ExecHandle exec, StreamHandle stream) noexcept override;
  ForeignGraphs* foreign_graphs() noexcept override { return foreign_graphs_.get(); }

 private:
  // For what destroys: there is nobody to tell of a failure.
  template <class Call>
  void quietly(Call call) noexcept {
    const Current current(*api_, context_.get());
    if (current.status().ok()) static_cast<void>(call());
  }
  bool may_be_read_later(const void* host) noexcept;

  const std::shared_ptr<const Api> api_;
  const DeviceProperties properties_;
  const bool reads_host_pages_;
  const PrimaryContext context_;
  const std::unique_ptr<ForeignGraphs> foreign_graphs_;
};

// In a function that returns a Status: the context for the rest of it.
#define RONDO_CUDA_ENTER()                      \
  const Current current(*api_, context_.get()); \
  if (!current.status().ok()) return current.status()
// The same in one that throws.
#define RONDO_CUDA_ENTER_OR_THROW(doing)        \
  const Current current(*api_, context_.get()); \
  check(current.status(), doing)

DevicePointer CudaDriver::allocate(std::size_t bytes) {
  if (bytes == 0) throw Error(ErrorCode::bad_argument, "allocating 0 bytes on a CUDA device");
  RONDO_CUDA_ENTER_OR_THROW("allocating memory");
  DeviceAddress address = 0;
  const Status status = RONDO_CUDA(*api_, cuMemAlloc_v2, &address, bytes);
  if (!status.ok())
    throw Error(status, fmt::format("allocating {} bytes on cuda:{}", bytes, properties_.ordinal));
  return address;
}

// CUDA driver API, "API synchronization behavior": a copy from pageable memory is staged before the call
// returns. From page-locked memory it is not, and neither is it promised where the device reads pageable
// memory through the host's own page tables.
bool CudaDriver::may_be_read_later(const void* host) noexcept {
  if (reads_host_pages_) return true;
  unsigned type = 0;
  PointerAttribute attribute = PointerAttribute::memory_type;
  void* value = &type;
  // For memory that CUDA does not know, ordinary pageable memory, "attributes are assigned default NULL
  // values" (cuda.h 13.0); cuPointerGetAttribute would fail, and a failed call is an error to the tools that
  // watch for them.
  const Result result =
      api_->cuPointerGetAttributes(1, &attribute, &value, reinterpret_cast<std::uintptr_t>(host));
  return result != Result::success || type != 0;
}

Status CudaDriver::write(DevicePointer to, const void* from, std::size_t bytes,
                         StreamHandle stream) noexcept {
  if (bytes == 0) return {};
  RONDO_CUDA_ENTER();
  const Status status = RONDO_CUDA(*api_, cuMemcpyHtoDAsync_v2, to, from, bytes, native(stream));
  if (!status.ok() || !may_be_read_later(from)) return status;
  return RONDO_CUDA(*api_, cuStreamSynchronize, native(stream));
}

Status CudaDriver::read(void* to, DevicePointer from, std::size_t bytes, StreamHandle stream) noexcept {
  if (bytes == 0) return {};
  RONDO_CUDA_ENTER();
  return RONDO_CUDA(*api_, cuMemcpyDtoHAsync_v2, to, from, bytes, native(stream));
}

Status CudaDriver::fill_bytes(DevicePointer to, std::uint8_t value, std::size_t bytes,
                              StreamHandle stream) noexcept {
  if (bytes == 0) return {};
  RONDO_CUDA_ENTER();
  return RONDO_CUDA(*api_, cuMemsetD8Async, to, value, bytes, native(stream));
}

StreamHandle CudaDriver::create_stream() {
  RONDO_CUDA_ENTER_OR_THROW("creating a stream");
  Stream stream = nullptr;
  check(RONDO_CUDA(*api_, cuStreamCreate, &stream, stream_non_blocking), "creating a stream");
  return reinterpret_cast<StreamHandle>(stream);
}

Status CudaDriver::synchronize(StreamHandle stream) noexcept {
  RONDO_CUDA_ENTER();
  return RONDO_CUDA(*api_, cuStreamSynchronize, native(stream));
}

EventHandle CudaDriver::create_event() {
  RONDO_CUDA_ENTER_OR_THROW("creating an event");
  Event event = nullptr;
  check(RONDO_CUDA(*api_, cuEventCreate, &event, event_default), "creating an event");
  return reinterpret_cast<EventHandle>(event);
}

Status CudaDriver::record(EventHandle event, StreamHandle stream) noexcept {
  RONDO_CUDA_ENTER();
  return RONDO_CUDA(*api_, cuEventRecord, native(event), native(stream));
}

Status CudaDriver::synchronize_event(EventHandle event) noexcept {
  RONDO_CUDA_ENTER();
  return RONDO_CUDA(*api_, cuEventSynchronize, native(event));
}

Status CudaDriver::wait(StreamHandle stream, EventHandle event) noexcept {
  RONDO_CUDA_ENTER();
  return RONDO_CUDA(*api_, cuStreamWaitEvent, native(stream), native(event), 0);
}

Status CudaDriver::elapsed_ms(EventHandle from, EventHandle to, float* milliseconds) noexcept {
  RONDO_CUDA_ENTER();
  return RONDO_CUDA(*api_, cuEventElapsedTime, milliseconds, native(from), native(to));
}

Status CudaDriver::launch_host_function(StreamHandle stream, void (*call)(void*), void* data) noexcept {
  RONDO_CUDA_ENTER();
  return RONDO_CUDA(*api_, cuLaunchHostFunc, native(stream), call, data);
}

ModuleHandle CudaDriver::load_module(std::span<const std::byte> binary) {
  RONDO_CUDA_ENTER_OR_THROW("loading a CUDA module");
  return reinterpret_cast<ModuleHandle>(cuda::load_module(*api_, binary));
}

FunctionHandle CudaDriver::function(ModuleHandle module, const std::string& name) {
  RONDO_CUDA_ENTER_OR_THROW("looking up a kernel");
  return reinterpret_cast<FunctionHandle>(find_function(*api_, native(module), name));
}

FunctionInfo CudaDriver::function_info(FunctionHandle kernel, std::size_t parameters) {
  RONDO_CUDA_ENTER_OR_THROW("asking about a kernel");
  return cuda::function_info(*api_, native(kernel), parameters);
}

void CudaDriver::allow_dynamic_shared(FunctionHandle kernel, std::size_t bytes) {
  RONDO_CUDA_ENTER_OR_THROW("allowing a kernel its dynamic shared memory");
  cuda::allow_dynamic_shared(*api_, native(kernel), bytes, properties_.max_shared_bytes);
}

std::size_t CudaDriver::resident_blocks(FunctionHandle kernel, const LaunchShape& shape) {
  if (!properties_.has_cooperative_launches) return 0;
  constexpr const char* doing = "asking how many blocks of a kernel are resident at once";
  RONDO_CUDA_ENTER_OR_THROW(doing);
  int blocks = 0;
  check(RONDO_CUDA(*api_, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, native(kernel),
                   static_cast<int>(shape.block.x * shape.block.y * shape.block.z), shape.shared_bytes),
        doing);
  return static_cast<std::size_t>(blocks) * static_cast<std::size_t>(properties_.processors);
}

Status CudaDriver::launch(const KernelLaunch& launch, StreamHandle stream) noexcept {
  if (const Status status = check_launch_limits(launch, properties_); !status.ok()) return status;
  PackedLaunch packed(launch);
  const LaunchShape& shape = launch.shape;
  if (launch.attributes != nullptr && !launch.attributes->are_default()) {
    if (api_->cuLaunchKernelEx == nullptr)
      return {ErrorCode::missing_backend, 0, "",
              "cuLaunchKernelEx, for a launch with attributes, which a driver for CUDA 11.8 or later has"};
    NativeAttributes attributes(*launch.attributes);
    const LaunchConfig config{shape.grid.x,       shape.grid.y,    shape.grid.z,       shape.block.x,
                              shape.block.y,      shape.block.z,   shape.shared_bytes, native(stream),
                              attributes.entries, attributes.count};
    return RONDO_CUDA(*api_, cuLaunchKernelEx, &config, packed.function(), packed.pointers(), packed.extra());
  }
  return RONDO_CUDA(*api_, cuLaunchKernel, packed.function(), shape.grid.x, shape.grid.y, shape.grid.z,
                    shape.block.x, shape.block.y, shape.block.z, shape.shared_bytes, native(stream), nullptr,
                    packed.extra());
}

GraphHandle CudaDriver::create_graph() {
  RONDO_CUDA_ENTER_OR_THROW("creating a graph");
  Graph graph = nullptr;
  check(RONDO_CUDA(*api_, cuGraphCreate, &graph, 0), "creating a graph");
  return reinterpret_cast<GraphHandle>(graph);
}

NodeHandle CudaDriver::add_kernel_node(GraphHandle graph, const KernelLaunch& launch) {
  check(check_launch_limits(launch, properties_), "adding a kernel node");
  RONDO_CUDA_ENTER_OR_THROW("adding a kernel node");
  PackedLaunch packed(launch);
  const KernelNodeParameters parameters = packed.node();
  Node node = nullptr;
  check(RONDO_CUDA(*api_, cuGraphAddKernelNode_v2, &node, native(graph), nullptr, 0, &parameters),
        "adding a kernel node");
  if (launch.attributes != nullptr) {
    NativeAttributes attributes(*launch.attributes);
    for (unsigned i = 0; i < attributes.count; ++i) {
      if (api_->cuGraphKernelNodeSetAttribute == nullptr) {
        throw Error(ErrorCode::missing_backend,
                    "cuGraphKernelNodeSetAttribute, for a kernel with launch attributes, which a driver for "
                    "CUDA 11.0 or later has");
      }
      check(RONDO_CUDA(*api_, cuGraphKernelNodeSetAttribute, node, attributes.entries[i].id,
                       &attributes.entries[i].value),
            "setting a kernel node's launch attributes");
    }
  }
  return reinterpret_cast<NodeHandle>(node);
}

void CudaDriver::add_dependencies(GraphHandle graph, std::span<const GraphEdge> edges) {
  if (edges.empty()) return;
  std::vector<Node> from, to;
  std::vector<EdgeData> data;
  bool has_programmatic = false;
  for (const GraphEdge& edge : edges) {
    const bool is_programmatic = edge.kind == EdgeKind::programmatic && properties_.has_programmatic_edges;
    from.push_back(native(edge.from));
    to.push_back(native(edge.to));
    data.push_back(is_programmatic ? programmatic_edge : full_edge);
    has_programmatic = has_programmatic || is_programmatic;
  }
  RONDO_CUDA_ENTER_OR_THROW("adding dependencies");
  check(has_programmatic
            ? RONDO_CUDA(*api_, cuGraphAddDependencies_v2, native(graph), from.data(), to.data(), data.data(),
                         from.size())
            : RONDO_CUDA(*api_, cuGraphAddDependencies, native(graph), from.data(), to.data(), from.size()),
        "adding dependencies");
}

ExecHandle CudaDriver::instantiate(GraphHandle graph, bool by_node_priority) {
  RONDO_CUDA_ENTER_OR_THROW("instantiating a graph");
  Exec exec = nullptr;
  check(RONDO_CUDA(*api_, cuGraphInstantiateWithFlags, &exec, native(graph),
                   by_node_priority ? use_node_priority : 0),
        "instantiating a graph");
  return reinterpret_cast<ExecHandle>(exec);
}

void CudaDriver::upload(ExecHandle exec, StreamHandle stream) {
  RONDO_CUDA_ENTER_OR_THROW("uploading a graph");
  check(RONDO_CUDA(*api_, cuGraphUpload, native(exec), native(stream)), "uploading a graph");
}

// cuda.h, cuGraphExecKernelNodeSetParams and cuGraphNodeSetEnabled (CUDA 13.0): "The modifications only
// affect future launches of hGraphExec. Already enqueued or running launches of hGraphExec are not affected
// by this call." All fields may change, the function within its context.
Status CudaDriver::update_kernel_node(ExecHandle exec, NodeHandle node, const KernelLaunch& launch) noexcept {
  if (!launch.is_checked) {
    if (const Status status = check_launch_limits(launch, properties_); !status.ok()) return status;
  }
  PackedLaunch packed(launch);
  const KernelNodeParameters parameters = packed.node();
  return RONDO_CUDA(*api_, cuGraphExecKernelNodeSetParams_v2, native(exec), native(node), &parameters);
}

Status CudaDriver::enable_node(ExecHandle exec, NodeHandle node, bool enabled) noexcept {
  return RONDO_CUDA(*api_, cuGraphNodeSetEnabled, native(exec), native(node), enabled ? 1U : 0U);
}

Status CudaDriver::launch_graph(ExecHandle exec, StreamHandle stream) noexcept {
  return RONDO_CUDA(*api_, cuGraphLaunch, native(exec), native(stream));
}

}  // namespace

std::unique_ptr<Driver> make_driver(int ordinal) {
  auto api = load_api();
  const int count = device_count(*api);
  if (ordinal < 0 || ordinal >= count) {
    throw Error(ErrorCode::missing_backend,
                count == 0 ? std::string("no CUDA device: the driver is there and finds none")
                           : fmt::format("no device cuda:{}: there {} {}, cuda:0{}", ordinal,
                                         count == 1 ? "is" : "are", count,
                                         count == 1 ? "" : fmt::format(" to cuda:{}", count - 1)));
  }
  return std::make_unique<CudaDriver>(std::move(api), ordinal);
}

}  // namespace rondo::cuda
