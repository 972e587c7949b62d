// The parameters of a kernel node, copied out of a graph that somebody else made.
//
//     auto params = rondo::KernelNodeParams::copy(*device, node);   // CUgraphNode, cudaGraphNode_t,
//     hipGraphNode_t for (std::size_t i = 0; i < params.arguments(); ++i) use(params.argument(i));
//
// The copy is deep and owned: it holds nothing of the driver's, and the node may change or go. Neither vendor
// offers that: what their Get calls return belongs to the node.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rondo/launch_shape.h"

namespace rondo {

class Device;
struct ForeignKernel;

struct AdoptOptions {
  // Code objects and fat binaries, by file, that know the layouts which the driver does not (HIP, CUDA before
  // 12.4). Those of the ELF files that this process has loaded are searched too.
  std::vector<std::string> code_object_files;
};

class KernelNodeParams {
 public:
  // Works whether the node was made with `kernelParams` or `extra`, with a CUfunction or a CUkernel, by the
  // driver's or the runtime's interface. Throws Error(bad_argument) for a null node, a node that is no kernel
  // node, a device without graphs of others (host), and for a kernel whose layout neither the driver nor
  // code objects know (HIP and CUDA before 12.4 cannot be asked), with the kernel's name; Error(run_time)
  // with the driver's code.
  static KernelNodeParams copy(Device& device, void* node, const AdoptOptions& options = {});

  KernelNodeParams(KernelNodeParams&&) noexcept;
  KernelNodeParams& operator=(KernelNodeParams&&) noexcept;
  ~KernelNodeParams();

  const std::string& name() const noexcept;  // mangled
  std::string demangled_name() const;        // as name() where that is no mangled name
  void* function() const noexcept;           // the driver's own handle; belongs to its module
  const LaunchShape& shape() const noexcept;
  bool is_cooperative() const noexcept;
  Dim3 cluster() const noexcept;  // 0, 0, 0: none

  std::size_t arguments() const noexcept;
  // Bytes of argument i, as large as the kernel's own layout says; empty for an i out of range.
  std::span<const std::byte> argument(std::size_t i) const noexcept;
  std::size_t offset(std::size_t i) const noexcept;  // of argument i in packed(); 0 for an i out of range
  std::span<const std::byte> packed() const noexcept;

 private:
  friend class CapturedGraph;
  explicit KernelNodeParams(std::unique_ptr<ForeignKernel> kernel) noexcept;
  std::unique_ptr<ForeignKernel> kernel_;
};

}  // namespace rondo
