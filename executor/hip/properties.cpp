#include "properties.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "context.h"
#include "driver.h"
#include "rondo/error.h"

namespace rondo::hip {
namespace {

std::uint32_t limit(int value) noexcept { return static_cast<std::uint32_t>(std::max(value, 0)); }

std::string text_of(const char (&field)[256]) { return {field, strnlen(field, sizeof field)}; }

// What both layouts of the vendor's struct have under the same names.
template <class Native>
DeviceProperties convert(const Native& native) {
  DeviceProperties properties;
  properties.name = text_of(native.name);
  properties.architecture = text_of(native.architecture_name);
  properties.warp_size = native.warp_size;
  properties.processors = native.multiprocessor_count;
  properties.memory_bytes = native.total_global_memory;
  properties.max_threads_per_block = limit(native.max_threads_per_block);
  const auto& block = native.max_threads_dimension;
  const auto& grid = native.max_grid_size;
  properties.max_block = {limit(block[0]), limit(block[1]), limit(block[2])};
  properties.max_grid = {limit(grid[0]), limit(grid[1]), limit(grid[2])};
  properties.max_shared_bytes = native.shared_memory_per_block;
  return properties;
}

}  // namespace

int device_count(const Api& api) {
  int count = 0;
  const Result result = api.hipGetDeviceCount(&count);
  // Without a device this is an error (hipGetDeviceCount: hipErrorNoDevice).
  if (result == Result::no_device) return 0;
  check(to_status(api, result, "hipGetDeviceCount", "hipGetDeviceCount"), "counting the HIP devices");
  return count;
}

DeviceProperties properties(const Api& api, int ordinal) {
  constexpr const char* doing = "asking about a HIP device";
  DeviceProperties properties;
  if (api.hipGetDevicePropertiesR0600 != nullptr) {
    DevicePropertiesR0600 native{};
    check(RONDO_HIP(api, hipGetDevicePropertiesR0600, &native, ordinal), doing);
    properties = convert(native);
  } else {
    DevicePropertiesR0000 native{};
    check(RONDO_HIP(api, hipGetDeviceProperties, &native, ordinal), doing);
    properties = convert(native);
  }
  properties.backend = "hip";
  properties.ordinal = ordinal;
  properties.driver = fmt::format("HIP runtime of ROCm {}.{}.{}", api.runtime_version / 10'000'000,
                                  api.runtime_version / 100'000 % 100, api.runtime_version % 100'000);
  properties.driver_version = api.runtime_version;
  // hipModuleLaunchKernel and hipGraphAddKernelNode refuse a launch whose threads on one axis do not fit 32
  // bits.
  properties.max_threads_on_axis = std::numeric_limits<std::uint32_t>::max();
  return properties;
}

std::vector<DeviceProperties> list_devices() {
  const auto api = load_api();
  std::vector<DeviceProperties> devices;
  for (int i = 0, count = device_count(*api); i < count; ++i) devices.push_back(properties(*api, i));
  return devices;
}

}  // namespace rondo::hip
