// Start, errors, the device and its context.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "objects.h"
#include "thread_state.h"

namespace rondo::cuda {
namespace {

struct ResultName {
  int value;
  const char* name;
  const char* text;
};
constexpr ResultName result_names[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ResultName* find_name(Result result) noexcept {
  const auto found =
      std::find_if(std::begin(result_names), std::end(result_names),
                   [&](const ResultName& name) { return name.value == static_cast<int>(result); });
  return found == std::end(result_names) ? nullptr : found;
}

constexpr Device the_device = 0;
std::atomic<bool> initialized{false};
std::atomic<int> primary_context_users{0};

// The primary context's handle is the same whenever it is retained.
Context primary_context() noexcept {
  static const std::uintptr_t handle = doubles::new_handle();
  return reinterpret_cast<Context>(handle);
}

Result always() noexcept { return Result::success; }

template <class Body>
Result on_device(const char* name, Device device, Body body) noexcept {
  return call(name, check_initialized, [&] { return device == the_device ? body() : invalid_device; });
}

bool attribute_value(DeviceAttribute attribute, int& value) {
  const DeviceProperties& host = doubles::host().properties();
  switch (attribute) {
    case DeviceAttribute::max_threads_per_block:
      value = static_cast<int>(host.max_threads_per_block);
      return true;
    case DeviceAttribute::max_block_x:
      value = static_cast<int>(host.max_block.x);
      return true;
    case DeviceAttribute::max_block_y:
      value = static_cast<int>(host.max_block.y);
      return true;
    case DeviceAttribute::max_block_z:
      value = static_cast<int>(host.max_block.z);
      return true;
    case DeviceAttribute::max_grid_x:
      value = static_cast<int>(host.max_grid.x);
      return true;
    case DeviceAttribute::max_grid_y:
      value = static_cast<int>(host.max_grid.y);
      return true;
    case DeviceAttribute::max_grid_z:
      value = static_cast<int>(host.max_grid.z);
      return true;
    case DeviceAttribute::warp_size:
      value = host.warp_size;
      return true;
    case DeviceAttribute::multiprocessors:
      value = host.processors;
      return true;
    case DeviceAttribute::cooperative_launch:  // blocks run one after another
    case DeviceAttribute::cluster_launch:
      value = 0;
      return true;
    case DeviceAttribute::capability_major:
      value = 9;
      return true;
    case DeviceAttribute::capability_minor:
      value = 0;
      return true;
    case DeviceAttribute::max_shared_bytes_optin:
      value = static_cast<int>(host.max_shared_bytes);
      return true;
    case DeviceAttribute::pageable_access_by_host_page_tables:
      value = 0;
      return true;
  }
  return false;
}

}  // namespace

ThreadState& thread_state() noexcept {
  static thread_local ThreadState state;
  return state;
}

Result check_initialized() noexcept {
  if (!initialized.load()) return not_initialized;
  return thread_state().in_host_function ? not_permitted : Result::success;
}

Result check_context() noexcept {
  if (const Result result = check_initialized(); result != Result::success) return result;
  if (thread_state().contexts.empty()) return invalid_context;
  return primary_context_users.load() == 0 ? context_is_destroyed : Result::success;
}

Result to_result(const Status& status, Result otherwise) noexcept {
  if (status.ok()) return Result::success;
  return status.code == ErrorCode::bad_argument ? Result::invalid_value : otherwise;
}

extern "C" {

Result cuInit(unsigned flags) {
  return call("cuInit", always, [&] {
    if (flags != 0) return Result::invalid_value;
    initialized.store(true);
    return Result::success;
  });
}

Result cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", always, [&] {
    if (version == nullptr) return Result::invalid_value;
    *version = 13000;
    return Result::success;
  });
}

Result cuGetErrorName(Result result, const char** name) {
  return call("cuGetErrorName", always, [&] {
    if (name == nullptr) return Result::invalid_value;
    const ResultName* found = find_name(result);
    *name = found != nullptr ? found->name : nullptr;
    return found != nullptr ? Result::success : Result::invalid_value;
  });
}

