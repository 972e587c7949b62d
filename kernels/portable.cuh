// What differs between NVRTC, hipRTC and the host's C++ compiler, hidden behind names that start with rondo_.
// Kernels include this file and nothing else, and are written for any warp size: 32 on NVIDIA, 32 or 64 on
// AMD, 1 on the host, where a block of one thread turns loops over threads and lanes into plain loops that
// the compiler vectorises.
#pragma once

#if defined(RONDO_HOST)

constexpr int rondo_warp_size = 1;

// A warp is one thread: what it gives to itself.
__device__ inline unsigned rondo_shuffle_word(unsigned word, int) { return word; }
__device__ inline unsigned rondo_shuffle_word_down(unsigned word, int) { return word; }
__device__ inline unsigned rondo_shuffle_word_up(unsigned word, int) { return word; }
__device__ inline unsigned rondo_shuffle_word_xor(unsigned word, int) { return word; }
__device__ inline bool rondo_any(bool predicate) { return predicate; }
__device__ inline bool rondo_all(bool predicate) { return predicate; }
__device__ inline unsigned long long rondo_ballot(bool predicate) { return predicate ? 1 : 0; }
__device__ inline void rondo_sync_warp() {}
__device__ inline void rondo_wait_for_inputs() {}
__device__ inline void rondo_let_dependents_start() {}
__device__ inline int rondo_dot4(int a, int b, int c) { return __dp4a(a, b, c); }

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

// bfloat16 bits.
__forceinline__ float rondo_host_dot_bf16(const unsigned short* row, const float* x, int n) {
  rondo_host_floats sums = {};
  int i = 0;
  for (; i + rondo_host_lanes <= n; i += rondo_host_lanes) {
    const auto halves = rondo_host_load<rondo_host_halves>(row + i);
    sums += (rondo_host_floats)(__builtin_convertvector(halves, rondo_host_ints) << 16) *
            rondo_host_load<rondo_host_floats>(x + i);
  }
  float sum = rondo_host_sum(sums);
  for (; i < n; ++i) sum += __int_as_float(static_cast<int>(static_cast<unsigned>(row[i]) << 16)) * x[i];
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

// Half a q6_k block, 128 weights: low bits in `low` (64 bytes), high bits in `high` (32), 8 scales.
__forceinline__ void rondo_host_add_q6_k(rondo_host_floats& sums, const unsigned char* low,
                                         const unsigned char* high, const signed char* scales, float scale,
                                         const float* x) {
  for (int i = 0; i < 32; i += rondo_host_lanes) {
    const auto first = __builtin_convertvector(rondo_host_load<rondo_host_bytes>(low + i), rondo_host_halves);
    const auto second =
        __builtin_convertvector(rondo_host_load<rondo_host_bytes>(low + i + 32), rondo_host_halves);
    const auto rest = __builtin_convertvector(rondo_host_load<rondo_host_bytes>(high + i), rondo_host_halves);
    const rondo_host_halves quarters[] = {(first & 15) | ((rest & 3) << 4),
                                          (second & 15) | ((rest & 12) << 2), (first >> 4) | (rest & 48),
                                          (second >> 4) | ((rest & 192) >> 2)};
    for (int quarter = 0; quarter < 4; ++quarter) {
      const float factor = scale * static_cast<float>(scales[2 * quarter + i / 16]);
      sums += (rondo_host_to_floats(quarters[quarter]) - 32.0f) * factor *
              rondo_host_load<rondo_host_floats>(x + 32 * quarter + i);
    }
  }
}

#else

#if defined(__HIPCC_RTC__) || defined(__HIP_PLATFORM_AMD__)
#if !defined(__HIPCC_RTC__)  // hipRTC has its headers built in
#include <hip/hip_fp16.h>
#endif

// The macro tells what the compiler was really asked for; versions that are to drop it warn of it.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-pragma"
#if defined(__AMDGCN_WAVEFRONT_SIZE)
constexpr int rondo_warp_size = __AMDGCN_WAVEFRONT_SIZE;
#elif defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
constexpr int rondo_warp_size = 32;
#else
constexpr int rondo_warp_size = 64;
#endif
#pragma clang diagnostic pop

// Without masks, which not every version has: the lanes that run are those that take part.
__device__ inline unsigned rondo_shuffle_word(unsigned word, int lane) { return __shfl(word, lane); }
__device__ inline unsigned rondo_shuffle_word_down(unsigned word, int offset) {
  return __shfl_down(word, static_cast<unsigned>(offset));
}
__device__ inline unsigned rondo_shuffle_word_up(unsigned word, int offset) {
  return __shfl_up(word, static_cast<unsigned>(offset));
}
__device__ inline unsigned rondo_shuffle_word_xor(unsigned word, int mask) { return __shfl_xor(word, mask); }
__device__ inline bool rondo_any(bool predicate) { return __any(predicate) != 0; }
__device__ inline bool rondo_all(bool predicate) { return __all(predicate) != 0; }
__device__ inline unsigned long long rondo_ballot(bool predicate) { return __ballot(predicate); }
__device__ inline void rondo_wait_for_inputs() {}
__device__ inline void rondo_let_dependents_start() {}
__device__ inline void rondo_sync_warp() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
__device__ inline int rondo_dot4(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i);
  return c;
}

