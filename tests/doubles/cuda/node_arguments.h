// The arguments of a kernel node: copied into the node's own memory, and shown to callers in pages that they
// cannot write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "driver.h"

namespace rondo::cuda {

// The bytes after the last parameter's.
std::size_t argument_end(std::span<const ParameterLayout> layout) noexcept;

class NodeArguments {
 public:
  NodeArguments() = default;

  // Copies what a launch's kernelParams or extra point to. nullopt where CUDA refuses them: both given,
  // neither given for a kernel that has parameters, a parameter without a value, a list with an unknown key,
  // a buffer that is not there or has not the parameters' size.
  static std::optional<NodeArguments> copy(std::span<const ParameterLayout> layout, void** kernel_parameters,
                                           void** extra);

  // The same arguments, in memory of their own.
  NodeArguments clone() const;

  std::span<const std::byte> packed() const noexcept { return packed_; }
  bool is_extra() const noexcept { return is_extra_; }

  // cuda.h, cuGraphKernelNodeGetParams (CUDA 13.0): the arrays and the values are owned by the node, valid
  // until the node is destroyed or its parameters are modified, and "should not be modified directly"; the
  // form is the one that was set last. Here they lie in pages of their own, read-only, gone with this object.
  struct View {
    void** kernel_parameters = nullptr;
    void** extra = nullptr;
  };
  View view(std::span<const ParameterLayout> layout);

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* pages) const noexcept;
  };

  std::vector<std::byte> packed_;
  bool is_extra_ = false;
  std::unique_ptr<std::byte, Unmap> pages_{nullptr, Unmap{0}};
  View view_;
};

}  // namespace rondo::cuda
