// A kernel node's parameters as AMD's runtime keeps them.
#pragma once

#include <cstddef>

#include "objects.h"

namespace rondo::doubles::hip {

// Every argument is a malloc of its own, and so is the array of pointers to them; the destructor frees what
// the array points to *then*. Nothing here protects a caller who has written to that array: that is the point
// of it. Read in AMD's runtime (clr, hipamd/src/hip_graph_internal.hpp, GraphKernelNode of ROCm 6.0).
class NodeParameters {
 public:
  NodeParameters(const KernelNodeParameters& parameters, const FunctionObject& function);
  ~NodeParameters() { release(); }
  NodeParameters(const NodeParameters&) = delete;
  NodeParameters& operator=(const NodeParameters&) = delete;

  // What hipGraphKernelNodeGetParams hands out: pointers to the node's own memory.
  const KernelNodeParameters& get() const noexcept { return value_; }
  // From ROCm 6.0 on, parameters with the node's own array in them are taken as they are; anything else is
  // copied, *after* what was there has been freed.
  void set(const KernelNodeParameters& parameters, const FunctionObject& function);

 private:
  void copy(const KernelNodeParameters& parameters, const FunctionObject& function);
  void release() noexcept;

  KernelNodeParameters value_{};
  std::size_t count_ = 0;  // of the kernel's parameters
};

}  // namespace rondo::doubles::hip
