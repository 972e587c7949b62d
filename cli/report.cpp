#include "report.h"

#include <fmt/format.h>

namespace rondo::cli {

std::string to_text(const Json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Json to_json(const DeviceProperties& properties) {
  return {{"backend", properties.backend},
          {"ordinal", properties.ordinal},
          {"name", properties.name},
          {"architecture", properties.architecture},
          {"driver", properties.driver},
          {"warp_size", properties.warp_size},
          {"processors", properties.processors},
          {"memory_bytes", properties.memory_bytes},
          {"max_threads_per_block", properties.max_threads_per_block},
          {"max_shared_bytes", properties.max_shared_bytes}};
}

Json to_json(const Counters& counters) {
  return {{"launches", counters.launches},
          {"graph_launches", counters.graph_launches},
          {"kernel_launches", counters.kernel_launches},
          {"node_updates", counters.node_updates},
          {"node_toggles", counters.node_toggles},
          {"instantiations", counters.instantiations},
          {"captures", counters.captures},
          {"renewals", counters.renewals},
          {"failed_renewals", counters.failed_renewals}};
}

Json to_json(const BuildSummary& summary) {
  return {{"nodes", summary.nodes},
          {"edges", summary.edges},
          {"kernels", summary.kernels},
          {"compiled", summary.compiled},
          {"from_cache", summary.from_cache},
          {"arena_bytes", summary.arena_bytes},
          {"buffer_bytes", summary.buffer_bytes},
          {"plan_ms", summary.plan_ms},
          {"compile_ms", summary.compile_ms},
          {"load_ms", summary.load_ms}};
}

Json to_json(const Diagnostic& diagnostic) {
  const Place& place = diagnostic.place;
  Json json = {{"file", place.file},       {"line", place.line}, {"column", place.column},
               {"pointer", place.pointer}, {"op", place.op},     {"kernel", place.kernel}};
  json["argument"] = place.argument ? Json(*place.argument) : Json();
  json["message"] = diagnostic.message;
  json["hint"] = diagnostic.hint;
  return json;
}

std::string describe(const DeviceProperties& properties) {
  if (properties.backend == "host") return fmt::format("host ({})", properties.name);
  return fmt::format("{}:{} ({})", properties.backend, properties.ordinal, properties.name);
}

}  // namespace rondo::cli
