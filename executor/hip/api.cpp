#include "api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "dynamic_library.h"
#include "rondo/error.h"

namespace rondo::hip {
namespace {

enum class Need { required, optional };

struct Symbol {
  const char* name;
  int version;  // of ROCm: major * 100 + minor
  Need need;
};

// ROCm 5.2: the oldest runtime whose headers and symbols this interface has been held to.
constexpr int oldest_version = 50'200'000;
constexpr std::array file_names = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 10'000'000, version % 10'000'000 / 100'000);
}

struct LoadedApi : Api {
  DynamicLibrary library;
};

[[noreturn]] void missing(const std::string& why, const std::string& hint = "") {
  throw Error(ErrorCode::missing_backend, why, hint);
}

[[noreturn]] void missing_symbol(const Api& api, const Symbol& symbol) {
  const std::string is = api.runtime_version != 0
                             ? fmt::format("; this one is of ROCm {}", version_text(api.runtime_version))
                             : "";
  missing(fmt::format("{} has no {}, which the HIP runtime of ROCm {}.{} or later has{}", api.path,
                      symbol.name, symbol.version / 100, symbol.version % 100, is),
          "install ROCm 5.5 or later, or set RONDO_HIP_LIBRARY to its libamdhip64.so");
}

void check_initialized(const Api& api, Result result) {
  if (result == Result::success) return;
  // HIP 5.2.3 says invalid_device on a machine without an AMD GPU.
  if (result == Result::no_device || result == Result::invalid_device) {
    missing(fmt::format("no HIP device: the runtime of ROCm {} is there and finds none (hipInit: {})",
                        version_text(api.runtime_version), name(api, result)));
  }
  missing(fmt::format("the HIP runtime does not start: hipInit failed with {} ({})", name(api, result),
                      static_cast<int>(result)));
}

void check_version(const Api& api) {
  if (api.runtime_version >= oldest_version) return;
  missing(fmt::format("{} is too old: the HIP runtime of ROCm {}, and Rondo needs {}", api.path,
                      version_text(api.runtime_version), version_text(oldest_version)),
          "install ROCm 5.5 or later, or set RONDO_HIP_LIBRARY to its libamdhip64.so");
}

// What to give to dlopen, in order.
std::vector<std::string> candidates() {
  std::vector<std::string> files;
  const auto add = [&](const std::filesystem::path& folder) {
    for (const char* name : file_names) files.push_back((folder / name).string());
  };
  if (const char* rocm = std::getenv("ROCM_PATH"); rocm != nullptr && *rocm != '\0')
    add(std::filesystem::path(rocm) / "lib");
  add("");
  add("/opt/rocm/lib");
  return files;
}

void open_library(LoadedApi& api, const std::string& given) {
  std::string problem;
  if (!given.empty()) {
    api.library = DynamicLibrary::open(given, problem);
    if (!api.library) missing("no HIP runtime: " + problem, "RONDO_HIP_LIBRARY names this file");
    return;
  }
  const std::vector<std::string> files = candidates();
  for (const std::string& file : files) {
    api.library = DynamicLibrary::open(file, problem);
    if (api.library) return;
    // A library that is there and does not open is what the user has to hear of.
    std::error_code error;
    if (std::filesystem::exists(file, error)) missing("the HIP runtime cannot be opened: " + problem);
  }
  missing(fmt::format("no HIP runtime: none of {} could be opened", fmt::join(files, ", ")),
          "install ROCm, or set RONDO_HIP_LIBRARY to its libamdhip64.so");
}

std::shared_ptr<const Api> load(const std::string& given) {
  auto api = std::make_shared<LoadedApi>();
  open_library(*api, given);
  api->path = api->library.path();
  // First, so that what is missing can be explained by it.
  const auto get_version = api->library.function<Result(int*)>("hipRuntimeGetVersion");
  if (get_version == nullptr || get_version(&api->runtime_version) != Result::success)
    api->runtime_version = 0;
  if (api->runtime_version != 0) check_version(*api);

  const auto resolve = [&api](const Symbol& symbol) {
    void* address = api->library.symbol(symbol.name);
    if (address == nullptr && symbol.need == Need::required) missing_symbol(*api, symbol);
    return address;
  };
#define RONDO_HIP_RESOLVE(name, version, need, parameters) \
  api->name = reinterpret_cast<Result(*) parameters>(resolve({#name, version, Need::need}));
  RONDO_HIP_FUNCTIONS(RONDO_HIP_RESOLVE)
#undef RONDO_HIP_RESOLVE
  api->hipGetErrorName =
      reinterpret_cast<const char* (*)(Result)>(resolve({"hipGetErrorName", 402, Need::required}));
  api->hipKernelNameRef = api->library.function<const char*(NativeFunction)>("hipKernelNameRef");
  api->hipKernelNameRefByPtr =
      api->library.function<const char*(const void*, Stream)>("hipKernelNameRefByPtr");
  if (api->hipGetDevicePropertiesR0600 == nullptr && api->hipGetDeviceProperties == nullptr)
    missing_symbol(*api, {"hipGetDevicePropertiesR0600", 600, Need::required});
  check_initialized(*api, api->hipInit(0));
  return api;
}

}  // namespace

std::shared_ptr<const Api> load_api() {
  // The driver tables are the one thing that lives as long as the process.
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, std::shared_ptr<const Api>>;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  const std::string given = variable("RONDO_HIP_LIBRARY");
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Api>& api = loaded[given.empty() ? ":" + variable("ROCM_PATH") : given];
  if (api == nullptr) api = load(given);
  return api;
}

const char* name(const Api& api, Result result) noexcept {
  const char* text = api.hipGetErrorName(result);
  return text != nullptr ? text : "an unknown HIP error";
}

}  // namespace rondo::hip
