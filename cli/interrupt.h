// SIGINT while steps are running: finish the step, say what is there, leave with 130.
#pragma once

#include <csignal>

namespace rondo::cli {

inline constexpr int interrupted_exit_code = 130;  // 128 + SIGINT, as shells have it

// As long as it lives, the first SIGINT only sets requested(); a second one ends the process as usual.
class InterruptGuard {
 public:
  InterruptGuard() noexcept;
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool requested() const noexcept;

 private:
  struct sigaction before_;
};

}  // namespace rondo::cli
