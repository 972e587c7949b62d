#include "foreign_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>

#include "context.h"
#include "rondo/error.h"

namespace rondo::hip {
namespace {

Graph native(GraphHandle handle) noexcept { return reinterpret_cast<Graph>(handle); }
Node native(NodeHandle handle) noexcept { return reinterpret_cast<Node>(handle); }
Exec native(ExecHandle handle) noexcept { return reinterpret_cast<Exec>(handle); }
std::uint64_t address_of(const void* pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }
void* pointer_to(std::uint64_t address) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

constexpr std::size_t most_pointers = 1024;
constexpr const char* too_many_parameters = "has more than 1,024 parameters";
// What hipMemcpyAsync leaves in a capture is a copy of another kind inside, whose parameters
// hipGraphMemcpyNodeGetParams does not have (ROCm's clr, GraphMemcpyNode1D, ROCm 6.0 to 6.4).
constexpr const char* untold = "is a copy whose parameters ROCm does not tell";
constexpr const char* of_arrays = "copies from or to an array, which has no address";
constexpr const char* no_copy_updates = "takes hipGraphExecMemcpyNodeSetParams, which ROCm has from 4.5 on";
constexpr const char* no_set_updates = "takes hipGraphExecMemsetNodeSetParams, which ROCm has from 4.5 on";

// A kernel node's parameters, assembled from our own bytes: never `extra` (packed_launch.h).
class Parameters {
 public:
  explicit Parameters(const ForeignKernel& kernel) noexcept {
    auto* const bytes = const_cast<std::byte*>(kernel.arguments.data());  // the runtime reads it only
    for (std::size_t i = 0; i < kernel.layout.size(); ++i) pointers_[i] = bytes + kernel.layout[i].offset;
    // ROCm 5.2 to 5.4 refuse a kernel without parameters when both forms are null.
    if (kernel.layout.empty()) pointers_[0] = &pointers_;
    const LaunchShape& shape = kernel.shape;
    native_.function = kernel.function;
    native_.grid = {shape.grid.x, shape.grid.y, shape.grid.z};
    native_.block = {shape.block.x, shape.block.y, shape.block.z};
    native_.shared_bytes = shape.shared_bytes;
    native_.kernel_parameters = pointers_;
  }
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  const KernelNodeParameters* get() const noexcept { return &native_; }

 private:
  KernelNodeParameters native_{};
  void* pointers_[most_pointers];  // what is used of it is set above
};

class HipForeignGraphs final : public ForeignGraphs {
 public:
  HipForeignGraphs(const Api& api, int device) : api_(api), device_(device) {}

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
  void need(bool is_there, const char* function, int version) const;
  unsigned first_type();
  std::string name_of(void* function) const;
  bool is_device(CopyKind kind, CopyKind one_sided, const void* pointer) noexcept;
  ForeignMemcpy::End fold(bool is_on_device, PitchedPointer& pointer, Position& position) noexcept;

