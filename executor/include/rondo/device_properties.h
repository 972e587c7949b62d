// What is known about a device, as the driver reports it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rondo/launch_shape.h"

namespace rondo {

struct DeviceProperties {
  std::string backend;  // "cuda", "hip" or "host"
  int ordinal = 0;      // the i of "cuda:i", "hip:i"
  std::string name;     // "NVIDIA H200"; on host the processor's model name
  // What the run-time compiler is asked for: "sm_90", "gfx90a:sramecc+:xnack-"; on host a digest of the CPU's
  // features.
  std::string architecture;
  int compute_capability = 0;  // CUDA: 10 * major + minor, 90 on an H200; 0 elsewhere
  std::string driver;      // "CUDA driver 13.0 (580.159)"-like, for people
  int driver_version = 0;  // 13000; hipRuntimeGetVersion's number on hip; 0 on host
  int warp_size = 1;
  int processors = 1;  // multiprocessors; on host the threads of the pool
  std::size_t memory_bytes = 0;
  std::size_t max_threads_per_block = 0;
  Dim3 max_block;
  Dim3 max_grid;
  std::size_t max_shared_bytes = 0;                // dynamic shared memory a block, with opt-in
  std::uint64_t max_threads_on_axis = UINT64_MAX;  // grid times block, on each axis
  std::size_t max_argument_bytes = 4096;
  // What a launch may ask for beside its shape.
  bool has_cooperative_launches = false;
  std::uint32_t max_cluster_blocks = 0;  // blocks of one cluster; 0: the device has none
  bool has_programmatic_edges = false;   // a kernel may start before those that it waits for have ended
  // In how many chains side by side a graph's nodes are best laid out, where a schedule does not say; 0: in as many as there are.
  std::uint32_t graph_lanes = 0;
};

}  // namespace rondo
