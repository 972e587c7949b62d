// Graphs of a vendor that exists in memory alone: nodes are what a test puts there, execs keep what they were
// given, and any call can be made to fail.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver.h"
#include "foreign_graphs.h"
#include "rondo/device.h"
#include "rondo/error.h"

namespace rondo {

struct FakeGraph;

struct FakeNode {
  ForeignNodeKind kind = ForeignNodeKind::empty;
  ForeignKernel kernel;
  ForeignMemcpy copy;
  ForeignMemset set;
  FakeGraph* child = nullptr;
  std::string unreadable;  // why reading the node is refused

  NodeHandle handle() { return reinterpret_cast<NodeHandle>(this); }
};

struct FakeGraph {
  std::vector<std::unique_ptr<FakeNode>> nodes;
  std::vector<std::pair<NodeHandle, NodeHandle>> edges;

  void* handle() { return this; }
  FakeNode& add(ForeignNodeKind kind) {
    nodes.push_back(std::make_unique<FakeNode>());
    nodes.back()->kind = kind;
    return *nodes.back();
  }
  // A kernel whose arguments are these, each at the next multiple of its alignment.
  struct Argument {
    std::vector<std::byte> bytes;
    std::size_t alignment;
  };
  FakeNode& add_kernel(std::string name, const std::vector<Argument>& arguments) {
    FakeNode& node = add(ForeignNodeKind::kernel);
    node.kernel.name = std::move(name);
    for (const Argument& argument : arguments) {
      const std::size_t offset =
          (node.kernel.arguments.size() + argument.alignment - 1) / argument.alignment * argument.alignment;
      node.kernel.layout.push_back({offset, argument.bytes.size()});
      node.kernel.arguments.resize(offset);
      node.kernel.arguments.insert(node.kernel.arguments.end(), argument.bytes.begin(), argument.bytes.end());
    }
    return node;
  }
  FakeNode& add_copy(std::uint64_t from, bool from_device, std::uint64_t to, bool to_device) {
    FakeNode& node = add(ForeignNodeKind::memcpy);
    node.copy.from = {from_device, from};
    node.copy.to = {to_device, to};
    node.copy.width_bytes = 64;
    return node;
  }
  FakeNode& add_set(std::uint64_t address, std::uint32_t value) {
    FakeNode& node = add(ForeignNodeKind::memset);
    node.set.address = address;
    node.set.width = 16;
    node.set.element_bytes = 4;
    node.set.value = value;
    return node;
  }
};

template <class T>
std::vector<std::byte> bytes_of_value(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
template <class T>
FakeGraph::Argument argument_of(const T& value) {
  return {bytes_of_value(value), alignof(T)};
}

class FakeForeignGraphs final : public ForeignGraphs {
 public:
  struct Update {
    void* exec;
    NodeHandle node;
    std::vector<std::byte> arguments;  // of a kernel
    std::uint64_t from = 0, to = 0;    // of a memcpy; `to` and `value` of a memset
    std::uint32_t value = 0;
  };
  std::vector<AddressRange> allocations;
  std::vector<Update> updates;
  std::size_t updates_before_failure = SIZE_MAX;
  std::size_t update_count = 0;
  bool keeps_updates = true;  // false: they are counted alone, and nothing is allocated
  std::size_t allocation_queries = 0;
  int open_scopes = 0;

  static FakeNode& fake(NodeHandle node) { return *reinterpret_cast<FakeNode*>(node); }

  std::vector<NodeHandle> nodes(GraphHandle graph) override {
    std::vector<NodeHandle> handles;
    for (const auto& node : reinterpret_cast<FakeGraph*>(graph)->nodes) handles.push_back(node->handle());
    return handles;
  }
  std::vector<std::pair<NodeHandle, NodeHandle>> edges(GraphHandle graph) override {
    return reinterpret_cast<FakeGraph*>(graph)->edges;
  }
  ForeignNodeKind kind(NodeHandle node) override { return fake(node).kind; }
  GraphHandle child_graph(NodeHandle node) override {
    return reinterpret_cast<GraphHandle>(fake(node).child);
  }
  ForeignKernel read_kernel(NodeHandle node, const CodeObjects* code_objects) override {
    FakeNode& from = fake(node);
    if (!from.unreadable.empty()) throw Error(ErrorCode::bad_argument, from.unreadable);
    ForeignKernel kernel = from.kernel;
    if (code_objects != nullptr) {
      if (auto layout = code_objects->layout(kernel.name)) kernel.layout = *std::move(layout);
    }
    return kernel;
  }
  ForeignMemcpy read_memcpy(NodeHandle node) override { return fake(node).copy; }
  ForeignMemset read_memset(NodeHandle node) override { return fake(node).set; }

  Status update(ExecHandle exec, NodeHandle node, const ForeignKernel& kernel) noexcept override {
    if (!keeps_updates) return count();
    return record({exec, node, kernel.arguments});
  }
  Status update(ExecHandle exec, NodeHandle node, const ForeignMemcpy& copy) noexcept override {
    if (!keeps_updates) return count();
    return record({exec, node, {}, copy.from.address, copy.to.address});
  }
  Status update(ExecHandle exec, NodeHandle node, const ForeignMemset& set) noexcept override {
    if (!keeps_updates) return count();
    return record({exec, node, {}, 0, set.address, set.value});
  }
  std::optional<AddressRange> allocation(std::uint64_t address) noexcept override {
    ++allocation_queries;
    for (const AddressRange& range : allocations) {
      if (range.contains(address)) return range;
    }
    return std::nullopt;
  }

 private:
  Status count() noexcept {
    ++update_count;
    return {};
  }
  Status record(Update update) {
    if (open_scopes == 0) return {ErrorCode::run_time, 2, "FAKE_SCOPE", "fakeUpdate"};
    if (updates.size() >= updates_before_failure) return {ErrorCode::run_time, 1, "FAKE_ERROR", "fakeUpdate"};
    updates.push_back(std::move(update));
    return {};
  }
};

// Nothing but its graphs works.
class FakeDriver final : public Driver {
 public:
  FakeDriver(std::string backend, std::string architecture) {
    properties_.backend = std::move(backend);
    properties_.architecture = std::move(architecture);
  }
  FakeForeignGraphs graphs;

  ForeignGraphs* foreign_graphs() noexcept override { return &graphs; }
  const DeviceProperties& properties() const noexcept override { return properties_; }
  DevicePointer allocate(std::size_t) override { none(); }
  void release(DevicePointer) noexcept override {}
  Status write(DevicePointer, const void*, std::size_t, StreamHandle) noexcept override { return no; }
  Status read(void*, DevicePointer, std::size_t, StreamHandle) noexcept override { return no; }
  Status fill_bytes(DevicePointer, std::uint8_t, std::size_t, StreamHandle) noexcept override { return no; }
  StreamHandle create_stream() override { none(); }
  void destroy_stream(StreamHandle) noexcept override {}
  Status synchronize(StreamHandle) noexcept override { return no; }
  EventHandle create_event() override { none(); }
  void destroy_event(EventHandle) noexcept override {}
  Status record(EventHandle, StreamHandle) noexcept override { return no; }
  Status synchronize_event(EventHandle) noexcept override { return no; }
  Status wait(StreamHandle, EventHandle) noexcept override { return no; }
  Status elapsed_ms(EventHandle, EventHandle, float*) noexcept override { return no; }
  Status launch_host_function(StreamHandle, void (*)(void*), void*) noexcept override { return no; }
  ModuleHandle load_module(std::span<const std::byte>) override { none(); }
  void unload_module(ModuleHandle) noexcept override {}
  FunctionHandle function(ModuleHandle, const std::string&) override { none(); }
  FunctionInfo function_info(FunctionHandle, std::size_t) override { none(); }
  void allow_dynamic_shared(FunctionHandle, std::size_t) override { none(); }
  Status enter(std::intptr_t* before) noexcept override {
    *before = 0;
    ++graphs.open_scopes;
    return {};
  }
  void leave(std::intptr_t) noexcept override { --graphs.open_scopes; }
  Status launch(const KernelLaunch&, StreamHandle) noexcept override { return no; }
  GraphHandle create_graph() override { none(); }
  void destroy_graph(GraphHandle) noexcept override {}
  NodeHandle add_kernel_node(GraphHandle, const KernelLaunch&) override { none(); }
  void add_dependencies(GraphHandle, std::span<const GraphEdge>) override { none(); }
  ExecHandle instantiate(GraphHandle, bool) override { none(); }
  void destroy_exec(ExecHandle) noexcept override {}
  void upload(ExecHandle, StreamHandle) override { none(); }
  Status update_kernel_node(ExecHandle, NodeHandle, const KernelLaunch&) noexcept override { return no; }
  Status enable_node(ExecHandle, NodeHandle, bool) noexcept override { return no; }
  Status launch_graph(ExecHandle, StreamHandle) noexcept override { return no; }

 private:
  static constexpr Status no{ErrorCode::run_time, 0, "", "a fake driver runs nothing"};
  [[noreturn]] static void none() { throw Error(no, "a call of a fake driver"); }

  DeviceProperties properties_;
};

struct FakeDevice {
  explicit FakeDevice(std::string backend = "cuda", std::string architecture = "sm_90") {
    auto owned = std::make_unique<FakeDriver>(backend, std::move(architecture));
    driver = owned.get();
    device = std::make_shared<Device>(backend + ":0", std::move(owned), nullptr);
  }
  FakeForeignGraphs& graphs() const { return driver->graphs; }

  std::shared_ptr<Device> device;
  FakeDriver* driver;
};

}  // namespace rondo
