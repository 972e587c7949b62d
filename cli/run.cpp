// rondo run: any schedule, N launches, what they cost and what came out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "arguments.h"
#include "buffers.h"
#include "commands.h"
#include "interrupt.h"
#include "report.h"

namespace rondo::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct RunArguments {
  SessionArguments session;
  std::optional<std::uint64_t> steps;
  std::vector<std::string> sweeps, inputs, outputs;
  bool json = false;
};

struct Timing {
  std::uint64_t steps = 0;     // that were launched
  double first_launch_ms = 0;  // from the start of the process until the first launch was queued
  double first_step_us = 0;    // host time of the first step's set and launch
  double later_step_us = 0;    // mean of the others
  double total_ms = 0;         // from before the first launch until the device was done
  bool interrupted = false;
};

constexpr std::uint64_t most_queued = 256;

Timing run_steps(Session& session, std::uint64_t steps, const std::vector<Sweep>& sweeps,
                 Clock::time_point start) {
  const SweptParams swept(session, sweeps, steps);
  Timing timing;
  const InterruptGuard interrupt;
  const auto begin = Clock::now();
  Clock::time_point first_done = begin, done = begin;
  double waited_us = 0;
  for (std::uint64_t step = 0; step < steps && !interrupt.requested(); ++step) {
    // However fast launches are queued, Ctrl-C finds only so many of them still to be waited for, and memory
    // stays bounded. Before a launch, so that the wait lies within the time that it is taken off below.
    if (step > 0 && step % most_queued == 0) {
      const auto waiting = Clock::now();
      require(session, session.synchronize());
      waited_us += std::chrono::duration<double, std::micro>(Clock::now() - waiting).count();
    }
    swept.set(session, step);
    require(session, session.launch());
    done = Clock::now();
    if (step == 0) {
      first_done = done;
      timing.first_launch_ms = std::chrono::duration<double, std::milli>(done - start).count();
    }
    ++timing.steps;
  }
  require(session, session.synchronize());
  timing.total_ms = milliseconds_since(begin);
  timing.first_step_us = std::chrono::duration<double, std::micro>(first_done - begin).count();
  if (timing.steps > 1) {
    timing.later_step_us =
        (std::chrono::duration<double, std::micro>(done - first_done).count() - waited_us) /
        static_cast<double>(timing.steps - 1);
  }
  timing.interrupted = interrupt.requested();
  return timing;
}

// The buffers that a user wants to see: what the schedule calls outputs, then state.
std::vector<BufferHandle> result_buffers(const Session& session) {
  std::vector<BufferHandle> results;
  for (const Role role : {Role::output, Role::state}) {
    for (std::uint32_t i = 0; i < session.buffers().size(); ++i) {
      const BufferInfo& buffer = session.buffers()[i];
      if (buffer.role == role && buffer.readable && is_plain(buffer.type)) results.push_back({i});
    }
  }
  return results;
}

Json to_json(const BufferInfo& buffer, const Digest& digest) {
  return {{"name", buffer.name},   {"role", name(buffer.role)}, {"type", name(buffer.type)},
          {"shape", buffer.shape}, {"min", digest.smallest},    {"max", digest.largest},
          {"mean", digest.mean},   {"norm", digest.norm},       {"nans", digest.nans},
          {"first", digest.first}};
}

Json json_report(Session& session, const DeviceProperties& device, double build_ms, const Timing& timing) {
  Json json = {
      {"schedule", session.name()}, {"device", cli::to_json(device)}, {"mode", name(session.mode())}};
  json["build"] = cli::to_json(session.summary());
  json["build"]["milliseconds"] = build_ms;
  json["steps"] = timing.steps;
  json["interrupted"] = timing.interrupted;
  json["first_launch_ms"] = timing.first_launch_ms;
  json["first_step_us"] = timing.first_step_us;
  json["later_step_us"] = timing.steps > 1 ? Json(timing.later_step_us) : Json();
  json["total_ms"] = timing.total_ms;
  json["counters"] = cli::to_json(session.counters());
  json["buffers"] = Json::array();
  for (const BufferHandle handle : result_buffers(session)) {
    const BufferInfo& buffer = session.buffers()[handle.index];
    json["buffers"].push_back(to_json(buffer, digest(buffer, read_bytes(session, handle))));
  }
  return json;
}

