// Graphs that somebody else made (an engine's stream capture, PyTorch, cuBLAS), as a driver lets them be read
// and their execs be updated. What a driver returns is read once and deep-copied; it is never written, kept
// or passed back.
//
// cuda.h (CUDA 13.0), cuGraphKernelNodeGetParams: "The kernelParams or extra array returned in nodeParams, as
// well as the argument values it points to, are owned by the node. This memory remains valid until the node
// is destroyed or its parameters are modified, and should not be modified directly." In HIP each argument is
// an allocation of the node's, which the node frees.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "code_objects.h"
#include "driver.h"
#include "rondo/address_range.h"

namespace rondo {

enum class ForeignNodeKind : std::uint8_t {
  kernel,
  memcpy,
  memset,
  child_graph,
  empty,
  host,
  event,
  memory,
  conditional,
  other
};

const char* kind_name(ForeignNodeKind kind) noexcept;

// In all three, `fixed`: why the driver takes no update of this node, in words that follow its name; null
// where it does. A string that lives forever. `needs_scope`: an update is to be made in a DriverScope.
struct alignas(64) ForeignKernel {
  // What most updates read comes first, in one cache line, and begins as CUDA's own struct does.
  // The driver's own handle, kept alive by its module: CUfunction, CUkernel or hipFunction_t.
  void* function = nullptr;
  LaunchShape shape;
  bool is_plain = false;  // cuda: a CUfunction that takes its arguments packed, and is not `fixed`
  bool needs_scope = true;
  bool is_library_kernel = false;  // a CUkernel
  bool is_cooperative = false;
  std::vector<std::byte> arguments;  // packed, as `layout` says

  const char* fixed = nullptr;
  void* context = nullptr;  // the node's CUcontext, never null for a CUkernel; null on hip
  std::vector<ParameterLayout> layout;
  std::string name;       // mangled
  Dim3 cluster{0, 0, 0};  // 0: none
};

// A node's arguments as one buffer, by the kernel's layout, from what the driver returned: `pointers`, one a
// parameter, or where they are null `packed`. Throws Error(run_time) where there are too few of them.
std::vector<std::byte> copy_arguments(const ForeignKernel& kernel, void* const* pointers,
                                      std::span<const std::byte> packed);

struct ForeignMemcpy {
  struct End {
    bool is_device = false;     // else the host's memory, or an array, which has no address
    std::uint64_t address = 0;  // of the first byte that is copied
  };
  End from, to;
  std::size_t width_bytes = 0, height = 1, depth = 1;
  const char* fixed = nullptr;
  bool needs_scope = true;
  // The vendor's own struct of all parameters; the addresses above take the place of those in it when the
  // node is updated.
  alignas(std::max_align_t) std::array<std::byte, 256> native{};
  void* context = nullptr;
};

struct ForeignMemset {
  std::uint64_t address = 0;
  std::size_t pitch = 0, width = 0, height = 1;  // width in elements
  std::uint32_t value = 0, element_bytes = 1;
  void* context = nullptr;
  const char* fixed = nullptr;
  bool needs_scope = true;
};

// Of one device. Calls that read throw Error with the driver's own code; those that update return a Status,
// allocate nothing on our side and throw nothing. One graph or exec is used by one thread at a time.
class ForeignGraphs {
 public:
  virtual ~ForeignGraphs() = default;

  virtual std::vector<NodeHandle> nodes(GraphHandle graph) = 0;
  virtual std::vector<std::pair<NodeHandle, NodeHandle>> edges(GraphHandle graph) = 0;
  virtual ForeignNodeKind kind(NodeHandle node) = 0;
  virtual GraphHandle child_graph(NodeHandle node) = 0;

  // What has been read of the process's own code, for all graphs of the device.
  const std::shared_ptr<const LoadedCodeObjects>& loaded_code_objects() const noexcept { return loaded_; }
  // Throws Error(bad_argument) that names the kernel where its layout is not to be had.
  virtual ForeignKernel read_kernel(NodeHandle node, const CodeObjects* code_objects) = 0;
  virtual ForeignMemcpy read_memcpy(NodeHandle node) = 0;
  virtual ForeignMemset read_memset(NodeHandle node) = 0;

  // These in a DriverScope where what is given needs_scope. `node` belongs to the graph that `exec` was made
  // of, which is still there (both vendors). A node that is `fixed` is refused with bad_argument.
  virtual Status update(ExecHandle exec, NodeHandle node, const ForeignKernel& kernel) noexcept = 0;
  virtual Status update(ExecHandle exec, NodeHandle node, const ForeignMemcpy& copy) noexcept = 0;
  virtual Status update(ExecHandle exec, NodeHandle node, const ForeignMemset& set) noexcept = 0;

  // The whole allocation that an address lies in; nullopt for what is no device memory.
  virtual std::optional<AddressRange> allocation(std::uint64_t address) noexcept = 0;

 protected:
  ForeignGraphs() = default;

 private:
  const std::shared_ptr<const LoadedCodeObjects> loaded_ = std::make_shared<LoadedCodeObjects>();
};

}  // namespace rondo
