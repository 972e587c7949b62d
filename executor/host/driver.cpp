#include "driver.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

#include "event.h"
#include "graph.h"
#include "launch_limits.h"
#include "module.h"
#include "pool.h"
#include "rondo/error.h"
#include "stream.h"

namespace rondo::host {
namespace {

constexpr std::size_t memory_alignment = 256;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

constexpr Status refuse(const char* why) { return {ErrorCode::bad_argument, 0, "", why}; }

std::byte* address(DevicePointer pointer) noexcept {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(pointer));
}

// The driver's objects by their handles; what is not destroyed goes with the driver.
template <class Object, class Pointer = std::unique_ptr<Object>>
class Registry {
 public:
  Object* add(Pointer object) {
    Object* raw = object.get();
    const std::lock_guard lock(mutex_);
    objects_.emplace(raw, std::move(object));
    return raw;
  }
  // What it returns is destroyed by the caller, outside the lock. Null for an unknown handle.
  Pointer take(const void* handle) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    Pointer object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  template <class Visit>
  void for_each(Visit visit) noexcept {
    const std::lock_guard lock(mutex_);
    for (auto& [handle, object] : objects_) visit(*object);
  }

 private:
  std::mutex mutex_;
  std::map<const void*, Pointer> objects_;
};

struct Free {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Free>;

// Keeps the event alive for records that are queued when the handle is destroyed.
struct EventOwner {
  std::shared_ptr<Event> event = std::make_shared<Event>();
};

Stream& stream_of(StreamHandle handle) noexcept { return *reinterpret_cast<Stream*>(handle); }
EventOwner& event_of(EventHandle handle) noexcept { return *reinterpret_cast<EventOwner*>(handle); }
Function* function_of(FunctionHandle handle) noexcept { return reinterpret_cast<Function*>(handle); }

class HostDriver final : public Driver {
 public:
  explicit HostDriver(DeviceProperties properties)
      : properties_(std::move(properties)), pool_(static_cast<unsigned>(properties_.processors)) {}

  const DeviceProperties& properties() const noexcept override { return properties_; }

  DevicePointer allocate(std::size_t bytes) override;
  void release(DevicePointer pointer) noexcept override;
  Status write(DevicePointer to, const void* from, std::size_t bytes, StreamHandle stream) noexcept override {
    return bytes == 0 ? Status{}
                      : stream_of(stream).write(address(to), static_cast<const std::byte*>(from), bytes);
  }
  Status read(void* to, DevicePointer from, std::size_t bytes, StreamHandle stream) noexcept override {
    return bytes == 0 ? Status{} : stream_of(stream).read(static_cast<std::byte*>(to), address(from), bytes);
  }
  Status fill_bytes(DevicePointer to, std::uint8_t value, std::size_t bytes,
                    StreamHandle stream) noexcept override {
    return bytes == 0 ? Status{} : stream_of(stream).fill(address(to), value, bytes);
  }

  StreamHandle create_stream() override {
    return reinterpret_cast<StreamHandle>(streams_.add(std::make_unique<Stream>(pool_)));
  }
  void destroy_stream(StreamHandle stream) noexcept override { streams_.take(stream); }
  Status synchronize(StreamHandle stream) noexcept override { return stream_of(stream).synchronize(); }
  EventHandle create_event() override {
    return reinterpret_cast<EventHandle>(events_.add(std::make_unique<EventOwner>()));
  }
  void destroy_event(EventHandle event) noexcept override { events_.take(event); }
  Status record(EventHandle event, StreamHandle stream) noexcept override {
    return stream_of(stream).record(event_of(event).event);
  }
  Status synchronize_event(EventHandle event) noexcept override {
    event_of(event).event->wait();
    return {};
  }
  Status wait(StreamHandle stream, EventHandle event) noexcept override {
    return stream_of(stream).wait(event_of(event).event);
  }
  Status elapsed_ms(EventHandle from, EventHandle to, float* milliseconds) noexcept override;
  Status launch_host_function(StreamHandle stream, void (*call)(void*), void* data) noexcept override {
    return stream_of(stream).call(call, data);
  }

