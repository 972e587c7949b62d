// rondo check: every complaint about a schedule, with its place.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "report.h"

namespace rondo::cli {
namespace {

struct CheckArguments {
  SessionArguments session;
  bool parse_only = false;
  bool json = false;
};

int check_file(const CheckArguments& arguments, Environment& environment) {
  SessionBuilder builder(arguments.session, environment.console);
  std::shared_ptr<Device> device;
  if (!arguments.parse_only) device = open_device(arguments.session.device);
  const std::vector<Diagnostic> diagnostics =
      check_schedule(arguments.session.schedule, device.get(), builder.options());
  environment.console.clear_progress();
  if (arguments.json) {
    Json json = {
        {"file", arguments.session.schedule}, {"good", diagnostics.empty()}, {"diagnostics", Json::array()}};
    for (const Diagnostic& diagnostic : diagnostics) json["diagnostics"].push_back(to_json(diagnostic));
    environment.console.print(to_text(json));
  } else if (diagnostics.empty()) {
    environment.console.print(
        fmt::format("{}: good{}\n", arguments.session.schedule,
                    device ? " on " + describe(device->properties()) : ", as far as parsing can tell"));
  } else {
    std::string text;
    for (const Diagnostic& diagnostic : diagnostics) text += diagnostic.to_string() + "\n";
    environment.console.print(text);
    environment.console.notice(fmt::format("{} error{} in {}", diagnostics.size(),
                                           diagnostics.size() == 1 ? "" : "s", arguments.session.schedule));
  }
  return diagnostics.empty() ? 0 : exit_code(ErrorCode::bad_schedule);
}

}  // namespace

void add_check(CLI::App& program, Action& action) {
  CLI::App& command = *program.add_subcommand("check", "List every error of a schedule");
  const auto arguments = std::make_shared<CheckArguments>();
  add_schedule_argument(command, arguments->session);
  add_build_options(command, arguments->session);
  command.add_flag("--parse-only", arguments->parse_only,
                   "Neither plan it for a device nor compile its kernels");
  command.add_flag("--json", arguments->json, "Report as one JSON object");
  command.callback([&action, arguments] {
    action = [arguments](Environment& environment) { return check_file(*arguments, environment); };
  });
}

}  // namespace rondo::cli