#else
#include <cuda_fp16.h>

constexpr int rondo_warp_size = 32;

// The lanes of this warp that have a thread: the last warp of a block may be partly filled.
__device__ inline unsigned rondo_warp_mask() {
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned rest = threads - thread / 32 * 32;
  return rest >= 32 ? 0xffffffffu : (1u << rest) - 1u;
}
__device__ inline unsigned rondo_shuffle_word(unsigned word, int lane) {
  return __shfl_sync(rondo_warp_mask(), word, lane);
}
__device__ inline unsigned rondo_shuffle_word_down(unsigned word, int offset) {
  return __shfl_down_sync(rondo_warp_mask(), word, static_cast<unsigned>(offset));
}
__device__ inline unsigned rondo_shuffle_word_up(unsigned word, int offset) {
  return __shfl_up_sync(rondo_warp_mask(), word, static_cast<unsigned>(offset));
}
__device__ inline unsigned rondo_shuffle_word_xor(unsigned word, int mask) {
  return __shfl_xor_sync(rondo_warp_mask(), word, mask);
}
__device__ inline bool rondo_any(bool predicate) { return __any_sync(rondo_warp_mask(), predicate) != 0; }
__device__ inline bool rondo_all(bool predicate) { return __all_sync(rondo_warp_mask(), predicate) != 0; }
__device__ inline unsigned long long rondo_ballot(bool predicate) {
  return __ballot_sync(rondo_warp_mask(), predicate);
}
__device__ inline void rondo_sync_warp() { __syncwarp(rondo_warp_mask()); }

// CUDA's programmatic dependent launch (PTX ISA 7.8, griddepcontrol; compute capability 9.0). A kernel whose
// declaration says "pdl" calls the first in every thread before it touches anything that an op writes; what
// lies before the call may run while the kernel's predecessors still do. The second lets the kernels that
// depend on this one start once every block has called it or ended; what they may see is none of its
// business.
__device__ inline void rondo_wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void rondo_let_dependents_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline int rondo_dot4(int a, int b, int c) { return __dp4a(a, b, c); }
#endif

template <typename T>
__device__ inline T* rondo_dynamic_shared() {
  extern __shared__ __align__(16) unsigned char rondo_dynamic_shared_bytes[];
  return reinterpret_cast<T*>(rondo_dynamic_shared_bytes);
}

#endif

// Arithmetic that is rounded once an operation, in the order in which it is written: what compensated sums
// need. Elsewhere compilers fuse a product with a sum, and on the host they reorder sums.

#if defined(__HIPCC_RTC__) || defined(__HIP_PLATFORM_AMD__)
#define RONDO_ROUNDED(name, T, operation, intrinsic) \
  __device__ inline T name(T a, T b) { _Pragma("clang fp contract(off)") return a operation b; }
#else
#define RONDO_ROUNDED(name, T, operation, intrinsic) \
  __device__ inline T name(T a, T b) { return intrinsic(a, b); }
