// Waiting a little before sleeping: a hand-over between running threads takes less than a microsecond, a
// wake-up many.
#pragma once

#include <chrono>
#include <thread>

namespace rondo::host {

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#else
  std::this_thread::yield();
#endif
}

// True as soon as ready() is; false when `limit` has passed.
template <class Ready>
bool spin_until(Ready ready, std::chrono::microseconds limit) noexcept {
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace rondo::host
