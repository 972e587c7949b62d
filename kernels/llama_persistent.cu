// One decode step of a Llama-architecture model at batch 1 as one persistent kernel, for CUDA devices of
// compute capability 9.0 and later: one block a multiprocessor, launched cooperatively. Each block copies its
// weights into a ring in shared memory, as far ahead as the ring allows: weights depend on nothing, so memory
// never waits for the step's dependencies. A thread keeps its share of the vector in registers, and
// multiplies the same columns of every row.
#include "llama.cuh"

constexpr int warps = 8, threads = 32 * warps;
constexpr int slice = 8 * threads;  // columns that the block multiplies at a time, 8 each
constexpr int most_stages = 16;     // of the ring
constexpr int flushed_rows = 128;   // rows whose sums are put together at a time
constexpr int most_splits = 16;     // of the positions, in attention

// Into how many parts attention splits so many positions: a few small ones while that is quick to put
// together, then parts of 128.
__device__ inline int splits_of(int positions) {
  if (positions <= 512) return positions <= 96 ? (positions + 31) / 32 : 4;
  return positions <= 128 * most_splits ? (positions + 127) / 128 : most_splits;
}

// Asked for anew at each use: what hangs on it is then computed where it is needed, not kept in registers
// throughout.
__device__ inline int this_thread() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// The pointers of one layer, as the schedule's table lists them.
struct llama_layer {
  const float* norm;
  const void *q_weights, *k_weights, *v_weights, *out_weights;
  const float* norm_ff;
  const void *gate_weights, *up_weights, *down_weights;
  float *keys, *values;
};
template <int n_layers>
struct llama_layers {
  llama_layer layer[n_layers];
};

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Barriers in shared memory (PTX ISA, mbarrier).
__device__ inline void barrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void barrier_arrive(unsigned barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier) : "memory");
}
__device__ inline void barrier_arrive_and_expect(unsigned barrier, unsigned bytes) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}
__device__ inline void barrier_wait(unsigned barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
  } while (done == 0);
}
__device__ inline void copy_bulk(unsigned to, const void* from, unsigned bytes, unsigned barrier,
                                 unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ inline uint4 load_shared(unsigned address) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

// How weights are stored, and what a thread multiplies them with: of each slice of a row, 8 columns in two
// groups of 4, the second `second` columns behind the first. Rows are dealt out to the blocks in tiles, and
// come in stages of the ring.

// Types whose values are converted to floats.
template <typename Convert>
struct persistent_floats {
  static constexpr int second = 4, slice_bytes = 2 * slice, tile_rows = 8, stage_bytes = 32768;
  struct vector {
    float x[8];
    __device__ void set(const float (&values)[8]) {
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] = values[i];
    }
  };
  using packed = uint4;
  __device__ static int column(int thread) { return 8 * thread; }
  __device__ static packed load(unsigned slice_of_row, int thread) {
    return load_shared(slice_of_row + 16 * thread);
  }
  __device__ static float dot(const packed& weights, const vector& by, float sum) {
    const unsigned words[4] = {weights.x, weights.y, weights.z, weights.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = Convert::two(words[i]);
      sum += two.x * by.x[2 * i];
      sum += two.y * by.x[2 * i + 1];
    }
    return sum;
  }
};
struct convert_f16 {
  __device__ static float2 two(unsigned word) {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
  }
};
struct convert_bf16 {
  __device__ static float2 two(unsigned word) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
};

// Blocks of 32 small integers with a scale. They are multiplied as integers: the vector is brought to 16
// bits, each 8 columns with a scale of their own, in two bytes that go through the byte products one after
// the other.
struct persistent_integers {
  static constexpr int stage_bytes = 36864;
  struct vector {
    int high[2], low[2];  // of each group of 4
    float scale;
    int sum;  // of the 16-bit values
    __device__ void set(const float (&values)[8]) {
      float largest = 0.0f;
#pragma unroll
      for (int i = 0; i < 8; ++i) largest = fmaxf(largest, fabsf(values[i]));
      const float to_integer = largest > 0.0f ? 32512.0f / largest : 0.0f;  // 127 * 256
      scale = largest / 32512.0f;
      sum = 0;
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        unsigned high_bytes = 0, low_bytes = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int value = __float2int_rn(values[4 * group + i] * to_integer), upper = (value + 128) >> 8;
          sum += value;
          high_bytes |= static_cast<unsigned>(upper & 255) << (8 * i);
          low_bytes |= static_cast<unsigned>((value - 256 * upper) & 255) << (8 * i);
        }
        high[group] = static_cast<int>(high_bytes), low[group] = static_cast<int>(low_bytes);
      }
    }
  };
  struct packed {
    int bytes[2];
    float scale;
  };
  __device__ static int product(const packed& weights, const vector& by) {
    const int high = __dp4a(weights.bytes[0], by.high[0], __dp4a(weights.bytes[1], by.high[1], 0));
    const int low = __dp4a(weights.bytes[0], by.low[0], __dp4a(weights.bytes[1], by.low[1], 0));
    return 256 * high + low;
  }
  // Blocks lie at multiples of 2 bytes only.
  __device__ static unsigned load_2_bytes(unsigned address) {
    unsigned short value;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(address) : "memory");
    return value;
  }
  __device__ static int load_4_bytes(unsigned address) {
    return static_cast<int>(load_2_bytes(address) | load_2_bytes(address + 2) << 16);
  }
  __device__ static float load_scale(unsigned address) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(load_2_bytes(address))));
  }
};

