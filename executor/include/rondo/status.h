// The result of a call on the hot path: a code, and what the driver itself said. Never allocates, never throws.
#pragma once

namespace rondo {

enum class ErrorCode {
  none = 0,
  bad_schedule,     // the schedule, or a value given for it, is wrong; exit code 2
  bad_argument,     // a caller's argument (file, option, handle, size) is wrong; exit code 2
  missing_backend,  // a library, compiler or device is not there; exit code 3
  run_time,         // a driver, kernel or file operation failed while running; exit code 1
};

// The process exit code that the command line gives for `code`: 0, 1, 2 or 3, as listed above.
constexpr int exit_code(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::none: return 0;
    case ErrorCode::bad_schedule:
    case ErrorCode::bad_argument: return 2;
    case ErrorCode::missing_backend: return 3;
    case ErrorCode::run_time: return 1;
  }
  return 1;
}

struct [[nodiscard]] Status {
  ErrorCode code = ErrorCode::none;
  int driver_code = 0;              // the driver's own number (a CUresult, say); 0 where no driver was involved
  const char* driver_name = "";     // the driver's own name of it, "CUDA_ERROR_INVALID_VALUE"; a string that lives forever
  const char* call = "";            // what failed, "cuGraphLaunch", or a sentence; a string that lives forever

  constexpr bool ok() const noexcept { return code == ErrorCode::none; }
};

}  // namespace rondo
