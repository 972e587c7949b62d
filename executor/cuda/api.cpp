#include "api.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "dynamic_library.h"
#include "rondo/error.h"

namespace rondo::cuda {
namespace {

enum class Need { required, optional };

struct Symbol {
  const char* name;
  int version;
  Need need;
};

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

struct LoadedApi : Api {
  DynamicLibrary library;
};

[[noreturn]] void missing(const std::string& why, const std::string& hint = "") {
  throw Error(ErrorCode::missing_backend, why, hint);
}

[[noreturn]] void missing_symbol(const Api& api, const Symbol& symbol) {
  const std::string is = api.driver_version != 0
                             ? fmt::format("; this one is for CUDA {}", version_text(api.driver_version))
                             : "";
  missing(fmt::format("{} has no {}, which a driver for CUDA {} or later has{}", api.path, symbol.name,
                      version_text(symbol.version), is),
          "update the NVIDIA driver: Rondo needs one for CUDA 12.0 or later");
}

void check_initialized(const Api& api, Result result) {
  if (result == Result::success) return;
  if (result == Result::no_device)
    missing("no CUDA device: the driver is there and finds none (cuInit: CUDA_ERROR_NO_DEVICE)");
  if (result == Result::stub_library) {
    missing(fmt::format("{} is the stub that programs are linked with, not a driver", api.path));
  }
  missing(fmt::format("the CUDA driver does not start: cuInit failed with {} ({})", name(api, result),
                      static_cast<int>(result)));
}

std::shared_ptr<const Api> load(const std::string& file, bool overridden) {
  auto api = std::make_shared<LoadedApi>();
  std::string problem;
  api->library = DynamicLibrary::open(file, problem);
  if (!api->library) {
    missing(fmt::format("no CUDA driver: {}", problem),
            overridden ? "RONDO_CUDA_LIBRARY names this file"
                       : "install the NVIDIA driver, or set RONDO_CUDA_LIBRARY to its libcuda.so.1");
  }
  api->path = api->library.path();
  // First, so that what is missing can be explained by it.
  const auto get_version = api->library.function<Result(int*)>("cuDriverGetVersion");
  if (get_version == nullptr || get_version(&api->driver_version) != Result::success) api->driver_version = 0;

  const auto resolve = [&api](const Symbol& symbol) {
    void* address = api->library.symbol(symbol.name);
    if (address == nullptr && symbol.need == Need::required) missing_symbol(*api, symbol);
    return address;
  };
#define RONDO_CUDA_RESOLVE(name, version, need, parameters) \
  api->name = reinterpret_cast<Result(*) parameters>(resolve({#name, version, Need::need}));
  RONDO_CUDA_FUNCTIONS(RONDO_CUDA_RESOLVE)
#undef RONDO_CUDA_RESOLVE
  check_initialized(*api, api->cuInit(0));
  return api;
}

}  // namespace

std::shared_ptr<const Api> load_api() {
  // The driver tables are the one thing that lives as long as the process.
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, std::shared_ptr<const Api>>;
  const char* given = std::getenv("RONDO_CUDA_LIBRARY");
  const bool overridden = given != nullptr && *given != '\0';
  const std::string file = overridden ? given : "libcuda.so.1";
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Api>& api = loaded[file];
  if (api == nullptr) api = load(file, overridden);
  return api;
}

const char* name(const Api& api, Result result) noexcept {
  const char* text = nullptr;
  if (api.cuGetErrorName(result, &text) != Result::success || text == nullptr) return "an unknown CUDA error";
  return text;
}

}  // namespace rondo::cuda
