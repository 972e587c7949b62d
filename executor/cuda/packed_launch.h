// A launch as the driver takes it, its arguments packed.
#pragma once

#include <cstddef>
#include <cstring>

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
    // The driver's struct begins as ours does, which makes one copy of eight.
    static_assert(offsetof(KernelLaunch, shape) == offsetof(KernelNodeParameters, grid_x) &&
                  sizeof(LaunchShape) == 7 * sizeof(unsigned) && offsetof(LaunchShape, shared_bytes) == 6 * sizeof(unsigned));
    KernelNodeParameters parameters;
    std::memcpy(&parameters, &launch_, offsetof(KernelLaunch, shape) + sizeof(LaunchShape));
    parameters.kernel_parameters = nullptr;
    parameters.extra = extra();
    parameters.kernel = nullptr;
    parameters.context = nullptr;
    return parameters;
  }

 private:
  const KernelLaunch& launch_;
  std::size_t bytes_;
  void* extra_[5];
};

}  // namespace rondo::cuda
