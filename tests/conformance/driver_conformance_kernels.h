// The kernels of the conformance suite, in the source that all compilers take.
#pragma once

namespace rondo::conformance {

inline constexpr const char* kernel_source = R"(
#ifdef RONDO_HOST
#define DYNAMIC_SHARED(name) unsigned* name = static_cast<unsigned*>(rondo_host_dynamic_shared())
#else
#define DYNAMIC_SHARED(name) extern __shared__ unsigned name[]
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define LET_DEPENDENTS_START asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define WAIT_FOR_INPUTS asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define LET_DEPENDENTS_START
#define WAIT_FOR_INPUTS
#endif

__global__ void nothing() {}

__global__ void add(int* out, int value) { out[blockIdx.x * blockDim.x + threadIdx.x] += value; }

// Does not commute: what is left shows the order in which launches ran.
__global__ void append_digit(unsigned long long* out, int digit) { *out = 10 * *out + static_cast<unsigned long long>(digit); }

__global__ void store(int* out, int index, int value) { out[index] = value; }
__global__ void copy_one(int* out, int index, const int* from) { out[index] = *from; }
__global__ void combine(int* out, int a, const int* x, int b, const int* y) { *out = a * *x + b * *y; }

// Every parameter of another size and alignment.
__global__ void mixed(double* out, signed char a, double b, short c, long long d, bool e, float f, unsigned char g) {
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = static_cast<double>(d);
  out[4] = e;
  out[5] = f;
  out[6] = g;
}

// out[block] = the sum of the first n of the block's 256 values. A thread beyond n leaves before the first barrier.
__global__ void reduce(unsigned* out, const unsigned* values, int n) {
  __shared__ unsigned sums[256];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= n) return;
  sums[thread] = values[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (thread < step && thread + step < n) sums[thread] += sums[thread + step];
    __syncthreads();
  }
  if (thread == 0) out[blockIdx.x] = sums[0];
}

// Reverses the block's part of `values` through dynamic shared memory.
__global__ void reverse(unsigned* values) {
  DYNAMIC_SHARED(part);
  unsigned* mine = values + blockIdx.x * blockDim.x;
  part[threadIdx.x] = mine[threadIdx.x];
  __syncthreads();
  mine[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}

// Writes to both ends of the dynamic shared memory and reads them back.
__global__ void touch_shared(unsigned* out, unsigned words) {
  DYNAMIC_SHARED(part);
  part[0] = 17;
  part[words - 1] = words;
  out[0] = part[0];
  out[1] = part[words - 1];
}

// Every thread of the launch counts itself at the place of its indices.
__global__ void count_threads(unsigned* counts) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  counts[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1;
}

// Every block waits until all have come. Parameters of many sizes, since a cooperative launch may take them its own way.
__global__ void meet(signed char blocks, long long value, int* arrived, short more, long long* seen) {
  if (threadIdx.x != 0) return;
  atomicAdd(arrived, 1);
  while (atomicAdd(arrived, 0) % blocks != 0) {}
  seen[blockIdx.x] = value + more;
}

// How many blocks the cluster of each block has on x and y, and which of them it is.
__global__ void ask_cluster(unsigned* out) {
  unsigned x = 0, y = 0, rank = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(x));
  asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(y));
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  unsigned* mine = out + 3 * (blockIdx.y * gridDim.x + blockIdx.x);
  mine[0] = x;
  mine[1] = y;
  mine[2] = rank;
}

// Lets its dependents start, and stores `value` after all else that it does.
__global__ void store_late(int* out, int value, int spin) {
  LET_DEPENDENTS_START;
  WAIT_FOR_INPUTS;
  for (int i = 1; i <= spin; ++i) *static_cast<volatile int*>(out) = -i;
  *out = value;
}
__global__ void combine_early(int* out, int a, const int* x, int b, const int* y) {
  LET_DEPENDENTS_START;
  WAIT_FOR_INPUTS;
  *out = a * *x + b * *y;
}

// The first sees whether the second has started before it has ended itself; it does not wait for that forever.
__global__ void await_dependent(int* started, int* seen, int tries) {
  LET_DEPENDENTS_START;
  *seen = 0;
  for (int i = 0; i < tries && *seen == 0; ++i) *seen = atomicAdd(started, 0);
}
__global__ void start(int* started, const int* seen, int* out) {
  atomicAdd(started, 1);
  WAIT_FOR_INPUTS;
  *out = *seen;
}
)";

inline constexpr const char* kernel_names[] = {
    "nothing",     "add",        "append_digit",  "store",           "copy_one",      "combine",
    "mixed",       "reduce",     "reverse",       "touch_shared",    "count_threads", "meet",
    "ask_cluster", "store_late", "combine_early", "await_dependent", "start"};

}  // namespace rondo::conformance