  const Api& api_;
  const int device_;
  std::atomic<int> first_type_{-1};  // not asked for yet
};

#define RONDO_HIP_ENTER_OR_THROW(doing) \
  const Current current(api_, device_); \
  check(current.status(), doing)
#define RONDO_HIP_NEED(function, version) need(api_.function != nullptr, #function, version)

Status refuse(const char* why) noexcept { return {ErrorCode::bad_argument, 0, "", why}; }

void HipForeignGraphs::need(bool is_there, const char* function, int version) const {
  if (is_there) return;
  throw Error(
      ErrorCode::missing_backend,
      fmt::format(
          "reading a graph that others made takes {}, which ROCm {}.{} or later has; this one is {}.{}",
          function, version / 100, version % 100, api_.runtime_version / 10'000'000,
          api_.runtime_version / 100'000 % 100),
      "update ROCm");
}

std::vector<NodeHandle> HipForeignGraphs::nodes(GraphHandle graph) {
  constexpr const char* doing = "listing a graph's nodes";
  RONDO_HIP_NEED(hipGraphGetNodes, 404);
  RONDO_HIP_ENTER_OR_THROW(doing);
  std::size_t count = 0;
  check(RONDO_HIP(api_, hipGraphGetNodes, native(graph), nullptr, &count), doing);
  std::vector<NodeHandle> handles(count);
  if (count == 0) return handles;
  static_assert(sizeof(NodeHandle) == sizeof(Node));
  check(RONDO_HIP(api_, hipGraphGetNodes, native(graph), reinterpret_cast<Node*>(handles.data()), &count),
        doing);
  handles.resize(std::min(handles.size(), count));
  return handles;
}

std::vector<std::pair<NodeHandle, NodeHandle>> HipForeignGraphs::edges(GraphHandle graph) {
  constexpr const char* doing = "listing a graph's edges";
  RONDO_HIP_NEED(hipGraphGetEdges, 405);
  RONDO_HIP_ENTER_OR_THROW(doing);
  std::size_t count = 0;
  check(RONDO_HIP(api_, hipGraphGetEdges, native(graph), nullptr, nullptr, &count), doing);
  std::vector<std::pair<NodeHandle, NodeHandle>> edges;
  if (count == 0) return edges;
  std::vector<Node> from(count), to(count);
  check(RONDO_HIP(api_, hipGraphGetEdges, native(graph), from.data(), to.data(), &count), doing);
  for (std::size_t i = 0; i < std::min(count, from.size()); ++i) {
    edges.emplace_back(reinterpret_cast<NodeHandle>(from[i]), reinterpret_cast<NodeHandle>(to[i]));
  }
  return edges;
}

// hipGraphNodeType begins with the kernel's, which is 1 in the headers of ROCm 5.2 and 0 in those of 6: an
// empty node, the fifth after it, shows which.
unsigned HipForeignGraphs::first_type() {
  constexpr const char* doing = "asking how ROCm numbers the types of nodes";
  if (const int known = first_type_.load(std::memory_order_relaxed); known >= 0)
    return static_cast<unsigned>(known);
  RONDO_HIP_NEED(hipGraphAddEmptyNode, 405);
  Graph graph = nullptr;
  Node node = nullptr;
  unsigned type = 0;
  check(RONDO_HIP(api_, hipGraphCreate, &graph, 0), doing);
  Status status = RONDO_HIP(api_, hipGraphAddEmptyNode, &node, graph, nullptr, 0);
  if (status.ok()) status = RONDO_HIP(api_, hipGraphNodeGetType, node, &type);
  static_cast<void>(api_.hipGraphDestroy(graph));
  check(status, doing);
  if (type != 5 && type != 6)
    throw Error(ErrorCode::run_time, fmt::format("{}: an empty node is of type {}", doing, type));
  first_type_.store(static_cast<int>(type - 5), std::memory_order_relaxed);
  return type - 5;
}

ForeignNodeKind HipForeignGraphs::kind(NodeHandle node) {
  RONDO_HIP_NEED(hipGraphNodeGetType, 405);
  RONDO_HIP_ENTER_OR_THROW("asking for a node's type");
  const unsigned first = first_type();
  unsigned type = 0;
  check(RONDO_HIP(api_, hipGraphNodeGetType, native(node), &type), "asking for a node's type");
  switch (type - first) {
    case 0:
      return ForeignNodeKind::kernel;
    case 1:
      return ForeignNodeKind::memcpy;
    case 2:
      return ForeignNodeKind::memset;
    case 3:
      return ForeignNodeKind::host;
    case 4:
      return ForeignNodeKind::child_graph;
    case 5:
      return ForeignNodeKind::empty;
    case 6:
    case 7:
      return ForeignNodeKind::event;
    case 10:
    case 11:
      return first == 0 ? ForeignNodeKind::memory : ForeignNodeKind::other;
    default:
      return ForeignNodeKind::other;  // copies that hipGraphMemcpyNodeGetParams is not for among them
  }
}

GraphHandle HipForeignGraphs::child_graph(NodeHandle node) {
  RONDO_HIP_NEED(hipGraphChildGraphNodeGetGraph, 405);
  RONDO_HIP_ENTER_OR_THROW("asking for a child graph");
  Graph graph = nullptr;
  check(RONDO_HIP(api_, hipGraphChildGraphNodeGetGraph, native(node), &graph), "asking for a child graph");
  return reinterpret_cast<GraphHandle>(graph);
}

// A node's function is a module's function or the host function that stands for a kernel, and only the
// look-up of the latter takes any address.
std::string HipForeignGraphs::name_of(void* function) const {
  RONDO_HIP_NEED(hipKernelNameRefByPtr, 402);
  RONDO_HIP_NEED(hipKernelNameRef, 402);
  const char* name = api_.hipKernelNameRefByPtr(function, nullptr);
  if (name == nullptr) name = api_.hipKernelNameRef(static_cast<NativeFunction>(function));
  std::string_view text = name != nullptr ? name : "";
  constexpr std::string_view descriptor = ".kd";  // of the kernel's symbol
  if (text.ends_with(descriptor)) text.remove_suffix(descriptor.size());
  return std::string(text);
}

std::vector<ParameterLayout> layout_of(const std::string& kernel, const CodeObjects* code_objects) {
  std::optional<std::vector<ParameterLayout>> found;
  if (code_objects != nullptr) found = code_objects->layout(kernel);
  if (found) return *std::move(found);
  throw Error(ErrorCode::bad_argument,
              fmt::format("the layout of kernel \"{}\" is not known: HIP cannot be asked for it, and no code "
                          "object that was searched has it.{}",
                          kernel, code_objects != nullptr ? code_objects->left_out() : ""),
              "name the file with the kernel's code (a code object, or what it was linked into)");
}

// HIP reads the list by position: POINTER, buffer, SIZE, &size, END.
std::span<const std::byte> packed_values(void* const* extra) {
  if (extra == nullptr) return {};
  return {static_cast<const std::byte*>(extra[1]), *static_cast<const std::size_t*>(extra[3])};
}

// HIP's attributes of kernel nodes are not asked for: of a node that has one, others are refused (ROCm's clr,
// GetAttrParams), and none of them matters to an update.
ForeignKernel HipForeignGraphs::read_kernel(NodeHandle node, const CodeObjects* code_objects) {
  constexpr const char* doing = "reading a kernel node's parameters";
  if (kind(node) != ForeignNodeKind::kernel)
    throw Error(ErrorCode::bad_argument, "a node that is no kernel node was taken for one");
  RONDO_HIP_NEED(hipGraphKernelNodeGetParams, 403);
  RONDO_HIP_ENTER_OR_THROW(doing);
  KernelNodeParameters native_parameters{};
  check(RONDO_HIP(api_, hipGraphKernelNodeGetParams, native(node), &native_parameters), doing);
  if (native_parameters.function == nullptr)
    throw Error(ErrorCode::run_time, "a kernel node without a kernel");
  ForeignKernel kernel;
  kernel.function = native_parameters.function;
  const Dimensions &grid = native_parameters.grid, &block = native_parameters.block;
  kernel.shape = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, native_parameters.shared_bytes};
  kernel.name = name_of(kernel.function);
  kernel.layout = layout_of(kernel.name, code_objects);
  void* const* const pointers = native_parameters.kernel_parameters;
  kernel.arguments = copy_arguments(
      kernel, pointers,
      pointers == nullptr ? packed_values(native_parameters.extra) : std::span<const std::byte>());
  if (kernel.layout.size() > most_pointers) kernel.fixed = too_many_parameters;
  return kernel;
}

bool HipForeignGraphs::is_device(CopyKind kind, CopyKind one_sided, const void* pointer) noexcept {
  if (kind == CopyKind::by_address) return allocation(address_of(pointer)).has_value();
  return kind == one_sided || kind == CopyKind::device_to_device;
}

// The position is folded into the address, so that it is the first byte's.
ForeignMemcpy::End HipForeignGraphs::fold(bool is_on_device, PitchedPointer& pointer,
                                          Position& position) noexcept {
  const std::size_t offset = position.x + (position.y + position.z * pointer.y_rows) * pointer.pitch;
  pointer.pointer = static_cast<std::byte*>(pointer.pointer) + offset;
  position = {0, 0, 0};
  return {is_on_device, address_of(pointer.pointer)};
}

ForeignMemcpy HipForeignGraphs::read_memcpy(NodeHandle node) {
  constexpr const char* doing = "reading a memcpy node's parameters";
  if (kind(node) != ForeignNodeKind::memcpy)
    throw Error(ErrorCode::bad_argument, "a node that is no memcpy node was taken for one");
  RONDO_HIP_NEED(hipGraphMemcpyNodeGetParams, 405);
  RONDO_HIP_ENTER_OR_THROW(doing);
  Memcpy3D native_copy{};
  check(RONDO_HIP(api_, hipGraphMemcpyNodeGetParams, native(node), &native_copy), doing);
  ForeignMemcpy copy;
  copy.width_bytes = native_copy.width;
  copy.height = native_copy.height;
  copy.depth = native_copy.depth;
  if (native_copy.from_array != nullptr || native_copy.to_array != nullptr) {
    copy.fixed = of_arrays;
  } else if (native_copy.from.pointer == nullptr || native_copy.to.pointer == nullptr) {
    copy.fixed = untold;
  } else {
    const CopyKind kind = native_copy.kind;
    copy.from = fold(is_device(kind, CopyKind::device_to_host, native_copy.from.pointer), native_copy.from,
                     native_copy.from_position);
    copy.to = fold(is_device(kind, CopyKind::host_to_device, native_copy.to.pointer), native_copy.to,
                   native_copy.to_position);
    if (api_.hipGraphExecMemcpyNodeSetParams == nullptr) copy.fixed = no_copy_updates;
  }
  static_assert(sizeof native_copy <= sizeof copy.native);
  std::memcpy(copy.native.data(), &native_copy, sizeof native_copy);
  return copy;
}

ForeignMemset HipForeignGraphs::read_memset(NodeHandle node) {
  constexpr const char* doing = "reading a memset node's parameters";
  if (kind(node) != ForeignNodeKind::memset)
    throw Error(ErrorCode::bad_argument, "a node that is no memset node was taken for one");
  RONDO_HIP_NEED(hipGraphMemsetNodeGetParams, 405);
  RONDO_HIP_ENTER_OR_THROW(doing);
  MemsetNodeParameters native_set{};
  check(RONDO_HIP(api_, hipGraphMemsetNodeGetParams, native(node), &native_set), doing);
  ForeignMemset set;
  set.address = address_of(native_set.to);
  set.pitch = native_set.pitch;
  set.width = native_set.width;
  set.height = native_set.height;
  set.value = native_set.value;
  set.element_bytes = native_set.element_bytes;
  if (api_.hipGraphExecMemsetNodeSetParams == nullptr) set.fixed = no_set_updates;
  return set;
}

Status HipForeignGraphs::update(ExecHandle exec, NodeHandle node, const ForeignKernel& kernel) noexcept {
  if (kernel.fixed != nullptr) return refuse(kernel.fixed);
  const Parameters parameters(kernel);
  return RONDO_HIP(api_, hipGraphExecKernelNodeSetParams, native(exec), native(node), parameters.get());
}

Status HipForeignGraphs::update(ExecHandle exec, NodeHandle node, const ForeignMemcpy& copy) noexcept {
  if (copy.fixed != nullptr) return refuse(copy.fixed);
  Memcpy3D native_copy;
  std::memcpy(&native_copy, copy.native.data(), sizeof native_copy);
  if (copy.from.is_device) native_copy.from.pointer = pointer_to(copy.from.address);
  if (copy.to.is_device) native_copy.to.pointer = pointer_to(copy.to.address);
  return RONDO_HIP(api_, hipGraphExecMemcpyNodeSetParams, native(exec), native(node), &native_copy);
}

Status HipForeignGraphs::update(ExecHandle exec, NodeHandle node, const ForeignMemset& set) noexcept {
  if (set.fixed != nullptr) return refuse(set.fixed);
  MemsetNodeParameters native_set{};
  native_set.to = pointer_to(set.address);
  native_set.element_bytes = set.element_bytes;
  native_set.height = set.height;
  native_set.pitch = set.pitch;
  native_set.value = set.value;
  native_set.width = set.width;
  return RONDO_HIP(api_, hipGraphExecMemsetNodeSetParams, native(exec), native(node), &native_set);
}

std::optional<AddressRange> HipForeignGraphs::allocation(std::uint64_t address) noexcept {
  if (api_.hipMemGetAddressRange == nullptr || address == 0) return std::nullopt;
  const Current current(api_, device_);
  void* begin = nullptr;
  std::size_t bytes = 0;
  if (!current.status().ok() ||
      api_.hipMemGetAddressRange(&begin, &bytes, pointer_to(address)) != Result::success)
    return std::nullopt;
  const AddressRange range{address_of(begin), bytes};
  return range.contains(address) ? std::optional(range) : std::nullopt;
}

}  // namespace

std::unique_ptr<ForeignGraphs> make_foreign_graphs(const Api& api, int device) {
  return std::make_unique<HipForeignGraphs>(api, device);
}

}  // namespace rondo::hip
