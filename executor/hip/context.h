// Calls into the runtime: the device that they need, and what their results mean.
#pragma once

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

// Makes a device current on this thread, for as long as it lives; afterwards the caller's own is again. The
// current device decides which device's function a graph node gets (ROCm's clr, hipGraphAddKernelNode), so
// every call is made under one.
class Current {
 public:
  Current(const Api& api, int device) noexcept
      : api_(api), device_(device), status_(RONDO_HIP(api, hipGetDevice, &before_)) {
    if (status_.ok() && before_ != device_) status_ = RONDO_HIP(api, hipSetDevice, device_);
  }
  ~Current() {
    if (status_.ok() && before_ != device_) static_cast<void>(api_.hipSetDevice(before_));
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  const Status& status() const noexcept { return status_; }

 private:
  const Api& api_;
  const int device_;
  int before_ = 0;
  Status status_;
};

}  // namespace rondo::hip
