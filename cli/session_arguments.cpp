#include "session_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

namespace rondo::cli {

double milliseconds_since(std::chrono::steady_clock::time_point start) noexcept {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void add_schedule_argument(CLI::App& command, SessionArguments& arguments) {
  command.add_option("schedule", arguments.schedule, "The schedule, a JSON file")
      ->required()
      ->type_name("SCHEDULE");
}

void add_build_options(CLI::App& command, SessionArguments& arguments) {
  command
      .add_option("-d,--device", arguments.device, "auto (the best there is), cuda, cuda:1, hip, hip:1, host")
      ->type_name("DEVICE")
      ->capture_default_str();
  command
      .add_option("-w,--weights", arguments.weights,
                  "Weights: a .gguf, .safetensors or .npy file, a folder of a safetensors model or of .npy "
                  "files, or random:TYPE[:SEED]")
      ->type_name("FILE")
      ->check([](const std::string& path) { return std::string(path.empty() ? "the path is empty" : ""); });
  command
      .add_option("--const", arguments.constants,
                  "A constant's value in place of the schedule's; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  auto* cache =
      command
          .add_option("--cache", arguments.cache_directory, "Where compiled kernels are kept between runs")
          ->type_name("DIRECTORY");
  command.add_flag("--no-cache", arguments.no_cache, "Compile every kernel anew")->excludes(cache);
}

void add_mode_option(CLI::App& command, SessionArguments& arguments) {
  command
      .add_option("--mode", arguments.mode,
                  "graph: one graph, replayed and updated; eager: one plain launch an op")
      ->type_name("MODE")
      ->capture_default_str();
  command.add_flag("--separate-buffers", arguments.separate_buffers,
                   "An allocation of its own for every buffer, for memory checkers");
  command
      .add_option("--renew-after", arguments.updates_before_renewal,
                  "Replace the executable graph after so many node updates; 0: never (default: 16384 on hip, "
                  "never elsewhere)")
      ->type_name("N")
      ->check([](const std::string& text) { return std::string(text.empty() ? "the number is empty" : ""); });
}

void add_set_option(CLI::App& command, SessionArguments& arguments) {
  command.add_option("--set", arguments.settings, "A step param's value; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

Mode parse_mode(const std::string& text) {
  if (text == "graph") return Mode::graph;
  if (text == "eager") return Mode::eager;
  throw Error(ErrorCode::bad_argument, fmt::format("--mode expects graph or eager, but was given \"{}\".{}",
                                                   text, suggest(text, {"graph", "eager"})));
}

namespace {

std::size_t parse_renewal(const std::string& text) {
  std::size_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc() && rest == end) return value;
  throw Error(
      ErrorCode::bad_argument,
      fmt::format("--renew-after expects a number of updates, 0 or more, but was given \"{}\"", text));
}

}  // namespace

const char* name(Mode mode) noexcept { return mode == Mode::graph ? "graph" : "eager"; }

SweptParams::SweptParams(const Session& session, const std::vector<Sweep>& sweeps, std::uint64_t steps)
    : sweeps_(sweeps) {
  for (const Sweep& sweep : sweeps) params_.push_back(session.param(sweep.param));
  for (std::size_t i = 0; i < params_.size(); ++i) {
    // Values go one way, so that all are good where the first and the last are; of the bad ones the first is
    // told.
    if (!is_allowed(session, i, 0)) refuse(session, i, 0);
    if (is_allowed(session, i, steps - 1)) continue;
    std::uint64_t good = 0, bad = steps - 1;
    while (bad - good > 1) {
      const std::uint64_t middle = good + (bad - good) / 2;
      (is_allowed(session, i, middle) ? good : bad) = middle;
    }
    refuse(session, i, bad);
  }
}

bool SweptParams::is_allowed(const Session& session, std::size_t which, std::uint64_t step) const {
  const ParamInfo& param = session.params()[params_[which].index];
  const auto value = sweeps_[which].value(step);
  return value && param.is_step &&
         (info(param.type).is_float || (*value >= param.smallest && *value <= param.largest));
}

void SweptParams::set(Session& session, std::uint64_t step) const {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const auto value = sweeps_[i].value(step);
    if (!value || !session.set(params_[i], *value).ok()) refuse(session, i, step);
  }
}

void SweptParams::refuse(const Session& session, std::size_t which, std::uint64_t step) const {
  const Sweep& sweep = sweeps_[which];
  const ParamInfo& param = session.params()[params_[which].index];
  const auto value = sweep.value(step);
  const std::string given = value ? std::to_string(*value) : "a value beyond 64 bits";
  const std::string why = param.is_step ? fmt::format("its range is {} to {}", param.smallest, param.largest)
                                        : "it is a constant; see --const";
  throw Error(ErrorCode::bad_argument, fmt::format("--sweep {}=…: at step {} \"{}\" would be {}: {}",
                                                   sweep.param, step, sweep.param, given, why));
}

SessionBuilder::SessionBuilder(const SessionArguments& arguments, Console& console)
    : arguments_(arguments), console_(console) {
  options_.mode = parse_mode(arguments.mode);
  options_.constants = parse_assignments("--const", arguments.constants);
  options_.separate_buffers = arguments.separate_buffers;
  if (!arguments.updates_before_renewal.empty())
    options_.updates_before_renewal = parse_renewal(arguments.updates_before_renewal);
  if (!arguments.weights.empty()) {
    options_.random_weights = parse_random_weights(arguments.weights);
    if (!options_.random_weights) options_.weights = WeightFile::open(arguments.weights);
  }
  options_.use_cache = !arguments.no_cache;
  if (!arguments.cache_directory.empty()) options_.cache_directory = arguments.cache_directory;
  options_.progress = [&console](std::string_view what, std::size_t done, std::size_t total) {
    console.progress(what, done, total);
  };
  options_.notice = [&console](const std::string& line) { console.notice("note: " + line); };
}

Session SessionBuilder::build(std::shared_ptr<Device> device) {
  const auto settings = parse_assignments("--set", arguments_.settings);
  Session session = Session::load(arguments_.schedule, std::move(device), options_);
  console_.clear_progress();
  for (const auto& [name, value] : settings) session.set(name, value);
  return session;
}

}  // namespace rondo::cli
