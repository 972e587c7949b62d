// One decode step of a Llama-architecture model at batch 1. Weights are rows of packed types (rondo_q4_1 and
// the like), activations and the cache are float. A matrix-vector product gives whole rows to warps; on the
// host a warp is one thread.
//
// What depends on the step's position comes in two forms that share their arithmetic: as an argument, and as
// a pointer to a slot (_at).
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

// h = the token's row of the embedding table. One thread an element, or fewer.
template <typename Weight>
__global__ void embed(int d, int vocab, const int* token, const typename Weight::storage* table, float* h) {
  const int index = *token < 0 ? 0 : *token < vocab ? *token : vocab - 1;
  const typename Weight::storage* row = row_of<Weight>(table, index, d);
  const int threads = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < d; i += threads)
    h[i] = Weight::load(row, i);
}

// Rotary embedding: cosine and sine for each pair of elements, of position * base^(-2 * pair / rope_dim). In
// double: in float, the angle of a late position is off by 1e-4 and more.
__device__ inline void fill_rotation(int rope_dim, float base, int position, float* rotation) {
  rondo_for_threads(rope_dim / 2, [&](int pair) {
    const double angle = position * pow(static_cast<double>(base), -2.0 * pair / rope_dim);
    rotation[2 * pair] = static_cast<float>(cos(angle));
    rotation[2 * pair + 1] = static_cast<float>(sin(angle));
  });
}
__global__ void rope_rotation(int rope_dim, float base, int position, float* rotation) {
  fill_rotation(rope_dim, base, position, rotation);
}
__global__ void rope_rotation_at(int rope_dim, float base, const int* position, float* rotation) {
  fill_rotation(rope_dim, base, *position, rotation);
}

// Two neighbouring elements of a head (GGUF's order of the Llama architecture), rotated if they are among its
// first rope_dim.
__device__ inline void store_rotated(int head_dim, int rope_dim, const float* rotation, int row, float first,
                                     float second, float* out) {
  if (rondo_lane() != 0) return;
  const int element = row % head_dim;
  const bool rotated = element < rope_dim;
  const float cosine = rotated ? rotation[element] : 1.0f;
  const float sine = rotated ? rotation[element + 1] : 0.0f;
  out[row] = first * cosine - second * sine;
  out[row + 1] = first * sine + second * cosine;
}

// q = rotate(wq · norm(h))
template <typename Weight>
__global__ void project_query(int d, int q_dim, int head_dim, int rope_dim, float epsilon, const float* h,
                              const float* norm, const typename Weight::storage* wq, const float* rotation,
                              float* q) {
  const float* x = rms_norm(d, epsilon, h, norm);
  const rondo_range pairs = rondo_warp_share(q_dim / 2);
  for (int row = 2 * pairs.begin; row < 2 * pairs.end; row += 2) {
    const float first = project_row<Weight>(wq, row, x, d);
    const float second = project_row<Weight>(wq, row + 1, x, d);
    store_rotated(head_dim, rope_dim, rotation, row, first, second, q);
  }
}

