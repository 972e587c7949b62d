// Shared objects that the host compiler made, and the kernels in them.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "../driver.h"
#include "dynamic_library.h"
#include "kernel_work.h"

namespace rondo::host {

struct Function {
  std::string name;
  rondo_host_entry entry = nullptr;
  const rondo_host_layout* layout = nullptr;
  std::size_t argument_end = 0;  // of the last parameter, bytes
  std::atomic<std::size_t> shared_limit{default_shared_bytes};
};

class Module {
 public:
  // Throws Error(run_time) for what is not a shared object of this machine, with the loader's words.
  explicit Module(std::span<const std::byte> binary);

  // Throws Error(bad_argument) for a name that the module does not have. The function lives as long as the
  // module.
  Function& function(const std::string& name);

 private:
  struct File {
    int descriptor = -1;
    ~File();
  };
  // Kept open while the library is: the loader takes a second library of the same path for the first one, and
  // the path is the descriptor's number.
  File file_;
  DynamicLibrary library_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Function>> functions_;
};

}  // namespace rondo::host
