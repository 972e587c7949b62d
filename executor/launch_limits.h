// What every device refuses of a launch, in the same words.
#pragma once

#include <cstdint>

#include "driver.h"

namespace rondo {

// Ok, or bad_argument with what is wrong. What depends on the kernel (registers, its shared memory) is left
// to the backend.
inline Status check_launch_limits(const KernelLaunch& launch, const DeviceProperties& device) noexcept {
  const auto refuse = [](const char* why) { return Status{ErrorCode::bad_argument, 0, "", why}; };
  const auto is_zero = [](Dim3 d) { return d.x == 0 || d.y == 0 || d.z == 0; };
  const auto exceeds = [](Dim3 d, Dim3 limit) { return d.x > limit.x || d.y > limit.y || d.z > limit.z; };
  const LaunchShape& shape = launch.shape;
  if (launch.function == nullptr) return refuse("a launch without a kernel");
  if (is_zero(shape.grid)) return refuse("a dimension of the grid is zero");
  if (is_zero(shape.block)) return refuse("a dimension of the block is zero");
  if (exceeds(shape.grid, device.max_grid))
    return refuse("a dimension of the grid is larger than the device's limit");
  if (exceeds(shape.block, device.max_block))
    return refuse("a dimension of the block is larger than the device's limit");
  // Cannot overflow: each dimension has been found within a limit of 16 bits or less.
  if (std::uint64_t{shape.block.x} * shape.block.y * shape.block.z > device.max_threads_per_block) {
    return refuse("the block has more threads than the device's limit");
  }
  const auto threads = [](std::uint32_t blocks, std::uint32_t block) {
    return std::uint64_t{blocks} * block;
  };
  if (threads(shape.grid.x, shape.block.x) > device.max_threads_on_axis ||
      threads(shape.grid.y, shape.block.y) > device.max_threads_on_axis ||
      threads(shape.grid.z, shape.block.z) > device.max_threads_on_axis) {
    return refuse("a dimension of the grid has more threads than the device's limit");
  }
  if (shape.shared_bytes > device.max_shared_bytes)
    return refuse("more dynamic shared memory than the device has for a block");
  if (launch.argument_bytes > device.max_argument_bytes)
    return refuse("more bytes of arguments than the device's limit");
  if (launch.attributes != nullptr) {
    const Dim3 cluster = launch.attributes->cluster;
    if (launch.attributes->cooperative && !device.has_cooperative_launches)
      return refuse("a cooperative launch, which the device does not have");
    if (launch.attributes->has_cluster()) {
      if (device.max_cluster_blocks == 0) return refuse("a launch with clusters, which the device does not have");
      if (is_zero(cluster)) return refuse("a dimension of the cluster is zero");
      if (std::uint64_t{cluster.x} * cluster.y > device.max_cluster_blocks ||
          std::uint64_t{cluster.x} * cluster.y * cluster.z > device.max_cluster_blocks)
        return refuse("more blocks in a cluster than the device's limit");
      if (shape.grid.x % cluster.x != 0 || shape.grid.y % cluster.y != 0 || shape.grid.z % cluster.z != 0)
        return refuse("a dimension of the grid is no multiple of the cluster's");
    }
  }
  if (launch.argument_bytes != 0 && launch.arguments == nullptr)
    return refuse("a launch without its arguments");
  return {};
}

}  // namespace rondo