template <typename Weight>
struct persistent;  // by the schedule's type
template <>
struct persistent<rondo_f16> : persistent_floats<convert_f16> {};
template <>
struct persistent<rondo_bf16> : persistent_floats<convert_bf16> {};
template <>
struct persistent<rondo_q8_0> : persistent_integers {
  static constexpr int second = 4, slice_bytes = slice / 32 * 34, tile_rows = 8;
  __device__ static int column(int thread) { return 8 * thread; }
  __device__ static packed load(unsigned slice_of_row, int thread) {
    const unsigned block = slice_of_row + thread / 4 * 34, own = block + 2 + thread % 4 * 8;
    return {{load_4_bytes(own), load_4_bytes(own + 4)}, load_scale(block)};
  }
  __device__ static float dot(const packed& weights, const vector& by, float sum) {
    return sum + static_cast<float>(product(weights, by)) * (weights.scale * by.scale);
  }
};
template <>
struct persistent<rondo_q4_0> : persistent_integers {
  static constexpr int second = 16, slice_bytes = slice / 32 * 18,
                       tile_rows = 16;  // a byte has weights i and i + 16
  __device__ static int column(int thread) { return thread / 4 * 32 + thread % 4 * 4; }
  __device__ static packed load(unsigned slice_of_row, int thread) {
    const unsigned block = slice_of_row + thread / 4 * 18;
    const int pairs = load_4_bytes(block + 2 + thread % 4 * 4);
    return {{pairs & 0x0f0f0f0f, pairs >> 4 & 0x0f0f0f0f}, load_scale(block)};
  }
  __device__ static float dot(const packed& weights, const vector& by, float sum) {
    return sum + static_cast<float>(product(weights, by) - 8 * by.sum) * (weights.scale * by.scale);
  }
};

template <typename Weight>
__device__ constexpr int row_bytes(int columns) {
  return columns / 32 * (persistent<Weight>::slice_bytes / (slice / 32));
}
// Rows of a tile in one stage of the ring.
template <typename Weight>
__device__ constexpr int stage_rows(int columns) {
  int rows = persistent<Weight>::tile_rows;
  while (rows * row_bytes<Weight>(columns) > persistent<Weight>::stage_bytes) rows /= 2;
  return rows;
}

struct ring_place {
  int stage = 0;
  unsigned parity = 0;
  __device__ void advance(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};
struct ring {
  unsigned data, full, empty;  // addresses
  int stages;
  ring_place read, refilled;
  int turn = 0;  // the warp that refills next
};

// Deals out tiles to the blocks, each matrix going on where the one before ended, so that in sum all get the
// same.
struct dealer {
  int start;
  __device__ int first(int tiles) {
    const int blocks = static_cast<int>(gridDim.x);
    int mine = static_cast<int>(blockIdx.x) - start;
    if (mine < 0) mine += blocks;
    start = (start + tiles) % blocks;
    return mine;
  }
};

__device__ constexpr int power_of_2_from(int n) { return n <= 1 ? 1 : 2 * power_of_2_from((n + 1) / 2); }

// values[0 … count - 1], each summed over the lanes that differ in the bits mask … 1, of which a lane keeps
// the one of the number that its upper bits say.
template <int count, int mask>
__device__ inline float sum_and_deal(float (&values)[count]) {
  if constexpr (mask == 0) {
    return values[0];
  } else if constexpr (count == 1) {
    values[0] += __shfl_xor_sync(0xffffffffu, values[0], mask);
    return sum_and_deal<1, mask / 2>(values);
  } else {
    float kept[count / 2];
    const bool upper = (this_thread() & mask) != 0;
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
      const float sent = upper ? values[i] : values[i + count / 2];
      kept[i] = (upper ? values[i + count / 2] : values[i]) + __shfl_xor_sync(0xffffffffu, sent, mask);
    }
    return sum_and_deal<count / 2, mask / 2>(kept);
  }
}

constexpr int last_tile = 1 << 30;  // a flag beside a tile's number

// In shared memory, of the whole block.
template <int tile_rows>
struct block_memory {
  static constexpr int flushed_tiles = flushed_rows / tile_rows;
  float sums[2][flushed_tiles][warps][tile_rows];
  int tiles[2][flushed_tiles];
  int stage_tiles[most_stages];  // what a stage of the ring is of
};

// A thread's share of a vector: of each slice, 8 columns.
template <typename Weight, int columns>
struct share {
  static constexpr int slices = (columns + slice - 1) / slice;
  typename persistent<Weight>::vector part[slices];
  __device__ static bool has(int s, int thread) {
    return (s + 1) * slice <= columns || s * slice + 8 * thread < columns;
  }
  // The first column of the thread's in a slice; -1: none.
  __device__ static int column(int s) {
    const int thread = this_thread();
    return has(s, thread) ? s * slice + persistent<Weight>::column(thread) : -1;
  }
  __device__ void set(const float (&values)[slices][8]) {
#pragma unroll
    for (int s = 0; s < slices; ++s) part[s].set(values[s]);
  }
};

