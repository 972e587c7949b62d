// Runs blocks of a grid on one OS thread. The threads of a block take turns there, on fibers where they must.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernel_work.h"

namespace rondo::host {

struct Fiber;

// Used by one OS thread at a time.
class BlockRunner {
 public:
  BlockRunner();  // throws Error(run_time) where there is no memory for a block's shared memory
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Runs the blocks [first, last) of the grid, counted with x fastest. False: no memory for another fiber's
  // stack; what was run of the block is then undefined, as is the rest of the range.
  bool run(const KernelWork& work, std::uint64_t first, std::uint64_t last) noexcept;

 private:
  friend struct Fiber;
  struct Block;
  struct Sanitizer;

  bool run_with_fibers(Block& block) noexcept;
  Fiber* acquire() noexcept;
  void resume(Fiber& fiber) noexcept;
  void suspend(Fiber& fiber) noexcept;
  static void barrier(rondo_host_block* block);
  static void fiber_main(unsigned high, unsigned low);

  std::unique_ptr<std::byte, void (*)(std::byte*)> shared_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_, waiting_;
  Fiber* running_ = nullptr;
  Block* block_ = nullptr;
  const KernelWork* work_ = nullptr;
  struct Context;
  std::unique_ptr<Context> scheduler_;  // what run() itself runs on
};

}  // namespace rondo::host
