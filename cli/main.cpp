// The program: finds the subcommand, runs it, and turns what it throws into one message and an exit code.
#include <fcntl.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>

#include "commands.h"
#include "crash.h"
#include "rondo/error.h"

namespace {

using rondo::cli::Action;
using rondo::cli::Environment;

constexpr int wrong_arguments = rondo::exit_code(rondo::ErrorCode::bad_argument);

// The names of all options and subcommands that could have been meant where `command` was chosen.
std::vector<std::string> known_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* subcommand : command.get_subcommands({})) names.push_back(subcommand->get_name());
  return names;
}

// CLI11 has parsed as far as it could: the subcommand is known even where its options are wrong.
int refuse_arguments(const CLI::App& program, const CLI::ParseError& error, rondo::cli::Console& console) {
  const auto chosen = program.get_subcommands();
  const CLI::App& command = chosen.empty() ? program : *chosen.front();
  std::string message = error.what();
  while (!message.empty() && (message.back() == '\n' || message.back() == '.')) message.pop_back();
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::string near;
  for (const std::string& given : program.remaining(true)) {
    if (near.empty()) near = rondo::suggest(given.substr(0, given.find('=')), known_names(command));
  }
  console.notice(fmt::format("error: {}.{}\n  see rondo {}{}--help", message, near,
                             chosen.empty() ? "" : command.get_name(), chosen.empty() ? "" : " "));
  return wrong_arguments;
}

int run_action(const Action& action, Environment& environment) {
  rondo::cli::Console& console = environment.console;
  try {
    return action(environment);
  } catch (const rondo::Error& error) {
    for (const rondo::Diagnostic& diagnostic : error.diagnostics())
      console.notice("error: " + diagnostic.to_string());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    console.notice("error: out of memory");
  } catch (const std::exception& error) {
    console.notice(fmt::format("error: {}", error.what()));
  }
  return rondo::exit_code(rondo::ErrorCode::run_time);
}

// A standard stream that was closed is opened on something harmless, before a file of ours gets its number:
// what is written to it still fails.
void open_closed_streams() {
  for (const int descriptor : {0, 1, 2}) {
    if (fcntl(descriptor, F_GETFD) != -1) continue;
    if (open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) != descriptor) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto start = std::chrono::steady_clock::now();
  open_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is seen by the write itself, see Console::print
  std::signal(SIGXFSZ,
              SIG_IGN);  // likewise a limit on file sizes: the cache does without, an output is an error
  rondo::cli::report_crashes();
  rondo::cli::Console console;
  Environment environment{console, start};
  Action action;

  CLI::App program("Runs GPU kernels that a JSON file describes, as one graph, again and again.", "rondo");
  program.set_version_flag("--version", "rondo " RONDO_VERSION);
  program.require_subcommand(0, 1);
  program.footer(
      "Exit codes: 0 done; 1 failed while running, or verify found a difference; 2 the schedule or an "
      "argument is\n"
      "wrong; 3 a backend, compiler or device is missing; 130 interrupted.");
  rondo::cli::add_run(program, action);
  rondo::cli::add_verify(program, action);
  rondo::cli::add_check(program, action);
  rondo::cli::add_explain(program, action);
  rondo::cli::add_devices(program, action);
  rondo::cli::add_generate(program, action);
  rondo::cli::add_captured(program, action);
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    action = [text = std::string(version.what()) + "\n"](Environment& e) { return e.console.print(text), 0; };
  } catch (const CLI::CallForHelp&) {
    const auto chosen = program.get_subcommands();
    action = [text = (chosen.empty() ? program : *chosen.front()).help()](Environment& e) {
      return e.console.print(text), 0;
    };
  } catch (const CLI::ParseError& error) {
    return refuse_arguments(program, error, console);
  }
  if (!action) action = [&program](Environment& e) { return e.console.print(program.help()), 0; };
  return run_action(action, environment);
}