#endif
RONDO_ROUNDED(rondo_add, float, +, __fadd_rn)
RONDO_ROUNDED(rondo_subtract, float, -, __fsub_rn)
RONDO_ROUNDED(rondo_multiply, float, *, __fmul_rn)
RONDO_ROUNDED(rondo_add, double, +, __dadd_rn)
RONDO_ROUNDED(rondo_subtract, double, -, __dsub_rn)
RONDO_ROUNDED(rondo_multiply, double, *, __dmul_rn)
#undef RONDO_ROUNDED

__device__ inline float rondo_infinity() { return __int_as_float(0x7f800000); }

// bfloat16 is a type of its own here: hipRTC has none in every version. A schedule's type bf16, and like
// rondo_f32 below a type of weights.
struct rondo_bf16 {
  unsigned short bits;

  using storage = rondo_bf16;
  static constexpr int elements = 1;
  __device__ static float load(const rondo_bf16* row, int i);
  __device__ static float dot(const rondo_bf16* row, const float* x, int n);
};
#define RONDO_BF16 rondo_bf16

__device__ inline float rondo_to_float(float value) { return value; }
__device__ inline float rondo_to_float(__half value) { return __half2float(value); }
__device__ inline float rondo_to_float(rondo_bf16 value) {
  return __int_as_float(static_cast<int>(static_cast<unsigned>(value.bits) << 16));
}

// Rounded to the nearest, ties to even; a NaN stays one.
template <typename T>
__device__ inline T rondo_from_float(float value);
template <>
__device__ inline float rondo_from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __half rondo_from_float<__half>(float value) {
  return __float2half(value);
}
template <>
__device__ inline rondo_bf16 rondo_from_float<rondo_bf16>(float value) {
  const unsigned bits = static_cast<unsigned>(__float_as_int(value));
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const unsigned rounded = is_nan ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
  return rondo_bf16{static_cast<unsigned short>(rounded >> 16)};
}

// A value of another lane of the warp, of any type of up to 8 bytes. All threads of the warp call; what comes
// from a lane that has no thread, or from outside the warp, is not to be used.

template <typename T, typename Shuffle>
__device__ inline T rondo_shuffle_by(T value, Shuffle shuffle) {
  static_assert(sizeof(T) <= 8, "a shuffle moves up to 8 bytes");
  union {
    T value;
    unsigned words[2];
  } from, to;
  from.words[0] = from.words[1] = 0;
  from.value = value;
  to.words[0] = shuffle(from.words[0]);
  to.words[1] = sizeof(T) > 4 ? shuffle(from.words[1]) : 0;
  return to.value;
}
template <typename T>
__device__ inline T rondo_shuffle(T value, int lane) {
  return rondo_shuffle_by(value, [lane](unsigned word) { return rondo_shuffle_word(word, lane); });
}
template <typename T>
__device__ inline T rondo_shuffle_down(T value, int offset) {
  return rondo_shuffle_by(value, [offset](unsigned word) { return rondo_shuffle_word_down(word, offset); });
}
template <typename T>
__device__ inline T rondo_shuffle_up(T value, int offset) {
  return rondo_shuffle_by(value, [offset](unsigned word) { return rondo_shuffle_word_up(word, offset); });
}
template <typename T>
__device__ inline T rondo_shuffle_xor(T value, int mask) {
  return rondo_shuffle_by(value, [mask](unsigned word) { return rondo_shuffle_word_xor(word, mask); });
}

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
    for (int offset = rondo_warp_size / 2; offset > 0; offset /= 2) {
      const T other = rondo_shuffle_down(value, offset);
      if (rondo_lane() + offset < lanes) value = combine(value, other);
    }
    value = rondo_shuffle(value, 0);
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
//                               warp. n is a multiple of `elements`, x is aligned to 16 bytes.
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

__device__ inline float rondo_bf16::load(const rondo_bf16* row, int i) { return rondo_to_float(row[i]); }

__device__ inline float rondo_bf16::dot(const rondo_bf16* row, const float* x, int n) {
#if defined(RONDO_HOST)
  return rondo_host_dot_bf16(&row->bits, x, n);
#else
  float sum = 0.0f;
  rondo_for_lanes(n, [&](int i) { sum += rondo_to_float(row[i]) * x[i]; });
  return sum;
#endif
}

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

// 32 weights: scale * (quant - 8), quants 0 … 15 in the low halves of the bytes, 16 … 31 in the high halves.
struct rondo_q4_0_block {
  __half scale;
  unsigned char quants[16];
};
static_assert(sizeof(rondo_q4_0_block) == 18, "GGUF's layout");