// epilogue(tile, row in the tile, product), once for each row of each of this block's tiles, of which there
// is one at least. The threads of a tile's rows call together. supply(stage) has the next stage copied; the
// warps take turns.
template <typename Weight, int columns, typename Supply, typename Epilogue>
__device__ inline void multiply(ring& ring, block_memory<persistent<Weight>::tile_rows>& memory, int& flushes,
                                const share<Weight, columns>& vector, Supply supply, Epilogue epilogue) {
  using memory_layout = block_memory<persistent<Weight>::tile_rows>;
  constexpr int tile_rows = persistent<Weight>::tile_rows, stage_bytes = persistent<Weight>::stage_bytes,
                rows = stage_rows<Weight>(columns);
  constexpr int slices = share<Weight, columns>::slices,
                batch = slices >= 8 || rows * slices <= 8 ? rows : 8 / slices;  // rows loaded at a time
  const int thread = this_thread(), lane = thread % 32, warp = thread / 32;
  const auto refill = [&](bool is_read) {
    if (warp == ring.turn && lane == 0) {
      if (!is_read) barrier_wait(ring.empty + 8 * ring.refilled.stage, ring.refilled.parity);
      supply(ring.refilled.stage);
    }
    ring.refilled.advance(ring.stages);
    ring.turn = (ring.turn + 1) % warps;
  };
  int count = 0, tile = 0;
  bool owes = false;  // a stage that has been read has not been filled again
  do {
#pragma unroll 1
    for (int first_row = 0; first_row < tile_rows; first_row += rows) {
      barrier_wait(ring.full + 8 * ring.read.stage, ring.read.parity);
      const unsigned stage = ring.data + ring.read.stage * stage_bytes;
      tile = memory.stage_tiles[ring.read.stage];
      float sums[rows];
#pragma unroll
      for (int first_of_batch = 0; first_of_batch < rows; first_of_batch += batch) {
        typename persistent<Weight>::packed weights[batch][slices];
#pragma unroll
        for (int row = 0; row < batch; ++row)
#pragma unroll
          for (int s = 0; s < slices; ++s)
            if (share<Weight, columns>::has(s, thread))
              weights[row][s] =
                  persistent<Weight>::load(stage + (first_of_batch + row) * row_bytes<Weight>(columns) +
                                               s * persistent<Weight>::slice_bytes,
                                           thread);
#pragma unroll
        for (int row = 0; row < batch; ++row) {
          float sum = 0.0f;
#pragma unroll
          for (int s = 0; s < slices; ++s)
            if (share<Weight, columns>::has(s, thread))
              sum = persistent<Weight>::dot(weights[row][s], vector.part[s], sum);
          sums[first_of_batch + row] = sum;
        }
      }
      // The stage before this one, which by now the other warps have read, or soon will have. Whoever's turn
      // it is says that he has read this one only when the copy is under way: turns follow each other.
      if (owes) refill(false);
      owes = true;
      __syncwarp();
      if (lane == 0) barrier_arrive(ring.empty + 8 * ring.read.stage);
      ring.read.advance(ring.stages);
      const float sum = sum_and_deal<rows, 16>(sums);
      if (lane % (32 / rows) == 0)
        memory.sums[flushes & 1][count][warp][first_row + lane / (32 / rows)] = sum;
    }
    if (thread == 0) memory.tiles[flushes & 1][count] = tile & ~last_tile;
    ++count;
    if (count < memory_layout::flushed_tiles && (tile & last_tile) == 0) continue;
    __syncthreads();
    refill(true);
    owes = false;
    if (thread < count * tile_rows) {
      float total = 0.0f;
#pragma unroll
      for (int i = 0; i < warps; ++i)
        total += memory.sums[flushes & 1][thread / tile_rows][i][thread % tile_rows];
      epilogue(memory.tiles[flushes & 1][thread / tile_rows], thread % tile_rows, total);
    }
    ++flushes;
    count = 0;
  } while ((tile & last_tile) == 0);
}

// What blocks tell each other, word by word: a float whose two lowest bits are replaced by a tag, so that a
// reader knows by the word itself that it is the one it waits for. Nobody needs a barrier. Each word is
// written once a layer, in one of two sets in turn, and the tag changes each time; a word is written again
// two layers later only, when every block has given part of the layer between, and therefore has read it.
template <int d, int q_dim, int kv_dim, int n_heads, int d_ff>
struct exchange {
  static constexpr int scales_at = most_splits * q_dim, h_attended_at = scales_at + most_splits * 2 * n_heads,
                       h_at = h_attended_at + d, q_at = h_at + d, kv_at = q_at + q_dim,
                       ff_at = kv_at + 2 * kv_dim, size = ff_at + d_ff;
  unsigned* words;
  unsigned tag;
  __device__ exchange(unsigned* all, unsigned layers_done)
      : words(all + (layers_done & 1) * size), tag(((layers_done >> 1) + 1) & 3) {}
  __device__ unsigned* attended() const { return words; }
  __device__ unsigned* scales() const { return words + scales_at; }
  __device__ unsigned* h_attended() const { return words + h_attended_at; }
  __device__ unsigned* h() const { return words + h_at; }
  __device__ unsigned* q() const { return words + q_at; }
  __device__ unsigned* kv() const { return words + kv_at; }
  __device__ unsigned* ff() const { return words + ff_at; }
};
__device__ inline void tell(unsigned* word, float value, unsigned tag) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"((__float_as_uint(value) & ~3u) | tag)
               : "memory");
}
__device__ inline void ask4(const unsigned* words, float* to) {
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "l"(words)
               : "memory");
}
__device__ inline void ask2(const unsigned* words, float (&to)[2]) {
  asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];"
               : "=f"(to[0]), "=f"(to[1])
               : "l"(words)
               : "memory");
}
__device__ inline bool is_told(const float* words, unsigned tag) {
  unsigned different = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) different |= __float_as_uint(words[i]) ^ tag;
  return (different & 3) == 0;
}
__device__ inline float told(unsigned word) { return __uint_as_float(word & ~3u); }
// What four words from words + index(part) on and four from `second` words further tell, for each part; of
// those with index(part) < 0, zeros.
template <int second, int parts, typename Index>
__device__ inline void hear8(const unsigned* words, unsigned tag, float (&values)[parts][8], Index index) {
#pragma unroll
  for (int part = 0; part < parts; ++part) {
    const int i = index(part);
    if (i >= 0) ask4(words + i, values[part]), ask4(words + i + second, values[part] + 4);
  }
#pragma unroll
  for (int part = 0; part < parts; ++part) {
    const int i = index(part);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      while (i >= 0 && !is_told(values[part] + 4 * half, tag))
        ask4(words + i + half * second, values[part] + 4 * half);
#pragma unroll
      for (int j = 4 * half; j < 4 * half + 4; ++j)
        values[part][j] = i < 0 ? 0.0f : told(__float_as_uint(values[part][j]));
    }
  }
}
__device__ inline float hear(const unsigned* word, unsigned tag) {
  unsigned value;
  do asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  while (((value ^ tag) & 3) != 0);
  return told(value);
}

