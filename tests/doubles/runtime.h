// The one host device that a double runs everything on.
#pragma once

#include "driver.h"

namespace rondo::doubles {

// Made on the first call, and never destroyed: streams may still be in use when the process ends.
Driver& host();

}  // namespace rondo::doubles
