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

namespace rondo::hip {
namespace {

// Rondo's handles are the runtime's own, but for modules and functions.
Stream native(StreamHandle handle) noexcept { return reinterpret_cast<Stream>(handle); }
Event native(EventHandle handle) noexcept { return reinterpret_cast<Event>(handle); }
Graph native(GraphHandle handle) noexcept { return reinterpret_cast<Graph>(handle); }
Node native(NodeHandle handle) noexcept { return reinterpret_cast<Node>(handle); }
Exec native(ExecHandle handle) noexcept { return reinterpret_cast<Exec>(handle); }
void* native(DevicePointer address) noexcept { return reinterpret_cast<void*>(address); }
LoadedModule& module_of(ModuleHandle handle) noexcept { return *reinterpret_cast<LoadedModule*>(handle); }
Function& function_of(FunctionHandle handle) noexcept { return *reinterpret_cast<Function*>(handle); }

Status refuse(const char* why) noexcept { return {ErrorCode::bad_argument, 0, "", why}; }
Status lacks(const char* why) noexcept { return {ErrorCode::run_time, 0, "", why}; }

class HipDriver final : public Driver {
 public:
  HipDriver(std::shared_ptr<const Api> api, int ordinal)
      : api_(std::move(api)),
        ordinal_(ordinal),
        properties_(hip::properties(*api_, ordinal)),
        foreign_graphs_(make_foreign_graphs(*api_, ordinal)) {}

