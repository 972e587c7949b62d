// A stream: a queue of tasks that one thread executes in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "block_runner.h"
#include "event.h"
#include "graph.h"
#include "pool.h"
#include "rondo/status.h"

namespace rondo::host {

class Stream {
 public:
  explicit Stream(Pool& pool);  // throws Error(run_time) where no thread can be started
  ~Stream();                    // when all queued work is done
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Status write(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
  Status read(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
  Status fill(std::byte* to, std::uint8_t value, std::size_t bytes) noexcept;
  Status record(const std::shared_ptr<Event>& event) noexcept;
  Status wait(const std::shared_ptr<Event>& event) noexcept;
  Status call(void (*function)(void*), void* data) noexcept;
  Status launch(const Function& function, const LaunchShape& shape, const std::byte* arguments,
                std::size_t bytes) noexcept;
  Status launch(Exec& exec) noexcept;
  // Also gives what failed in the work so far; from then on the stream keeps failing.
  Status synchronize() noexcept;
  // Waits, unless this is called by the stream's own work.
  void drain() noexcept;

 private:
  struct Task;

  Task* take_free_task();
  void push(Task* task) noexcept;
  template <class Prepare>
  Status enqueue(Prepare prepare) noexcept;
  bool idle() const noexcept { return submitted_.load(std::memory_order_relaxed) == completed_; }
  void work() noexcept;
  void execute(Task& task) noexcept;
  void run(const Function& function, const LaunchShape& shape, const std::byte* arguments) noexcept;
  void run(ExecVersion& version) noexcept;

  Pool& pool_;
  BlockRunner runner_;
  std::mutex mutex_;
  std::condition_variable added_, done_;
  std::vector<std::unique_ptr<Task>> tasks_;  // all there are
  Task* free_ = nullptr;
  Task* head_ = nullptr;
  Task* tail_ = nullptr;
  std::atomic<std::uint64_t> submitted_{
      0};  // written under the mutex; the thread looks at it without while it spins
  std::uint64_t completed_ = 0;
  bool sleeping_ = false;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

}  // namespace rondo::host
