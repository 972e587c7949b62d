// The threads that share a grid's blocks. The streams' own threads take part; the pool adds the others.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "block_runner.h"

namespace rondo::host {

class Pool {
 public:
  // `threads` in all, with the one that calls run(): threads - 1 are started. Throws Error(run_time) where
  // they cannot be.
  explicit Pool(unsigned threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  unsigned threads() const noexcept { return threads_; }

  // Runs a whole grid and returns when all of it is done. `runner` is the calling thread's own. While one
  // stream has the workers, another stream's grid runs on that stream's thread alone. False: as
  // BlockRunner::run.
  bool run(const KernelWork& work, BlockRunner& runner) noexcept;

 private:
  void stop() noexcept;
  void worker(BlockRunner& runner) noexcept;
  void take_chunks(BlockRunner& runner) noexcept;
  void wake(std::uint64_t wanted) noexcept;
  std::uint64_t wait_for_work(std::uint64_t seen) noexcept;

  // state_: the workers inside the current work (low 32 bits), whether it is open to more of them, whether
  // the pool stops, and the work's generation above. A worker joins by one compare-and-swap that fails if the
  // work was closed meanwhile, so that nobody reads work_ while it is written.
  static constexpr std::uint64_t open_bit = std::uint64_t{1} << 32;
  static constexpr std::uint64_t stop_bit = std::uint64_t{1} << 33;
  static constexpr std::uint64_t generation_one = std::uint64_t{1} << 34;
  static constexpr std::uint64_t inside_mask = open_bit - 1;

  const unsigned threads_;
  alignas(64) std::atomic<std::uint64_t> state_{0};
  alignas(64) std::atomic<std::uint64_t> next_{0};  // the first block that nobody has taken
  alignas(64) std::atomic<bool> taken_{false};      // a stream has the workers
  KernelWork work_;
  std::uint64_t total_ = 0, chunk_ = 1;
  std::atomic<bool> failed_{false};
  std::atomic<int> wakes_{0};  // what sleeping workers wait on
  std::atomic<int> sleepers_{0};
  std::vector<std::unique_ptr<BlockRunner>> runners_;
  std::vector<std::thread> workers_;
};

}  // namespace rondo::host