struct rondo_q4_0 {
  using storage = rondo_q4_0_block;
  static constexpr int elements = 32;

  __device__ static float load(const storage* row, int i) {
    const storage& block = row[i / 32];
    const int quant = i % 32 < 16 ? block.quants[i % 16] & 15 : block.quants[i % 16] >> 4;
    return __half2float(block.scale) * static_cast<float>(quant - 8);
  }

  __device__ static float dot(const storage* row, const float* x, int n) {
#if defined(RONDO_HOST)
    rondo_host_floats low = {}, high = {};
    for (int b = 0; b < n / 32; ++b) {
      const float scale = __half2float(row[b].scale);
      rondo_host_add_q4_1(low, high, row[b].quants, scale, -8.0f * scale, x + 32 * b);
    }
    return rondo_host_sum(low + high);
#else
    float sum = 0.0f;
    rondo_for_lanes(n / 4, [&](int part) {  // two bytes a lane: blocks are aligned to no more
      const storage& block = row[part / 8];
      const int quants = reinterpret_cast<const unsigned short*>(block.quants)[part % 8];
      const float* values = x + 32 * (part / 8) + 2 * (part % 8);
      float product = 0.0f;
      for (int j = 0; j < 2; ++j) {
        product += static_cast<float>(((quants >> (8 * j)) & 15) - 8) * values[j] +
                   static_cast<float>(((quants >> (8 * j + 4)) & 15) - 8) * values[j + 16];
      }
      sum += __half2float(block.scale) * product;
    });
    return sum;
#endif
  }
};

// 256 weights: scale * scales[i / 16] * (quant - 32). Quants have 6 bits. Of each half of the block, 128
// weights in quarters of 32: the low 4 bits of the first two quarters in the low halves of 64 bytes, of the
// other two in the high halves; the upper 2 bits of weight i of quarter q in bits 2q and 2q + 1 of byte i
// of 32.
struct rondo_q6_k_block {
  unsigned char low[128], high[64];
  signed char scales[16];
  __half scale;
};
static_assert(sizeof(rondo_q6_k_block) == 210, "GGUF's layout");

struct rondo_q6_k {
  using storage = rondo_q6_k_block;
  static constexpr int elements = 256;

  __device__ static int quant(const storage& block, int half, int quarter, int i) {
    const int low = block.low[64 * half + 32 * (quarter % 2) + i] >> (quarter / 2 * 4) & 15;
    const int high = block.high[32 * half + i] >> (2 * quarter) & 3;
    return (low | high << 4) - 32;
  }

  __device__ static float load(const storage* row, int i) {
    const storage& block = row[i / 256];
    const int half = i % 256 / 128, quarter = i % 128 / 32;
    return __half2float(block.scale) * static_cast<float>(block.scales[i % 256 / 16]) *
           static_cast<float>(quant(block, half, quarter, i % 32));
  }

  __device__ static float dot(const storage* row, const float* x, int n) {
#if defined(RONDO_HOST)
    rondo_host_floats sums = {};
    for (int b = 0; b < n / 256; ++b) {
      const float scale = __half2float(row[b].scale);
      for (int half = 0; half < 2; ++half) {
        rondo_host_add_q6_k(sums, row[b].low + 64 * half, row[b].high + 32 * half, row[b].scales + 8 * half,
                            scale, x + 256 * b + 128 * half);
      }
    }
    return rondo_host_sum(sums);
#else
    float sum = 0.0f;
    rondo_for_lanes(n / 4,
                    [&](int part) {  // one weight of each quarter a lane: neighbours read neighbouring bytes
                      const storage& block = row[part / 64];
                      const int half = part % 64 / 32, i = part % 32;
                      const float* values = x + 128 * (part / 32) + i;
                      float product = 0.0f;
                      for (int quarter = 0; quarter < 4; ++quarter) {
                        product += static_cast<float>(block.scales[8 * half + 2 * quarter + i / 16] *
                                                      quant(block, half, quarter, i)) *
                                   values[32 * quarter];
                      }
                      sum += __half2float(block.scale) * product;
                    });
    return sum;
#endif
  }
};
