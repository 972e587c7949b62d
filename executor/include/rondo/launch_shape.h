// The shape of one kernel launch.
#pragma once

#include <cstdint>

namespace rondo {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  bool operator==(const Dim3&) const = default;
};

struct LaunchShape {
  Dim3 grid;                       // blocks
  Dim3 block;                      // threads a block
  std::uint32_t shared_bytes = 0;  // dynamic shared memory a block
  bool operator==(const LaunchShape&) const = default;
};

}  // namespace rondo