// Counters say when it is worth to look: a block counts itself once it has told its part of a phase.
enum { qkv_product, out_product, gate_up_product, down_product, logits_product, attention_phase };
constexpr int counter_stride = 32;  // words: a line each
__device__ inline void count(unsigned* counters, int phase) {
  if (this_thread() == 0)
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(counters + phase * counter_stride)
                 : "memory");
}
__device__ inline void wait_for(const unsigned* counters, int phase, unsigned target) {
  if (this_thread() == 0) {
    unsigned seen;
    do
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                   : "=r"(seen)
                   : "l"(counters + phase * counter_stride)
                   : "memory");
    while (static_cast<int>(seen - target) < 0);
  }
  __syncthreads();
}

template <int second>
__device__ inline void load8(const float* from, float (&to)[8]) {
  const float4 a = *reinterpret_cast<const float4*>(from),
               b = *reinterpret_cast<const float4*>(from + second);
  to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w, to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}

// Positions begin … end - 1 of one key-value head, for all its query heads: sums of values weighted by
// 2^(score - largest), the largest score, and the sum of the weights. A group of lanes has a position, 8
// elements of the head a lane. Caches have the positions before `position`; that one's key and value come
// from the exchange.
template <int head_dim, int heads>
__device__ inline void attend(int begin, int end, int position, int kv_dim, const unsigned* q,
                              const unsigned* key_now, const unsigned* value_now, const float* keys,
                              const float* values, unsigned tag, float* shared, unsigned* out,
                              unsigned* out_scales) {
  constexpr int lanes = head_dim / 8, groups = 32 / lanes, padded = power_of_2_from(heads),
                at_once = padded <= 4 ? 2 : 1, scores = padded * at_once;
  constexpr int stride = groups * at_once * warps, score_lanes = lanes / scores;
  static_assert(scores <= 8 && lanes >= scores && lanes <= 32, "");
  const int thread = this_thread(), lane = thread % 32, warp = thread / 32, element = lane % lanes * 8;
  const int own_score = lane % lanes / score_lanes, own_head = own_score % padded,
            own_turn = own_score / padded;
  const auto position_of = [&](int first, int turn) { return first + (lane / lanes) * at_once + turn; };
  float key[at_once][8], value[at_once][8];
  const auto load = [&](int first, const float* cache, float(&to)[at_once][8]) {
#pragma unroll
    for (int turn = 0; turn < at_once; ++turn) {
      const int at = position_of(first, turn);
      if (at < end && at != position) {
        load8<4>(cache + static_cast<long long>(at) * kv_dim + element, to[turn]);
      } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) to[turn][j] = 0.0f;
      }
    }
  };
  int first = begin + warp * groups * at_once;
  load(first, keys, key);
  load(first, values, value);
  float sums[heads][8] = {}, largest = rondo_lowest_float, total = 0.0f;
  float* queries = shared + warps * heads * (head_dim + 2);
  for (int i = 4 * thread; i < heads * head_dim; i += 4 * threads) {
    float four[4];
    do ask4(q + i, four);
    while (!is_told(four, tag));
#pragma unroll
    for (int j = 0; j < 4; ++j) queries[i + j] = told(__float_as_uint(four[j]));
  }
  __syncthreads();
  const float scale = rsqrtf(static_cast<float>(head_dim)) * 1.44269504f;  // of powers of 2
#pragma unroll 1
  for (; first < end; first += stride) {
    float score[scores];
#pragma unroll
    for (int turn = 0; turn < at_once; ++turn) {
      if (position_of(first, turn) == position) {
        float now[1][8];
        hear8<4>(key_now, tag, now, [&](int) { return element; });
#pragma unroll
        for (int j = 0; j < 8; ++j) key[turn][j] = now[0][j];
        hear8<4>(value_now, tag, now, [&](int) { return element; });
#pragma unroll
        for (int j = 0; j < 8; ++j) value[turn][j] = now[0][j];
      }
      __syncwarp();
#pragma unroll
      for (int head = 0; head < padded; ++head) {
        score[turn * padded + head] = 0.0f;
        if (head >= heads) continue;
#pragma unroll
        for (int j = 0; j < 8; ++j)
          score[turn * padded + head] += queries[head * head_dim + element + j] * key[turn][j];
      }
    }
    if (first + stride < end) load(first + stride, keys, key);
    const bool there = position_of(first, own_turn) < end;
    const float dealt = sum_and_deal<scores, lanes / 2>(score),
                own = there ? dealt * scale : rondo_lowest_float;
    float most = fmaxf(largest, own);
#pragma unroll
    for (int mask = score_lanes * padded; mask < 32; mask *= 2)
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, mask));
    const float shrink = exp2f(largest - most), weight = there ? exp2f(own - most) : 0.0f;
    largest = most;
    total = total * shrink + weight;
