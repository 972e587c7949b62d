// Calls into the runtime: the device that they need, and what their results mean.
#pragma once

#include <cstdint>

#include "api.h"
#include "rondo/status.h"

namespace rondo::hip {

// What the runtime reports of a kernel that ran earlier: it is not the call's own fault.
constexpr bool is_earlier_fault(Result result) noexcept {
  return result == Result::illegal_address || result == Result::assert_failed ||
         result == Result::launch_failure;
}

inline Status to_status(const Api& api, Result result, const char* call, const char* earlier) noexcept {
  if (result == Result::success) return {};
  return {ErrorCode::run_time, static_cast<int>(result), name(api, result),
          is_earlier_fault(result) ? earlier : call};
}

// RONDO_HIP(api, hipGraphLaunch, exec, stream): calls it, and gives the Status.
#define RONDO_HIP(api, function, ...)                                    \
  ::rondo::hip::to_status((api), (api).function(__VA_ARGS__), #function, \
                          "an earlier kernel, as " #function " reports,")

// Makes a device current on this thread; `before`, the one that was, is for leave. The current device decides
// which device's function a graph node gets (ROCm's clr, hipGraphAddKernelNode), so every call is made under
// one.
inline Status enter(const Api& api, int device, std::intptr_t* before) noexcept {
  int now = device;
  const Status status = RONDO_HIP(api, hipGetDevice, &now);
  *before = now;
  return !status.ok() || now == device ? status : RONDO_HIP(api, hipSetDevice, device);
}
inline void leave(const Api& api, int device, std::intptr_t before) noexcept {
  if (before != device) static_cast<void>(api.hipSetDevice(static_cast<int>(before)));
}

// For as long as it lives.
class Current {
 public:
  Current(const Api& api, int device) noexcept
      : api_(api), device_(device), status_(enter(api, device, &before_)) {}
  ~Current() {
    if (status_.ok()) leave(api_, device_, before_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  const Status& status() const noexcept { return status_; }

 private:
  const Api& api_;
  const int device_;
  std::intptr_t before_ = 0;
  const Status status_;
};

}  // namespace rondo::hip
