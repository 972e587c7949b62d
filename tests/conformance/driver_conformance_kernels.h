// The kernels of the conformance suite, in the source that all compilers take.
#pragma once

namespace rondo::conformance {

inline constexpr const char* kernel_source = R"(
#ifdef RONDO_HOST
#define DYNAMIC_SHARED(name) unsigned* name = static_cast<unsigned*>(rondo_host_dynamic_shared())
#else
#define DYNAMIC_SHARED(name) extern __shared__ unsigned name[]
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
)";

inline constexpr const char* kernel_names[] = {"nothing",  "add",          "append_digit", "store",
                                               "copy_one", "combine",      "mixed",        "reduce",
                                               "reverse",  "touch_shared", "count_threads"};

}  // namespace rondo::conformance