#pragma unroll
    for (int head = 0; head < heads; ++head) {
      const float shrink_head = __shfl_sync(0xffffffffu, shrink, head * score_lanes);
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[head][j] *= shrink_head;
#pragma unroll
      for (int turn = 0; turn < at_once; ++turn) {
        const float weight_head =
            __shfl_sync(0xffffffffu, weight, lane / lanes * lanes + (turn * padded + head) * score_lanes);
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[head][j] += weight_head * value[turn][j];
      }
    }
    if (first + stride < end) load(first + stride, values, value);
  }
#pragma unroll
  for (int mask = score_lanes * padded; mask < 32; mask *= 2)
    total += __shfl_xor_sync(0xffffffffu, total, mask);
  // The groups of a warp, then the warps.
  float* own = shared + warp * heads * (head_dim + 2);
#pragma unroll
  for (int head = 0; head < heads; ++head) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int mask = lanes; mask < 32; mask *= 2)
        sums[head][j] += __shfl_xor_sync(0xffffffffu, sums[head][j], mask);
    }
    if (lane / lanes == head % groups) {
#pragma unroll
      for (int j = 0; j < 8; ++j) own[head * (head_dim + 2) + element + j] = sums[head][j];
    }
  }
  if (own_turn == 0 && lane < lanes && lane % score_lanes == 0 && own_head < heads)
    own[own_head * (head_dim + 2) + head_dim] = largest,
                                    own[own_head * (head_dim + 2) + head_dim + 1] = total;
  __syncthreads();
  for (int i = thread; i < heads * head_dim; i += threads) {
    const int head = i / head_dim, e = i % head_dim;
    const float* from = shared + head * (head_dim + 2);
    float most = rondo_lowest_float, sum = 0.0f, weights = 0.0f;
#pragma unroll
    for (int w = 0; w < warps; ++w) most = fmaxf(most, from[w * heads * (head_dim + 2) + head_dim]);
#pragma unroll
    for (int w = 0; w < warps; ++w) {
      const float shrink = exp2f(from[w * heads * (head_dim + 2) + head_dim] - most);
      sum += shrink * from[w * heads * (head_dim + 2) + e];
      weights += shrink * from[w * heads * (head_dim + 2) + head_dim + 1];
    }
    tell(out + i, sum, tag);
    if (e == 0) tell(out_scales + 2 * head, most, tag), tell(out_scales + 2 * head + 1, weights, tag);
  }
  __syncthreads();
}

// The vector is what attention gave, its splits put together.
template <typename Weight, int q_dim, int head_dim>
__device__ inline void hear_attended(share<Weight, q_dim>& vector, int splits, const unsigned* attended,
                                     const unsigned* scales, unsigned tag) {
  constexpr int slices = share<Weight, q_dim>::slices, batch = slices <= 4 ? 4 / slices : 1,
                n_heads = q_dim / head_dim, second = persistent<Weight>::second;
  float most[slices], weights[slices], x[slices][8];
#pragma unroll
  for (int s = 0; s < slices; ++s) {
    most[s] = rondo_lowest_float, weights[s] = 0.0f;
#pragma unroll
    for (int j = 0; j < 8; ++j) x[s][j] = 0.0f;
  }
#pragma unroll 1
  for (int first = 0; first < splits; first += batch) {
    float from[slices * batch][8], scale[slices * batch][2];
    const auto is_there = [&](int i) {
      return share<Weight, q_dim>::column(i / batch) >= 0 && first + i % batch < splits;
    };
    const auto scale_at = [&](int i) {
      return 2 * ((first + i % batch) * n_heads + share<Weight, q_dim>::column(i / batch) / head_dim);
    };
#pragma unroll
    for (int i = 0; i < slices * batch; ++i)
      if (is_there(i)) ask2(scales + scale_at(i), scale[i]);
    hear8<second>(attended, tag, from, [&](int i) {
      return is_there(i) ? (first + i % batch) * q_dim + share<Weight, q_dim>::column(i / batch) : -1;
    });
#pragma unroll
    for (int i = 0; i < slices * batch; ++i) {
      if (!is_there(i)) continue;
      while ((((__float_as_uint(scale[i][0]) ^ tag) | (__float_as_uint(scale[i][1]) ^ tag)) & 3) != 0)
        ask2(scales + scale_at(i), scale[i]);
      const int s = i / batch;
      const float largest = told(__float_as_uint(scale[i][0])), larger = fmaxf(most[s], largest);
      const float shrink = exp2f(most[s] - larger), grown = exp2f(largest - larger);
      most[s] = larger;
      weights[s] = weights[s] * shrink + told(__float_as_uint(scale[i][1])) * grown;
#pragma unroll
      for (int j = 0; j < 8; ++j) x[s][j] = x[s][j] * shrink + from[i][j] * grown;
    }
  }
#pragma unroll
  for (int s = 0; s < slices; ++s) {
    const float all = share<Weight, q_dim>::column(s) >= 0 ? 1.0f / weights[s] : 0.0f;
#pragma unroll
    for (int j = 0; j < 8; ++j) x[s][j] *= all;
  }
  vector.set(x);
}

