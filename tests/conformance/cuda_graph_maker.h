// Graphs through the CUDA driver, and what only CUDA has.
#pragma once

#include "cuda/api.h"
#include "graph_maker.h"
#include "vendor_calls.h"

struct CUlib_st;

namespace rondo::conformance {

template <class Function>
Function* cuda_function(const char* name) {
  return reinterpret_cast<Function*>(vendor_function("RONDO_CUDA_LIBRARY", "libcuda.so.1", name));
}

std::unique_ptr<GraphMaker> make_cuda_graph_maker();

// A library and a kernel of it, which belongs to no context.
class CudaLibrary {
 public:
  CudaLibrary(std::span<const std::byte> code, const std::string& kernel);
  ~CudaLibrary();
  CudaLibrary(const CudaLibrary&) = delete;
  CudaLibrary& operator=(const CudaLibrary&) = delete;

  cuda::Kernel kernel() const { return kernel_; }

 private:
  CUlib_st* library_ = nullptr;
  cuda::Kernel kernel_ = nullptr;
};

}  // namespace rondo::conformance
