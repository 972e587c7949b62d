// CUDA's vocabulary for a kernel that the system's C++ compiler compiles. This text precedes the user's source, after
// host_kernel_abi.h. Warp size is 1, the threads of a block share one OS thread.
//
// threadIdx and the like are static and their address is not taken, so no store through a pointer can change them as far as the
// compiler is concerned: loops whose stride is blockDim.x stay vectorisable.
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#define RONDO_HOST 1

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

// Vector types, aligned as CUDA aligns them.

#define RONDO_HOST_VECTOR(T, name, align2, align4)                                        \
  struct __attribute__((aligned(sizeof(T)))) name##1 {                               \
    T x;                                                                             \
  };                                                                                 \
  struct __attribute__((aligned(align2))) name##2 {                                  \
    T x, y;                                                                          \
  };                                                                                 \
  struct name##3 {                                                                   \
    T x, y, z;                                                                       \
  };                                                                                 \
  struct __attribute__((aligned(align4))) name##4 {                                  \
    T x, y, z, w;                                                                    \
  };                                                                                 \
  constexpr name##1 make_##name##1(T x) { return {x}; }                              \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                      \
  constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }              \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

RONDO_HOST_VECTOR(signed char, char, 2, 4)
RONDO_HOST_VECTOR(unsigned char, uchar, 2, 4)
RONDO_HOST_VECTOR(short, short, 4, 8)
RONDO_HOST_VECTOR(unsigned short, ushort, 4, 8)
RONDO_HOST_VECTOR(int, int, 8, 16)
RONDO_HOST_VECTOR(unsigned, uint, 8, 16)
RONDO_HOST_VECTOR(long long, longlong, 16, 16)
RONDO_HOST_VECTOR(unsigned long long, ulonglong, 16, 16)
RONDO_HOST_VECTOR(float, float, 8, 16)
RONDO_HOST_VECTOR(double, double, 16, 16)
#undef RONDO_HOST_VECTOR

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

// The thread that runs now, and its block.

static thread_local uint3 threadIdx{}, blockIdx{};
static thread_local dim3 blockDim{}, gridDim{};
static thread_local unsigned rondo_host_thread_count = 1;
static thread_local rondo_host_block* rondo_host_current_block = nullptr;
static constexpr int warpSize = 1;

static inline __attribute__((always_inline)) void rondo_host_enter_block(rondo_host_block* block) {
  rondo_host_current_block = block;
  rondo_host_thread_count = block->thread_count;
  blockIdx.x = block->block_idx.x, blockIdx.y = block->block_idx.y, blockIdx.z = block->block_idx.z;
  blockDim.x = block->block_dim.x, blockDim.y = block->block_dim.y, blockDim.z = block->block_dim.z;
  gridDim.x = block->grid_dim.x, gridDim.y = block->grid_dim.y, gridDim.z = block->grid_dim.z;
}

// Dynamic shared memory of the block, aligned to 128 bytes. portable.cuh's rondo_dynamic_shared<T>() is the portable way to it.
static inline void* rondo_host_dynamic_shared() { return rondo_host_current_block->dynamic_shared; }

static inline __attribute__((always_inline)) void __syncthreads() {
  if (rondo_host_thread_count == 1) return;
  // Other threads, of this block or of another one on the same OS thread, run inside barrier() and leave their own values behind.
  rondo_host_block* const block = rondo_host_current_block;
  const unsigned x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
  block->barrier(block);
  rondo_host_enter_block(block);
  threadIdx.x = x, threadIdx.y = y, threadIdx.z = z;
}

static inline int __syncthreads_count(int predicate) {
  static thread_local int count;
  __syncthreads();  // all have read the last result
  count = 0;
  __syncthreads();
  count += predicate != 0;
  __syncthreads();
  return count;
}
static inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
static inline int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }

// Warps of one thread.

static inline void __syncwarp(unsigned = 0xffffffffu) {}
static inline unsigned __activemask() { return 1; }
static inline unsigned __ballot_sync(unsigned, int predicate) { return predicate != 0; }
static inline int __any_sync(unsigned, int predicate) { return predicate != 0; }
static inline int __all_sync(unsigned, int predicate) { return predicate != 0; }
template <class T>
constexpr T __shfl_sync(unsigned, T value, int, int = 1) {
  return value;
}
template <class T>
constexpr T __shfl_up_sync(unsigned, T value, unsigned, int = 1) {
  return value;
}
template <class T>
constexpr T __shfl_down_sync(unsigned, T value, unsigned, int = 1) {
  return value;
}
template <class T>
constexpr T __shfl_xor_sync(unsigned, T value, int, int = 1) {
  return value;
}

