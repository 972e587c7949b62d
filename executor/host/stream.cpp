#include "stream.h"

#include <chrono>
#include <cstring>
#include <new>
#include <system_error>

#include "rondo/error.h"
#include "spin.h"

namespace rondo::host {
namespace {

// A caller that launches step after step is back within this.
constexpr std::chrono::microseconds stream_spin{20};
// A task's buffer above this is given back when the task is done, so that a few large writes do not stay in
// memory.
constexpr std::size_t kept_bytes = 64 * 1024;

constexpr Status no_memory{ErrorCode::run_time, 0, "", "no memory on the host to queue the work"};
constexpr Status lost_work{
    ErrorCode::run_time, 0, "",
    "an earlier kernel of this stream had no memory for the stacks of its block's threads"};

}  // namespace

struct Stream::Task {
  enum class Kind { write, read, fill, record, wait, call, kernel, graph };
  Task* next = nullptr;
  Kind kind = Kind::write;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::uint8_t value = 0;
  std::shared_ptr<Event> event;
  std::uint64_t records = 0;  // of the event, to be waited for
  void (*function)(void*) = nullptr;
  void* data = nullptr;
  const Function* kernel = nullptr;
  LaunchShape shape;
  std::shared_ptr<ExecVersion> version;
  std::vector<std::byte> buffer;  // a kernel's arguments, or what is to be written
};

Stream::Stream(Pool& pool) : pool_(pool) {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::run_time, std::string("cannot start a stream's thread: ") + error.what());
  }
}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_.store(true, std::memory_order_relaxed);
    added_.notify_one();
  }
  thread_.join();
}

Stream::Task* Stream::take_free_task() {
  if (free_ == nullptr) {
    tasks_.push_back(std::make_unique<Task>());
    return tasks_.back().get();
  }
  Task* task = free_;
  free_ = task->next;
  return task;
}

void Stream::push(Task* task) noexcept {
  task->next = nullptr;
  (tail_ != nullptr ? tail_->next : head_) = task;
  tail_ = task;
  submitted_.fetch_add(1, std::memory_order_release);
  if (sleeping_) added_.notify_one();
}

// Queues a task that prepare(task) has filled in.
template <class Prepare>
Status Stream::enqueue(Prepare prepare) noexcept {
  if (failed_.load(std::memory_order_relaxed)) return lost_work;
  const std::lock_guard lock(mutex_);
  Task* task = nullptr;
  try {
    task = take_free_task();
    prepare(*task);
  } catch (const std::bad_alloc&) {
    if (task != nullptr) {
      task->next = free_;
      free_ = task;
    }
    return no_memory;
  }
  push(task);
  return {};
}

// Copies are made at once where nothing is queued before them: a hand-over would cost more than most of them,
// and the bytes to write would have to be kept.
Status Stream::write(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (idle()) {
      std::memcpy(to, from, bytes);
      return {};
    }
  }
  return enqueue([&](Task& task) {
    task.kind = Task::Kind::write;
    task.buffer.assign(from, from + bytes);
    task.to = to;
  });
}

Status Stream::read(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (idle()) {
      std::memcpy(to, from, bytes);
      return {};
    }
  }
  return enqueue([&](Task& task) {
    task.kind = Task::Kind::read;
    task.to = to;
    task.from = from;
    task.bytes = bytes;
  });
}

Status Stream::fill(std::byte* to, std::uint8_t value, std::size_t bytes) noexcept {
  return enqueue([&](Task& task) {
    task.kind = Task::Kind::fill;
    task.to = to;
    task.value = value;
    task.bytes = bytes;
  });
}

Status Stream::record(const std::shared_ptr<Event>& event) noexcept {
  return enqueue([&](Task& task) {
    task.kind = Task::Kind::record;
    task.event = event;
    event->queue();
  });
}

Status Stream::wait(const std::shared_ptr<Event>& event) noexcept {
  return enqueue([&](Task& task) {
    task.kind = Task::Kind::wait;
    task.event = event;
    task.records = event->queued();
  });
}

Status Stream::call(void (*function)(void*), void* data) noexcept {
  return enqueue([&](Task& task) {
    task.kind = Task::Kind::call;
    task.function = function;
    task.data = data;
  });
}

Status Stream::launch(const Function& function, const LaunchShape& shape, const std::byte* arguments,
                      std::size_t bytes) noexcept {
  return enqueue([&](Task& task) {
    task.kind = Task::Kind::kernel;
    task.kernel = &function;
    task.shape = shape;
    task.buffer.assign(arguments, arguments + bytes);
  });
}

Status Stream::launch(Exec& exec) noexcept {
  return enqueue([&](Task& task) {
    task.kind = Task::Kind::graph;
    task.version = exec.queue();
  });
}

Status Stream::synchronize() noexcept {
  if (std::this_thread::get_id() == thread_.get_id()) {
    return {ErrorCode::bad_argument, 0, "", "a host function cannot wait for the stream that it runs on"};
  }
  drain();
  return failed_.load(std::memory_order_relaxed) ? lost_work : Status{};
}

void Stream::drain() noexcept {
  if (std::this_thread::get_id() == thread_.get_id()) return;
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this, submitted = submitted_.load(std::memory_order_relaxed)] {
    return completed_ >= submitted;
  });
}

void Stream::work() noexcept {
  std::uint64_t taken = 0;
  const auto ready = [&] { return submitted_.load(std::memory_order_acquire) != taken; };
  while (true) {
    spin_until([&] { return ready() || stopping_.load(std::memory_order_relaxed); }, stream_spin);
    Task* task = nullptr;
    {
      std::unique_lock lock(mutex_);
      sleeping_ = true;
      added_.wait(lock, [&] { return ready() || stopping_.load(std::memory_order_relaxed); });
      sleeping_ = false;
      if (!ready()) return;
      task = head_;
      head_ = task->next;
      if (head_ == nullptr) tail_ = nullptr;
    }
    ++taken;
    execute(*task);
    task->event.reset();
    task->version.reset();
    if (task->buffer.capacity() > kept_bytes) task->buffer = {};
    const std::lock_guard lock(mutex_);
    task->next = free_;
    free_ = task;
    ++completed_;
    done_.notify_all();
  }
}

void Stream::execute(Task& task) noexcept {
  switch (task.kind) {
    case Task::Kind::write:
      std::memcpy(task.to, task.buffer.data(), task.buffer.size());
      return;
    case Task::Kind::read:
      std::memcpy(task.to, task.from, task.bytes);
      return;
    case Task::Kind::fill:
      std::memset(task.to, task.value, task.bytes);
      return;
    case Task::Kind::record:
      task.event->complete();
      return;
    case Task::Kind::wait:
      task.event->wait_for(task.records);
      return;
    case Task::Kind::call:
      task.function(task.data);
      return;
    case Task::Kind::kernel:
      run(*task.kernel, task.shape, task.buffer.data());
      return;
    case Task::Kind::graph:
      run(*task.version);
      task.version->queued.fetch_sub(1, std::memory_order_release);
      return;
  }
}

void Stream::run(const Function& function, const LaunchShape& shape, const std::byte* arguments) noexcept {
  const KernelWork work{function.entry, reinterpret_cast<const unsigned char*>(arguments), shape.grid,
                        shape.block};
  if (!pool_.run(work, runner_)) failed_.store(true, std::memory_order_relaxed);
}

// One node after another: each of them is spread over all threads already.
void Stream::run(ExecVersion& version) noexcept {
  for (const ExecVersion::Step& step : version.steps) {
    if (step.enabled) run(*step.function, step.shape, version.arguments.data() + step.offset);
  }
}

}  // namespace rondo::host
