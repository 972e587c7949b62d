// A launch as the runtime takes it: an array of pointers into our packed buffer.
#pragma once

#include <array>

#include "../driver.h"
#include "api.h"
#include "module.h"

namespace rondo::hip {

// Not `extra`: HIP reads that list by position, never checks the size against the kernel's, and keeps the
// two forms apart badly (ROCm's clr, hipGraphKernelNode). With `kernelParams` the runtime copies each
// argument during the call, and frees its own copies alone.
class PackedLaunch {
 public:
  explicit PackedLaunch(const KernelLaunch& launch) noexcept : launch_(launch) {
    const auto& arguments = function().kernel.arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      pointers_[i] = const_cast<std::byte*>(launch.arguments + arguments[i].offset);  // the runtime reads it
    }
    // ROCm 5.2 to 5.4 refuse a kernel without parameters when both forms are null.
    if (arguments.empty()) pointers_[0] = &pointers_;
  }
  PackedLaunch(const PackedLaunch&) = delete;
  PackedLaunch& operator=(const PackedLaunch&) = delete;

  const Function& function() const noexcept { return *reinterpret_cast<const Function*>(launch_.function); }
  void** parameters() noexcept { return pointers_.data(); }
  KernelNodeParameters node() noexcept {
    const LaunchShape& shape = launch_.shape;
    KernelNodeParameters node{};
    node.function = function().native;
    node.grid = {shape.grid.x, shape.grid.y, shape.grid.z};
    node.block = {shape.block.x, shape.block.y, shape.block.z};
    node.shared_bytes = shape.shared_bytes;
    node.kernel_parameters = parameters();
    node.extra = nullptr;
    return node;
  }

 private:
  const KernelLaunch& launch_;
  std::array<void*, max_parameters> pointers_{};
};

}  // namespace rondo::hip
