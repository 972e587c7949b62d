#pragma once

#include "api.h"
#include "rondo/device_properties.h"

namespace rondo::cuda {

int device_count(const Api& api);
Device device_of(const Api& api, int ordinal);
int attribute(const Api& api, Device device, DeviceAttribute attribute);
DeviceProperties properties(const Api& api, int ordinal);

}  // namespace rondo::cuda
