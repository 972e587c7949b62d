// What is known about a device, as the driver reports it.
#pragma once

#include <cstddef>
#include <string>

#include "rondo/launch_shape.h"

namespace rondo {

struct DeviceProperties {
  std::string backend;       // "cuda" or "host"
  int ordinal = 0;           // the i of "cuda:i"
  std::string name;          // "NVIDIA H200"; on host the processor's model name
  std::string architecture;  // what the run-time compiler is asked for: "sm_90"; on host a digest of the CPU's features
  std::string driver;        // "CUDA driver 13.0 (580.159)"-like, for people
  int driver_version = 0;    // 13000; 0 on host
  int warp_size = 1;
  int processors = 1;  // multiprocessors; on host the threads of the pool
  std::size_t memory_bytes = 0;
  std::size_t max_threads_per_block = 0;
  Dim3 max_block;
  Dim3 max_grid;
  std::size_t max_shared_bytes = 0;  // dynamic shared memory a block, with opt-in
  std::size_t max_argument_bytes = 4096;
};

}  // namespace rondo