Result cuGetErrorString(Result result, const char** text) {
  return call("cuGetErrorString", always, [&] {
    if (text == nullptr) return Result::invalid_value;
    const ResultName* found = find_name(result);
    *text = found != nullptr ? found->text : nullptr;
    return found != nullptr ? Result::success : Result::invalid_value;
  });
}

Result cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", check_initialized, [&] {
    if (count == nullptr) return Result::invalid_value;
    *count = 1;
    return Result::success;
  });
}

Result cuDeviceGet(Device* device, int ordinal) {
  return on_device("cuDeviceGet", ordinal, [&] {
    if (device == nullptr) return Result::invalid_value;
    *device = the_device;
    return Result::success;
  });
}

Result cuDeviceGetName(char* name, int bytes, Device device) {
  return on_device("cuDeviceGetName", device, [&] {
    if (name == nullptr || bytes <= 0) return Result::invalid_value;
    const std::string text = "CUDA double";
    const std::size_t copied = text.copy(name, static_cast<std::size_t>(bytes) - 1);
    name[copied] = '\0';
    return Result::success;
  });
}

Result cuDeviceTotalMem_v2(std::size_t* bytes, Device device) {
  return on_device("cuDeviceTotalMem_v2", device, [&] {
    if (bytes == nullptr) return Result::invalid_value;
    *bytes = doubles::host().properties().memory_bytes;
    return Result::success;
  });
}

Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Device device) {
  return on_device("cuDeviceGetAttribute", device, [&] {
    if (value == nullptr || !attribute_value(attribute, *value)) return Result::invalid_value;
    return Result::success;
  });
}

Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  return on_device("cuDevicePrimaryCtxRetain", device, [&] {
    if (context == nullptr) return Result::invalid_value;
    ++primary_context_users;
    *context = primary_context();
    return Result::success;
  });
}

Result cuDevicePrimaryCtxRelease_v2(Device device) {
  return on_device("cuDevicePrimaryCtxRelease_v2", device, [&] {
    int users = primary_context_users.load();
    while (users > 0 && !primary_context_users.compare_exchange_weak(users, users - 1)) {
    }
    return users > 0 ? Result::success : invalid_context;
  });
}

// A context besides the primary one: what is made while it is current differs in nothing but a node's
// context.
Result cuCtxCreate_v2(Context* context, unsigned flags, Device device) {
  return on_device("cuCtxCreate_v2", device, [&] {
    if (context == nullptr || flags != 0) return Result::invalid_value;
    *context = objects().contexts.add(std::make_shared<int>());
    thread_state().contexts.push_back(*context);
    return Result::success;
  });
}

Result cuCtxDestroy_v2(Context context) {
  return call("cuCtxDestroy_v2", check_initialized, [&] {
    if (objects().contexts.take(context) == nullptr) return invalid_context;
    std::vector<Context>& contexts = thread_state().contexts;
    if (!contexts.empty() && contexts.back() == context) contexts.pop_back();
    return Result::success;
  });
}

Result cuCtxPushCurrent_v2(Context context) {
  return call("cuCtxPushCurrent_v2", check_initialized, [&] {
    const bool is_primary = context == primary_context() && primary_context_users.load() != 0;
    if (!is_primary && objects().contexts.find(context) == nullptr) return invalid_context;
    thread_state().contexts.push_back(context);
    return Result::success;
  });
}

Result cuCtxPopCurrent_v2(Context* context) {
  return call("cuCtxPopCurrent_v2", check_initialized, [&] {
    std::vector<Context>& contexts = thread_state().contexts;
    if (contexts.empty()) return invalid_context;
    if (context != nullptr) *context = contexts.back();
    contexts.pop_back();
    return Result::success;
  });
}

Result cuCtxGetCurrent(Context* context) {
  return call("cuCtxGetCurrent", check_initialized, [&] {
    if (context == nullptr) return Result::invalid_value;
    const std::vector<Context>& contexts = thread_state().contexts;
    *context = contexts.empty() ? nullptr : contexts.back();
    return Result::success;
  });
}
}

}  // namespace rondo::cuda
