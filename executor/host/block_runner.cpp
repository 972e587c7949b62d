#include "block_runner.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <new>

#include "rondo/error.h"

// A sanitizer follows a program through its stacks, and must be told when we change them
// (sanitizer/common_interface_defs.h, sanitizer/tsan_interface.h).
#if defined(__SANITIZE_ADDRESS__)
#define RONDO_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RONDO_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define RONDO_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RONDO_TSAN 1
#endif
#endif
#ifdef RONDO_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef RONDO_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace rondo::host {
namespace {

constexpr std::size_t stack_bytes = 256 * 1024;

std::size_t page_bytes() noexcept { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

std::unique_ptr<std::byte, void (*)(std::byte*)> map_shared() {
  void* memory = mmap(nullptr, max_shared_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorCode::run_time, "no memory for the shared memory of a block on the host");
  }
  return {static_cast<std::byte*>(memory), [](std::byte* p) { munmap(p, max_shared_bytes); }};
}

}  // namespace

// A stack as the sanitizers know it.
struct BlockRunner::Context {
  ucontext_t context{};
  const void* stack = nullptr;
  std::size_t bytes = 0;
  [[maybe_unused]] void* fake_stack = nullptr;
  [[maybe_unused]] void* tsan_fiber = nullptr;
};

struct BlockRunner::Sanitizer {
  static void before_switch([[maybe_unused]] Context& from, [[maybe_unused]] const Context& to) noexcept {
#ifdef RONDO_ASAN
    __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.bytes);
#endif
#ifdef RONDO_TSAN
    __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
  }
  // `left` is where the thread came from; its bounds are learnt here.
  static void after_switch([[maybe_unused]] const Context& here, [[maybe_unused]] Context& left) noexcept {
#ifdef RONDO_ASAN
    __sanitizer_finish_switch_fiber(here.fake_stack, &left.stack, &left.bytes);
#endif
  }
};

struct Fiber {
  BlockRunner::Context context;
  BlockRunner* runner = nullptr;
  void* mapping = nullptr;
  bool finished = false;

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() {
#ifdef RONDO_TSAN
    if (context.tsan_fiber != nullptr) __tsan_destroy_fiber(context.tsan_fiber);
#endif
    if (mapping != nullptr) munmap(mapping, stack_bytes + page_bytes());
  }

