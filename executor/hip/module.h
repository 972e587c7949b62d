// Code objects, and the kernels in them.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "../driver.h"
#include "amd_code_object.h"
#include "api.h"

namespace rondo::hip {

// Kernels with more parameters than this are not launched; rtc refuses them too.
inline constexpr std::size_t max_parameters = 64;
// Dynamic shared memory that a kernel has without Driver::allow_dynamic_shared.
inline constexpr std::size_t default_shared_bytes = 48 * 1024;

// A kernel, with what the runtime cannot be asked for: the layout of its arguments.
struct Function {
  NativeFunction native = nullptr;
  rtc::AmdKernel kernel;
  std::size_t argument_end = 0;  // of the last argument that the source declares, bytes
  std::atomic<std::size_t> shared_limit{default_shared_bytes};
};

// Its members need the device to be current. Throws Error with the runtime's code.
class LoadedModule {
 public:
  // `architecture` is the device's. A code object for another one is refused before the runtime sees it, with
  // both names.
  LoadedModule(const Api& api, std::span<const std::byte> binary, const std::string& architecture);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  // Lives as long as the module.
  Function& function(const std::string& name);

 private:
  const Api& api_;
  const rtc::AmdCodeObject code_object_;
  Module module_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Function>> functions_;
};

// Whether code for `target` runs on `device`: "gfx90a", "gfx90a:xnack-" on "gfx90a:sramecc+:xnack-". A
// feature that the target does not name may be on or off (LLVM, "User Guide for AMDGPU Backend", target ID).
bool runs_on(const std::string& target, const std::string& device);

FunctionInfo function_info(const Function& function);

}  // namespace rondo::hip
