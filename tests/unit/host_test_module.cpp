// A module as rtc would make it, by hand: kernels by host_kernel_abi.h.
#include <atomic>
#include <cstdint>

#include "host_kernel_abi.h"

#define KERNEL(name, Arguments, ...)                                                     \
  extern "C" const rondo_host_layout name##_layout = __VA_ARGS__;                        \
  static void name##_thread(rondo_host_block* block, const Arguments& arguments);        \
  extern "C" void name(rondo_host_block* block, const unsigned char* arguments) {        \
    while (block->next_thread < block->thread_count) {                                   \
      const unsigned thread = block->next_thread++;                                      \
      block->thread_idx = {thread % block->block_dim.x, thread / block->block_dim.x, 0}; \
      name##_thread(block, *reinterpret_cast<const Arguments*>(arguments));              \
    }                                                                                    \
  }                                                                                      \
  static void name##_thread(rondo_host_block* block, const Arguments& arguments)

struct NoArguments {};
KERNEL(nothing, NoArguments, {0, {}}) {
  static_cast<void>(block);
  static_cast<void>(arguments);
}

// out[i] += value; out's padding-free arguments end at byte 12.
struct AddArguments {
  std::int32_t* out;
  std::int32_t value;
};
KERNEL(add, AddArguments, {2, {{0, 8}, {8, 4}}}) { arguments.out[block->block_idx.x] += arguments.value; }

// out[0] = 10 * out[0] + digit: shows the order in which nodes ran.
KERNEL(append_digit, AddArguments, {2, {{0, 8}, {8, 4}}}) {
  static_cast<void>(block);
  *arguments.out = 10 * *arguments.out + arguments.value;
}

// Counts every block of the grid where it lies.
struct CountArguments {
  std::uint32_t* counts;
};
KERNEL(count_blocks, CountArguments, {1, {{0, 8}}}) {
  const auto& i = block->block_idx;
  const auto& n = block->grid_dim;
  std::atomic_ref(arguments.counts[(i.z * n.y + i.y) * n.x + i.x]).fetch_add(1);
}

// out[block] = the sum of the threads' numbers, by a tree in dynamic shared memory.
KERNEL(reduce, CountArguments, {1, {{0, 8}}}) {
  auto* sums = static_cast<std::uint32_t*>(block->dynamic_shared);
  const unsigned thread = block->thread_idx.x;
  sums[thread] = thread;
  block->barrier(block);
  for (unsigned step = block->thread_count / 2; step > 0; step /= 2) {
    if (thread < step) sums[thread] += sums[thread + step];
    block->barrier(block);
  }
  if (thread == 0) arguments.counts[block->block_idx.x] = sums[0];
}

struct WideArguments {
  std::int64_t* out;
  std::int64_t values[8];
};
KERNEL(sum_wide, WideArguments, {2, {{0, 8}, {8, 64}}}) {
  static_cast<void>(block);
  for (std::int64_t value : arguments.values) *arguments.out += value;
}
