#include "rondo/device.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "cache.h"
#include "compiler.h"
#include "cuda/driver.h"
#include "graph_trial.h"
#include "hip/driver.h"
#include "host/driver.h"
#include "rondo/error.h"

namespace rondo {
namespace {

struct Vendor {
  std::string_view backend;
  const char* none;  // the driver is there, and no device
  std::vector<DeviceProperties> (*list)();
  std::unique_ptr<Driver> (*make_driver)(int ordinal);
  std::shared_ptr<rtc::Compiler> (*make_compiler)();
};

// In the order of preference.
constexpr Vendor vendors[] = {
    {"cuda", "no CUDA device: the driver is there and finds none", cuda::list_devices, cuda::make_driver,
     rtc::make_nvrtc_compiler},
    {"hip", "no HIP device: the runtime is there and finds none", hip::list_devices, hip::make_driver,
     rtc::make_hiprtc_compiler},
};

std::shared_ptr<Device> open(const Vendor& vendor, int ordinal) {
  return std::make_shared<Device>(fmt::format("{}:{}", vendor.backend, ordinal), vendor.make_driver(ordinal),
                                  vendor.make_compiler);
}

std::shared_ptr<Device> open_host() {
  return std::make_shared<Device>("host", host::make_driver(), rtc::make_host_compiler);
}

std::shared_ptr<Device> open_best() {
  for (const Vendor& vendor : vendors) {
    try {
      auto device = open(vendor, 0);
      device->compiler();
      return device;
    } catch (const Error& error) {
      // Only what is missing makes another device the better one; a GPU that fails is to be heard of.
      if (error.code() != ErrorCode::missing_backend) throw;
    }
  }
  return open_host();
}

// The i of "cuda:i" and "hip:i".
std::optional<int> parse_ordinal(std::string_view text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  int ordinal = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ordinal);
  if (error != std::errc{} || end != text.data() + text.size() || ordinal < 0) return std::nullopt;
  return ordinal;
}

void report_compiler(DeviceReport& report, const Device::MakeCompiler& make_compiler) {
  try {
    report.compiler = make_compiler()->description();
    report.available = true;
  } catch (const Error& error) {
    report.problem = error.what();
  }
}

// Tries the graphs of a device that needs it.
void report_graphs(DeviceReport& report, const Vendor& vendor) {
  if (!report.available) return;
  try {
    const std::shared_ptr<Device> device = open(vendor, report.properties.ordinal);
    rtc::BinaryCache cache;
    report.graph_problem = device->graph_problem(&cache);
  } catch (const Error& error) {
    report.available = false;
    report.problem = error.what();
  }
}

void report_vendor(const Vendor& vendor, std::vector<DeviceReport>& reports) {
  DeviceReport missing;
  missing.spec = missing.properties.backend = vendor.backend;
  try {
    const std::vector<DeviceProperties> devices = vendor.list();
    for (const DeviceProperties& properties : devices) {
      DeviceReport report;
      report.spec = fmt::format("{}:{}", vendor.backend, properties.ordinal);
      report.properties = properties;
      report_compiler(report, vendor.make_compiler);
      if (vendor.backend == "hip") report_graphs(report, vendor);
      reports.push_back(std::move(report));
    }
    if (!devices.empty()) return;
    missing.problem = vendor.none;
  } catch (const Error& error) {
    missing.problem = error.what();
  }
  reports.push_back(std::move(missing));
}

void report_host(std::vector<DeviceReport>& reports) {
  DeviceReport report;
  report.spec = report.properties.backend = "host";
  try {
    report.properties = host::properties();
    report_compiler(report, rtc::make_host_compiler);
  } catch (const Error& error) {
    report.problem = error.what();
  }
  reports.push_back(std::move(report));
}

}  // namespace

Device::Device(std::string spec, std::unique_ptr<Driver> driver, MakeCompiler make_compiler)
    : spec_(std::move(spec)), driver_(std::move(driver)), make_compiler_(std::move(make_compiler)) {}
Device::~Device() = default;

const DeviceProperties& Device::properties() const noexcept { return driver_->properties(); }

rtc::Compiler& Device::compiler() {
  const std::lock_guard lock(mutex_);
  if (compiler_ == nullptr) compiler_ = make_compiler_();
  return *compiler_;
}

const std::string& Device::graph_problem(rtc::BinaryCache* cache) {
  rtc::Compiler& compiler_of_device = compiler();
  const std::lock_guard lock(mutex_);
  if (!graph_problem_) {
    graph_problem_ =
        driver_->graphs_need_a_test() ? try_graphs(*driver_, compiler_of_device, cache) : std::string();
  }
  return *graph_problem_;
}

std::string Device::graph_notice() {
  return fmt::format("graphs are off on {} ({}), every step is launched op by op: {}", spec_,
                     properties().driver, graph_problem());
}

std::shared_ptr<Device> open_device(std::string_view spec) {
  if (spec == "auto") return open_best();
  if (spec == "host") return open_host();
  for (const Vendor& vendor : vendors) {
    if (!spec.starts_with(vendor.backend)) continue;
    const std::string_view rest = spec.substr(vendor.backend.size());
    if (rest.empty()) return open(vendor, 0);
    const std::optional<int> ordinal = rest[0] == ':' ? parse_ordinal(rest.substr(1)) : std::nullopt;
    if (ordinal) return open(vendor, *ordinal);
  }
  throw Error(ErrorCode::bad_argument, fmt::format("no device is called \"{}\"", spec),
              "expected \"auto\", \"host\", \"cuda\", \"hip\", or \"cuda:i\" or \"hip:i\" with the device's "
              "number, as "
              "`rondo devices` lists them");
}

std::vector<DeviceReport> list_devices() {
  std::vector<DeviceReport> reports;
  for (const Vendor& vendor : vendors) report_vendor(vendor, reports);
  report_host(reports);
  return reports;
}

}  // namespace rondo
