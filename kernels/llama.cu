// One decode step of a Llama-architecture model at batch 1. Weights are rows of packed types (rondo_q4_1 and
// the like), activations and the cache are float. A matrix-vector product gives whole rows to warps; on the
// host a warp is one thread.
//
// What depends on the step's position comes in two forms that share their arithmetic: as an argument, and as
// a pointer to a slot (_at).
#include "llama.cuh"

// h = the token's row of the embedding table. One thread an element, or fewer.
template <typename Weight>
__global__ void embed(int d, int vocab, const int* token, const typename Weight::storage* table, float* h) {
  const int index = *token < 0 ? 0 : *token < vocab ? *token : vocab - 1;
  const typename Weight::storage* row = row_of<Weight>(table, index, d);
  const int threads = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < d; i += threads)
    h[i] = Weight::load(row, i);
}

// Rotary embedding: cosine and sine for each pair of elements.
__device__ inline void fill_rotation(int rope_dim, float base, rope_scaling scaling, const float* factors,
                                     int position, float* rotation) {
  rondo_for_threads(rope_dim / 2, [&](int pair) {
    const double angle = rope_angle(rope_dim, base, scaling, factors, pair, position);
    rotation[2 * pair] = static_cast<float>(cos(angle));
    rotation[2 * pair + 1] = static_cast<float>(sin(angle));
  });
}
__global__ void rope_rotation(int rope_dim, float base, int scaling, float factor, float low_frequency_factor,
                              float high_frequency_factor, float original_context, const float* factors,
                              int position, float* rotation) {
  fill_rotation(rope_dim, base,
                {scaling, factor, low_frequency_factor, high_frequency_factor, original_context}, factors,
                position, rotation);
}
__global__ void rope_rotation_at(int rope_dim, float base, int scaling, float factor,
                                 float low_frequency_factor, float high_frequency_factor,
                                 float original_context, const float* factors, const int* position,
                                 float* rotation) {
  fill_rotation(rope_dim, base,
                {scaling, factor, low_frequency_factor, high_frequency_factor, original_context}, factors,
                *position, rotation);
}

// One lane of the warp: the two elements, turned if they are among the head's first rope_dim.
__device__ inline void store_rotated(rope_pair at, int rope_dim, const float* rotation, float first,
                                     float second, float* out) {
  if (rondo_lane() != 0) return;
  const bool rotated = 2 * at.pair < rope_dim;
  const float cosine = rotated ? rotation[2 * at.pair] : 1.0f;
  const float sine = rotated ? rotation[2 * at.pair + 1] : 0.0f;
  out[at.first] = first * cosine - second * sine;
  out[at.second] = first * sine + second * cosine;
}

// q = rotate(wq · norm(h))
template <typename Weight>
__global__ void project_query(int d, int q_dim, int head_dim, int rope_dim, bool halves, float epsilon,
                              const float* h, const float* norm, const typename Weight::storage* wq,
                              const float* rotation, float* q) {
  const float* x = rms_norm(d, epsilon, h, norm);
  const rondo_range pairs = rondo_warp_share(q_dim / 2);
  for (int index = pairs.begin; index < pairs.end; ++index) {
    const rope_pair at = rope_pair_of(head_dim, rope_dim, halves, index);
    const float first = project_row<Weight>(wq, at.first, x, d);
    const float second = project_row<Weight>(wq, at.second, x, d);
    store_rotated(at, rope_dim, rotation, first, second, q);
  }
}

// key = rotate(wk · norm(h)), value = wv · norm(h): this step's row of the caches.
template <typename KeyWeight, typename ValueWeight>
__device__ inline void append(int d, int kv_dim, int head_dim, int rope_dim, bool halves, float epsilon,
                              const float* h, const float* norm, const typename KeyWeight::storage* wk,
                              const typename ValueWeight::storage* wv, const float* rotation, float* key,
                              float* value) {
  const float* x = rms_norm(d, epsilon, h, norm);
  const rondo_range pairs = rondo_warp_share(kv_dim);  // those of the key, then those of the value
  for (int index = pairs.begin; index < pairs.end; ++index) {
    if (2 * index < kv_dim) {
      const rope_pair at = rope_pair_of(head_dim, rope_dim, halves, index);
      const float first = project_row<KeyWeight>(wk, at.first, x, d);
      const float second = project_row<KeyWeight>(wk, at.second, x, d);
      store_rotated(at, rope_dim, rotation, first, second, key);
    } else {
      const int row = 2 * index - kv_dim;
      const float first = project_row<ValueWeight>(wv, row, x, d);
      const float second = project_row<ValueWeight>(wv, row + 1, x, d);
      if (rondo_lane() == 0) value[row] = first, value[row + 1] = second;
    }
  }
}
template <typename KeyWeight, typename ValueWeight>
__global__ void append_kv(int d, int kv_dim, int head_dim, int rope_dim, bool halves, float epsilon,
                          const float* h, const float* norm, const typename KeyWeight::storage* wk,
                          const typename ValueWeight::storage* wv, const float* rotation, float* key,
                          float* value) {
  append<KeyWeight, ValueWeight>(d, kv_dim, head_dim, rope_dim, halves, epsilon, h, norm, wk, wv, rotation,
                                 key, value);
}
template <typename KeyWeight, typename ValueWeight>
__global__ void append_kv_at(int d, int kv_dim, int head_dim, int rope_dim, bool halves, float epsilon,
                             const float* h, const float* norm, const typename KeyWeight::storage* wk,
                             const typename ValueWeight::storage* wv, const float* rotation, float* keys,
                             float* values, const int* position) {
  const long long start = static_cast<long long>(*position) * kv_dim;
  append<KeyWeight, ValueWeight>(d, kv_dim, head_dim, rope_dim, halves, epsilon, h, norm, wk, wv, rotation,
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

// The best of each block's share of the logits, its token and its logit; of an empty share, token 0 and its
// logit.
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
