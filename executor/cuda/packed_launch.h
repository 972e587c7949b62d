// A launch as the driver takes it, its arguments packed.
#pragma once

#include "../driver.h"
#include "api.h"

namespace rondo::cuda {

// cuda.h, cuGraphAddKernelNode and cuLaunchKernel (CUDA 13.0): parameters "can also be packaged by the
// application into a single buffer that is passed in via extra"; "The kernelParams or extra array, as well as
// the argument values it points to, are copied during this call". A kernel without parameters gets neither.
class PackedLaunch {
 public:
  explicit PackedLaunch(const KernelLaunch& launch) noexcept
      : launch_(launch), bytes_(launch.argument_bytes) {
    extra_[0] = launch_buffer();
    extra_[1] = const_cast<std::byte*>(launch.arguments);  // the driver reads it only
    extra_[2] = launch_buffer_size();
    extra_[3] = &bytes_;
    extra_[4] = launch_end();
  }
  PackedLaunch(const PackedLaunch&) = delete;
  PackedLaunch& operator=(const PackedLaunch&) = delete;

  Function function() const noexcept { return reinterpret_cast<Function>(launch_.function); }
  void** extra() noexcept { return bytes_ == 0 ? nullptr : extra_; }
  KernelNodeParameters node() noexcept {
    const LaunchShape& shape = launch_.shape;
    return {function(),    shape.grid.x,       shape.grid.y, shape.grid.z, shape.block.x, shape.block.y,
            shape.block.z, shape.shared_bytes, nullptr,      extra(),      nullptr,       nullptr};
  }

 private:
  const KernelLaunch& launch_;
  std::size_t bytes_;
  void* extra_[5];
};

}  // namespace rondo::cuda
