// Kernels of Rondo's own; see builtin.h. Any block, any grid, any warp size.

#include "portable.cuh"

namespace rondo_builtin {

template <int bytes>
struct word;
template <>
struct word<1> {
  typedef unsigned char type;
};
template <>
struct word<2> {
  typedef unsigned short type;
};
template <>
struct word<4> {
  typedef unsigned type;
};
template <>
struct word<8> {
  typedef unsigned long long type;
};
template <>
struct word<16> {
  typedef uint4 type;
};

// `count` elements, each `words` words for every `elements` of them (block types have many elements a block).
template <int bytes>
__global__ void copy(const typename word<bytes>::type* from, typename word<bytes>::type* to, long long count, long long elements,
                     long long words) {
  rondo_wait_for_inputs();
  const long long total = count / elements * words;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) to[i] = from[i];
}

template <int bytes>
__global__ void fill(typename word<bytes>::type* to, typename word<bytes>::type value, long long count) {
  rondo_wait_for_inputs();
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) to[i] = value;
}

template <int count>
struct slot_values {
  unsigned long long value[count];
};

template <int count>
__global__ void publish(slot_values<count> values, unsigned long long* slots) {
  rondo_wait_for_inputs();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) slots[i] = values.value[i];
}

}  // namespace rondo_builtin
