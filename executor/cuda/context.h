// Calls into the driver: the context that they need, and what their results mean.
#pragma once

#include <cstdint>

#include "api.h"
#include "rondo/status.h"

namespace rondo::cuda {

// What the driver reports of a kernel that ran earlier: it is not the call's own fault, and the context is
// lost.
constexpr bool is_earlier_fault(Result result) noexcept {
  switch (result) {
    case Result::illegal_address:
    case Result::assert_failed:
    case Result::hardware_stack_error:
    case Result::illegal_instruction:
    case Result::misaligned_address:
    case Result::invalid_address_space:
    case Result::invalid_pc:
    case Result::launch_failed:
      return true;
    default:
      return false;
  }
}

[[gnu::cold]] [[gnu::noinline]] inline Status failure(const Api& api, Result result, const char* call,
                                                      const char* earlier) noexcept {
  return {ErrorCode::run_time, static_cast<int>(result), name(api, result),
          is_earlier_fault(result) ? earlier : call};
}
inline Status to_status(const Api& api, Result result, const char* call, const char* earlier) noexcept {
  return result == Result::success ? Status{} : failure(api, result, call, earlier);
}

// The Status of what a function gave.
#define RONDO_CUDA_STATUS(api, function, result) \
  ::rondo::cuda::to_status((api), (result), #function, "an earlier kernel, as " #function " reports,")
// RONDO_CUDA(api, cuGraphLaunch, exec, stream): calls it, and gives the Status.
#define RONDO_CUDA(api, function, ...) RONDO_CUDA_STATUS(api, function, (api).function(__VA_ARGS__))

// Makes a context current on this thread. One that is current already, as in a program that uses the
// runtime's interface, costs no push and pop. `pushed` is for leave.
inline Status enter(const Api& api, Context context, std::intptr_t* pushed) noexcept {
  Context now = nullptr;
  *pushed = 0;
  if (const Status status = RONDO_CUDA(api, cuCtxGetCurrent, &now); !status.ok() || now == context)
    return status;
  const Status status = RONDO_CUDA(api, cuCtxPushCurrent_v2, context);
  *pushed = status.ok() ? 1 : 0;
  return status;
}
inline void leave(const Api& api, std::intptr_t pushed) noexcept {
  Context context = nullptr;
  if (pushed != 0) api.cuCtxPopCurrent_v2(&context);
}

// Makes a context current on this thread, for as long as it lives; afterwards the caller's own is again.
class Current {
 public:
  Current(const Api& api, Context context) noexcept : api_(api), status_(enter(api, context, &pushed_)) {}
  ~Current() { leave(api_, pushed_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  const Status& status() const noexcept { return status_; }

 private:
  const Api& api_;
  std::intptr_t pushed_ = 0;
  const Status status_;
};

}  // namespace rondo::cuda
