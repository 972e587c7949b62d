#include <cooperative_groups.h>

#include "captured_program.h"
#include "runtime_calls.h"

namespace rondo::integration {
namespace {

namespace cg = cooperative_groups;

__global__ void run_job(Job job) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < job.count) job.out[i] = job.scale * job.in[i] + static_cast<float>(job.tail[i % 3]);
}

template <int rows>
__global__ void gather(const __grid_constant__ Table<rows> table, float* out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < rows) out[i] = table.row[i][i % 7];
}

// Every block needs what all others wrote.
__global__ void reverse(const float* in, float* scratch, float* out, int count) {
  const int first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int step = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = first; i < count; i += step) scratch[i] = 2.0F * in[i];
  cg::this_grid().sync();
  for (int i = first; i < count; i += step) out[i] = scratch[count - 1 - i];
}

// Every block writes what the other one of its cluster has read.
__global__ void exchange(const float* in, float* out) {
  __shared__ float own[cluster_block];
  const auto both = cg::this_cluster();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  own[threadIdx.x] = in[i];
  both.sync();
  out[i] = both.map_shared_rank(own, both.block_rank() ^ 1U)[threadIdx.x];
  both.sync();  // before a block and its memory go
}

__global__ void fill(float* to, int count, float value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] = value;
}

template <int rows>
void launch_gather(const Buffers& buffers, float* out, cudaStream_t stream) {
  Table<rows> table;
  for (int i = 0; i < rows; ++i) table.row[i] = (i % 2 == 0 ? buffers.a : buffers.b) + i;
  gather<rows><<<(rows + 127) / 128, 128, 0, stream>>>(table, out);
  RUNTIME_CHECK(cudaGetLastError());
}

void launch_cluster(const Buffers& buffers, cudaStream_t stream) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 2;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = cluster_blocks;
  config.blockDim = cluster_block;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  const float* in = buffers.b;
  float* out = buffers.out + cluster_at;
  void* arguments[] = {&in, &out};
  RUNTIME_CHECK(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(exchange), arguments));
}

void nothing(void*) {}

}  // namespace

void launch_all(const Buffers& buffers, float scale, cudaStream_t stream) {
  const Job job{job_count, buffers.a, buffers.out + job_at, scale, {1, 2, 3}};
  run_job<<<(job_count + 127) / 128, 128, 0, stream>>>(job);
  RUNTIME_CHECK(cudaGetLastError());
  launch_gather<rows_within>(buffers, buffers.out + within_at, stream);
  launch_gather<rows_beyond>(buffers, buffers.out + beyond_at, stream);
  launch_gather<rows_at_most>(buffers, buffers.out + most_at, stream);
  const float* in = buffers.a;
  float* scratch = buffers.scratch;
  float* out = buffers.out + coop_at;
  int count = coop_count;
  void* arguments[] = {&in, &scratch, &out, &count};
  RUNTIME_CHECK(
      cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(reverse), 4, 128, arguments, 0, stream));
  launch_cluster(buffers, stream);
  RUNTIME_CHECK(cudaMemsetAsync(buffers.out + set_at, 0x3e, moved_bytes, stream));
  RUNTIME_CHECK(
      cudaMemcpyAsync(buffers.out + copy_at, buffers.b, moved_bytes, cudaMemcpyDeviceToDevice, stream));
}

void launch_on_own_memory(float* out, float value, cudaStream_t stream) {
  void* own = nullptr;
  RUNTIME_CHECK(cudaMallocAsync(&own, moved_bytes, stream));
  fill<<<(job_count + 127) / 128, 128, 0, stream>>>(static_cast<float*>(own), job_count, value);
  RUNTIME_CHECK(cudaGetLastError());
  const Job job{job_count, static_cast<const float*>(own), out, 1.0F, {}};
  run_job<<<(job_count + 127) / 128, 128, 0, stream>>>(job);
  RUNTIME_CHECK(cudaGetLastError());
  RUNTIME_CHECK(cudaFreeAsync(own, stream));
  RUNTIME_CHECK(cudaLaunchHostFunc(stream, nothing, nullptr));
}

}  // namespace rondo::integration
