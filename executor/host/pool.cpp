#include "pool.h"

#include <algorithm>
#include <system_error>

#include "rondo/error.h"
#include "spin.h"

namespace rondo::host {
namespace {

// The gap between two kernels of a graph, a small serial kernel included, is shorter than this.
constexpr std::chrono::microseconds worker_spin{50};
// Small enough that the last chunk of a grid is a small part of it, large enough that taking one costs
// nothing.
constexpr std::uint64_t chunks_per_thread = 16;

}  // namespace

Pool::Pool(unsigned threads) : threads_(threads) {
  try {
    for (unsigned i = 1; i < threads; ++i) {
      runners_.push_back(std::make_unique<BlockRunner>());
      workers_.emplace_back([this, runner = runners_.back().get()] { worker(*runner); });
    }
  } catch (const std::system_error& error) {
    stop();
    throw Error(ErrorCode::run_time, std::string("cannot start the host device's threads: ") + error.what(),
                "set RONDO_HOST_THREADS to fewer threads");
  } catch (...) {
    stop();
    throw;
  }
}

Pool::~Pool() { stop(); }

void Pool::stop() noexcept {
  state_.fetch_or(stop_bit);
  wake(workers_.size());
  for (std::thread& worker : workers_) worker.join();
}

bool Pool::run(const KernelWork& work, BlockRunner& runner) noexcept {
  const std::uint64_t total = work.blocks();
  if (total == 1 || threads_ == 1 || taken_.exchange(true, std::memory_order_acquire))
    return runner.run(work, 0, total);

  work_ = work;
  total_ = total;
  chunk_ = std::max<std::uint64_t>(1, total / (threads_ * chunks_per_thread));
  failed_.store(false, std::memory_order_relaxed);
  next_.store(0, std::memory_order_relaxed);
  const std::uint64_t before = state_.load(std::memory_order_relaxed);
  state_.store((before & ~inside_mask) + generation_one + open_bit);
  wake(total - 1);
  take_chunks(runner);
  // Everything is taken: nobody needs to join any more, and those inside finish their last chunk.
  state_.fetch_and(~open_bit, std::memory_order_relaxed);
  const auto all_left = [this] { return (state_.load(std::memory_order_acquire) & inside_mask) == 0; };
  while (!spin_until(all_left, worker_spin)) std::this_thread::yield();
  const bool good = !failed_.load(std::memory_order_relaxed);
  taken_.store(false, std::memory_order_release);
  return good;
}

void Pool::take_chunks(BlockRunner& runner) noexcept {
  while (true) {
    const std::uint64_t first = next_.fetch_add(chunk_, std::memory_order_relaxed);
    if (first >= total_) return;
    if (!runner.run(work_, first, std::min(first + chunk_, total_)))
      failed_.store(true, std::memory_order_relaxed);
  }
}

void Pool::worker(BlockRunner& runner) noexcept {
  std::uint64_t seen = 0;
  while (true) {
    std::uint64_t state = wait_for_work(seen);
    if ((state & stop_bit) != 0) return;
    if (!state_.compare_exchange_strong(state, state + 1, std::memory_order_acquire,
                                        std::memory_order_relaxed))
      continue;
    seen = state / generation_one;
    take_chunks(runner);
    state_.fetch_sub(1, std::memory_order_release);
  }
}

// Sleeping and waking: a worker counts itself a sleeper and then looks at state_; run() changes state_ and
// then looks for sleepers. All four are sequentially consistent, so that at least one of the two sees the
// other.
std::uint64_t Pool::wait_for_work(std::uint64_t seen) noexcept {
  std::uint64_t state = 0;
  const auto ready = [&] {
    state = state_.load();
    return (state & stop_bit) != 0 || ((state & open_bit) != 0 && state / generation_one != seen);
  };
  while (!spin_until(ready, worker_spin)) {
    const int wakes = wakes_.load();
    sleepers_.fetch_add(1);
    if (!ready()) wakes_.wait(wakes);
    sleepers_.fetch_sub(1);
  }
  return state;
}

void Pool::wake(std::uint64_t wanted) noexcept {
  const int sleepers = sleepers_.load();
  if (sleepers == 0) return;
  wakes_.fetch_add(1);
  if (wanted >= static_cast<std::uint64_t>(sleepers)) {
    wakes_.notify_all();
  } else {
    for (std::uint64_t i = 0; i < wanted; ++i) wakes_.notify_one();
  }
}

}  // namespace rondo::host