  bool prepare(BlockRunner& owner) noexcept {
    void* memory = mmap(nullptr, stack_bytes + page_bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return false;
    mapping = memory;
    // Stacks grow downwards: an overrun meets the guard page before it meets another mapping.
    if (mprotect(mapping, page_bytes(), PROT_NONE) != 0 || getcontext(&context.context) != 0) return false;
    std::byte* stack = static_cast<std::byte*>(mapping) + page_bytes();
    runner = &owner;
    context.stack = stack;
    context.bytes = stack_bytes;
    context.context.uc_stack.ss_sp = stack;
    context.context.uc_stack.ss_size = stack_bytes;
    context.context.uc_link = nullptr;
#ifdef RONDO_TSAN
    context.tsan_fiber = __tsan_create_fiber(0);
#endif
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    // makecontext passes ints only (makecontext(3)).
    makecontext(&context.context, reinterpret_cast<void (*)()>(&BlockRunner::fiber_main), 2,
                static_cast<unsigned>(std::uint64_t{address} >> 32), static_cast<unsigned>(address));
    return true;
  }
};

struct BlockRunner::Block : rondo_host_block {
  BlockRunner* runner;
};

BlockRunner::BlockRunner() : shared_(map_shared()), scheduler_(std::make_unique<Context>()) {}
BlockRunner::~BlockRunner() = default;

bool BlockRunner::run(const KernelWork& work, std::uint64_t first, std::uint64_t last) noexcept {
  Block block{};
  block.grid_dim = {work.grid.x, work.grid.y, work.grid.z};
  block.block_dim = {work.block.x, work.block.y, work.block.z};
  block.thread_count = work.threads();
  block.dynamic_shared = shared_.get();
  block.barrier = &BlockRunner::barrier;
  block.runner = this;
  const std::uint64_t plane = std::uint64_t{work.grid.x} * work.grid.y;
  block.block_idx = {static_cast<unsigned>(first % work.grid.x),
                     static_cast<unsigned>(first % plane / work.grid.x),
                     static_cast<unsigned>(first / plane)};
  work_ = &work;
  for (std::uint64_t i = first; i < last; ++i) {
    block.next_thread = 0;
    block.thread_idx = {0, 0, 0};
    if (block.thread_count == 1) {
      work.entry(&block, work.arguments);
    } else if (!run_with_fibers(block)) {
      return false;
    }
    if (++block.block_idx.x == work.grid.x) {
      block.block_idx.x = 0;
      if (++block.block_idx.y == work.grid.y) {
        block.block_idx.y = 0;
        ++block.block_idx.z;
      }
    }
  }
  return true;
}

bool BlockRunner::run_with_fibers(Block& block) noexcept {
  block_ = &block;
  waiting_.clear();
  // A fiber runs thread after thread until one of them waits; those left are then started on the next fiber.
  while (block.next_thread < block.thread_count) {
    Fiber* fiber = acquire();
    if (fiber == nullptr) {
      // The waiting threads can never go on. Their fibers go with them.
      waiting_.clear();
      idle_.clear();
      fibers_.clear();
      return false;
    }
    resume(*fiber);
    (fiber->finished ? idle_ : waiting_).push_back(fiber);
  }
  // Here every thread of the block has returned or waits: the barrier opens, in the order in which the
  // threads came.
  while (!waiting_.empty()) {
    std::size_t still_waiting = 0;
    for (Fiber* fiber : waiting_) {
      resume(*fiber);
      if (fiber->finished) {
        idle_.push_back(fiber);
      } else {
        waiting_[still_waiting++] = fiber;
      }
    }
    waiting_.resize(still_waiting);
  }
  return true;
}

Fiber* BlockRunner::acquire() noexcept {
  if (!idle_.empty()) {
    Fiber* fiber = idle_.back();
    idle_.pop_back();
    fiber->finished = false;
    return fiber;
  }
  try {
    auto fiber = std::make_unique<Fiber>();
    if (!fiber->prepare(*this)) return nullptr;
    // Room for all, so that handing fibers around never allocates.
    fibers_.reserve(max_threads_per_block);
    idle_.reserve(max_threads_per_block);
    waiting_.reserve(max_threads_per_block);
    fibers_.push_back(std::move(fiber));
    return fibers_.back().get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void BlockRunner::resume(Fiber& fiber) noexcept {
  running_ = &fiber;
#ifdef RONDO_TSAN
  scheduler_->tsan_fiber = __tsan_get_current_fiber();
#endif
  Sanitizer::before_switch(*scheduler_, fiber.context);
  swapcontext(&scheduler_->context, &fiber.context.context);
  Sanitizer::after_switch(*scheduler_, fiber.context);
}

void BlockRunner::suspend(Fiber& fiber) noexcept {
  Sanitizer::before_switch(fiber.context, *scheduler_);
  swapcontext(&fiber.context.context, &scheduler_->context);
  Sanitizer::after_switch(fiber.context, *scheduler_);
}

void BlockRunner::barrier(rondo_host_block* block) {
  BlockRunner& runner = *static_cast<Block*>(block)->runner;
  const rondo_host_dim3 thread = block->thread_idx;
  runner.suspend(*runner.running_);
  block->thread_idx = thread;
}

void BlockRunner::fiber_main(unsigned high, unsigned low) {
  auto& fiber = *reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(std::uint64_t{high} << 32 | low));
  BlockRunner& runner = *fiber.runner;
  Sanitizer::after_switch(fiber.context, *runner.scheduler_);
  // A fiber that has finished its threads is resumed here with those of another block.
  while (true) {
    runner.work_->entry(runner.block_, runner.work_->arguments);
    fiber.finished = true;
    runner.suspend(fiber);
  }
}

}  // namespace rondo::host
