// Kernels with one thread an element.
#include "portable.cuh"

// y = a * x + y
template <typename T>
__global__ void saxpy(int n, T a, const T* x, T* y) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