// Memory: blocks run on several OS threads, so atomics and fences are real.

static inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
template <class T>
inline T __ldg(const T* pointer) {
  return *pointer;
}
template <class T>
inline T __ldcg(const T* pointer) {
  return *pointer;
}
template <class T>
inline T __ldcs(const T* pointer) {
  return *pointer;
}
template <class T>
inline void __stcs(T* pointer, T value) {
  *pointer = value;
}

template <class T, class Change>
inline T rondo_host_atomic(T* address, Change change) {
  T old;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  for (;;) {
    T desired = change(old);
    if (__atomic_compare_exchange(address, &old, &desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old;
  }
}

#define RONDO_HOST_ATOMICS(T)                                                                                                 \
  static inline T atomicAdd(T* address, T value) { return __atomic_fetch_add(address, value, __ATOMIC_RELAXED); }        \
  static inline T atomicSub(T* address, T value) { return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED); }        \
  static inline T atomicAnd(T* address, T value) { return __atomic_fetch_and(address, value, __ATOMIC_RELAXED); }        \
  static inline T atomicOr(T* address, T value) { return __atomic_fetch_or(address, value, __ATOMIC_RELAXED); }          \
  static inline T atomicXor(T* address, T value) { return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED); }        \
  static inline T atomicExch(T* address, T value) { return __atomic_exchange_n(address, value, __ATOMIC_RELAXED); }      \
  static inline T atomicMax(T* address, T value) {                                                                       \
    return rondo_host_atomic(address, [value](T old) { return old < value ? value : old; });                           \
  }                                                                                                                      \
  static inline T atomicMin(T* address, T value) {                                                                       \
    return rondo_host_atomic(address, [value](T old) { return value < old ? value : old; });                           \
  }                                                                                                                      \
  static inline T atomicCAS(T* address, T compare, T value) {                                                            \
    __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                    \
    return compare;                                                                                                      \
  }
RONDO_HOST_ATOMICS(int)
RONDO_HOST_ATOMICS(unsigned)
RONDO_HOST_ATOMICS(long long)
RONDO_HOST_ATOMICS(unsigned long long)
#undef RONDO_HOST_ATOMICS
static inline float atomicAdd(float* address, float value) {
  return rondo_host_atomic(address, [value](float old) { return old + value; });
}
static inline double atomicAdd(double* address, double value) {
  return rondo_host_atomic(address, [value](double old) { return old + value; });
}
static inline float atomicExch(float* address, float value) {
  return rondo_host_atomic(address, [value](float) { return value; });
}
static inline double atomicExch(double* address, double value) {
  return rondo_host_atomic(address, [value](double) { return value; });
}
static inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return rondo_host_atomic(address, [limit](unsigned old) { return old >= limit ? 0u : old + 1u; });
}

// Bits.

template <class To, class From>
inline __attribute__((always_inline)) To rondo_host_bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
static inline int __float_as_int(float value) { return rondo_host_bit_cast<int>(value); }
static inline unsigned __float_as_uint(float value) { return rondo_host_bit_cast<unsigned>(value); }
static inline float __int_as_float(int value) { return rondo_host_bit_cast<float>(value); }
static inline float __uint_as_float(unsigned value) { return rondo_host_bit_cast<float>(value); }
static inline long long __double_as_longlong(double value) { return rondo_host_bit_cast<long long>(value); }
static inline double __longlong_as_double(long long value) { return rondo_host_bit_cast<double>(value); }
static inline int __popc(unsigned value) { return __builtin_popcount(value); }
static inline int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
static inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value)); }
static inline int __clzll(long long value) {
  return value == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(value));
}
static inline int __ffs(int value) { return __builtin_ffs(value); }
static inline int __ffsll(long long value) { return __builtin_ffsll(value); }
static inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
static inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += static_cast<signed char>(a >> (8 * i)) * static_cast<signed char>(b >> (8 * i));
  return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; ++i) c += ((a >> (8 * i)) & 255u) * ((b >> (8 * i)) & 255u);
  return c;
}

// Arithmetic. C libraries declare __expf and others of these names for themselves: hence macros.

#define RONDO_HOST_MIN_MAX(A, B, T)                                            \
  constexpr T min(A a, B b) { return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b); }         \
  constexpr T max(A a, B b) { return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a); }
