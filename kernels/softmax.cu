#include "portable.cuh"

// out[r, :] = softmax(in[r, :] / temperature) for each row r, one block a row. Dynamic shared memory: one
// float a column. A block of any size; *temperature > 0.
__global__ void softmax(int columns, const float* temperature, const float* in, float* out) {
  float* row = rondo_dynamic_shared<float>();
  const long long start = static_cast<long long>(blockIdx.x) * columns;
  const float inverse = 1.0f / *temperature;

  float largest = rondo_lowest_float;
  rondo_for_threads(columns, [&](int i) {
    row[i] = in[start + i] * inverse;
    largest = row[i] > largest ? row[i] : largest;
  });
  largest = rondo_block_max(largest);

  float sum = 0.0f;
  rondo_for_threads(columns, [&](int i) {
    row[i] = expf(row[i] - largest);
    sum += row[i];
  });
  sum = rondo_block_sum(sum);

  rondo_for_threads(columns, [&](int i) { out[start + i] = row[i] / sum; });
}
