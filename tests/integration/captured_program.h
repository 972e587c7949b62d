// A program of somebody else's, which captures its work from a stream through CUDA's runtime interface.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace rondo::integration {

// A kernel's by-value parameters.
struct Job {
  int count;
  const float* in;
  float* out;
  float scale;
  char tail[3];
};
template <int rows>
struct Table {
  const float* row[rows];
};

// Of a kernel `gather`: with the pointer behind it, 4,096 bytes of arguments, which every driver takes; the
// first size beyond; and as much as a kernel can take (32,764 bytes).
inline constexpr int rows_within = 511, rows_beyond = 512, rows_at_most = 4094;

// Float elements of every buffer, and where each kernel puts its result in `out`.
inline constexpr std::size_t floats = 16384;
inline constexpr int job_count = 1000, coop_count = 4096, cluster_blocks = 8, cluster_block = 128;
inline constexpr std::size_t job_at = 0, within_at = 1024, beyond_at = 2048, most_at = 4096, coop_at = 8192,
                             cluster_at = 12288, set_at = 13312, copy_at = 14336, moved_bytes = 4096;

struct Buffers {
  float *a, *b, *scratch, *out;
};

// The nodes that `launch_all` makes, in its order.
enum Node { job, within, beyond, most, coop, cluster, set, copy, node_count };

// Everything above on one stream: <<<>>>, cudaLaunchCooperativeKernel, cudaLaunchKernelExC, a memset and a
// copy.
void launch_all(const Buffers& buffers, float scale, cudaStream_t stream);

// Memory of the graph's own, a kernel that fills it with `value`, one that copies from there to `out`, a host
// function.
void launch_on_own_memory(float* out, float value, cudaStream_t stream);

}  // namespace rondo::integration
