// What the libcuda double knows of the calling thread.
#pragma once

#include <vector>

#include "cuda/api.h"

namespace rondo::cuda {

struct ThreadState {
  std::vector<Context> contexts;  // pushed and not popped
  bool in_host_function = false;  // of cuLaunchHostFunc
};

ThreadState& thread_state() noexcept;

}  // namespace rondo::cuda
