// The options that every command which builds a session shares, and how they become one.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.h"
#include "console.h"
#include "rondo/device.h"
#include "rondo/session.h"

namespace CLI {
class App;
}

namespace rondo::cli {

// What a command gets from main.
struct Environment {
  Console& console;
  std::chrono::steady_clock::time_point start;  // of the process, as near as main() can tell
};

double milliseconds_since(std::chrono::steady_clock::time_point start) noexcept;

struct SessionArguments {
  std::string schedule;
  std::string device = "auto";
  std::string mode = "graph";
  std::string weights;
  std::vector<std::string> constants;
  std::vector<std::string> settings;
  std::string cache_directory;
  bool no_cache = false;
  bool separate_buffers = false;
  std::string updates_before_renewal;  // as given; empty: the device's own
};

// The schedule as a positional argument, and each option by itself: commands differ in what they take.
void add_schedule_argument(CLI::App& command, SessionArguments& arguments);
void add_build_options(CLI::App& command,
                       SessionArguments& arguments);  // --device --weights --const --cache …
void add_mode_option(CLI::App& command, SessionArguments& arguments);
void add_set_option(CLI::App& command, SessionArguments& arguments);

// The params that --sweep gives a new value before each step.
class SweptParams {
 public:
  // Throws Error(bad_argument) for a name that is no param, and for a value within `steps` (at least 1) that
  // the param cannot have: nothing has run then. `sweeps` must outlive this object.
  SweptParams(const Session& session, const std::vector<Sweep>& sweeps, std::uint64_t steps);
  // Throws Error(bad_argument) for a value that the param cannot have.
  void set(Session& session, std::uint64_t step) const;

 private:
  bool is_allowed(const Session& session, std::size_t which, std::uint64_t step) const;
  [[noreturn]] void refuse(const Session& session, std::size_t which, std::uint64_t step) const;

  const std::vector<Sweep>& sweeps_;
  std::vector<ParamHandle> params_;
};

Mode parse_mode(const std::string& text);
const char* name(Mode mode) noexcept;

// SessionOptions out of the arguments.
class SessionBuilder {
 public:
  SessionBuilder(const SessionArguments& arguments, Console& console);

  SessionOptions& options() noexcept { return options_; }

  // The session with --set applied.
  Session build(std::shared_ptr<Device> device);

 private:
  const SessionArguments& arguments_;
  Console& console_;
  SessionOptions options_;
};

}  // namespace rondo::cli
