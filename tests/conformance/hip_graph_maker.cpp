#include "hip_graph_maker.h"

#include <algorithm>

#include "hip/api.h"
#include "hip/module.h"
#include "vendor_calls.h"

namespace rondo::conformance {
namespace {

using namespace hip;

template <class Function>
Function* hip_function(const char* name) {
  return reinterpret_cast<Function*>(vendor_function("RONDO_HIP_LIBRARY", "libamdhip64.so.6", name));
}

#define RONDO_CHECK_HIP(call, ...) check_vendor(static_cast<int>(call(__VA_ARGS__)), #call)

Graph native(GraphHandle handle) { return reinterpret_cast<Graph>(handle); }
NodeHandle handle_of(Node node) { return reinterpret_cast<NodeHandle>(node); }
void* pointer_to(DevicePointer address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

class HipGraphMaker final : public GraphMaker {
 public:
  NodeHandle add_kernel(GraphHandle graph, const KernelLaunch& launch,
                        std::span<const ParameterLayout> layout, ArgumentForm form) override {
    std::vector<std::byte> bytes(launch.arguments, launch.arguments + launch.argument_bytes);
    std::vector<void*> pointers;
    for (const ParameterLayout& parameter : layout) pointers.push_back(bytes.data() + parameter.offset);
    pointers.push_back(&pointers);  // never read: for a kernel without parameters the array must not be null
    std::size_t size = bytes.size();
    void* const buffer_key = reinterpret_cast<void*>(1);
    void* const size_key = reinterpret_cast<void*>(2);
    void* const end_key = reinterpret_cast<void*>(3);
    void* extra[] = {buffer_key, bytes.data(), size_key, &size, end_key};
    const LaunchShape& shape = launch.shape;
    KernelNodeParameters parameters{};
    parameters.function = reinterpret_cast<const hip::Function*>(launch.function)->native;
    parameters.grid = {shape.grid.x, shape.grid.y, shape.grid.z};
    parameters.block = {shape.block.x, shape.block.y, shape.block.z};
    parameters.shared_bytes = shape.shared_bytes;
    parameters.kernel_parameters = form == ArgumentForm::pointers ? pointers.data() : nullptr;
    parameters.extra = form == ArgumentForm::packed ? extra : nullptr;
    Node node = nullptr;
    RONDO_CHECK_HIP(api_->hipGraphAddKernelNode, &node, native(graph), nullptr, 0, &parameters);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xa5});
    return handle_of(node);
  }

  NodeHandle add_copy(GraphHandle graph, DevicePointer to, DevicePointer from, std::size_t width,
                      std::size_t height, std::size_t pitch) override {
    Memcpy3D copy = make_copy(pointer_to(to), pointer_to(from), width, height, pitch != 0 ? pitch : width);
    copy.kind = CopyKind::device_to_device;
    return add(graph, copy);
  }
  NodeHandle add_copy_from_host(GraphHandle graph, DevicePointer to, std::size_t offset, const void* from,
                                std::size_t bytes) override {
    Memcpy3D copy = make_copy(pointer_to(to), const_cast<void*>(from), bytes, 1, offset + bytes);
    copy.to_position.x = offset;
    copy.kind = CopyKind::host_to_device;
    return add(graph, copy);
  }

  NodeHandle add_fill(GraphHandle graph, DevicePointer to, std::uint32_t value, std::uint32_t element_bytes,
                      std::size_t width) override {
    MemsetNodeParameters set{};
    set.to = pointer_to(to);
    set.pitch = width * element_bytes;
    set.value = value;
    set.element_bytes = element_bytes;
    set.width = width;
    set.height = 1;
    Node node = nullptr;
    RONDO_CHECK_HIP(add_memset_node_, &node, native(graph), nullptr, 0, &set);
    return handle_of(node);
  }

  NodeHandle add_child(GraphHandle graph, GraphHandle child) override {
    Node node = nullptr;
    RONDO_CHECK_HIP(add_child_graph_node_, &node, native(graph), nullptr, 0, native(child));
    return handle_of(node);
  }

  NodeHandle add_empty(GraphHandle graph) override {
    Node node = nullptr;
    RONDO_CHECK_HIP(api_->hipGraphAddEmptyNode, &node, native(graph), nullptr, 0);
    return handle_of(node);
  }

 private:
  static Memcpy3D make_copy(void* to, void* from, std::size_t width, std::size_t height, std::size_t pitch) {
    Memcpy3D copy{};
    copy.from = {from, pitch, width, height};
    copy.to = {to, pitch, width, height};
    copy.width = width;
    copy.height = height;
    copy.depth = 1;
    return copy;
  }
  NodeHandle add(GraphHandle graph, const Memcpy3D& copy) {
    Node node = nullptr;
    RONDO_CHECK_HIP(add_memcpy_node_, &node, native(graph), nullptr, 0, &copy);
    return handle_of(node);
  }

  const std::shared_ptr<const Api> api_ = load_api();
  Result (*add_memcpy_node_)(Node*, Graph, const Node*, std::size_t, const Memcpy3D*) =
      hip_function<Result(Node*, Graph, const Node*, std::size_t, const Memcpy3D*)>("hipGraphAddMemcpyNode");
  Result (*add_memset_node_)(Node*, Graph, const Node*, std::size_t, const MemsetNodeParameters*) =
      hip_function<Result(Node*, Graph, const Node*, std::size_t, const MemsetNodeParameters*)>(
          "hipGraphAddMemsetNode");
  Result (*add_child_graph_node_)(Node*, Graph, const Node*, std::size_t, Graph) =
      hip_function<Result(Node*, Graph, const Node*, std::size_t, Graph)>("hipGraphAddChildGraphNode");
};

}  // namespace

std::unique_ptr<GraphMaker> make_hip_graph_maker() { return std::make_unique<HipGraphMaker>(); }

}  // namespace rondo::conformance
