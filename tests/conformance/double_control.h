// Steers the double that stands in for a vendor's library.
#pragma once

#include <cstdlib>
#include <string>

#include "vendor_calls.h"

namespace rondo::conformance {

class DoubleControl {
 public:
  static bool is_there() { return std::getenv("RONDO_TEST_DOUBLES") != nullptr; }

  // `backend`: "cuda", "hip".
  explicit DoubleControl(const std::string& backend) : is_cuda_(backend == "cuda") {}
  ~DoubleControl() { reset(); }
  DoubleControl(const DoubleControl&) = delete;
  DoubleControl& operator=(const DoubleControl&) = delete;

  // See rondo_double_reset and its like.
  void reset() const { find<void()>("rondo_double_reset")(); }
  void fail(const char* function, std::size_t nth, int result) const {
    find<void(const char*, std::size_t, int)>("rondo_double_fail")(function, nth, result);
  }
  std::size_t calls(const char* function) const {
    return find<std::size_t(const char*)>("rondo_double_calls")(function);
  }
  std::size_t live_handles() const { return find<std::size_t()>("rondo_double_live_handles")(); }

 private:
  template <class Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(
        vendor_function(is_cuda_ ? "RONDO_CUDA_LIBRARY" : "RONDO_HIP_LIBRARY", "", name));
  }
  const bool is_cuda_;
};

}  // namespace rondo::conformance