  ModuleHandle load_module(std::span<const std::byte> binary) override {
    return reinterpret_cast<ModuleHandle>(modules_.add(std::make_unique<Module>(binary)));
  }
  void unload_module(ModuleHandle module) noexcept override {
    drain();
    modules_.take(module);
  }
  FunctionHandle function(ModuleHandle module, const std::string& name) override {
    return reinterpret_cast<FunctionHandle>(&reinterpret_cast<Module*>(module)->function(name));
  }
  FunctionInfo function_info(FunctionHandle function, std::size_t parameters) override;
  void allow_dynamic_shared(FunctionHandle function, std::size_t bytes) override;

  Status launch(const KernelLaunch& launch, StreamHandle stream) noexcept override {
    if (const Status status = check_launch(launch); !status.ok()) return status;
    return stream_of(stream).launch(*function_of(launch.function), launch.shape, launch.arguments,
                                    launch.argument_bytes);
  }

  GraphHandle create_graph() override {
    return reinterpret_cast<GraphHandle>(graphs_.add(std::make_unique<Graph>()));
  }
  void destroy_graph(GraphHandle graph) noexcept override { graphs_.take(graph); }
  NodeHandle add_kernel_node(GraphHandle graph, const KernelLaunch& launch) override {
    check(check_launch(launch), "adding a kernel node");
    return reinterpret_cast<NodeHandle>(
        &reinterpret_cast<Graph*>(graph)->add(launch, *function_of(launch.function)));
  }
  void add_dependencies(GraphHandle graph, std::span<const GraphEdge> edges) override {
    reinterpret_cast<Graph*>(graph)->add_dependencies(edges);
  }
  ExecHandle instantiate(GraphHandle graph, bool) override {
    return reinterpret_cast<ExecHandle>(
        execs_.add(std::make_unique<Exec>(*reinterpret_cast<const Graph*>(graph))));
  }
  void destroy_exec(ExecHandle exec) noexcept override {
    execs_.take(exec);
  }                                                  // queued launches hold what they run
  void upload(ExecHandle, StreamHandle) override {}  // an exec is where it is run already
  Status update_kernel_node(ExecHandle exec, NodeHandle node, const KernelLaunch& launch) noexcept override;
  Status enable_node(ExecHandle exec, NodeHandle node, bool enabled) noexcept override;
  Status launch_graph(ExecHandle exec, StreamHandle stream) noexcept override {
    return stream_of(stream).launch(*reinterpret_cast<Exec*>(exec));
  }

 private:
  Status check_launch(const KernelLaunch& launch) const noexcept;
  void drain() noexcept {
    streams_.for_each([](Stream& stream) { stream.drain(); });
  }