  const DeviceProperties& properties() const noexcept override { return properties_; }
  bool graphs_need_a_test() const noexcept override { return true; }
  // At about 5.5 KB each (ROCm/rocm-systems#10713), some 90 MB.
  std::size_t updates_before_renewal() const noexcept override { return 16'384; }

  DevicePointer allocate(std::size_t bytes) override;
  void release(DevicePointer pointer) noexcept override {
    if (pointer != 0) quietly([&] { return api_->hipFree(native(pointer)); });
  }
  Status write(DevicePointer to, const void* from, std::size_t bytes, StreamHandle stream) noexcept override;
  Status read(void* to, DevicePointer from, std::size_t bytes, StreamHandle stream) noexcept override;
  Status fill_bytes(DevicePointer to, std::uint8_t value, std::size_t bytes,
                    StreamHandle stream) noexcept override;

  StreamHandle create_stream() override;
  void destroy_stream(StreamHandle stream) noexcept override {
    // Its kernels' arguments may still be in use.
    if (stream == nullptr) return;
    quietly([&] { return api_->hipStreamSynchronize(native(stream)); });
    quietly([&] { return api_->hipStreamDestroy(native(stream)); });
  }
  Status synchronize(StreamHandle stream) noexcept override;
  EventHandle create_event() override;
  void destroy_event(EventHandle event) noexcept override {
    if (event != nullptr) quietly([&] { return api_->hipEventDestroy(native(event)); });
  }
  Status record(EventHandle event, StreamHandle stream) noexcept override;
  Status synchronize_event(EventHandle event) noexcept override;
  Status wait(StreamHandle stream, EventHandle event) noexcept override;
  Status elapsed_ms(EventHandle from, EventHandle to, float* milliseconds) noexcept override;
  Status launch_host_function(StreamHandle stream, void (*call)(void*), void* data) noexcept override;

  ModuleHandle load_module(std::span<const std::byte> binary) override;
  void unload_module(ModuleHandle module) noexcept override {
    if (module == nullptr) return;
    const Current current(*api_, ordinal_);
    delete &module_of(module);
  }
  FunctionHandle function(ModuleHandle module, const std::string& name) override;
  FunctionInfo function_info(FunctionHandle kernel, std::size_t parameters) override;
  void allow_dynamic_shared(FunctionHandle kernel, std::size_t bytes) override;

  Status enter(std::intptr_t* before) noexcept override { return hip::enter(*api_, ordinal_, before); }
  void leave(std::intptr_t before) noexcept override { hip::leave(*api_, ordinal_, before); }
  Status launch(const KernelLaunch& launch, StreamHandle stream) noexcept override;

  GraphHandle create_graph() override;
  void destroy_graph(GraphHandle graph) noexcept override {
    if (graph != nullptr) quietly([&] { return api_->hipGraphDestroy(native(graph)); });
  }
  NodeHandle add_kernel_node(GraphHandle graph, const KernelLaunch& launch) override;
  void add_dependencies(GraphHandle graph, std::span<const GraphEdge> edges) override;
  ExecHandle instantiate(GraphHandle graph, bool by_node_priority) override;
  void destroy_exec(ExecHandle exec) noexcept override {
    if (exec != nullptr) quietly([&] { return api_->hipGraphExecDestroy(native(exec)); });
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
    const Current current(*api_, ordinal_);
    if (current.status().ok()) static_cast<void>(call());
  }
  Status check_launch(const KernelLaunch& launch) const noexcept;

  const std::shared_ptr<const Api> api_;
  const int ordinal_;
  const DeviceProperties properties_;
  const std::unique_ptr<ForeignGraphs> foreign_graphs_;
};

// In a function that returns a Status: the device for the rest of it.
#define RONDO_HIP_ENTER()                 \
  const Current current(*api_, ordinal_); \
  if (!current.status().ok()) return current.status()
// The same in one that throws.
#define RONDO_HIP_ENTER_OR_THROW(doing)   \
  const Current current(*api_, ordinal_); \
  check(current.status(), doing)

DevicePointer HipDriver::allocate(std::size_t bytes) {
  if (bytes == 0) throw Error(ErrorCode::bad_argument, "allocating 0 bytes on a HIP device");
  RONDO_HIP_ENTER_OR_THROW("allocating memory");
  void* address = nullptr;
  const Status status = RONDO_HIP(*api_, hipMalloc, &address, bytes);
  if (!status.ok()) throw Error(status, fmt::format("allocating {} bytes on hip:{}", bytes, ordinal_));
  return reinterpret_cast<std::uintptr_t>(address);
}

Status HipDriver::write(DevicePointer to, const void* from, std::size_t bytes, StreamHandle stream) noexcept {
  if (bytes == 0) return {};
  RONDO_HIP_ENTER();
  const Status status =
      RONDO_HIP(*api_, hipMemcpyHtoDAsync, native(to), const_cast<void*>(from), bytes, native(stream));
  if (!status.ok()) return status;
  // HIP does not say when memory that is not page-locked has been read.
  return RONDO_HIP(*api_, hipStreamSynchronize, native(stream));
}

Status HipDriver::read(void* to, DevicePointer from, std::size_t bytes, StreamHandle stream) noexcept {
  if (bytes == 0) return {};
  RONDO_HIP_ENTER();
  return RONDO_HIP(*api_, hipMemcpyDtoHAsync, to, native(from), bytes, native(stream));
}

Status HipDriver::fill_bytes(DevicePointer to, std::uint8_t value, std::size_t bytes,
                             StreamHandle stream) noexcept {
  if (bytes == 0) return {};
  RONDO_HIP_ENTER();
  return RONDO_HIP(*api_, hipMemsetD8Async, native(to), value, bytes, native(stream));
}

StreamHandle HipDriver::create_stream() {
  RONDO_HIP_ENTER_OR_THROW("creating a stream");
  Stream stream = nullptr;
  check(RONDO_HIP(*api_, hipStreamCreateWithFlags, &stream, stream_non_blocking), "creating a stream");
  return reinterpret_cast<StreamHandle>(stream);
}

Status HipDriver::synchronize(StreamHandle stream) noexcept {
  RONDO_HIP_ENTER();
  return RONDO_HIP(*api_, hipStreamSynchronize, native(stream));
}

EventHandle HipDriver::create_event() {
  RONDO_HIP_ENTER_OR_THROW("creating an event");
  Event event = nullptr;
  check(RONDO_HIP(*api_, hipEventCreateWithFlags, &event, event_default), "creating an event");
  return reinterpret_cast<EventHandle>(event);
}

Status HipDriver::record(EventHandle event, StreamHandle stream) noexcept {
  RONDO_HIP_ENTER();
  return RONDO_HIP(*api_, hipEventRecord, native(event), native(stream));
}

Status HipDriver::synchronize_event(EventHandle event) noexcept {
  RONDO_HIP_ENTER();
  return RONDO_HIP(*api_, hipEventSynchronize, native(event));
}

Status HipDriver::wait(StreamHandle stream, EventHandle event) noexcept {
  RONDO_HIP_ENTER();
  return RONDO_HIP(*api_, hipStreamWaitEvent, native(stream), native(event), 0);
}

Status HipDriver::elapsed_ms(EventHandle from, EventHandle to, float* milliseconds) noexcept {
  RONDO_HIP_ENTER();
  return RONDO_HIP(*api_, hipEventElapsedTime, milliseconds, native(from), native(to));
}

Status HipDriver::launch_host_function(StreamHandle stream, void (*call)(void*), void* data) noexcept {
  if (api_->hipLaunchHostFunc == nullptr) return lacks("hipLaunchHostFunc, which this ROCm does not have");
  RONDO_HIP_ENTER();
  return RONDO_HIP(*api_, hipLaunchHostFunc, native(stream), call, data);
}

ModuleHandle HipDriver::load_module(std::span<const std::byte> binary) {
  RONDO_HIP_ENTER_OR_THROW("loading a HIP module");
  return reinterpret_cast<ModuleHandle>(new LoadedModule(*api_, binary, properties_.architecture));
}

FunctionHandle HipDriver::function(ModuleHandle module, const std::string& name) {
  RONDO_HIP_ENTER_OR_THROW("looking up a kernel");
  return reinterpret_cast<FunctionHandle>(&module_of(module).function(name));
}

FunctionInfo HipDriver::function_info(FunctionHandle kernel, std::size_t parameters) {
  FunctionInfo info = hip::function_info(function_of(kernel));
  if (info.parameters.size() < parameters) {
    throw Error(ErrorCode::run_time, fmt::format("a kernel with {} parameters was taken for one with {}",
                                                 info.parameters.size(), parameters));
  }
  return info;
}

// HIP asks for no opt-in: the limit is kept here, so that a forgotten one shows on every backend.
void HipDriver::allow_dynamic_shared(FunctionHandle kernel, std::size_t bytes) {
  Function& function = function_of(kernel);
  const std::size_t fixed = function.kernel.static_shared_bytes;
  if (fixed > properties_.max_shared_bytes || bytes > properties_.max_shared_bytes - fixed) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("{} bytes of dynamic and {} of static shared memory; the device has {} a block",
                            bytes, fixed, properties_.max_shared_bytes));
  }
  if (bytes > function.shared_limit.load(std::memory_order_relaxed))
    function.shared_limit.store(bytes, std::memory_order_relaxed);
}

Status HipDriver::check_launch(const KernelLaunch& launch) const noexcept {
  if (const Status status = check_launch_limits(launch, properties_); !status.ok()) return status;
  const Function& function = function_of(launch.function);
  if (launch.shape.shared_bytes > function.shared_limit.load(std::memory_order_relaxed))
    return refuse("more dynamic shared memory than is allowed for the kernel");
  // HIP is given addresses alone, and would read beyond a buffer that is too short.
  if (launch.argument_bytes < function.argument_end)
    return refuse("the size of the arguments is not that of the kernel's parameters");
  return {};
}

Status HipDriver::launch(const KernelLaunch& launch, StreamHandle stream) noexcept {
  if (const Status status = check_launch(launch); !status.ok()) return status;
  PackedLaunch packed(launch);
  const LaunchShape& shape = launch.shape;
  return RONDO_HIP(*api_, hipModuleLaunchKernel, packed.function().native, shape.grid.x, shape.grid.y,
                   shape.grid.z, shape.block.x, shape.block.y, shape.block.z, shape.shared_bytes,
                   native(stream), packed.parameters(), nullptr);
}

GraphHandle HipDriver::create_graph() {
  RONDO_HIP_ENTER_OR_THROW("creating a graph");
  Graph graph = nullptr;
  check(RONDO_HIP(*api_, hipGraphCreate, &graph, 0), "creating a graph");
  return reinterpret_cast<GraphHandle>(graph);
}

NodeHandle HipDriver::add_kernel_node(GraphHandle graph, const KernelLaunch& launch) {
  check(check_launch(launch), "adding a kernel node");
  RONDO_HIP_ENTER_OR_THROW("adding a kernel node");
  PackedLaunch packed(launch);
  const KernelNodeParameters parameters = packed.node();
  Node node = nullptr;
  check(RONDO_HIP(*api_, hipGraphAddKernelNode, &node, native(graph), nullptr, 0, &parameters),
        "adding a kernel node");
  return reinterpret_cast<NodeHandle>(node);
}

void HipDriver::add_dependencies(GraphHandle graph, std::span<const GraphEdge> edges) {
  if (edges.empty()) return;
  RONDO_HIP_ENTER_OR_THROW("adding dependencies");
  std::vector<Node> from, to;
  for (const GraphEdge& edge : edges) {
    from.push_back(native(edge.from));
    to.push_back(native(edge.to));
  }
  check(RONDO_HIP(*api_, hipGraphAddDependencies, native(graph), from.data(), to.data(), edges.size()),
        "adding dependencies");
}

// Priorities are left out: a node's attributes are not set on hip.
ExecHandle HipDriver::instantiate(GraphHandle graph, bool) {
  RONDO_HIP_ENTER_OR_THROW("instantiating a graph");
  Exec exec = nullptr;
  check(RONDO_HIP(*api_, hipGraphInstantiateWithFlags, &exec, native(graph), 0), "instantiating a graph");
  return reinterpret_cast<ExecHandle>(exec);
}

void HipDriver::upload(ExecHandle exec, StreamHandle stream) {
  if (api_->hipGraphUpload == nullptr) return;  // the first launch does it
  RONDO_HIP_ENTER_OR_THROW("uploading a graph");
  check(RONDO_HIP(*api_, hipGraphUpload, native(exec), native(stream)), "uploading a graph");
}

// The parameters are always made anew from our own memory: what the runtime keeps of a node is freed or
// copied by rules that differ from version to version (ROCm's clr, hipGraphKernelNode::SetParams).
Status HipDriver::update_kernel_node(ExecHandle exec, NodeHandle node, const KernelLaunch& launch) noexcept {
  if (!launch.is_checked) {
    if (const Status status = check_launch(launch); !status.ok()) return status;
  }
  PackedLaunch packed(launch);
  const KernelNodeParameters parameters = packed.node();
  return RONDO_HIP(*api_, hipGraphExecKernelNodeSetParams, native(exec), native(node), &parameters);
}

Status HipDriver::enable_node(ExecHandle exec, NodeHandle node, bool enabled) noexcept {
  if (api_->hipGraphNodeSetEnabled == nullptr)
    return lacks("hipGraphNodeSetEnabled, which this ROCm does not have");
  return RONDO_HIP(*api_, hipGraphNodeSetEnabled, native(exec), native(node), enabled ? 1U : 0U);
}

Status HipDriver::launch_graph(ExecHandle exec, StreamHandle stream) noexcept {
  return RONDO_HIP(*api_, hipGraphLaunch, native(exec), native(stream));
}

}  // namespace

std::unique_ptr<Driver> make_driver(int ordinal) {
  auto api = load_api();
  const int count = device_count(*api);
  if (ordinal < 0 || ordinal >= count) {
    throw Error(
        ErrorCode::missing_backend,
        count == 0 ? std::string("no HIP device: the runtime is there and finds none")
                   : fmt::format("no device hip:{}: there {} {}, hip:0{}", ordinal, count == 1 ? "is" : "are",
                                 count, count == 1 ? "" : fmt::format(" to hip:{}", count - 1)));
  }
  return std::make_unique<HipDriver>(std::move(api), ordinal);
}

}  // namespace rondo::hip
