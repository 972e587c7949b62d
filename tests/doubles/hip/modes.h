// How ROCm misbehaves, as a test has chosen (rondo_double_set_mode, RONDO_DOUBLE_HIP).
#pragma once

#include <cstddef>
#include <memory>

namespace rondo::doubles::hip {

bool leaks() noexcept;
bool ignores_updates() noexcept;
bool shares_arguments() noexcept;
bool is_rocm_5_4() noexcept;

// Kernarg memory that an exec update takes, and that only the end of the exec gives back.
class Leak {
 public:
  Leak();  // counted, and written to: what is never touched costs nothing
  ~Leak();
  Leak(Leak&&) noexcept = default;
  Leak& operator=(Leak&&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace rondo::doubles::hip
