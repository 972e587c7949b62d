// Graph nodes that are no kernels (copies, fills, and those that do nothing), as launches of the host driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "driver.h"

namespace rondo::doubles {

struct CopyArguments {
  std::byte* to;
  const std::byte* from;
  std::size_t width, height, depth;  // bytes, rows, slices
  std::size_t to_pitch, from_pitch, to_slice, from_slice;
};

struct FillArguments {
  std::byte* to;
  std::size_t pitch, width, height;  // width in elements
  std::uint32_t value, element_bytes;
};

enum class NodeKernel { nothing, copy_rows, fill_rows };

// Loaded on the first call, and never unloaded.
FunctionHandle node_kernel(NodeKernel which);

// The launch refers to `arguments`.
template <class Arguments>
KernelLaunch node_launch(NodeKernel which, const Arguments& arguments) {
  return {node_kernel(which), {}, reinterpret_cast<const std::byte*>(&arguments), sizeof arguments};
}
inline KernelLaunch empty_launch() { return {node_kernel(NodeKernel::nothing), {}, nullptr, 0}; }

}  // namespace rondo::doubles