RONDO_HOST_MIN_MAX(int, int, int)
RONDO_HOST_MIN_MAX(unsigned, unsigned, unsigned)
RONDO_HOST_MIN_MAX(int, unsigned, unsigned)
RONDO_HOST_MIN_MAX(unsigned, int, unsigned)
RONDO_HOST_MIN_MAX(long, long, long)
RONDO_HOST_MIN_MAX(unsigned long, unsigned long, unsigned long)
RONDO_HOST_MIN_MAX(long, unsigned long, unsigned long)
RONDO_HOST_MIN_MAX(unsigned long, long, unsigned long)
RONDO_HOST_MIN_MAX(long long, long long, long long)
RONDO_HOST_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
RONDO_HOST_MIN_MAX(long long, unsigned long long, unsigned long long)
RONDO_HOST_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef RONDO_HOST_MIN_MAX
// As fmin and fmax: of a NaN and a number, the number.
#define RONDO_HOST_MIN_MAX(A, B, T)                                                               \
  constexpr T min(A a, B b) { return b != b ? static_cast<T>(a) : (static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b)); }          \
  constexpr T max(A a, B b) { return b != b ? static_cast<T>(a) : (static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b)); }
RONDO_HOST_MIN_MAX(float, float, float)
RONDO_HOST_MIN_MAX(double, double, double)
RONDO_HOST_MIN_MAX(float, double, double)
RONDO_HOST_MIN_MAX(double, float, double)
#undef RONDO_HOST_MIN_MAX

#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __sincosf sincosf
#define rsqrtf rondo_host_rsqrtf
#define rsqrt rondo_host_rsqrt
static inline float rondo_host_rsqrtf(float value) { return 1.0f / sqrtf(value); }
static inline float rondo_host_rsqrt(float value) { return 1.0f / sqrtf(value); }
static inline double rondo_host_rsqrt(double value) { return 1.0 / ::sqrt(value); }
// The compiler may reorder sums (-fassociative-math), but not across these, nor fuse them with what is around: it does not see through
// an empty asm. (GCC's __builtin_assoc_barrier is not enough: its last passes reorder again.)
#if defined(__clang__)
#define RONDO_HOST_ROUNDED(expression) _Pragma("clang fp reassociate(off) contract(off)") return expression
#else
#if defined(__x86_64__)
#define RONDO_HOST_REGISTER "+x"
#elif defined(__aarch64__)
#define RONDO_HOST_REGISTER "+w"
#else
#define RONDO_HOST_REGISTER "+m"
#endif
#define RONDO_HOST_ROUNDED(expression)         \
  auto result = expression;                    \
  __asm__("" : RONDO_HOST_REGISTER(result));   \
  return result
#endif
#define RONDO_HOST_ROUNDED_SET(T, prefix)                                                       \
  static inline T __##prefix##add_rn(T a, T b) { RONDO_HOST_ROUNDED(a + b); }                   \
  static inline T __##prefix##sub_rn(T a, T b) { RONDO_HOST_ROUNDED(a - b); }                   \
  static inline T __##prefix##mul_rn(T a, T b) { RONDO_HOST_ROUNDED(a * b); }                   \
  static inline T __##prefix##div_rn(T a, T b) { RONDO_HOST_ROUNDED(a / b); }                   \
  static inline T __##prefix##sqrt_rn(T a) { RONDO_HOST_ROUNDED(static_cast<T>(::sqrt(a))); }   \
  static inline T __##prefix##rcp_rn(T a) { RONDO_HOST_ROUNDED(T(1) / a); }
RONDO_HOST_ROUNDED_SET(float, f)
RONDO_HOST_ROUNDED_SET(double, d)
#undef RONDO_HOST_ROUNDED_SET
static inline float __fmaf_rn(float a, float b, float c) { RONDO_HOST_ROUNDED(fmaf(a, b, c)); }
static inline double __fma_rn(double a, double b, double c) { RONDO_HOST_ROUNDED(::fma(a, b, c)); }
static inline float __frsqrt_rn(float value) { return 1.0f / sqrtf(value); }
static inline float __fdividef(float a, float b) { return a / b; }
#undef RONDO_HOST_ROUNDED
#undef RONDO_HOST_REGISTER
static inline float __saturatef(float value) { return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f; }
static inline int __float2int_rn(float value) { return static_cast<int>(rintf(value)); }
static inline int __float2int_rz(float value) { return static_cast<int>(value); }
static inline int __float2int_rd(float value) { return static_cast<int>(floorf(value)); }
static inline int __float2int_ru(float value) { return static_cast<int>(ceilf(value)); }
static inline float __int2float_rn(int value) { return static_cast<float>(value); }
static inline float __uint2float_rn(unsigned value) { return static_cast<float>(value); }

