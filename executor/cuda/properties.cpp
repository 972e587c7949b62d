#include "properties.h"

#include <fmt/format.h>

#include <array>

#include "context.h"
#include "driver.h"
#include "rondo/error.h"

namespace rondo::cuda {
namespace {

// CUDA 12.1 release notes: kernels may have 32,764 bytes of parameters, on devices of compute capability 7.0
// or later; 4,096 elsewhere.
constexpr std::size_t max_argument_bytes(int driver_version, int capability_major) noexcept {
  return driver_version >= 12010 && capability_major >= 7 ? 32764 : 4096;
}

constexpr const char* doing = "asking about a CUDA device";

}  // namespace

int device_count(const Api& api) {
  int count = 0;
  check(RONDO_CUDA(api, cuDeviceGetCount, &count), "counting the CUDA devices");
  return count;
}

Device device_of(const Api& api, int ordinal) {
  Device device = 0;
  check(RONDO_CUDA(api, cuDeviceGet, &device, ordinal), doing);
  return device;
}

int attribute(const Api& api, Device device, DeviceAttribute attribute) {
  int value = 0;
  check(RONDO_CUDA(api, cuDeviceGetAttribute, &value, attribute, device), doing);
  return value;
}

DeviceProperties properties(const Api& api, int ordinal) {
  const Device device = device_of(api, ordinal);
  const auto get = [&](DeviceAttribute which) { return attribute(api, device, which); };
  const auto get_unsigned = [&](DeviceAttribute which) { return static_cast<std::uint32_t>(get(which)); };
  std::array<char, 256> name{};
  DeviceProperties properties;
  check(RONDO_CUDA(api, cuDeviceGetName, name.data(), static_cast<int>(name.size()), device), doing);
  check(RONDO_CUDA(api, cuDeviceTotalMem_v2, &properties.memory_bytes, device), doing);
  const int major = get(DeviceAttribute::capability_major);
  properties.backend = "cuda";
  properties.ordinal = ordinal;
  properties.name = name.data();
  const int minor = get(DeviceAttribute::capability_minor);
  properties.architecture = fmt::format("sm_{}{}", major, minor);
  properties.compute_capability = 10 * major + minor;
  properties.driver =
      fmt::format("CUDA driver {}.{}", api.driver_version / 1000, api.driver_version % 1000 / 10);
  properties.driver_version = api.driver_version;
  properties.warp_size = get(DeviceAttribute::warp_size);
  properties.processors = get(DeviceAttribute::multiprocessors);
  properties.max_threads_per_block = get_unsigned(DeviceAttribute::max_threads_per_block);
  properties.max_block = {get_unsigned(DeviceAttribute::max_block_x),
                          get_unsigned(DeviceAttribute::max_block_y),
                          get_unsigned(DeviceAttribute::max_block_z)};
  properties.max_grid = {get_unsigned(DeviceAttribute::max_grid_x), get_unsigned(DeviceAttribute::max_grid_y),
                         get_unsigned(DeviceAttribute::max_grid_z)};
  properties.max_shared_bytes = get_unsigned(DeviceAttribute::max_shared_bytes_optin);
  const bool takes_attributes =
      api.cuGraphKernelNodeSetAttribute != nullptr && api.cuLaunchKernelEx != nullptr;
  properties.has_cooperative_launches = takes_attributes && api.cuOccupancyMaxActiveBlocksPerMultiprocessor != nullptr &&
      get(DeviceAttribute::cooperative_launch) != 0;
  // Since CUDA 11.8, whose drivers know the attribute, and on compute capability 9.0; 8 blocks is what every
  // such device takes (CUDA Programming Guide, "Thread Block Clusters").
  const bool has_clusters = takes_attributes && api.driver_version >= 11080 && major >= 9 &&
                            get(DeviceAttribute::cluster_launch) != 0;
  properties.max_cluster_blocks = has_clusters ? 8 : 0;
  // CUDA Programming Guide, "Programmatic Dependent Launch": compute capability 9.0; in graphs with the edge
  // data of CUDA 12.3.
  properties.has_programmatic_edges = major >= 9 && api.cuGraphAddDependencies_v2 != nullptr;
  properties.max_argument_bytes = max_argument_bytes(api.driver_version, major);
  // What a launch costs the host grows by 1.1 µs a branch (H200, CUDA 13.0, driver 580: 3 µs for a chain of
  // 1,024 nodes, 10 µs in 8 lanes, 993 µs side by side), and 8 lanes are where kernels of 2 µs gain little by
  // more.
  properties.graph_lanes = 8;
  return properties;
}

std::vector<DeviceProperties> list_devices() {
  const auto api = load_api();
  std::vector<DeviceProperties> devices;
  for (int i = 0, count = device_count(*api); i < count; ++i) devices.push_back(properties(*api, i));
  return devices;
}

}  // namespace rondo::cuda