// key = rotate(wk · norm(h)), value = wv · norm(h): this step's row of the caches.
template <typename KeyWeight, typename ValueWeight>
__device__ inline void append(int d, int kv_dim, int head_dim, int rope_dim, float epsilon, const float* h,
                              const float* norm, const typename KeyWeight::storage* wk,
                              const typename ValueWeight::storage* wv, const float* rotation, float* key,
                              float* value) {
  const float* x = rms_norm(d, epsilon, h, norm);
  const rondo_range pairs = rondo_warp_share(kv_dim);  // those of the key, then those of the value
  for (int row = 2 * pairs.begin; row < 2 * pairs.end; row += 2) {
    if (row < kv_dim) {
      const float first = project_row<KeyWeight>(wk, row, x, d);
      const float second = project_row<KeyWeight>(wk, row + 1, x, d);
      store_rotated(head_dim, rope_dim, rotation, row, first, second, key);
    } else {
      const float first = project_row<ValueWeight>(wv, row - kv_dim, x, d);
      const float second = project_row<ValueWeight>(wv, row + 1 - kv_dim, x, d);
      if (rondo_lane() == 0) value[row - kv_dim] = first, value[row + 1 - kv_dim] = second;
    }
  }
}
template <typename KeyWeight, typename ValueWeight>
__global__ void append_kv(int d, int kv_dim, int head_dim, int rope_dim, float epsilon, const float* h,
                          const float* norm, const typename KeyWeight::storage* wk,
                          const typename ValueWeight::storage* wv, const float* rotation, float* key,
                          float* value) {
  append<KeyWeight, ValueWeight>(d, kv_dim, head_dim, rope_dim, epsilon, h, norm, wk, wv, rotation, key,
                                 value);
}
template <typename KeyWeight, typename ValueWeight>
__global__ void append_kv_at(int d, int kv_dim, int head_dim, int rope_dim, float epsilon, const float* h,
                             const float* norm, const typename KeyWeight::storage* wk,
                             const typename ValueWeight::storage* wv, const float* rotation, float* keys,
                             float* values, const int* position) {
  const long long start = static_cast<long long>(*position) * kv_dim;
  append<KeyWeight, ValueWeight>(d, kv_dim, head_dim, rope_dim, epsilon, h, norm, wk, wv, rotation,
                                 keys + start, values + start);
}

// out = softmax(q · keys / sqrt(head_dim)) · values over positions 0 … last, one block a head. Positions go
// round the block's warps; each keeps a running maximum, so that no memory depends on how many there are.
// Dynamic shared memory: head_dim + 2 floats a warp.
template <int head_dim>
__device__ inline void attend(int kv_dim, int heads_per_kv, int last, const float* q, const float* keys,
                              const float* values, float* out) {
  constexpr int elements = (head_dim + rondo_warp_size - 1) / rondo_warp_size;  // of the head, in each lane
  const int head = static_cast<int>(blockIdx.x), lane = rondo_lane(), warps = rondo_warps();
  const float scale = 1.0f / sqrtf(static_cast<float>(head_dim));
  const long long kv_start = static_cast<long long>(head / heads_per_kv) * head_dim;
  float query[elements], sums[elements];
  for (int i = 0; i < elements; ++i) {
    const int element = lane + i * rondo_warp_size;
    query[i] = element < head_dim ? q[head * head_dim + element] * scale : 0.0f;
    sums[i] = 0.0f;
  }

  float largest = rondo_lowest_float, total = 0.0f;
  for (int position = rondo_warp(); position <= last; position += warps) {
    const float* key = keys + kv_start + static_cast<long long>(position) * kv_dim;
    const float* value = values + kv_start + static_cast<long long>(position) * kv_dim;
    float score = 0.0f;
    for (int i = 0; i < elements; ++i) {
      const int element = lane + i * rondo_warp_size;
      if (head_dim % rondo_warp_size == 0 || element < head_dim) score += query[i] * key[element];
    }
    score = rondo_warp_sum(score);
    if (score > largest) {
      const float shrink = expf(largest - score);
      total *= shrink;
      for (int i = 0; i < elements; ++i) sums[i] *= shrink;
      largest = score;
    }
    const float weight = expf(score - largest);
    total += weight;
    for (int i = 0; i < elements; ++i) {
      const int element = lane + i * rondo_warp_size;
      if (head_dim % rondo_warp_size == 0 || element < head_dim) sums[i] += weight * value[element];
    }
  }

  float* partial = rondo_dynamic_shared<float>();  // of each warp: sums, maximum, total
  float* own = partial + rondo_warp() * (head_dim + 2);
  for (int i = 0; i < elements; ++i) {
    const int element = lane + i * rondo_warp_size;
    if (element < head_dim) own[element] = sums[i];
  }
  if (lane == 0) own[head_dim] = largest, own[head_dim + 1] = total;
  __syncthreads();
  largest = partial[head_dim];
  for (int warp = 1; warp < warps; ++warp) {
    const float other = partial[warp * (head_dim + 2) + head_dim];
    largest = other > largest ? other : largest;
  }
  rondo_for_threads(head_dim, [&](int element) {
    float sum = 0.0f, weights = 0.0f;
    for (int warp = 0; warp < warps; ++warp) {
      const float* from = partial + warp * (head_dim + 2);
      const float shrink = expf(from[head_dim] - largest);
      sum += shrink * from[element];
      weights += shrink * from[head_dim + 1];
    }
    out[head * head_dim + element] = sum / weights;
  });
}
template <int head_dim>
__global__ void attention(int kv_dim, int heads_per_kv, int last, const float* q, const float* keys,
                          const float* values, float* out) {
  attend<head_dim>(kv_dim, heads_per_kv, last, q, keys, values, out);
}
template <int head_dim>
__global__ void attention_at(int kv_dim, int heads_per_kv, const int* last, const float* q, const float* keys,
                             const float* values, float* out) {
  attend<head_dim>(kv_dim, heads_per_kv, *last, q, keys, values, out);
}

