// Owners of driver handles: each destroys its handle through the driver that made it, and keeps nothing else
// alive.
#pragma once

#include <utility>

#include "driver.h"

namespace rondo {

template <typename Handle, void (Driver::*destroy)(Handle) noexcept>
class Owned {
 public:
  Owned() = default;
  Owned(Driver& driver, Handle handle) : driver_(&driver), handle_(handle) {}
  Owned(Owned&& other) noexcept : driver_(other.driver_), handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != Handle{}) (driver_->*destroy)(handle_);
  }
  Handle get() const noexcept { return handle_; }

 private:
  Driver* driver_ = nullptr;
  Handle handle_{};
};

using OwnedMemory = Owned<DevicePointer, &Driver::release>;
using OwnedStream = Owned<StreamHandle, &Driver::destroy_stream>;
using OwnedEvent = Owned<EventHandle, &Driver::destroy_event>;
using OwnedModule = Owned<ModuleHandle, &Driver::unload_module>;
using OwnedGraph = Owned<GraphHandle, &Driver::destroy_graph>;
using OwnedExec = Owned<ExecHandle, &Driver::destroy_exec>;

}  // namespace rondo
