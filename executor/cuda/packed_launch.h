// A launch as the driver takes it, its arguments packed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "../driver.h"
#include "api.h"

namespace rondo::cuda {

// cuda.h, cuGraphAddKernelNode and cuLaunchKernel (CUDA 13.0): parameters "can also be packaged by the
// application into a single buffer that is passed in via extra"; "The kernelParams or extra array, as well as
// the argument values it points to, are copied during this call". A kernel without parameters gets neither. A
// cooperative one takes pointers only: cuLaunchKernelEx refuses `extra` there (seen with CUDA 13.0), and
// cuLaunchCooperativeKernel does not have it.
class PackedLaunch {
 public:
  static constexpr std::size_t most_pointers = 64;  // as rtc allows a kernel

  explicit PackedLaunch(const KernelLaunch& launch) noexcept
      : launch_(launch), bytes_(launch.argument_bytes) {
    if (launch.attributes != nullptr && launch.attributes->cooperative) {
      takes_pointers_ = true;
      const std::vector<std::size_t>& offsets = launch.attributes->argument_offsets;
      for (std::size_t i = 0; i < std::min(offsets.size(), most_pointers); ++i)
        pointers_[i] = const_cast<std::byte*>(launch.arguments) + offsets[i];
    }
    extra_[0] = launch_buffer();
    extra_[1] = const_cast<std::byte*>(launch.arguments);  // the driver reads it only
    extra_[2] = launch_buffer_size();
    extra_[3] = &bytes_;
    extra_[4] = launch_end();
  }
  PackedLaunch(const PackedLaunch&) = delete;
  PackedLaunch& operator=(const PackedLaunch&) = delete;

  Function function() const noexcept { return reinterpret_cast<Function>(launch_.function); }
  void** extra() noexcept { return bytes_ == 0 || takes_pointers_ ? nullptr : extra_; }
  void** pointers() noexcept { return bytes_ != 0 && takes_pointers_ ? pointers_ : nullptr; }
  KernelNodeParameters node() noexcept {
    // The driver's struct begins as ours does, which makes one copy of eight.
    static_assert(offsetof(KernelLaunch, shape) == offsetof(KernelNodeParameters, grid_x) &&
                  sizeof(LaunchShape) == 7 * sizeof(unsigned) &&
                  offsetof(LaunchShape, shared_bytes) == 6 * sizeof(unsigned));
    KernelNodeParameters parameters;
    std::memcpy(&parameters, &launch_, offsetof(KernelLaunch, shape) + sizeof(LaunchShape));
    parameters.kernel_parameters = pointers();
    parameters.extra = extra();
    parameters.kernel = nullptr;
    parameters.context = nullptr;
    return parameters;
  }

 private:
  const KernelLaunch& launch_;
  std::size_t bytes_;
  bool takes_pointers_ = false;
  void* extra_[5];
  void* pointers_[most_pointers];
};

// The attributes of a launch or node as the driver lists them.
struct NativeAttributes {
  explicit NativeAttributes(const LaunchAttributes& attributes) noexcept {
    if (attributes.cooperative) add(LaunchAttribute::cooperative).cooperative = 1;
    if (attributes.has_cluster()) {
      add(LaunchAttribute::cluster_dimension).cluster = {attributes.cluster.x, attributes.cluster.y,
                                                         attributes.cluster.z};
    }
    if (attributes.priority != 0) add(LaunchAttribute::priority).priority = attributes.priority;
  }

  LaunchAttributeEntry entries[3]{};
  unsigned count = 0;

 private:
  LaunchAttributeValue& add(LaunchAttribute id) noexcept {
    entries[count].id = id;
    return entries[count++].value;
  }
};

}  // namespace rondo::cuda