// h += w · x
template <typename Weight>
__global__ void project_add(int n, int rows, const typename Weight::storage* w, const float* x, float* h) {
  const rondo_range share = rondo_warp_share(rows);
  for (int row = share.begin; row < share.end; ++row) {
    const float product = project_row<Weight>(w, row, x, n);
    if (rondo_lane() == 0) h[row] += product;
  }
}

// out = silu(gate · norm(h)) * (up · norm(h))
template <typename GateWeight, typename UpWeight>
__global__ void gate_up(int d, int rows, float epsilon, const float* h, const float* norm,
                        const typename GateWeight::storage* w_gate, const typename UpWeight::storage* w_up,
                        float* out) {
  const float* x = rms_norm(d, epsilon, h, norm);
  const rondo_range share = rondo_warp_share(rows);
  for (int row = share.begin; row < share.end; ++row) {
    const float gate = project_row<GateWeight>(w_gate, row, x, d);
    const float up = project_row<UpWeight>(w_up, row, x, d);
    if (rondo_lane() == 0) out[row] = gate / (1.0f + expf(-gate)) * up;
  }
}

// logits = w · norm(h)
template <typename Weight>
__global__ void project_logits(int d, int vocab, float epsilon, const float* h, const float* norm,
                               const typename Weight::storage* w, float* logits) {
  const float* x = rms_norm(d, epsilon, h, norm);
  const rondo_range share = rondo_warp_share(vocab);
  for (int row = share.begin; row < share.end; ++row) {
    const float product = project_row<Weight>(w, row, x, d);
    if (rondo_lane() == 0) logits[row] = product;
  }
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

// The best of each block's share of the logits, its token and its logit; of an empty share, token 0 and its logit.
__global__ void argmax_blocks(int vocab, const float* logits, int* tokens, float* values) {
  const int blocks = static_cast<int>(gridDim.x), share = (vocab + blocks - 1) / blocks;
  const int begin = static_cast<int>(blockIdx.x) * share;
  const int count = vocab - begin < share ? vocab - begin : share;
  float best = -__int_as_float(0x7f800000);
  int index = 0;
  rondo_for_threads(count, [&](int i) {
    if (logits[begin + i] > best) best = logits[begin + i], index = begin + i;
  });
  const unsigned long long block_best = rondo_block_max(candidate(best, index));
  if (threadIdx.x == 0) {
    const int token = candidate_token(block_best);
    tokens[blockIdx.x] = token;
    values[blockIdx.x] = logits[token];
  }
}

// One block.
__global__ void argmax(int blocks, const int* tokens, const float* values, int* token) {
  unsigned long long best = 0;
  rondo_for_threads(blocks, [&](int i) {
    const unsigned long long other = candidate(values[i], tokens[i]);
    best = other > best ? other : best;
  });
  best = rondo_block_max(best);
  if (threadIdx.x == 0) *token = candidate_token(best);
}
