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

// Explicit vectors for products with packed weights: compilers do not find good code for those loops by
// themselves.
#if defined(__AVX512F__)
constexpr int rondo_host_lanes = 16;
#elif defined(__AVX__)
constexpr int rondo_host_lanes = 8;
#else
constexpr int rondo_host_lanes = 4;
#endif
typedef float rondo_host_floats __attribute__((vector_size(4 * rondo_host_lanes)));
typedef int rondo_host_ints __attribute__((vector_size(4 * rondo_host_lanes)));
typedef short rondo_host_shorts __attribute__((vector_size(2 * rondo_host_lanes)));
typedef unsigned short rondo_host_halves __attribute__((vector_size(2 * rondo_host_lanes)));
typedef unsigned char rondo_host_bytes __attribute__((vector_size(rondo_host_lanes)));
typedef signed char rondo_host_signed_bytes __attribute__((vector_size(rondo_host_lanes)));

template <typename Vector>
__forceinline__ Vector rondo_host_load(const void* from) {
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

template <typename Vector>
__forceinline__ rondo_host_floats rondo_host_to_floats(Vector shorts) {
  return __builtin_convertvector(__builtin_convertvector(shorts, rondo_host_ints), rondo_host_floats);
}

__forceinline__ float rondo_host_sum(rondo_host_floats vector) {
  float sum = 0.0f;
  for (int i = 0; i < rondo_host_lanes; ++i) sum += vector[i];
  return sum;
}

// Binary16 bits → float, lane by lane.
__forceinline__ rondo_host_floats rondo_host_half_to_floats(rondo_host_halves halves) {
  const rondo_host_ints bits = __builtin_convertvector(halves, rondo_host_ints);
  const rondo_host_ints magnitude = (bits & 0x7fff) << 13;
  const rondo_host_ints rebias = rondo_host_ints{} + (112 << 23);
  const rondo_host_ints is_special = magnitude >= (0x7c00 << 13);
  const rondo_host_ints is_subnormal = magnitude < (0x400 << 13);
  const rondo_host_ints normal = magnitude + rebias + (is_special & rebias);
  const rondo_host_ints one = rondo_host_ints{} + (113 << 23);  // 2^-14 as a float: the smallest normal half
  const rondo_host_ints subnormal =
      (rondo_host_ints)((rondo_host_floats)(magnitude + one) - (rondo_host_floats)one);
  return (rondo_host_floats)((is_subnormal & subnormal) | (~is_subnormal & normal) | ((bits & 0x8000) << 16));
}

// What a row's product with x is made of, by weight type.

__forceinline__ float rondo_host_dot(const __half* row, const float* x, int n) {
  rondo_host_floats sums = {};
  int i = 0;
  for (; i + rondo_host_lanes <= n; i += rondo_host_lanes) {
    sums += rondo_host_half_to_floats(rondo_host_load<rondo_host_halves>(row + i)) *
            rondo_host_load<rondo_host_floats>(x + i);
  }
  float sum = rondo_host_sum(sums);
  for (; i < n; ++i) sum += __half2float(row[i]) * x[i];
  return sum;
}

// `quants`: 32 signed bytes. Adds scale * quants[i] * x[i] to lane i % lanes.
__forceinline__ void rondo_host_add_q8_0(rondo_host_floats& sums, const signed char* quants, float scale,
                                         const float* x) {
  rondo_host_floats products = {};
  for (int i = 0; i < 32; i += rondo_host_lanes) {
    const auto bytes = rondo_host_load<rondo_host_signed_bytes>(quants + i);
    products += rondo_host_to_floats(__builtin_convertvector(bytes, rondo_host_shorts)) *
                rondo_host_load<rondo_host_floats>(x + i);
  }
  sums += products * scale;
}

// `quants`: 16 bytes, weights 0 … 15 in the low halves, 16 … 31 in the high halves.
__forceinline__ void rondo_host_add_q4_1(rondo_host_floats& low_sums, rondo_host_floats& high_sums,
                                         const unsigned char* quants, float scale, float minimum,
                                         const float* x) {
  for (int i = 0; i < 16; i += rondo_host_lanes) {
    const auto pairs =
        __builtin_convertvector(rondo_host_load<rondo_host_bytes>(quants + i), rondo_host_halves);
    low_sums +=
        (rondo_host_to_floats(pairs & 15) * scale + minimum) * rondo_host_load<rondo_host_floats>(x + i);
    high_sums +=
        (rondo_host_to_floats(pairs >> 4) * scale + minimum) * rondo_host_load<rondo_host_floats>(x + i + 16);
  }
}

#else

#if defined(__HIPCC_RTC__) || defined(__HIP_PLATFORM_AMD__)
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
#if defined(RONDO_HOST)
    return rondo_host_dot(row, x, n);
#else
    float sum = 0.0f;
    rondo_for_lanes(n, [&](int i) { sum += __half2float(row[i]) * x[i]; });
    return sum;
#endif
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
#if defined(RONDO_HOST)
    rondo_host_floats sums = {};
    for (int b = 0; b < n / 32; ++b)
      rondo_host_add_q8_0(sums, row[b].quants, __half2float(row[b].scale), x + 32 * b);
    return rondo_host_sum(sums);
#else
    float sum = 0.0f;
    rondo_for_lanes(n / 4, [&](int part) {  // four weights a lane: neighbours read neighbouring bytes
      const storage& block = row[part / 8];
      const signed char* quants = block.quants + 4 * (part % 8);
      const float* values = x + 4 * part;
      float product = 0.0f;
      for (int j = 0; j < 4; ++j) product += static_cast<float>(quants[j]) * values[j];
      sum += __half2float(block.scale) * product;
    });
    return sum;
#endif
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
#if defined(RONDO_HOST)
    rondo_host_floats low = {}, high = {};
    for (int b = 0; b < n / 32; ++b) {
      rondo_host_add_q4_1(low, high, row[b].quants, __half2float(row[b].scale), __half2float(row[b].minimum),
                          x + 32 * b);
    }
    return rondo_host_sum(low + high);
#else
    float sum = 0.0f;
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
    return sum;
#endif
  }
};
