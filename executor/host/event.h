// Events: points in a stream's work.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace rondo::host {

// Shared by its handle and by the queued records, so that it may be destroyed while one is queued.
class Event {
 public:
  void queue() noexcept {
    const std::lock_guard lock(mutex_);
    ++queued_;
  }
  void complete() noexcept {
    const std::lock_guard lock(mutex_);
    time_ = std::chrono::steady_clock::now();
    ++completed_;
    changed_.notify_all();
  }
  // Waits for the records queued so far; at once where there is none, as cuEventSynchronize.
  void wait() noexcept { wait_for(queued()); }
  // How many records have been queued, and to wait for that many of them.
  std::uint64_t queued() noexcept {
    const std::lock_guard lock(mutex_);
    return queued_;
  }
  void wait_for(std::uint64_t records) noexcept {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return completed_ >= records; });
  }
  // False: never recorded, or a record is still queued.
  bool time(std::chrono::steady_clock::time_point& time) noexcept {
    const std::lock_guard lock(mutex_);
    time = time_;
    return queued_ != 0 && completed_ == queued_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t queued_ = 0, completed_ = 0;
  std::chrono::steady_clock::time_point time_;
};

}  // namespace rondo::host
