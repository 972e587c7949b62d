// libamdhip64: devices, memory, streams, events, modules and plain launches.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "architecture.h"
#include "code_object.h"
#include "modes.h"
#include "objects.h"
#include "rondo/error.h"

namespace rondo::doubles::hip {
namespace {

constexpr const char* device_name = "AMD double";

// Of the fields that both of the vendor's structs have.
template <class Properties>
void fill_common(Properties& properties) {
  const DeviceProperties& device = host().properties();
  std::snprintf(properties.name, sizeof properties.name, "%s", device_name);
  properties.total_global_memory = device.memory_bytes;
  properties.shared_memory_per_block = device.max_shared_bytes;
  properties.registers_per_block = 65536;
  properties.warp_size = device.warp_size;
  properties.max_threads_per_block = static_cast<int>(device.max_threads_per_block);
  const Dim3 block = device.max_block, grid = device.max_grid;
  const std::uint32_t blocks[] = {block.x, block.y, block.z}, grids[] = {grid.x, grid.y, grid.z};
  for (int i = 0; i < 3; ++i) {
    properties.max_threads_dimension[i] = static_cast<int>(blocks[i]);
    properties.max_grid_size[i] = static_cast<int>(grids[i]);
  }
  properties.major = 9;
  properties.minor = 0;
  properties.multiprocessor_count = device.processors;
  std::snprintf(properties.architecture_name, sizeof properties.architecture_name, "%s",
                device_architecture().c_str());
}

template <class Properties>
Result get_properties(Properties* properties, int device) {
  if (properties == nullptr) return Result::invalid_value;
  if (device < 0 || device >= device_count()) return Result::invalid_device;
  // As far as the vendor's struct goes: the caller's is longer.
  std::memset(properties, 0, offsetof(Properties, room));
  fill_common(*properties);
  return Result::success;
}

DevicePointer address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// What is queued in a stream of another device than the thread's is refused.
std::shared_ptr<StreamObject> stream_of(Stream stream) {
  std::shared_ptr<StreamObject> found = objects().streams.find(stream);
  return found != nullptr && found->is_current() ? found : nullptr;
}

NativeFunction add_function(const std::shared_ptr<ModuleObject>& module, const char* name) {
  const std::lock_guard lock(module->mutex);
  const auto known = module->functions.find(name);
  if (known != module->functions.end()) return known->second;
  auto function = std::make_shared<FunctionObject>();
  function->name = name;
  function->module = module;
  function->host = host().function(module->host, name);
  // HIP asks for no opt-in to the shared memory that a device has.
  host().allow_dynamic_shared(function->host, host().properties().max_shared_bytes);
  function->parameters = host().function_info(function->host, 0).parameters;
  for (const ParameterLayout& parameter : function->parameters) {
    function->argument_end = std::max(function->argument_end, parameter.offset + parameter.size);
  }
  const NativeFunction handle = objects().functions.add(std::move(function));
  module->functions.emplace(name, handle);
  return handle;
}

Result load_module(Module* module, const void* image) {
  if (module == nullptr || image == nullptr) return Result::invalid_value;
  std::span<const std::byte> file;
  try {
    file = whole_file(image);
  } catch (const std::invalid_argument&) {
    return invalid_image;
  }
  const std::string code = architecture_of(file);
  if (code.empty() || !fits(code, device_architecture())) return Result::no_binary_for_gpu;
  *module = objects().modules.add(std::make_shared<ModuleObject>(host().load_module(file)));
  return Result::success;
}

struct Name {
  Result result;
  const char* name;
};
constexpr Name names[] = {
    {Result::success, "hipSuccess"},
    {Result::invalid_value, "hipErrorInvalidValue"},
    {Result::out_of_memory, "hipErrorOutOfMemory"},
    {invalid_configuration, "hipErrorInvalidConfiguration"},
    {Result::invalid_device_function, "hipErrorInvalidDeviceFunction"},
    {Result::no_device, "hipErrorNoDevice"},
    {Result::invalid_device, "hipErrorInvalidDevice"},
    {invalid_image, "hipErrorInvalidImage"},
    {Result::no_binary_for_gpu, "hipErrorNoBinaryForGpu"},
    {invalid_handle, "hipErrorInvalidHandle"},
    {Result::not_found, "hipErrorNotFound"},
    {not_ready, "hipErrorNotReady"},
    {Result::illegal_address, "hipErrorIllegalAddress"},
    {Result::assert_failed, "hipErrorAssert"},
    {Result::launch_failure, "hipErrorLaunchFailure"},
};

}  // namespace

RONDO_DOUBLE_EXPORT const char* hipGetErrorName(Result result) {
  for (const Name& known : names) {
    if (known.result == result) return known.name;
  }
  return "hipErrorUnknown";
}

// Devices.

RONDO_DOUBLE_EXPORT Result hipInit(unsigned flags) {
  return call("hipInit", [&] {
    if (flags != 0) return Result::invalid_value;
    return device_count() == 0 ? Result::no_device : Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipRuntimeGetVersion(int* version) {
  return call("hipRuntimeGetVersion", [&] {
    if (version == nullptr) return Result::invalid_value;
    *version = is_rocm_5_4() ? 50422803 : 60241133;
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGetDeviceCount(int* count) {
  return call("hipGetDeviceCount", [&] {
    if (count == nullptr) return Result::invalid_value;
    *count = device_count();
    return *count == 0 ? Result::no_device : Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipGetDevice(int* device) {
  return call("hipGetDevice", [&] {
    if (device == nullptr) return Result::invalid_value;
    *device = current_device();
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipSetDevice(int device) {
  return call("hipSetDevice", [&] {
    if (device < 0 || device >= device_count()) return Result::invalid_device;
    make_current(device);
    return Result::success;
  });
}

#ifndef RONDO_DOUBLE_ROCM_5_4
RONDO_DOUBLE_EXPORT Result hipGetDevicePropertiesR0600(DevicePropertiesR0600* properties, int device) {
  return call("hipGetDevicePropertiesR0600", [&] { return get_properties(properties, device); });
}
#endif

RONDO_DOUBLE_EXPORT Result hipGetDeviceProperties(DevicePropertiesR0000* properties, int device) {
  return call("hipGetDeviceProperties", [&] { return get_properties(properties, device); });
}

// Memory.

RONDO_DOUBLE_EXPORT Result hipMalloc(void** address, std::size_t bytes) {
  return call("hipMalloc", [&] {
    if (address == nullptr) return Result::invalid_value;
    if (bytes == 0) {
      *address = nullptr;
      return Result::success;
    }
    DevicePointer memory = 0;
    try {
      memory = host().allocate(bytes);
    } catch (const std::exception&) {
      return Result::out_of_memory;
    }
    const std::lock_guard lock(objects().memory_mutex);
    objects().memory.emplace(memory, bytes);
    *address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory));
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipFree(void* address) {
  return call("hipFree", [&] {
    if (address == nullptr) return Result::success;
    {
      const std::lock_guard lock(objects().memory_mutex);
      if (objects().memory.erase(reinterpret_cast<std::uintptr_t>(address)) == 0)
        return Result::invalid_value;
    }
    host().release(address_of(address));
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipMemcpyHtoDAsync(void* to, void* from, std::size_t bytes, Stream stream) {
  return call("hipMemcpyHtoDAsync", [&] {
    const auto found = stream_of(stream);
    if (found == nullptr) return invalid_handle;
    if (bytes == 0) return Result::success;
    if (from == nullptr || !is_device_memory(to, bytes)) return Result::invalid_value;
    return to_result(host().write(address_of(to), from, bytes, found->host));
  });
}

RONDO_DOUBLE_EXPORT Result hipMemcpyDtoHAsync(void* to, void* from, std::size_t bytes, Stream stream) {
  return call("hipMemcpyDtoHAsync", [&] {
    const auto found = stream_of(stream);
    if (found == nullptr) return invalid_handle;
    if (bytes == 0) return Result::success;
    if (to == nullptr || !is_device_memory(from, bytes)) return Result::invalid_value;
    return to_result(host().read(to, address_of(from), bytes, found->host));
  });
}

RONDO_DOUBLE_EXPORT Result hipMemsetD8Async(void* to, unsigned char value, std::size_t bytes, Stream stream) {
  return call("hipMemsetD8Async", [&] {
    const auto found = stream_of(stream);
    if (found == nullptr) return invalid_handle;
    if (bytes == 0) return Result::success;
    if (!is_device_memory(to, bytes)) return Result::invalid_value;
    return to_result(host().fill_bytes(address_of(to), value, bytes, found->host));
  });
}

RONDO_DOUBLE_EXPORT Result hipMemGetAddressRange(void** begin, std::size_t* bytes, void* address) {
  return call("hipMemGetAddressRange", [&] {
    Objects& all = objects();
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    const std::lock_guard lock(all.memory_mutex);
    auto piece = all.memory.upper_bound(wanted);
    if (piece == all.memory.begin() || wanted - std::prev(piece)->first >= std::prev(piece)->second)
      return Result::not_found;
    --piece;
    if (begin != nullptr) *begin = reinterpret_cast<void*>(piece->first);
    if (bytes != nullptr) *bytes = piece->second;
    return Result::success;
  });
}

// Streams and events. There is no null stream here: Rondo uses none.

RONDO_DOUBLE_EXPORT Result hipStreamCreateWithFlags(Stream* stream, unsigned flags) {
  return call("hipStreamCreateWithFlags", [&] {
    if (stream == nullptr || flags > stream_non_blocking) return Result::invalid_value;
    *stream = objects().streams.add(std::make_shared<StreamObject>());
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipStreamDestroy(Stream stream) {
  return call("hipStreamDestroy",
              [&] { return objects().streams.take(stream) == nullptr ? invalid_handle : Result::success; });
}

RONDO_DOUBLE_EXPORT Result hipStreamSynchronize(Stream stream) {
  return call("hipStreamSynchronize", [&] {
    const auto found = objects().streams.find(stream);
    return found == nullptr ? invalid_handle : to_result(host().synchronize(found->host));
  });
}

RONDO_DOUBLE_EXPORT Result hipStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  return call("hipStreamWaitEvent", [&] {
    const auto waiting = objects().streams.find(stream);
    const auto awaited = objects().events.find(event);
    if (waiting == nullptr || awaited == nullptr) return invalid_handle;
    if (flags != 0) return Result::invalid_value;
    return to_result(host().wait(waiting->host, awaited->host));
  });
}

constexpr unsigned event_disable_timing = 2,
                   all_event_flags = 7;  // with hipEventBlockingSync, hipEventInterprocess

RONDO_DOUBLE_EXPORT Result hipEventCreateWithFlags(Event* event, unsigned flags) {
  return call("hipEventCreateWithFlags", [&] {
    if (event == nullptr || (flags & ~all_event_flags) != 0) return Result::invalid_value;
    *event = objects().events.add(std::make_shared<EventObject>((flags & event_disable_timing) == 0));
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipEventDestroy(Event event) {
  return call("hipEventDestroy",
              [&] { return objects().events.take(event) == nullptr ? invalid_handle : Result::success; });
}

RONDO_DOUBLE_EXPORT Result hipEventRecord(Event event, Stream stream) {
  return call("hipEventRecord", [&] {
    const auto recorded = objects().events.find(event);
    const auto found = objects().streams.find(stream);
    if (recorded == nullptr || found == nullptr || recorded->device != found->device) return invalid_handle;
    return to_result(host().record(recorded->host, found->host));
  });
}

RONDO_DOUBLE_EXPORT Result hipEventSynchronize(Event event) {
  return call("hipEventSynchronize", [&] {
    const auto found = objects().events.find(event);
    return found == nullptr ? invalid_handle : to_result(host().synchronize_event(found->host));
  });
}

RONDO_DOUBLE_EXPORT Result hipEventElapsedTime(float* milliseconds, Event from, Event to) {
  return call("hipEventElapsedTime", [&] {
    if (milliseconds == nullptr) return Result::invalid_value;
    const auto first = objects().events.find(from), last = objects().events.find(to);
    if (first == nullptr || last == nullptr || !first->has_timing || !last->has_timing) return invalid_handle;
    return host().elapsed_ms(first->host, last->host, milliseconds).ok() ? Result::success : not_ready;
  });
}

#ifndef RONDO_DOUBLE_ROCM_5_4
RONDO_DOUBLE_EXPORT Result hipLaunchHostFunc(Stream stream, HostFunction* function, void* data) {
  return call("hipLaunchHostFunc", [&] {
    if (function == nullptr) return Result::invalid_value;
    const auto found = objects().streams.find(stream);
    return found == nullptr ? invalid_handle
                            : to_result(host().launch_host_function(found->host, function, data));
  });
}
#endif

// Modules.

RONDO_DOUBLE_EXPORT Result hipModuleLoadData(Module* module, const void* image) {
  return call("hipModuleLoadData", [&] { return load_module(module, image); });
}

RONDO_DOUBLE_EXPORT Result hipModuleUnload(Module module) {
  return call("hipModuleUnload", [&] {
    const std::shared_ptr<ModuleObject> taken = objects().modules.take(module);
    if (taken == nullptr) return invalid_handle;
    taken->unloaded = true;
    const std::lock_guard lock(taken->mutex);
    for (const auto& [name, function] : taken->functions) objects().functions.take(function);
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hipModuleGetFunction(NativeFunction* function, Module module, const char* name) {
  return call("hipModuleGetFunction", [&] {
    if (function == nullptr || name == nullptr) return Result::invalid_value;
    const std::shared_ptr<ModuleObject> found = objects().modules.find(module);
    if (found == nullptr) return invalid_handle;
    try {
      *function = add_function(found, name);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_argument) throw;
      return Result::not_found;
    }
    return Result::success;
  });
}

// A real runtime takes what it is given for a function, and ends there where it is none.
RONDO_DOUBLE_EXPORT const char* hipKernelNameRef(NativeFunction function) {
  const auto found = objects().functions.find(function);
  return found != nullptr ? found->name.c_str() : nullptr;
}

// No kernel here has a host function that stands for it.
RONDO_DOUBLE_EXPORT const char* hipKernelNameRefByPtr(const void*, Stream) { return nullptr; }

RONDO_DOUBLE_EXPORT Result hipModuleLaunchKernel(NativeFunction function, unsigned grid_x, unsigned grid_y,
                                                 unsigned grid_z, unsigned block_x, unsigned block_y,
                                                 unsigned block_z, unsigned shared_bytes, Stream stream,
                                                 void** kernel_parameters, void** extra) {
  return call("hipModuleLaunchKernel", [&] {
    const auto found = objects().functions.find(function);
    const auto queue = stream_of(stream);
    if (found == nullptr || queue == nullptr) return invalid_handle;
    KernelNodeParameters parameters{};
    parameters.grid = {grid_x, grid_y, grid_z};
    parameters.block = {block_x, block_y, block_z};
    parameters.shared_bytes = shared_bytes;
    parameters.kernel_parameters = kernel_parameters;
    parameters.extra = extra;
    if (const Result result = check_launch(found.get(), parameters); result != Result::success) return result;
    const std::vector<std::byte> arguments = pack(*found, parameters);
    return to_result(host().launch(host_launch(*found, parameters, arguments), queue->host));
  });
}

}  // namespace rondo::doubles::hip
