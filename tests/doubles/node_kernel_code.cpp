// What a double runs for graph nodes that are no kernels: kernels for the host driver, by host_kernel_abi.h.
#include <cstddef>
#include <cstring>

#include "host_kernel_abi.h"
#include "node_kernels.h"

using rondo::doubles::CopyArguments;
using rondo::doubles::FillArguments;

// One thread does it all.
#define KERNEL(name, ...)                                                         \
  extern "C" const rondo_host_layout name##_layout = __VA_ARGS__;                 \
  extern "C" void name(rondo_host_block* block, const unsigned char* arguments) { \
    block->next_thread = block->thread_count;                                     \
    name##_of(arguments);                                                         \
  }

static void nothing_of(const unsigned char*) {}

static void copy_rows_of(const unsigned char* bytes) {
  CopyArguments a;
  std::memcpy(&a, bytes, sizeof a);
  for (std::size_t z = 0; z < a.depth; ++z) {
    for (std::size_t y = 0; y < a.height; ++y) {
      std::memmove(a.to + z * a.to_slice + y * a.to_pitch, a.from + z * a.from_slice + y * a.from_pitch,
                   a.width);
    }
  }
}

static void fill_rows_of(const unsigned char* bytes) {
  FillArguments a;
  std::memcpy(&a, bytes, sizeof a);
  for (std::size_t y = 0; y < a.height; ++y) {
    for (std::size_t x = 0; x < a.width; ++x) {
      std::memcpy(a.to + y * a.pitch + x * a.element_bytes, &a.value, a.element_bytes);
    }
  }
}

KERNEL(nothing, {0, {}})
KERNEL(copy_rows, {1, {{0, sizeof(CopyArguments)}}})
KERNEL(fill_rows, {1, {{0, sizeof(FillArguments)}}})
