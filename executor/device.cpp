#include "rondo/device.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "compiler.h"
#include "cuda/driver.h"
#include "host/driver.h"
#include "rondo/error.h"

namespace rondo {
namespace {

std::shared_ptr<Device> open_cuda(int ordinal) {
  return std::make_shared<Device>(fmt::format("cuda:{}", ordinal), cuda::make_driver(ordinal),
                                  rtc::make_nvrtc_compiler);
}

std::shared_ptr<Device> open_host() {
  return std::make_shared<Device>("host", host::make_driver(), rtc::make_host_compiler);
}

std::shared_ptr<Device> open_best() {
  try {
    auto device = open_cuda(0);
    device->compiler();
    return device;
  } catch (const Error& error) {
    // Only what is missing makes the host the better device; a GPU that fails is to be heard of.
    if (error.code() != ErrorCode::missing_backend) throw;
    return open_host();
  }
}

// The i of "cuda:i".
std::optional<int> parse_ordinal(std::string_view text) {
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

void report_cuda(std::vector<DeviceReport>& reports) {
  DeviceReport missing{.spec = "cuda", .available = false, .properties = {}, .compiler = "", .problem = ""};
  missing.properties.backend = "cuda";
  try {
    const std::vector<DeviceProperties> devices = cuda::list_devices();
    for (const DeviceProperties& properties : devices) {
      DeviceReport report{.spec = fmt::format("cuda:{}", properties.ordinal),
                          .available = false,
                          .properties = properties,
                          .compiler = "",
                          .problem = ""};
      report_compiler(report, rtc::make_nvrtc_compiler);
      reports.push_back(std::move(report));
    }
    if (!devices.empty()) return;
    missing.problem = "no CUDA device: the driver is there and finds none";
  } catch (const Error& error) {
    missing.problem = error.what();
  }
  reports.push_back(std::move(missing));
}

void report_host(std::vector<DeviceReport>& reports) {
  DeviceReport report{.spec = "host", .available = false, .properties = {}, .compiler = "", .problem = ""};
  report.properties.backend = "host";
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

std::shared_ptr<Device> open_device(std::string_view spec) {
  if (spec == "auto") return open_best();
  if (spec == "host") return open_host();
  if (spec == "cuda") return open_cuda(0);
  if (spec.starts_with("cuda:")) {
    if (const std::optional<int> ordinal = parse_ordinal(spec.substr(5))) return open_cuda(*ordinal);
  }
  throw Error(ErrorCode::bad_argument, fmt::format("no device is called \"{}\"", spec),
              "expected \"auto\", \"host\", \"cuda\" or \"cuda:i\" with the device's number, as `rondo "
              "devices` lists them");
}

std::vector<DeviceReport> list_devices() {
  std::vector<DeviceReport> reports;
  report_cuda(reports);
  report_host(reports);
  return reports;
}

}  // namespace rondo
