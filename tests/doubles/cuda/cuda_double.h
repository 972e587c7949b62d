// The libcuda double, loaded as Rondo loads a driver, with what Rondo itself does not call.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>

#include "control.h"
#include "cuda/api.h"
#include "dynamic_library.h"

namespace rondo::cuda {

struct CudaDouble {
  std::shared_ptr<const Api> api;
  DynamicLibrary library;

  Result (*cuGraphKernelNodeSetParams_v2)(Node, const KernelNodeParameters*) = nullptr;
  decltype(&rondo_double_reset) reset = nullptr;
  decltype(&rondo_double_fail) fail = nullptr;
  decltype(&rondo_double_calls) calls = nullptr;
  decltype(&rondo_double_live_handles) live_handles = nullptr;

  // Never closed: a driver runs threads of its own.
  static CudaDouble& get() {
    static CudaDouble& loaded = *new CudaDouble;
    return loaded;
  }

 private:
  CudaDouble() {
    setenv("RONDO_CUDA_LIBRARY", RONDO_DOUBLE_CUDA, 1);
    setenv("RONDO_NVRTC_LIBRARY", RONDO_DOUBLE_NVRTC, 1);
    api = load_api();
    std::string problem;
    library = DynamicLibrary::open(RONDO_DOUBLE_CUDA, problem);
    find("cuGraphKernelNodeSetParams_v2", cuGraphKernelNodeSetParams_v2);
    find("rondo_double_reset", reset);
    find("rondo_double_fail", fail);
    find("rondo_double_calls", calls);
    find("rondo_double_live_handles", live_handles);
  }
  template <class Function>
  void find(const char* name, Function& function) const {
    function = library.function<std::remove_pointer_t<Function>>(name);
  }
};

}  // namespace rondo::cuda
