// An NVIDIA GPU through the CUDA driver API (libcuda), loaded at run time.
#pragma once

#include <memory>
#include <vector>

#include "../driver.h"

namespace rondo::cuda {

// All devices there are, without making a context on any. Throws Error(missing_backend) as load_api.
std::vector<DeviceProperties> list_devices();

// Retains the device's primary context. Throws Error(missing_backend) as load_api, or where there is no
// device of this ordinal.
std::unique_ptr<Driver> make_driver(int ordinal);

}  // namespace rondo::cuda
