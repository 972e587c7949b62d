// What the kernels of a decode step of a Llama-architecture model share: rows of weights, norms, the rotary
// embedding's angles, and how tokens are compared.
#pragma once

#include "portable.cuh"

template <typename Weight>
__device__ inline const typename Weight::storage* row_of(const typename Weight::storage* matrix, int row,
                                                         int n) {
  return matrix + static_cast<long long>(row) * (n / Weight::elements);
}

// A row's product with x, in every lane of the warp.
template <typename Weight>
__device__ inline float project_row(const typename Weight::storage* matrix, int row, const float* x, int n) {
  return rondo_warp_sum(Weight::dot(row_of<Weight>(matrix, row, n), x, n));
}

// weight * x / sqrt(mean(x²) + epsilon), in the block's dynamic shared memory (n floats). Every block makes
// its own.
__device__ inline const float* rms_norm(int n, float epsilon, const float* x, const float* weight) {
  float* normed = rondo_dynamic_shared<float>();
  float sum = 0.0f;
  rondo_for_threads(n, [&](int i) { sum += x[i] * x[i]; });
  const float scale = 1.0f / sqrtf(rondo_block_sum(sum) / static_cast<float>(n) + epsilon);
  rondo_for_threads(n, [&](int i) { normed[i] = x[i] * scale * weight[i]; });
  __syncthreads();
  return normed;
}

// How the frequencies of the rotary embedding are scaled, for contexts beyond those that a model was trained
// on.
struct rope_scaling {
  enum { none, linear, llama3 };  // kind
  int kind;
  float factor;  // what frequencies are divided by
  // Of llama3: wavelengths above original_context / low_frequency_factor are scaled, those below
  // original_context / high_frequency_factor are not, and between the two there is a blend.
  float low_frequency_factor, high_frequency_factor, original_context;
};

// Radians by which pair `pair` of a head's rope_dim / 2 is turned at `position`: position * base^(-2 pair /
// rope_dim), scaled. `factors`: one a pair, which its frequency is divided by; ones where a model has none.
// In double: in float, the angle of a late position is off by 1e-4 and more.
__device__ inline double rope_angle(int rope_dim, float base, rope_scaling scaling, const float* factors,
                                    int pair, int position) {
  const double frequency = pow(static_cast<double>(base), -2.0 * pair / rope_dim) / factors[pair];
  if (scaling.kind == rope_scaling::none) return position * frequency;
  double unscaled = 0.0;  // the share of it that stays as it is
  if (scaling.kind == rope_scaling::llama3) {
    const double periods =
        scaling.original_context * frequency / 6.283185307179586;  // in the original context
    const double low = scaling.low_frequency_factor, high = scaling.high_frequency_factor;
    unscaled = periods < low ? 0.0 : periods > high ? 1.0 : (periods - low) / (high - low);
  }
  return position * (unscaled * frequency + (1.0 - unscaled) * frequency / scaling.factor);
}

// Two elements that are turned together, by their places in the vector of all heads; `pair` is that of
// rope_angle. `index` counts the pairs of all heads. Neighbours (GGUF's order of the Llama architecture), or
// with `halves` one of each half of the first rope_dim elements of a head (the order of safetensors
// checkpoints). Pairs from rope_dim / 2 on are not turned.
struct rope_pair {
  int first, second, pair;
};
__device__ inline rope_pair rope_pair_of(int head_dim, int rope_dim, bool halves, int index) {
  const int pair = index % (head_dim / 2), head = index / (head_dim / 2) * head_dim;
  if (halves && 2 * pair < rope_dim) return {head + pair, head + pair + rope_dim / 2, pair};
  return {head + 2 * pair, head + 2 * pair + 1, pair};
}

// The token with the largest logit, of equal ones the first. A candidate is one number that orders by value,
// then by earlier index, so that the result does not depend on who compares what with whom.
__device__ inline unsigned long long candidate(float value, int index) {
  unsigned bits = __float_as_uint(value);
  if (bits == 0x80000000u) bits = 0;  // -0 equals 0
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(bits) << 32 | (0xffffffffu - static_cast<unsigned>(index));
}

__device__ inline int candidate_token(unsigned long long candidate) {
  return static_cast<int>(0xffffffffu - static_cast<unsigned>(candidate));
}