// 16-bit floating point: stored in 16 bits, computed in float. One operation in float, rounded to half, is what the operation in
// half gives (24 >= 2 * 11 + 2 bits). Conversions are branch-free integer arithmetic so that loops over them vectorise.

static inline __attribute__((always_inline)) float rondo_host_half_to_float(unsigned short bits) {
  const unsigned magnitude = bits & 0x7fffu, sign = (bits & 0x8000u) << 16;
  const unsigned rebias = 112u << 23;
  const unsigned normal = (magnitude << 13) + rebias + (magnitude >= 0x7c00u ? rebias : 0u);
  const unsigned subnormal = rondo_host_bit_cast<unsigned>(static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24f);
  return rondo_host_bit_cast<float>((magnitude < 0x400u ? subnormal : normal) | sign);
}
static inline __attribute__((always_inline)) unsigned short rondo_host_float_to_half(float value) {
  const unsigned bits = rondo_host_bit_cast<unsigned>(value);
  const unsigned magnitude = bits & 0x7fffffffu, sign = (bits >> 16) & 0x8000u;
  const unsigned normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // In [0.5, 1) the distance of floats is 2^-24, that of subnormal halves.
  const unsigned subnormal = rondo_host_bit_cast<unsigned>(rondo_host_bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const unsigned large = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const unsigned finite = magnitude < 0x38800000u ? subnormal : normal;
  return static_cast<unsigned short>((magnitude >= 0x47800000u ? large : finite) | sign);
}
static inline __attribute__((always_inline)) float rondo_host_bfloat16_to_float(unsigned short bits) {
  return rondo_host_bit_cast<float>(static_cast<unsigned>(bits) << 16);
}
static inline __attribute__((always_inline)) unsigned short rondo_host_float_to_bfloat16(float value) {
  const unsigned bits = rondo_host_bit_cast<unsigned>(value);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<unsigned short>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

#define RONDO_HOST_SHORT_FLOAT(name, pair, to_float, from_float)                                                          \
  struct name {                                                                                                      \
    unsigned short bits;                                                                                             \
    name() = default;                                                                                                \
    template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type>                          \
    __attribute__((always_inline)) name(T value) : bits(from_float(static_cast<float>(value))) {}                    \
    __attribute__((always_inline)) operator float() const { return to_float(bits); }                                 \
    name& operator+=(name other) { return *this = name(float(*this) + float(other)); }                               \
    name& operator-=(name other) { return *this = name(float(*this) - float(other)); }                               \
    name& operator*=(name other) { return *this = name(float(*this) * float(other)); }                               \
    name& operator/=(name other) { return *this = name(float(*this) / float(other)); }                               \
  };                                                                                                                 \
  struct __attribute__((aligned(4))) pair {                                                                          \
    name x, y;                                                                                                       \
  };                                                                                                                 \
  static inline name __hadd(name a, name b) { return name(float(a) + float(b)); }                                    \
  static inline name __hsub(name a, name b) { return name(float(a) - float(b)); }                                    \
  static inline name __hmul(name a, name b) { return name(float(a) * float(b)); }                                    \
  static inline name __hdiv(name a, name b) { return name(float(a) / float(b)); }                                    \
  static inline float __low2float(pair value) { return float(value.x); }                                             \
  static inline float __high2float(pair value) { return float(value.y); }
RONDO_HOST_SHORT_FLOAT(__half, __half2, rondo_host_half_to_float, rondo_host_float_to_half)
RONDO_HOST_SHORT_FLOAT(__nv_bfloat16, __nv_bfloat162, rondo_host_bfloat16_to_float, rondo_host_float_to_bfloat16)
#undef RONDO_HOST_SHORT_FLOAT
typedef __half half;
typedef __half2 half2;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline float __half2float(__half value) { return float(value); }
static inline __half __float2half(float value) { return __half(value); }
static inline __half __float2half_rn(float value) { return __half(value); }
static inline unsigned short __half_as_ushort(__half value) { return value.bits; }
static inline __half __ushort_as_half(unsigned short bits) { return rondo_host_bit_cast<__half>(bits); }
static inline float2 __half22float2(__half2 value) { return {float(value.x), float(value.y)}; }
static inline __half2 __float22half2_rn(float2 value) { return {__half(value.x), __half(value.y)}; }
static inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
static inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
static inline __half __low2half(__half2 value) { return value.x; }
static inline __half __high2half(__half2 value) { return value.y; }
static inline float __bfloat162float(__nv_bfloat16 value) { return float(value); }
static inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
static inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return rondo_host_bit_cast<__nv_bfloat16>(bits); }
static inline float2 __bfloat1622float2(__nv_bfloat162 value) { return {float(value.x), float(value.y)}; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
