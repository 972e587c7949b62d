// The host device: kernels compiled by the system's C++ compiler, run by a pool of threads.
#pragma once

#include <memory>

#include "../driver.h"  // the interface; this folder has a header of the same name

namespace rondo::host {

// $RONDO_HOST_THREADS threads, else as many as the process may run on (sched_getaffinity). Throws
// Error(bad_argument) for a value of the variable that is no number from 1 to 1024.
std::unique_ptr<Driver> make_driver();

// What the device would be, without starting a thread.
DeviceProperties properties();

}  // namespace rondo::host
