#pragma once

#include "api.h"
#include "rondo/device_properties.h"

namespace rondo::hip {

int device_count(const Api& api);
DeviceProperties properties(const Api& api, int ordinal);

}  // namespace rondo::hip