// `words`: 2 × exchange::size words, zeros before the first step. `best`: one a block. `steps_done`: 16 ×
// counter_stride words, zeros before the first step. Rows of weights have a multiple of 256 columns and up to
// 32 KiB; heads have 64 or 128 elements, of which all are turned if `halves`; every block has part of gate
// and up, d_ff ≥ 8 * blocks, and no more than 64 rows of h.
template <typename Weight, bool halves, int d, int n_heads, int n_kv, int head_dim, int d_ff, int n_layers>
__global__ void __launch_bounds__(threads, 1)
    llama_persistent(int vocab, int rope_dim, float rope_base, int rope_kind, float rope_factor,
                     float rope_low, float rope_high, float rope_original, const float* rope_factors,
                     float epsilon, int position, const __grid_constant__ llama_layers<n_layers> layers,
                     const typename Weight::storage* embeddings, const float* norm_final,
                     const void* logit_weights, unsigned* words, unsigned long long* best,
                     unsigned* steps_done, float* logits, int* token) {
  constexpr int second = persistent<Weight>::second;
  constexpr int q_dim = n_heads * head_dim, kv_dim = n_kv * head_dim, heads_per_kv = n_heads / n_kv;
  __shared__ float rotation[head_dim];
  __shared__ float partial[2][warps];
  constexpr int tile_rows = persistent<Weight>::tile_rows, stage_bytes = persistent<Weight>::stage_bytes;
  __shared__ block_memory<tile_rows> memory;
  __shared__ __align__(8) unsigned long long barriers[2 * most_stages];
  __shared__ float attending[warps * heads_per_kv * (head_dim + 2) + q_dim / n_kv];
  extern __shared__ __align__(128) unsigned char dynamic[];
  const int thread = this_thread(), warp = thread / 32;
  unsigned dynamic_bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(dynamic_bytes));
  ring ring;
  ring.data = shared_address(dynamic);
  ring.full = shared_address(barriers), ring.empty = ring.full + 8 * most_stages;
  ring.stages = static_cast<int>(dynamic_bytes / stage_bytes);
  if (ring.stages > most_stages) ring.stages = most_stages;
  if (thread == 0) {
    for (int i = 0; i < ring.stages; ++i)
      barrier_init(ring.full + 8 * i, 1), barrier_init(ring.empty + 8 * i, warps);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  constexpr int qkv_tiles = (q_dim + 2 * kv_dim) / tile_rows, d_tiles = d / tile_rows,
                ff_tiles = 2 * d_ff / tile_rows;
  const int vocab_tiles = vocab / tile_rows;
  constexpr int d_bytes = row_bytes<Weight>(d), q_bytes = row_bytes<Weight>(q_dim),
                ff_bytes = row_bytes<Weight>(d_ff);
  const int blocks = static_cast<int>(gridDim.x);
  const unsigned layers_before = *steps_done * n_layers;
  // Rows that belong together are in one tile: neighbours, or with halves elements of both halves of a head,
  // and rows of gate and up, half and half. Of these: the row in either.
  const auto row_of_tile = [](int kind, int tile, int r) {
    constexpr int half = tile_rows / 2;
    if (kind == gate_up_product) return tile * half + r % half;
    const int row = tile * tile_rows + r;
    if (!halves || kind != qkv_product || row >= q_dim + kv_dim) return row;
    return tile / (head_dim / tile_rows) * head_dim + tile % (head_dim / tile_rows) * half + r % half +
           r / half * (head_dim / 2);
  };
  const auto tiles_of = [&](int step) {
    return step == 4 * n_layers          ? vocab_tiles
           : step % 4 == qkv_product     ? qkv_tiles
           : step % 4 == gate_up_product ? ff_tiles
                                         : d_tiles;
  };
  // The tiles of a large matrix from here on go to whoever is ready for them: not all multiprocessors get the
  // same share of the memory's bandwidth.
  const auto dealt_of = [&](int step) {
    const int tiles = tiles_of(step), rounds = tiles / blocks;
    const bool is_large = step == 4 * n_layers || step % 4 == gate_up_product;
    // To ask for a tile takes time, which one stage a tile does not hide.
    return is_large && rounds >= 8 && stage_rows<Weight>(d) < tile_rows ? rounds * 3 / 4 * blocks : tiles;
  };

  // The step's stages in their order, one after the other.
  __shared__ struct {
    dealer deal;
    int step, row, tile;
  } next;
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  const auto following = [&](int step, int tile) {
    const int dealt = dealt_of(step), tiles = tiles_of(step);
    if (tile + blocks < dealt) return tile + blocks;
    if (dealt == tiles) return -1;
    // Of the tiles that are not dealt, and one try in vain a block, have there been as many rounds as layers
    // or steps.
    const bool is_logits = step == 4 * n_layers;
    const unsigned rounds = is_logits ? *steps_done : layers_before + step / 4;
    const unsigned ticket = atomicAdd(steps_done + (is_logits ? 8 : 7) * counter_stride, 1u) -
                            rounds * static_cast<unsigned>(tiles - dealt + blocks);
    return ticket < static_cast<unsigned>(tiles - dealt) ? dealt + static_cast<int>(ticket) : -1;
  };
  const auto start_step = [&] {
    while (next.step <= 4 * n_layers) {
      const int dealt = dealt_of(next.step);
      next.tile = next.deal.first(dealt);
      if (next.tile < dealt) return;
      ++next.step;
    }
  };
  const auto supply = [&](int stage) {
    const int step = next.step, tile = next.tile, first_row = next.row;
    if (step > 4 * n_layers) return;
    const unsigned to = ring.data + stage * stage_bytes, full = ring.full + 8 * stage;
    const llama_layer& layer = layers.layer[step / 4];
    const int kind = step == 4 * n_layers ? logits_product : step % 4,
              row = row_of_tile(kind, tile, first_row);
    const auto at = [](const void* matrix, int row, int bytes) {
      return static_cast<const char*>(matrix) + static_cast<long long>(row) * bytes;
    };
    const char *from, *from_second = nullptr;  // a whole tile's second half, where it does not follow
    int rows = stage_rows<Weight>(d), bytes_of_row = d_bytes;
    if (kind == qkv_product) {
      if (row < q_dim)
        from = at(layer.q_weights, row, d_bytes);
      else if (row < q_dim + kv_dim)
        from = at(layer.k_weights, row - q_dim, d_bytes);
      else
        from = at(layer.v_weights, row - q_dim - kv_dim, d_bytes);
      if (halves && row < q_dim + kv_dim) from_second = from + head_dim / 2 * d_bytes;
    } else if (kind == out_product) {
      rows = stage_rows<Weight>(q_dim), bytes_of_row = q_bytes;
      from = at(layer.out_weights, row, q_bytes);
    } else if (kind == gate_up_product) {
      from = at(first_row < tile_rows / 2 ? layer.gate_weights : layer.up_weights, row, d_bytes);
      from_second = at(layer.up_weights, row, d_bytes);
    } else if (kind == down_product) {
      rows = stage_rows<Weight>(d_ff), bytes_of_row = ff_bytes;
      from = at(layer.down_weights, row, ff_bytes);
    } else {
      from = at(logit_weights, row, d_bytes);
    }
    const unsigned bytes = static_cast<unsigned>(rows * bytes_of_row);
    const bool ends = first_row + rows == tile_rows;
    const int after = ends ? following(step, tile) : tile;
    memory.stage_tiles[stage] = tile | (after < 0 ? last_tile : 0);
    barrier_arrive_and_expect(full, bytes);
    if (rows == tile_rows && from_second != nullptr) {
      copy_bulk(to, from, bytes / 2, full, policy);
      copy_bulk(to + bytes / 2, from_second, bytes / 2, full, policy);
    } else {
      copy_bulk(to, from, bytes, full, policy);
    }
    next.row = ends ? 0 : first_row + rows;
    if (after >= 0)
      next.tile = after;
    else
      ++next.step, start_step();
  };
  if (thread == 0) {
    next.deal.start = 0, next.step = 0, next.row = 0;
    start_step();
    for (int i = 0; i < ring.stages; ++i) supply(i);
  }
  for (int pair = thread; pair < head_dim / 2; pair += threads) {
    const rope_scaling scaling{rope_kind, rope_factor, rope_low, rope_high, rope_original};
    const double angle =
        2 * pair < rope_dim ? rope_angle(rope_dim, rope_base, scaling, rope_factors, pair, position) : 0.0;
    rotation[2 * pair] = static_cast<float>(cos(angle));
    rotation[2 * pair + 1] = static_cast<float>(sin(angle));
  }

  dealer deal{0};
  const int splits = splits_of(position + 1), split = (position + splits) / splits;  // positions of each
  const int first_token = *token;
  const typename Weight::storage* embedding = row_of<Weight>(embeddings,
                                                             first_token < 0       ? 0
                                                             : first_token < vocab ? first_token
                                                                                   : vocab - 1,
                                                             d);
  int flushes = 0;
  using exchange = ::exchange<d, q_dim, kv_dim, n_heads, d_ff>;
  unsigned* counters = steps_done + counter_stride;
  unsigned long long largest = 0;

  // All products go through the one loop: there is one copy of its code, and few registers are wanted.
#pragma unroll 1
  for (int step = 0; step <= 4 * n_layers; ++step) {
    const int l = step / 4, kind = step == 4 * n_layers ? logits_product : step % 4;
    const exchange now(words, layers_before + l), last(words, layers_before + l - 1);
    const unsigned layer_blocks =
        (layers_before + l) * gridDim.x;  // that have counted themselves by the end of the layer before
    const int thread = this_thread();
    const bool is_into_h = kind == out_product || kind == down_product;
    const int dealt = dealt_of(step), first = deal.first(dealt);  // a tile; from `dealt` on: none
    if (kind == out_product) {
      for (int task = static_cast<int>(blockIdx.x); task < n_kv * most_splits; task += blocks) {
        const int head = task % n_kv, part = task / n_kv, query = head * heads_per_kv;
        unsigned *out = now.attended() + part * q_dim + query * head_dim,
                 *out_scales = now.scales() + 2 * (part * n_heads + query);
        if (part < splits) {
          const int begin = part * split, end = begin + split < position + 1 ? begin + split : position + 1;
          attend<head_dim, heads_per_kv>(
              begin, end, position, kv_dim, now.q() + query * head_dim, now.kv() + head * head_dim,
              now.kv() + kv_dim + head * head_dim, layers.layer[l].keys + head * head_dim,
              layers.layer[l].values + head * head_dim, now.tag, attending, out, out_scales);
        } else {  // nobody reads it, but its tags must go on
          for (int i = thread; i < heads_per_kv * head_dim; i += threads) {
            tell(out + i, 0.0f, now.tag);
            if (i < 2 * heads_per_kv) tell(out_scales + i, 0.0f, now.tag);
          }
        }
        count(counters, attention_phase);
      }
    }
    // What this thread's row of h was before.
    float before = 0.0f;
    if (is_into_h) {
      const int row = (first + thread / tile_rows * blocks) * tile_rows + thread % tile_rows;
      if (row < d && thread < flushed_rows) {
        if (kind == down_product)
          before = hear(now.h_attended() + row, now.tag);
        else
          before = l == 0 ? Weight::load(embedding, row) : hear(last.h() + row, last.tag);
      }
    }
    float scale = 0.0f;  // of what a normed vector gives; 0: not known yet
    const auto epilogue = [&](int tile, int r, float value) {
      const float neighbour = __shfl_xor_sync(((1u << tile_rows) - 1) << (this_thread() & 31 & -tile_rows),
                                              value, kind == qkv_product && !halves ? 1 : tile_rows / 2);
      const int row = row_of_tile(kind, tile, r);
      if (kind == qkv_product) {
        if (row < q_dim + kv_dim) {
          const bool is_second = halves ? r >= tile_rows / 2 : r % 2 == 1;
          const int pair = halves ? row % (head_dim / 2) : row % head_dim / 2;
          const float cosine = rotation[2 * pair], sine = rotation[2 * pair + 1];
          value = is_second ? neighbour * sine + value * cosine : value * cosine - neighbour * sine;
        }
        value *= scale;
        if (row < q_dim) return tell(now.q() + row, value, now.tag);
        tell(now.kv() + row - q_dim, value, now.tag);
        float* cache = row < q_dim + kv_dim ? layers.layer[l].keys + (row - q_dim)
                                            : layers.layer[l].values + (row - q_dim - kv_dim);
        cache[static_cast<long long>(position) * kv_dim] = value;
      } else if (kind == gate_up_product) {
        const float gate = value * scale;
        if (r < tile_rows / 2)
          tell(now.ff() + row, gate / (1.0f + expf(-gate)) * (neighbour * scale), now.tag);
      } else if (is_into_h) {
        tell((kind == out_product ? now.h_attended() : now.h()) + row, before + value, now.tag);
      } else {
        value *= scale;
        logits[row] = value;
        const unsigned long long other = candidate(value, row);
        largest = other > largest ? other : largest;
      }
    };
    if (kind == out_product) {
      share<Weight, q_dim> vector;
      wait_for(counters, attention_phase, (layers_before + l + 1) * (n_kv * most_splits));
      hear_attended<Weight, q_dim, head_dim>(vector, splits, now.attended(), now.scales(), now.tag);
      if (first < dealt) multiply<Weight>(ring, memory, flushes, vector, supply, epilogue);
    } else if (kind == down_product) {
      share<Weight, d_ff> vector;
      wait_for(counters, gate_up_product, layer_blocks + gridDim.x);
      float values[share<Weight, d_ff>::slices][8];
      hear8<second>(now.ff(), now.tag, values, [](int s) { return share<Weight, d_ff>::column(s); });
      vector.set(values);
      if (first < dealt) multiply<Weight>(ring, memory, flushes, vector, supply, epilogue);
    } else {
      using normed = share<Weight, d>;
      normed vector;
      const float* norm = kind == logits_product ? norm_final
                          : kind == qkv_product  ? layers.layer[l].norm
                                                 : layers.layer[l].norm_ff;
      float weights[normed::slices][8], values[normed::slices][8];
#pragma unroll
      for (int s = 0; s < normed::slices; ++s)
        if (normed::column(s) >= 0) load8<second>(norm + normed::column(s), weights[s]);
      if (step == 0) {
#pragma unroll
        for (int s = 0; s < normed::slices; ++s)
#pragma unroll
          for (int j = 0; j < 8; ++j)
            values[s][j] = normed::column(s) < 0
                               ? 0.0f
                               : Weight::load(embedding, normed::column(s) + j / 4 * second + j % 4);
      } else {
        const bool is_gate_up = kind == gate_up_product;
        wait_for(counters, is_gate_up ? out_product : down_product,
                 layer_blocks + (is_gate_up ? gridDim.x : 0));
        hear8<second>(is_gate_up ? now.h_attended() : last.h(), is_gate_up ? now.tag : last.tag, values,
                      [](int s) { return normed::column(s); });
      }
      float sum = 0.0f;
#pragma unroll
      for (int s = 0; s < normed::slices; ++s)
        if (normed::column(s) >= 0)
#pragma unroll
          for (int j = 0; j < 8; ++j) sum += values[s][j] * values[s][j], values[s][j] *= weights[s][j];
      vector.set(values);
#pragma unroll
      for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
      float* squares = partial[step / 2 % 2];  // read behind the barrier in front of the products' sums
      if (thread % 32 == 0) squares[warp] = sum;
      if (first < dealt)
        multiply<Weight>(ring, memory, flushes, vector, supply, [&](int tile, int r, float value) {
          if (scale == 0.0f) {
            float all = 0.0f;
#pragma unroll
            for (int i = 0; i < warps; ++i) all += squares[i];
            scale = rsqrtf(all / static_cast<float>(d) + epsilon);
          }
          epilogue(tile, r, value);
        });
    }
    if (kind != qkv_product) count(counters, kind);
  }
  // The block that comes last picks the token, and counts the step.
  unsigned long long* block_best = reinterpret_cast<unsigned long long*>(&memory.sums);
  __shared__ bool is_last;
  const auto block_largest = [&](unsigned long long value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      const unsigned long long other = __shfl_xor_sync(0xffffffffu, value, offset);
      value = other > value ? other : value;
    }
    __syncthreads();
    if (thread % 32 == 0) block_best[warp] = value;
    __syncthreads();
    for (int i = 0; i < warps; ++i) value = block_best[i] > value ? block_best[i] : value;
    return value;
  };
  largest = block_largest(largest);
  if (thread == 0) {
    best[blockIdx.x] = largest;
    __threadfence();
    is_last = atomicAdd(steps_done + 1, 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  largest = 0;
  for (int i = thread; i < blocks; i += threads) {
    const unsigned long long other = __ldcg(best + i);
    largest = other > largest ? other : largest;
  }
  largest = block_largest(largest);
  if (thread == 0) *token = candidate_token(largest), *steps_done += 1, steps_done[1] = 0;
}