std::string text_buffers(Session& session) {
  constexpr std::size_t shown = 8;
  const std::vector<BufferHandle> results = result_buffers(session);
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, results.size()); ++i) {
    const BufferInfo& buffer = session.buffers()[results[i].index];
    const Digest values = digest(buffer, read_bytes(session, results[i]));
    text += fmt::format("  {} {} {}: min {:.6g}, max {:.6g}, mean {:.6g}, norm {:.6g}{}; first {:.6g}{}\n",
                        name(buffer.role), buffer.name, describe(buffer.type, buffer.shape), values.smallest,
                        values.largest, values.mean, values.norm,
                        values.nans > 0 ? fmt::format(", {} NaN", values.nans) : "",
                        fmt::join(values.first, " "), values.elements > values.first.size() ? " …" : "");
  }
  if (results.size() > shown)
    text += fmt::format("  and {} more (--json lists all)\n", results.size() - shown);
  return text;
}

std::string text_report(Session& session, const DeviceProperties& device, double build_ms,
                        const Timing& timing) {
  const BuildSummary& summary = session.summary();
  const Counters& counters = session.counters();
  std::string text =
      fmt::format("{} on {}, {} mode\n", session.name(), cli::describe(device), name(session.mode()));
  text += fmt::format(
      "  {} nodes, {} edges, {} kernels ({} sources compiled, {} from the cache); buffers {}, temporaries "
      "{}\n",
      summary.nodes, summary.edges, summary.kernels, summary.compiled, summary.from_cache,
      describe_bytes(summary.buffer_bytes), describe_bytes(summary.arena_bytes));
  text += fmt::format(
      "  built in {:.1f} ms (plan {:.1f}, compile {:.1f}, load {:.1f}); first launch queued {:.1f} ms after "
      "the start\n",
      build_ms, summary.plan_ms, summary.compile_ms, summary.load_ms, timing.first_launch_ms);
  text += fmt::format("  {} steps in {:.3f} ms; host time a launch: first {:.1f} µs{}\n", timing.steps,
                      timing.total_ms, timing.first_step_us,
                      timing.steps > 1 ? fmt::format(", then {:.2f} µs", timing.later_step_us) : "");
  text += fmt::format(
      "  graph launches {}, kernel launches {}, node updates {}, node toggles {}, instantiations {}\n",
      counters.graph_launches, counters.kernel_launches, counters.node_updates, counters.node_toggles,
      counters.instantiations);
  return text + text_buffers(session);
}

int run(const RunArguments& arguments, Environment& environment) {
  std::vector<Sweep> sweeps;
  for (const std::string& text : arguments.sweeps) sweeps.push_back(parse_sweep(text));
  const std::uint64_t steps = step_count(arguments.steps, sweeps);
  const auto inputs = parse_assignments("--input", arguments.inputs, "FILE.npy");
  const auto outputs = parse_assignments("--output", arguments.outputs, "FILE.npy");

  SessionBuilder builder(arguments.session, environment.console);
  const auto device = open_device(arguments.session.device);
  const auto begin = Clock::now();
  Session session = builder.build(device);
  const double build_ms = milliseconds_since(begin);
  for (const auto& output : outputs)
    (void)session.buffer(output.first);  // a wrong name is worth knowing before the steps
  for (const auto& [buffer, file] : inputs) write_from_npy(session, buffer, file);

  const Timing timing = run_steps(session, steps, sweeps, environment.start);
  for (const auto& [buffer, file] : outputs) read_to_npy(session, buffer, file);
  if (arguments.json) {
    environment.console.print(to_text(json_report(session, device->properties(), build_ms, timing)));
  } else {
    environment.console.print(text_report(session, device->properties(), build_ms, timing));
  }
  return timing.interrupted ? interrupted_exit_code : 0;
}

}  // namespace

void add_run(CLI::App& program, Action& action) {
  CLI::App& command = *program.add_subcommand("run", "Run a schedule: each step is one launch");
  const auto arguments = std::make_shared<RunArguments>();
  add_schedule_argument(command, arguments->session);
  add_build_options(command, arguments->session);
  add_mode_option(command, arguments->session);
  add_set_option(command, arguments->session);
  command
      .add_option("-n,--steps", arguments->steps, "How many launches (1, or as many as --sweep has values)")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62));
  command
      .add_option("--sweep", arguments->sweeps,
                  "A step param that takes one value after another, LAST included: pos=0..127, pos=0.., "
                  "pos=0..100:10")
      ->type_name("PARAM=FIRST..[LAST][:STEP]")
      ->allow_extra_args(false);
  command
      .add_option("-i,--input", arguments->inputs,
                  "A buffer's values, before the first step; may be repeated")
      ->type_name("BUFFER=FILE.npy")
      ->allow_extra_args(false);
  command
      .add_option("-o,--output", arguments->outputs,
                  "Where a buffer goes after the last step; may be repeated")
      ->type_name("BUFFER=FILE.npy")
      ->allow_extra_args(false);
  command.add_flag("--json", arguments->json, "Report as one JSON object");
  command.callback([&action, arguments] {
    action = [arguments](Environment& environment) { return run(*arguments, environment); };
  });
}

}  // namespace rondo::cli
