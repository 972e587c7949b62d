// Calls of CUDA's runtime interface, as somebody else's program makes them.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace rondo::integration {

inline void check_runtime(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(error));
}
#define RUNTIME_CHECK(call) ::rondo::integration::check_runtime((call), #call)

// What `launch` does while `stream` captures.
template <class Launch>
cudaGraph_t capture(cudaStream_t stream, Launch launch) {
  cudaGraph_t graph = nullptr;
  RUNTIME_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  launch();
  RUNTIME_CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

}  // namespace rondo::integration
