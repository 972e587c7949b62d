// What the benchmarks set Rondo against: the CUDA driver called by hand.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler.h"
#include "cuda/api.h"
#include "driver.h"
#include "dynamic_library.h"
#include "handles.h"
#include "rondo/device.h"

namespace bench {

using rondo::cuda::Api;
using rondo::cuda::Result;

double microseconds(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

inline double quantile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}
inline double median(std::vector<double>& values) { return quantile(values, 0.5); }

inline void check(Result result, const char* call) {
  if (result != Result::success) throw std::runtime_error(std::string(call) + " failed");
}
#define CHECK(call) bench::check(call, #call)

// What Rondo itself does not call.
struct CaptureApi {
  rondo::DynamicLibrary library;
  Result (*begin)(rondo::cuda::Stream, unsigned mode) = nullptr;
  Result (*end)(rondo::cuda::Stream, rondo::cuda::Graph*) = nullptr;
  struct UpdateInfo {
    int result;
    void *error_node, *error_from_node;
  };
  Result (*update)(rondo::cuda::Exec, rondo::cuda::Graph, UpdateInfo*) = nullptr;

  explicit CaptureApi(const std::string& path) {
    std::string problem;
    library = rondo::DynamicLibrary::open(path, problem);
    begin = library.function<Result(rondo::cuda::Stream, unsigned)>("cuStreamBeginCapture_v2");
    end = library.function<Result(rondo::cuda::Stream, rondo::cuda::Graph*)>("cuStreamEndCapture");
    update =
        library.function<Result(rondo::cuda::Exec, rondo::cuda::Graph, UpdateInfo*)>("cuGraphExecUpdate_v2");
    if (begin == nullptr || end == nullptr || update == nullptr) {
      throw std::runtime_error("the driver has no stream capture or no cuGraphExecUpdate_v2");
    }
  }
};

class CurrentContext {
 public:
  explicit CurrentContext(const Api& api) : api_(api) {
    rondo::cuda::Context context = nullptr;
    CHECK(api_.cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(api_.cuCtxPushCurrent_v2(context));
  }
  ~CurrentContext() {
    rondo::cuda::Context context = nullptr;
    api_.cuCtxPopCurrent_v2(&context);
    api_.cuDevicePrimaryCtxRelease_v2(0);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Api& api_;
};

// A kernel's arguments as the `extra` list of a launch or a node.
class Extra {
 public:
  Extra(void* arguments, std::size_t bytes) : bytes_(bytes) {
    list_[0] = rondo::cuda::launch_buffer();
    list_[1] = arguments;
    list_[2] = rondo::cuda::launch_buffer_size();
    list_[3] = &bytes_;
    list_[4] = rondo::cuda::launch_end();
  }
  Extra(const Extra&) = delete;  // it points into itself
  Extra& operator=(const Extra&) = delete;

  void** list() noexcept { return list_; }

 private:
  std::size_t bytes_;
  void* list_[5];
};

// The kernel that long chains are made of, 48 bytes of arguments and next to no work; and its arguments.
constexpr const char* touch =
    "extern \"C\" __global__ void touch(float* a, float* b, float* c, float* d, int e, int f, float g, float "
    "h) "
    "{ if (e == -12345) a[0] = b[0] + c[0] + d[0] + f + g + h; }";
struct Arguments {
  rondo::DevicePointer a, b, c, d;
  int e, f;
  float g, h;
};

// The CUDA device that all of a program runs on.
inline std::shared_ptr<rondo::Device> cuda_device() {
  static const std::shared_ptr<rondo::Device> opened = rondo::open_device("cuda");
  return opened;
}

inline rondo::cuda::Graph native(rondo::GraphHandle graph) {
  return reinterpret_cast<rondo::cuda::Graph>(graph);
}
inline rondo::cuda::Exec native(rondo::ExecHandle exec) { return reinterpret_cast<rondo::cuda::Exec>(exec); }
inline rondo::cuda::Stream native(rondo::StreamHandle stream) {
  return reinterpret_cast<rondo::cuda::Stream>(stream);
}

}  // namespace bench
