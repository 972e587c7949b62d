// Random weights; see random_weights.h. Any block, any grid. Each element or block of weights depends on the
// seed and its own index alone, by integers and operations that every device rounds alike.

#include "portable.cuh"

namespace rondo_random {

typedef unsigned long long word;

// The finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
__device__ inline word mix(word z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

template <typename T>
struct convert {
  __device__ static T from(float value) { return rondo_from_float<T>(value); }
};
template <>
struct convert<double> {
  __device__ static double from(float value) { return value; }
};

template <typename Body>
__device__ inline void for_grid(long long count, Body body) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

// Uniform in [center - scale, center + scale).
template <typename T>
__global__ void elements(T* to, long long count, word seed, float scale, float center) {
  for_grid(count, [&](long long i) {
    const int bits = static_cast<int>(mix(seed + static_cast<word>(i)) >> 40) - (1 << 23);
    const float unit = static_cast<float>(bits) * 1.1920928955078125e-07f;  // 2^-23
    to[i] = convert<T>::from(rondo_add(rondo_multiply(scale, unit), center));
  });
}

// `count` random bytes of block `block`.
__device__ inline void put_bytes(unsigned char* to, int count, word seed, long long block) {
  const word first = seed + static_cast<word>(block) * static_cast<word>((count + 7) / 8);
  for (int i = 0; i < count; i += 8) {
    const word bits = mix(first + static_cast<word>(i / 8));
    for (int j = 0; j < 8 && i + j < count; ++j) to[i + j] = static_cast<unsigned char>(bits >> (8 * j));
  }
}

__device__ inline void put(rondo_q8_0_block& to, word seed, long long i, float scale, float) {
  put_bytes(reinterpret_cast<unsigned char*>(to.quants), 32, seed, i);
  to.scale = rondo_from_float<__half>(scale);
}
__device__ inline void put(rondo_q4_0_block& to, word seed, long long i, float scale, float) {
  put_bytes(to.quants, 16, seed, i);
  to.scale = rondo_from_float<__half>(scale);
}
__device__ inline void put(rondo_q4_1_block& to, word seed, long long i, float scale, float minimum) {
  put_bytes(to.quants, 16, seed, i);
  to.scale = rondo_from_float<__half>(scale);
  to.minimum = rondo_from_float<__half>(minimum);
}
// Scales of 64 to 127.
__device__ inline void put(rondo_q6_k_block& to, word seed, long long i, float scale, float) {
  put_bytes(to.low, 208, seed, i);  // the low bits, the high bits and the scales, which lie one after another
  for (int j = 0; j < 16; ++j) to.scales[j] = static_cast<signed char>((to.scales[j] & 63) | 64);
  to.scale = rondo_from_float<__half>(scale);
}

template <typename Block>
__global__ void blocks(Block* to, long long count, word seed, float scale, float minimum) {
  for_grid(count, [&](long long i) { put(to[i], seed, i, scale, minimum); });
}

}  // namespace rondo_random
