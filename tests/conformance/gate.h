// A stream that waits until the test lets it go on.
#pragma once

#include <atomic>
#include <chrono>
#include <future>

#include "driver.h"

namespace rondo {

// Holds a stream from where it is queued until it is opened.
class Gate {
 public:
  // A driver whose queue is full blocks its caller, who then never opens the gate: it opens by itself.
  static constexpr std::chrono::seconds patience{20};

  Status close(Driver& driver, StreamHandle stream) {
    return driver.launch_host_function(stream, &Gate::wait, this);
  }
  void open() { opened_.set_value(); }
  // Whether it had to: then what was queued meanwhile did not run beside the blocked stream. After the stream has been synchronized.
  bool opened_by_itself() const { return opened_by_itself_; }

 private:
  static void wait(void* data) {
    Gate& gate = *static_cast<Gate*>(data);
    gate.opened_by_itself_ = gate.opening_.wait_for(patience) == std::future_status::timeout;
  }

  std::atomic<bool> opened_by_itself_ = false;
  std::promise<void> opened_;
  std::future<void> opening_ = opened_.get_future();
};

}  // namespace rondo
