#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include "driver.h"
#include "kernel_work.h"
#include "rondo/error.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rondo::host {
namespace {

unsigned thread_count() {
  if (const char* text = std::getenv("RONDO_HOST_THREADS"); text != nullptr && *text != '\0') {
    unsigned value = 0;
    const std::string_view given(text);
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
    if (error != std::errc{} || end != given.data() + given.size() || value < 1 || value > 1024) {
      throw Error(ErrorCode::bad_argument,
                  fmt::format("RONDO_HOST_THREADS is \"{}\"; expected a number from 1 to 1024", given));
    }
    return value;
  }
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    return static_cast<unsigned>(std::max(1, CPU_COUNT(&allowed)));
  return std::max(1U, std::thread::hardware_concurrency());
}

struct Processor {
  std::string name = "unknown processor";
  std::string features;  // all that decides what machine code it runs
};

// The first processor's lines of /proc/cpuinfo: x86 has "model name" and "flags", Arm "CPU part" and
// "Features".
Processor read_processor() {
  Processor processor;
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && !(line.empty() && !processor.features.empty())) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
    if (key == "model name") processor.name = value;
    if (key == "model name" || key == "flags" || key == "Features" || key == "CPU implementer" ||
        key == "CPU part") {
      processor.features += line + '\n';
    }
  }
  if (processor.features.empty()) processor.features = processor.name;
  return processor;
}

}  // namespace

DeviceProperties properties() {
  const Processor processor = read_processor();
  DeviceProperties properties;
  properties.backend = "host";
  properties.name = processor.name;
  properties.architecture =
      fmt::format("host-{:016x}", XXH3_64bits(processor.features.data(), processor.features.size()));
  properties.processors = static_cast<int>(thread_count());
  properties.driver =
      fmt::format("host, {} thread{}", properties.processors, properties.processors == 1 ? "" : "s");
  properties.warp_size = 1;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0)
    properties.memory_bytes = static_cast<std::size_t>(pages) * static_cast<std::size_t>(page);
  properties.max_threads_per_block = max_threads_per_block;
  properties.max_block = {1024, 1024, 64};
  properties.max_grid = {std::numeric_limits<std::int32_t>::max(), 65535, 65535};
  properties.max_shared_bytes = max_shared_bytes;
  properties.max_argument_bytes = 4096;
  return properties;
}

}  // namespace rondo::host
