// What a launch may ask for beside its shape, and how one node of a graph may wait for another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rondo/launch_shape.h"

namespace rondo {

struct LaunchAttributes {
  // All blocks are resident at once, and the kernel may synchronize its whole grid.
  bool cooperative = false;
  // Blocks a cluster on each axis, each a divisor of the grid; zeros: no clusters.
  Dim3 cluster{0, 0, 0};
  // As CUDA's stream priorities: what has the lower number is started first where both are ready; 0 is the
  // default. A hint: clamped to what the device has, and ignored where it has none.
  std::int32_t priority = 0;
  // Where each parameter begins in the packed arguments: read for cooperative launches alone, which CUDA
  // takes with one pointer a parameter.
  std::vector<std::size_t> argument_offsets = {};

  bool has_cluster() const noexcept { return cluster.x != 0; }
  bool are_default() const noexcept { return !cooperative && !has_cluster() && priority == 0; }
};

enum class EdgeKind : std::uint8_t {
  full,  // starts when the earlier node has ended and its memory is flushed
  // May start when all blocks of the earlier node have let their dependents start or have ended, and waits in
  // the kernel for the rest (griddepcontrol.wait). A full edge on devices that have no such thing.
  programmatic,
};

}  // namespace rondo
