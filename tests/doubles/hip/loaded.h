// The HIP double as a test calls it: by dlopen, through the same table as Rondo.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "control.h"
#include "hip/api.h"

namespace rondo::doubles::hip {

// What the double exports besides what Rondo calls.
struct LoadedDouble : rondo::hip::Api {
  explicit LoadedDouble(const char* file) : library(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (library == nullptr) throw std::runtime_error(dlerror());
    path = file;
#define RONDO_DOUBLE_FIND(name, version, need, parameters) find(#name, name);
    RONDO_HIP_FUNCTIONS(RONDO_DOUBLE_FIND)
#undef RONDO_DOUBLE_FIND
    find("hipGetErrorName", hipGetErrorName);
    find("hipGraphKernelNodeSetParams", set_parameters);
    find("rondo_double_reset", reset);
    find("rondo_double_fail", fail);
    find("rondo_double_calls", calls);
    find("rondo_double_set_mode", set_mode);
    find("rondo_double_live_handles", live_handles);
    find("rondo_double_leaked_bytes", leaked_bytes);
    find("rondo_double_most_leaked_bytes", most_leaked_bytes);
  }

  template <class Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }

  void* library;  // never closed: it has threads
  rondo::hip::Result (*set_parameters)(rondo::hip::Node, const rondo::hip::KernelNodeParameters*) = nullptr;
  decltype(&rondo_double_reset) reset = nullptr;
  decltype(&rondo_double_fail) fail = nullptr;
  decltype(&rondo_double_calls) calls = nullptr;
  decltype(&rondo_double_set_mode) set_mode = nullptr;
  decltype(&rondo_double_live_handles) live_handles = nullptr;
  decltype(&rondo_double_leaked_bytes) leaked_bytes = nullptr;
  decltype(&rondo_double_most_leaked_bytes) most_leaked_bytes = nullptr;
};

}  // namespace rondo::doubles::hip
