#include "architecture.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace rondo::doubles::hip {
namespace {

struct Processor {
  std::string_view name;
  bool has_sramecc, has_xnack;
};
// LLVM, "User Guide for AMDGPU Backend", table of processors.
constexpr Processor processors[] = {
    {"gfx900", false, true},   {"gfx906", true, true},    {"gfx908", true, true},
    {"gfx90a", true, true},    {"gfx942", true, true},    {"gfx1030", false, false},
    {"gfx1036", false, false}, {"gfx1100", false, false}, {"gfx1101", false, false},
    {"gfx1200", false, false}, {"gfx1201", false, false},
};

std::vector<std::string_view> parts_of(std::string_view architecture) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = architecture.find(':');
    parts.push_back(architecture.substr(0, end));
    if (end == std::string_view::npos) return parts;
    architecture.remove_prefix(end + 1);
  }
}

}  // namespace

std::string device_architecture() {
  const char* chosen = std::getenv("RONDO_DOUBLE_HIP_ARCHITECTURE");
  return chosen != nullptr ? chosen : "gfx90a:sramecc+:xnack-";
}

const std::vector<std::string>& known_processors() {
  static const auto& names = *[] {
    auto* made = new std::vector<std::string>;
    for (const Processor& processor : processors) made->emplace_back(processor.name);
    return made;
  }();
  return names;
}

bool is_known(std::string_view architecture) {
  const std::vector<std::string_view> parts = parts_of(architecture);
  const auto* processor = std::find_if(std::begin(processors), std::end(processors),
                                       [&](const Processor& known) { return known.name == parts[0]; });
  if (processor == std::end(processors)) return false;
  std::set<std::string_view> seen;
  return std::all_of(parts.begin() + 1, parts.end(), [&](std::string_view feature) {
    if (feature.empty() || (feature.back() != '+' && feature.back() != '-')) return false;
    const std::string_view name = feature.substr(0, feature.size() - 1);
    const bool has =
        (name == "sramecc" && processor->has_sramecc) || (name == "xnack" && processor->has_xnack);
    return has && seen.insert(name).second;
  });
}

bool fits(std::string_view code, std::string_view device) {
  const std::vector<std::string_view> asked = parts_of(code), given = parts_of(device);
  if (asked[0] != given[0]) return false;
  return std::all_of(asked.begin() + 1, asked.end(), [&](std::string_view feature) {
    return std::find(given.begin() + 1, given.end(), feature) != given.end();
  });
}

}  // namespace rondo::doubles::hip
