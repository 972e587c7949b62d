// An AMD GPU through the HIP runtime (libamdhip64), loaded at run time.
#pragma once

#include <memory>
#include <vector>

#include "../driver.h"

namespace rondo::hip {

// All devices there are. Throws Error(missing_backend) as load_api.
std::vector<DeviceProperties> list_devices();

// Throws Error(missing_backend) as load_api, or where there is no device of this ordinal.
std::unique_ptr<Driver> make_driver(int ordinal);

}  // namespace rondo::hip
