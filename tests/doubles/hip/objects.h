// What the HIP double's handles stand for, and the rules that every call of it keeps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "control.h"
#include "driver.h"
#include "hip/api.h"
#include "registry.h"
#include "runtime.h"

#define RONDO_DOUBLE_EXPORT extern "C" __attribute__((visibility("default")))

namespace rondo::doubles::hip {

using namespace rondo::hip;

// hipError_t where Rondo does not tell them apart.
inline constexpr Result invalid_configuration{9}, invalid_image{200}, invalid_handle{400}, not_ready{600},
    unknown_error{999};

// The device that is current in the calling thread; every thread begins with the first one.
int current_device() noexcept;
void make_current(int device) noexcept;
int device_count() noexcept;  // $RONDO_DOUBLE_HIP_DEVICES, 1 by default

// An object belongs to the device that was current when it was made.
struct OfDevice {
  const int device = current_device();
  bool is_current() const noexcept { return device == current_device(); }
};

struct StreamObject : OfDevice {
  StreamObject() : host(doubles::host().create_stream()) {}
  ~StreamObject() { doubles::host().destroy_stream(host); }
  StreamObject(const StreamObject&) = delete;
  StreamObject& operator=(const StreamObject&) = delete;
  const StreamHandle host;
};

struct EventObject : OfDevice {
  explicit EventObject(bool with_timing) : host(doubles::host().create_event()), has_timing(with_timing) {}
  ~EventObject() { doubles::host().destroy_event(host); }
  EventObject(const EventObject&) = delete;
  EventObject& operator=(const EventObject&) = delete;
  const EventHandle host;
  const bool has_timing;
};

// Lives until the last graph that uses one of its functions is gone, so that what follows from an early
// hipModuleUnload is an error and not a crash.
struct ModuleObject : OfDevice {
  explicit ModuleObject(ModuleHandle handle) : host(handle) {}
  ~ModuleObject() { doubles::host().unload_module(host); }
  ModuleObject(const ModuleObject&) = delete;
  ModuleObject& operator=(const ModuleObject&) = delete;
  const ModuleHandle host;
  std::atomic<bool> unloaded{false};
  std::mutex mutex;
  std::map<std::string, NativeFunction> functions;
};

struct FunctionObject {
  std::string name;
  std::shared_ptr<ModuleObject> module;
  FunctionHandle host = nullptr;
  std::vector<ParameterLayout> parameters;
  std::size_t argument_end = 0;  // of the last parameter, bytes
};

struct GraphObject;
struct ExecObject;

struct Objects {
  Registry<Stream, StreamObject> streams;
  Registry<Event, EventObject> events;
  Registry<Module, ModuleObject> modules;
  Registry<NativeFunction, FunctionObject> functions;  // they go with their module, and are not counted
  Registry<Graph, GraphObject> graphs;
  Registry<Exec, ExecObject> execs;
  std::mutex memory_mutex;
  std::map<std::uintptr_t, std::size_t> memory;  // device memory: first address, bytes
};
Objects& objects();

// Whether [address, address + bytes) lies in one piece of device memory.
bool is_device_memory(const void* address, std::size_t bytes);

// A launch that the runtime takes: dimensions that are not zero, grid × block within 32 bits on each axis, a
// block that the device has threads for, arguments in one of the two forms.
Result check_launch(const FunctionObject* function, const KernelNodeParameters& parameters) noexcept;
// The arguments as the host runtime takes them. `parameters` has been checked.
std::vector<std::byte> pack(const FunctionObject& function, const KernelNodeParameters& parameters);
KernelLaunch host_launch(const FunctionObject& function, const KernelNodeParameters& parameters,
                         const std::vector<std::byte>& arguments) noexcept;

// What the host runtime's refusal is in HIP.
Result to_result(const Status& status) noexcept;
Result to_result(const std::exception& error) noexcept;

// One call of an exported function: counted, failed where a test asked for it, and never left by an
// exception. Refuses before it has changed anything.
template <class Body>
Result call(const char* function, Body body) noexcept {
  if (const int fault = enter(function); fault != 0) return static_cast<Result>(fault);
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Result::out_of_memory;
  } catch (const std::exception& error) {
    return to_result(error);
  } catch (...) {
    return unknown_error;
  }
}

// Every function that Rondo calls, with the parameters that it calls it with: a definition that differs does
// not compile.
#define RONDO_DOUBLE_DECLARE(name, version, need, parameters) RONDO_DOUBLE_EXPORT Result name parameters;
RONDO_HIP_FUNCTIONS(RONDO_DOUBLE_DECLARE)
#undef RONDO_DOUBLE_DECLARE

}  // namespace rondo::doubles::hip
