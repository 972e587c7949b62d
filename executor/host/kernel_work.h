// One launch of a host-compiled kernel, as the pool and the block runners see it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "host_kernel_abi.h"
#include "rondo/launch_shape.h"

namespace rondo::host {

// Without opt-in a block gets what it gets on a GPU, so that a forgotten allow_dynamic_shared shows here too.
inline constexpr std::size_t default_shared_bytes = 48 * 1024;
inline constexpr std::size_t max_shared_bytes = 256 * 1024;
inline constexpr std::uint32_t max_threads_per_block = 1024;

struct KernelWork {
  rondo_host_entry entry = nullptr;
  const unsigned char* arguments = nullptr;
  Dim3 grid, block;

  // Cannot overflow: the driver's limits on a grid leave 2^63.
  std::uint64_t blocks() const noexcept { return std::uint64_t{grid.x} * grid.y * grid.z; }
  std::uint32_t threads() const noexcept { return block.x * block.y * block.z; }
};

}  // namespace rondo::host
