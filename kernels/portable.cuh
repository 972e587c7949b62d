// What differs between NVRTC, hipRTC and the host's C++ compiler, hidden behind names that start with rondo_.
// Kernels include this file and nothing else, and are written for any warp size: 32 on NVIDIA, 32 or 64 on
// AMD, 1 on the host, where a block of one thread turns loops over threads and lanes into plain loops that
// the compiler vectorises.
#pragma once

#if defined(RONDO_HOST)

constexpr int rondo_warp_size = 1;

template <typename T>
__device__ inline T rondo_shuffle_down(T value, unsigned, int) {
  return value;
}
template <typename T>
__device__ inline T rondo_shuffle_from_first(T value, unsigned) {
  return value;
}

// The launch's dynamic shared memory, aligned to at least 16 bytes.
template <typename T>
__device__ inline T* rondo_dynamic_shared() {
  return static_cast<T*>(rondo_host_dynamic_shared());
}

#else

#if defined(__HIP_PLATFORM_AMD__)
#if !defined(__HIPCC_RTC__)
#include <hip/hip_fp16.h>
#endif
#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
constexpr int rondo_warp_size = 32;
#else
constexpr int rondo_warp_size = 64;
#endif

// The HIP shuffles take no mask: all lanes of a wavefront run in lockstep.
template <typename T>
__device__ inline T rondo_shuffle_down(T value, unsigned, int offset) {
  return __shfl_down(value, offset);
}
template <typename T>
__device__ inline T rondo_shuffle_from_first(T value, unsigned) {
  return __shfl(value, 0);
}

#else
#include <cuda_fp16.h>

constexpr int rondo_warp_size = 32;

template <typename T>
__device__ inline T rondo_shuffle_down(T value, unsigned mask, int offset) {
  return __shfl_down_sync(mask, value, offset);
}
template <typename T>
__device__ inline T rondo_shuffle_from_first(T value, unsigned mask) {
  return __shfl_sync(mask, value, 0);
}
#endif

template <typename T>
__device__ inline T* rondo_dynamic_shared() {
  extern __shared__ __align__(16) unsigned char rondo_dynamic_shared_bytes[];
  return reinterpret_cast<T*>(rondo_dynamic_shared_bytes);
}

#endif

// Threads, lanes and warps of one-dimensional blocks.

__device__ inline int rondo_lane() { return static_cast<int>(threadIdx.x) % rondo_warp_size; }
__device__ inline int rondo_warp() { return static_cast<int>(threadIdx.x) / rondo_warp_size; }
__device__ inline int rondo_warps() {
  return (static_cast<int>(blockDim.x) + rondo_warp_size - 1) / rondo_warp_size;
}

// body(i) for 0 <= i < n, shared out among the block's threads.
template <typename Body>
__device__ inline void rondo_for_threads(int n, Body body) {
  if (rondo_warp_size == 1 && blockDim.x == 1) {  // a stride that is known lets the compiler vectorise
    for (int i = 0; i < n; ++i) body(i);
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) body(i);
  }
}

// body(i) for 0 <= i < n, shared out among the warp's lanes.
template <typename Body>
__device__ inline void rondo_for_lanes(int n, Body body) {
  for (int i = rondo_lane(); i < n; i += rondo_warp_size) body(i);
}

struct rondo_range {
  int begin, end;
};

// The part of 0 … n - 1 that falls to this warp when all warps of the grid share it out evenly, in contiguous
// parts.
__device__ inline rondo_range rondo_warp_share(int n) {
  const int warps = static_cast<int>(gridDim.x) * rondo_warps();
  const int share = (n + warps - 1) / warps;
  const long long begin =
      static_cast<long long>(static_cast<int>(blockIdx.x) * rondo_warps() + rondo_warp()) * share;
  if (begin >= n) return {n, n};
  return {static_cast<int>(begin), begin + share < n ? static_cast<int>(begin) + share : n};
}

// Reductions. Every thread gets the result, and the order of operations depends on the shape of the block
// alone. All threads of the warp (or block) must call; the last warp of a block may be partly filled.

struct rondo_plus {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct rondo_larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

template <typename T, typename Combine>
__device__ inline T rondo_warp_reduce(T value, Combine combine) {
  if constexpr (rondo_warp_size > 1) {
    const int rest = static_cast<int>(blockDim.x) - rondo_warp() * rondo_warp_size;
    const int lanes = rest < rondo_warp_size ? rest : rondo_warp_size;
    const unsigned mask = lanes >= 32 ? 0xffffffffu : (1u << lanes) - 1u;
    for (int offset = rondo_warp_size / 2; offset > 0; offset /= 2) {
      const T other = rondo_shuffle_down(value, mask, offset);
      if (rondo_lane() + offset < lanes) value = combine(value, other);
    }
    value = rondo_shuffle_from_first(value, mask);
  }
  return value;
}

template <typename T, typename Combine>
__device__ inline T rondo_block_reduce(T value, Combine combine) {
  value = rondo_warp_reduce(value, combine);
  if (static_cast<int>(blockDim.x) <= rondo_warp_size) return value;
  __shared__ T partial[1024 / rondo_warp_size];
  __syncthreads();  // those who still read an earlier reduction's partial results
  if (rondo_lane() == 0) partial[rondo_warp()] = value;
  __syncthreads();
  value = partial[0];
  for (int warp = 1; warp < rondo_warps(); ++warp) value = combine(value, partial[warp]);
  return value;
}

template <typename T>
__device__ inline T rondo_warp_sum(T value) {
  return rondo_warp_reduce(value, rondo_plus());
}
template <typename T>
__device__ inline T rondo_warp_max(T value) {
  return rondo_warp_reduce(value, rondo_larger());
}
template <typename T>
__device__ inline T rondo_block_sum(T value) {
  return rondo_block_reduce(value, rondo_plus());
}
template <typename T>
__device__ inline T rondo_block_max(T value) {
  return rondo_block_reduce(value, rondo_larger());
}

constexpr float rondo_lowest_float = -3.402823466e+38f;

// Weight types, named as a schedule names them. Each has
//   storage                     what a buffer of the type is an array of
//   elements                    weights in one storage
//   load(row, i)                weight i of a row
//   dot(row, x, n)              the calling lane's share of a row's product with x; to be added up over the
//   warp. n is a multiple of
//                               `elements`, x is aligned to 16 bytes and its shares are read as they lie.
// The block formats are GGUF's (ggml-common.h).

struct rondo_f32 {
  using storage = float;
  static constexpr int elements = 1;

