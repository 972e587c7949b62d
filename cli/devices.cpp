// rondo devices: what there is, and what is missing and why.
#include "rondo/device.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>

#include "buffers.h"
#include "commands.h"
#include "report.h"

namespace rondo::cli {
namespace {

Json to_json(const DeviceReport& report) {
  Json json = {{"spec", report.spec}, {"available", report.available}};
  json["properties"] = cli::to_json(report.properties);
  json["compiler"] = report.compiler;
  json["problem"] = report.problem;
  json["graphs"] = {{"usable", report.available && report.graph_problem.empty()},
                    {"problem", report.graph_problem}};
  return json;
}

std::string describe_properties(const DeviceProperties& device) {
  std::string text = fmt::format("{} {}, warp size {}", device.processors,
                                 device.backend == "host" ? "threads" : "multiprocessors", device.warp_size);
  if (device.memory_bytes > 0) text += ", " + describe_bytes(device.memory_bytes);
  return text;
}

std::string to_text(const std::vector<DeviceReport>& reports) {
  std::size_t width = 0;
  for (const DeviceReport& report : reports) width = std::max(width, report.spec.size());
  std::string text;
  const auto line = [&](const std::string& head, const std::string& tail) {
    text += fmt::format("{:<{}}  {}\n", head, width, tail);
  };
  for (const DeviceReport& report : reports) {
    const DeviceProperties& device = report.properties;
    line(report.spec, fmt::format("{}{}{}", report.available ? "" : "not available",
                                  device.name.empty() || report.available ? "" : ": ", device.name));
    if (!device.name.empty()) line("", describe_properties(device));
    if (!device.driver.empty()) line("", device.driver);
    if (!report.compiler.empty()) line("", "compiler: " + report.compiler);
    if (!report.graph_problem.empty())
      line("", "graphs: off, every step is launched op by op: " + report.graph_problem);
    std::istringstream problem(report.problem);
    for (std::string part; std::getline(problem, part);) line("", part);
  }
  return text;
}

int devices(bool as_json, Environment& environment) {
  const std::vector<DeviceReport> reports = list_devices();
  if (as_json) {
    Json json = {{"devices", Json::array()}};
    for (const DeviceReport& report : reports) json["devices"].push_back(to_json(report));
    environment.console.print(cli::to_text(json));
  } else {
    environment.console.print(to_text(reports));
  }
  return 0;
}

}  // namespace

void add_devices(CLI::App& program, Action& action) {
  CLI::App& command = *program.add_subcommand("devices", "List the devices, and for what is missing, why");
  const auto as_json = std::make_shared<bool>(false);
  command.add_flag("--json", *as_json, "Report as one JSON object");
  command.callback([&action, as_json] {
    action = [as_json](Environment& environment) { return devices(*as_json, environment); };
  });
}

}  // namespace rondo::cli