  const DeviceProperties properties_;
  Pool pool_;
  Registry<std::byte, Memory> memory_;
  Registry<EventOwner> events_;
  Registry<Module> modules_;
  Registry<Graph> graphs_;
  Registry<Exec> execs_;
  Registry<Stream> streams_;  // last: destroyed first, when their work is done
};

DevicePointer HostDriver::allocate(std::size_t bytes) {
  if (bytes == 0) throw Error(ErrorCode::bad_argument, "allocating 0 bytes on the host device");
  // The system promises more than it has, and would end the process when it is used.
  if (properties_.memory_bytes != 0 && bytes > properties_.memory_bytes) {
    throw Error(ErrorCode::run_time, fmt::format("allocating {} bytes on the host device: it has {}", bytes,
                                                 properties_.memory_bytes));
  }
  const std::size_t alignment = bytes >= huge_page_bytes ? huge_page_bytes : memory_alignment;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) {
    throw Error(ErrorCode::run_time, fmt::format("allocating {} bytes on the host device: no memory", bytes));
  }
  // Only a hint: weights of many megabytes are read through fewer page table entries.
  if (alignment == huge_page_bytes) madvise(memory, bytes, MADV_HUGEPAGE);
  return reinterpret_cast<std::uintptr_t>(memory_.add(Memory(static_cast<std::byte*>(memory))));
}

void HostDriver::release(DevicePointer pointer) noexcept {
  // As cuMemFree, which waits for the device: queued work may still use it.
  drain();
  memory_.take(address(pointer));
}

Status HostDriver::elapsed_ms(EventHandle from, EventHandle to, float* milliseconds) noexcept {
  std::chrono::steady_clock::time_point begin, end;
  if (!event_of(from).event->time(begin) || !event_of(to).event->time(end)) {
    return {ErrorCode::run_time, 0, "",
            "the time between two events of which one is not recorded and complete"};
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end - begin).count();
  return {};
}

FunctionInfo HostDriver::function_info(FunctionHandle handle, std::size_t parameters) {
  const rondo_host_layout& layout = *function_of(handle)->layout;
  if (layout.count < parameters) {
    throw Error(ErrorCode::run_time, fmt::format("a kernel with {} parameters was taken for one with {}",
                                                 layout.count, parameters));
  }
  FunctionInfo info;
  info.layout_known = true;
  info.max_threads_per_block = max_threads_per_block;
  for (unsigned i = 0; i < layout.count; ++i)
    info.parameters.push_back({layout.parameters[i].offset, layout.parameters[i].size});
  return info;
}

void HostDriver::allow_dynamic_shared(FunctionHandle handle, std::size_t bytes) {
  Function& kernel = *function_of(handle);
  if (bytes > max_shared_bytes) {
    throw Error(
        ErrorCode::bad_argument,
        fmt::format("kernel \"{}\": {} bytes of dynamic shared memory; the host device has {} a block",
                    kernel.name, bytes, max_shared_bytes));
  }
  if (bytes > kernel.shared_limit.load(std::memory_order_relaxed))
    kernel.shared_limit.store(bytes, std::memory_order_relaxed);
}

Status HostDriver::check_launch(const KernelLaunch& launch) const noexcept {
  if (const Status status = check_launch_limits(launch, properties_); !status.ok()) return status;
  const Function& kernel = *function_of(launch.function);
  if (launch.shape.shared_bytes > kernel.shared_limit.load(std::memory_order_relaxed)) {
    return refuse("more dynamic shared memory than is allowed for the kernel");
  }
  // The size of the parameters as a struct may include its padding at the end.
  constexpr std::size_t largest_padding = alignof(std::max_align_t) - 1;
  if (launch.argument_bytes < kernel.argument_end ||
      launch.argument_bytes > kernel.argument_end + largest_padding) {
    return refuse("the size of the arguments is not that of the kernel's parameters");
  }
  return {};
}

Status HostDriver::update_kernel_node(ExecHandle handle, NodeHandle node_handle,
                                      const KernelLaunch& launch) noexcept {
  Exec& exec = *reinterpret_cast<Exec*>(handle);
  const Node& node = *reinterpret_cast<const Node*>(node_handle);
  if (node.graph != &exec.graph()) return refuse("updating a node that is not of the exec's graph");
  if (!launch.is_checked) {
    if (const Status status = check_launch(launch); !status.ok()) return status;
  }
  try {
    exec.update(node, launch, *function_of(launch.function));
  } catch (const std::exception&) {
    return {ErrorCode::run_time, 0, "", "no memory on the host to update a node"};
  }
  return {};
}

Status HostDriver::enable_node(ExecHandle handle, NodeHandle node_handle, bool enabled) noexcept {
  Exec& exec = *reinterpret_cast<Exec*>(handle);
  const Node& node = *reinterpret_cast<const Node*>(node_handle);
  if (node.graph != &exec.graph()) return refuse("enabling a node that is not of the exec's graph");
  try {
    exec.enable(node, enabled);
  } catch (const std::exception&) {
    return {ErrorCode::run_time, 0, "", "no memory on the host to update a node"};
  }
  return {};
}

}  // namespace

std::unique_ptr<Driver> make_driver() { return std::make_unique<HostDriver>(host::properties()); }

}  // namespace rondo::host