  __device__ static float load(const storage* row, int i) { return row[i]; }

  __device__ static float dot(const storage* row, const float* x, int n) {
    float sum = 0.0f;
    rondo_for_lanes(n, [&](int i) { sum += row[i] * x[i]; });
    return sum;
  }
};

struct rondo_f16 {
  using storage = __half;
  static constexpr int elements = 1;

  __device__ static float load(const storage* row, int i) { return __half2float(row[i]); }

  __device__ static float dot(const storage* row, const float* x, int n) {
    float sum = 0.0f;
    rondo_for_lanes(n, [&](int i) { sum += __half2float(row[i]) * x[i]; });
    return sum;
  }
};

// 32 weights: scale * quant.
struct rondo_q8_0_block {
  __half scale;
  signed char quants[32];
};
static_assert(sizeof(rondo_q8_0_block) == 34, "GGUF's layout");

struct rondo_q8_0 {
  using storage = rondo_q8_0_block;
  static constexpr int elements = 32;

  __device__ static float load(const storage* row, int i) {
    return __half2float(row[i / 32].scale) * static_cast<float>(row[i / 32].quants[i % 32]);
  }

  __device__ static float dot(const storage* row, const float* x, int n) {
    float sum = 0.0f;
    if constexpr (rondo_warp_size == 1) {
      float sums[16] = {};
      for (int b = 0; b < n / 32; ++b) {
        const float scale = __half2float(row[b].scale);
        for (int j = 0; j < 16; ++j) {
          sums[j] += scale * (static_cast<float>(row[b].quants[j]) * x[32 * b + j] +
                              static_cast<float>(row[b].quants[j + 16]) * x[32 * b + j + 16]);
        }
      }
      for (int j = 0; j < 16; ++j) sum += sums[j];
    } else {
      rondo_for_lanes(n / 4, [&](int part) {  // four weights a lane: neighbours read neighbouring bytes
        const storage& block = row[part / 8];
        const signed char* quants = block.quants + 4 * (part % 8);
        const float* values = x + 4 * part;
        float product = 0.0f;
        for (int j = 0; j < 4; ++j) product += static_cast<float>(quants[j]) * values[j];
        sum += __half2float(block.scale) * product;
      });
    }
    return sum;
  }
};

// 32 weights: scale * quant + minimum, quants 0 … 15 in the low halves of the bytes, 16 … 31 in the high
// halves.
struct alignas(4) rondo_q4_1_block {
  __half scale, minimum;
  unsigned char quants[16];
};
static_assert(sizeof(rondo_q4_1_block) == 20, "GGUF's layout");

struct rondo_q4_1 {
  using storage = rondo_q4_1_block;
  static constexpr int elements = 32;

  __device__ static float load(const storage* row, int i) {
    const storage& block = row[i / 32];
    const int quant = i % 32 < 16 ? block.quants[i % 16] & 15 : block.quants[i % 16] >> 4;
    return __half2float(block.scale) * static_cast<float>(quant) + __half2float(block.minimum);
  }

  __device__ static float dot(const storage* row, const float* x, int n) {
    float sum = 0.0f;
    if constexpr (rondo_warp_size == 1) {
      float sums[16] = {};
      for (int b = 0; b < n / 32; ++b) {
        const float scale = __half2float(row[b].scale);
        const float minimum = __half2float(row[b].minimum);
        for (int j = 0; j < 16; ++j) {
          const int quants = row[b].quants[j];
          sums[j] += (scale * static_cast<float>(quants & 15) + minimum) * x[32 * b + j] +
                     (scale * static_cast<float>(quants >> 4) + minimum) * x[32 * b + j + 16];
        }
      }
      for (int j = 0; j < 16; ++j) sum += sums[j];
    } else {
      rondo_for_lanes(n / 8, [&](int part) {  // four bytes a lane: neighbours read neighbouring words
        const storage& block = row[part / 4];
        const unsigned quants = reinterpret_cast<const unsigned*>(block.quants)[part % 4];
        const float* values = x + 32 * (part / 4) + 4 * (part % 4);
        float product = 0.0f, total = 0.0f;
        for (int j = 0; j < 4; ++j) {
          product += static_cast<float>((quants >> (8 * j)) & 15u) * values[j] +
                     static_cast<float>((quants >> (8 * j + 4)) & 15u) * values[j + 16];
          total += values[j] + values[j + 16];
        }
        sum += __half2float(block.scale) * product + __half2float(block.minimum) * total;
      });
    }
    return sum;
  }
};
