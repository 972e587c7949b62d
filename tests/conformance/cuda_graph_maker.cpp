#include "cuda_graph_maker.h"

#include <algorithm>

namespace rondo::conformance {
namespace {

using namespace cuda;

Graph native(GraphHandle handle) { return reinterpret_cast<Graph>(handle); }
NodeHandle handle_of(Node node) { return reinterpret_cast<NodeHandle>(node); }

#define RONDO_CHECK_CUDA(call, ...) check_vendor(static_cast<int>(call(__VA_ARGS__)), #call)

class CudaGraphMaker final : public GraphMaker {
 public:
  CudaGraphMaker() {
    RONDO_CHECK_CUDA(api_->cuDevicePrimaryCtxRetain, &context_, 0);
    RONDO_CHECK_CUDA(api_->cuCtxPushCurrent_v2, context_);
  }
  ~CudaGraphMaker() override {
    Context context = nullptr;
    static_cast<void>(api_->cuCtxPopCurrent_v2(&context));
    static_cast<void>(api_->cuDevicePrimaryCtxRelease_v2(0));
  }

  NodeHandle add_kernel(GraphHandle graph, const KernelLaunch& launch,
                        std::span<const ParameterLayout> layout, ArgumentForm form) override {
    std::vector<std::byte> bytes(launch.arguments, launch.arguments + launch.argument_bytes);
    std::vector<void*> pointers;
    for (const ParameterLayout& parameter : layout) pointers.push_back(bytes.data() + parameter.offset);
    std::size_t size = bytes.size();
    void* extra[] = {launch_buffer(), bytes.data(), launch_buffer_size(), &size, launch_end()};
    const LaunchShape& shape = launch.shape;
    const KernelNodeParameters parameters{reinterpret_cast<Function>(launch.function),
                                          shape.grid.x,
                                          shape.grid.y,
                                          shape.grid.z,
                                          shape.block.x,
                                          shape.block.y,
                                          shape.block.z,
                                          shape.shared_bytes,
                                          form == ArgumentForm::pointers ? pointers.data() : nullptr,
                                          form == ArgumentForm::packed ? extra : nullptr,
                                          nullptr,
                                          nullptr};
    Node node = nullptr;
    RONDO_CHECK_CUDA(api_->cuGraphAddKernelNode_v2, &node, native(graph), nullptr, 0, &parameters);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xa5});
    return handle_of(node);
  }

  NodeHandle add_copy(GraphHandle graph, DevicePointer to, DevicePointer from, std::size_t width,
                      std::size_t height, std::size_t pitch) override {
    Memcpy3D copy = make_copy(to, width, height, pitch);
    copy.from_type = MemoryType::device;
    copy.from_device = from;
    return add(graph, copy);
  }
  NodeHandle add_copy_from_host(GraphHandle graph, DevicePointer to, std::size_t offset, const void* from,
                                std::size_t bytes) override {
    Memcpy3D copy = make_copy(to, bytes, 1, offset + bytes);
    copy.to_x_bytes = offset;
    copy.from_type = MemoryType::host;
    copy.from_host = from;
    return add(graph, copy);
  }

  NodeHandle add_fill(GraphHandle graph, DevicePointer to, std::uint32_t value, std::uint32_t element_bytes,
                      std::size_t width) override {
    const MemsetNodeParameters set{to, width * element_bytes, value, element_bytes, width, 1};
    Node node = nullptr;
    RONDO_CHECK_CUDA(add_memset_node_, &node, native(graph), nullptr, 0, &set, context_);
    return handle_of(node);
  }

  NodeHandle add_child(GraphHandle graph, GraphHandle child) override {
    Node node = nullptr;
    RONDO_CHECK_CUDA(add_child_graph_node_, &node, native(graph), nullptr, 0, native(child));
    return handle_of(node);
  }

  NodeHandle add_empty(GraphHandle graph) override {
    Node node = nullptr;
    RONDO_CHECK_CUDA(add_empty_node_, &node, native(graph), nullptr, 0);
    return handle_of(node);
  }

 private:
  static Memcpy3D make_copy(DevicePointer to, std::size_t width, std::size_t height, std::size_t pitch) {
    Memcpy3D copy{};
    copy.to_type = MemoryType::device;
    copy.to_device = to;
    copy.width_bytes = width;
    copy.height = height;
    copy.depth = 1;
    copy.to_pitch = copy.from_pitch = pitch != 0 ? pitch : width;
    copy.to_height = copy.from_height = height;
    return copy;
  }
  NodeHandle add(GraphHandle graph, const Memcpy3D& copy) {
    Node node = nullptr;
    RONDO_CHECK_CUDA(add_memcpy_node_, &node, native(graph), nullptr, 0, &copy, context_);
    return handle_of(node);
  }

  const std::shared_ptr<const Api> api_ = load_api();
  Context context_ = nullptr;
  Result (*add_memcpy_node_)(Node*, Graph, const Node*, std::size_t, const Memcpy3D*, Context) =
      cuda_function<Result(Node*, Graph, const Node*, std::size_t, const Memcpy3D*, Context)>(
          "cuGraphAddMemcpyNode");
  Result (*add_memset_node_)(Node*, Graph, const Node*, std::size_t, const MemsetNodeParameters*, Context) =
      cuda_function<Result(Node*, Graph, const Node*, std::size_t, const MemsetNodeParameters*, Context)>(
          "cuGraphAddMemsetNode");
  Result (*add_child_graph_node_)(Node*, Graph, const Node*, std::size_t, Graph) =
      cuda_function<Result(Node*, Graph, const Node*, std::size_t, Graph)>("cuGraphAddChildGraphNode");
  Result (*add_empty_node_)(Node*, Graph, const Node*, std::size_t) =
      cuda_function<Result(Node*, Graph, const Node*, std::size_t)>("cuGraphAddEmptyNode");
};

}  // namespace

std::unique_ptr<GraphMaker> make_cuda_graph_maker() { return std::make_unique<CudaGraphMaker>(); }

CudaLibrary::CudaLibrary(std::span<const std::byte> code, const std::string& kernel) {
  const auto load =
      cuda_function<Result(CUlib_st**, const void*, void*, void*, unsigned, void*, void*, unsigned)>(
          "cuLibraryLoadData");
  const auto get = cuda_function<Result(Kernel*, CUlib_st*, const char*)>("cuLibraryGetKernel");
  RONDO_CHECK_CUDA(load, &library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  RONDO_CHECK_CUDA(get, &kernel_, library_, kernel.c_str());
}

CudaLibrary::~CudaLibrary() {
  static_cast<void>(cuda_function<Result(CUlib_st*)>("cuLibraryUnload")(library_));
}

}  // namespace rondo::conformance
