// The devices that schedules run on.
//
//     auto device = rondo::open_device("auto");  // cuda:0 where there is one, else hip:0, else host
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rondo/device_properties.h"

namespace rondo {

class Driver;
namespace rtc {
class BinaryCache;
class Compiler;
}  // namespace rtc

// A device's driver and the compiler of its kernels. Sessions share it; it lives as long as the last of them.
class Device {
 public:
  using MakeCompiler = std::function<std::shared_ptr<rtc::Compiler>()>;

  // For backends of one's own; otherwise open_device. `make_compiler` is called when a compiler is first
  // needed.
  Device(std::string spec, std::unique_ptr<Driver> driver, MakeCompiler make_compiler);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // "cuda:0", "hip:0", "host": what open_device opens again.
  const std::string& spec() const noexcept { return spec_; }
  const DeviceProperties& properties() const noexcept;
  Driver& driver() noexcept { return *driver_; }
  // Found on the first call, which throws Error(missing_backend) where there is none. May be called from
  // several threads.
  rtc::Compiler& compiler();

  // Why sessions replay eagerly on this device in place of a graph: a clause, empty where graphs work. Found by running some on the
  // first call, where the backend is known to need it (hip), and remembered. Throws Error where not even a kernel can be compiled or
  // run. May be called from several threads. `cache`, which may be null, is for the kernel that is compiled.
  const std::string& graph_problem(rtc::BinaryCache* cache = nullptr);
  // The same as a line for people, with the device's name and its driver's version.
  std::string graph_notice();

 private:
  const std::string spec_;
  const std::unique_ptr<Driver> driver_;
  const MakeCompiler make_compiler_;
  std::mutex mutex_;
  std::shared_ptr<rtc::Compiler> compiler_;
  std::optional<std::string> graph_problem_;
};

// `spec`: "cuda:1" (the second CUDA device), "cuda" (the first), "hip:1" and "hip" likewise, "host" (the processor), "auto": the first
// CUDA device that has its compiler (NVRTC) beside it, else the first HIP device that has hipRTC, else the host. Throws Error(bad_argument) for anything
// else, and Error(missing_backend), saying why, for a device that is not there. What the host device needs of
// the environment: RONDO_HOST_THREADS, the number of its threads.
std::shared_ptr<Device> open_device(std::string_view spec);

struct DeviceReport {
  std::string spec;             // "cuda:0", "hip:0", "host"; "cuda" or "hip" where there is no such device at all
  bool available = false;       // it can compile kernels and run them
  DeviceProperties properties;  // as far as known
  std::string compiler;         // "NVRTC 13.0 (…)", "g++ 12.2.0 (…)"; empty where there is none
  std::string problem;          // what is missing, and the next step; empty for an available device
  std::string graph_problem;    // as Device::graph_problem
};

// All devices, and for what is missing, why. Throws nothing but std::bad_alloc. Starts no device but those whose graphs have to be
// tried (hip).
std::vector<DeviceReport> list_devices();

}  // namespace rondo
