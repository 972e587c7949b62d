// rondo verify: one schedule run two ways on the same inputs, every buffer compared after every step.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <random>

#include "arguments.h"
#include "buffers.h"
#include "commands.h"
#include "compare.h"
#include "interrupt.h"
#include "report.h"

namespace rondo::cli {
namespace {

struct VerifyArguments {
  SessionArguments session;
  std::string against;
  std::optional<std::uint64_t> steps;
  std::vector<std::string> sweeps;
  std::uint64_t seed = 1;
  double tolerance = 1e-3;
  bool json = false;
};

struct Side {
  std::string label;
  std::shared_ptr<Device> device;
  Session session;
};

// What was seen of one buffer, over all steps.
struct BufferVerdict {
  double worst_error = 0;
  std::size_t poisoned = 0;  // floats of an output that no kernel wrote, at the step that had most of them
};

struct Failure {
  std::uint64_t step;
  std::string buffer;
  Comparison comparison;
};

struct Outcome {
  std::uint64_t steps = 0;  // that were compared
  std::vector<BufferVerdict> buffers;
  std::vector<Failure> failures;  // of the first step that had any
  bool interrupted = false;
};

bool same_device(const DeviceProperties& a, const DeviceProperties& b) {
  return a.backend == b.backend && a.ordinal == b.ordinal;
}

// The device to compare with; for "eager" the same one.
std::shared_ptr<Device> open_reference(const VerifyArguments& arguments,
                                       const std::shared_ptr<Device>& device) {
  if (arguments.against == "eager") return device;
  auto reference = open_device(arguments.against);
  if (same_device(device->properties(), reference->properties())) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("--against {} is the device that is tested, {}: there is nothing to compare",
                            arguments.against, describe(device->properties())),
                "use --against eager, or another --device");
  }
  return reference;
}

Side build_side(SessionBuilder& builder, std::shared_ptr<Device> device, Mode mode) {
  builder.options().mode = mode;
  Session session = builder.build(device);
  std::string label = fmt::format("{}, {}", describe(device->properties()), name(session.mode()));
  return {std::move(label), std::move(device), std::move(session)};
}

// Fresh random inputs, the same on both sides; 0xFF (NaN in every float type) in all that a launch has to
// write.
void prepare_buffers(Side& ours, Side& theirs, std::mt19937_64& generator) {
  for (std::uint32_t i = 0; i < ours.session.buffers().size(); ++i) {
    const BufferInfo& buffer = ours.session.buffers()[i];
    const BufferHandle handle{i};
    if (buffer.role == Role::input) {
      const std::vector<std::byte> values = random_elements(buffer, generator);
      for (Side* side : {&ours, &theirs}) {
        require(side->session, side->session.write(handle, values));
        require(side->session, side->session.synchronize());
      }
    } else if (buffer.role == Role::output || buffer.role == Role::temporary) {
      for (Side* side : {&ours, &theirs}) require(side->session, side->session.fill_bytes(handle, 0xff));
    }
  }
}

std::size_t count_poisoned(const BufferInfo& buffer, const std::vector<std::byte>& bytes) {
  const DataTypeInfo& type = info(buffer.type);
  if (buffer.role != Role::output || !type.is_float) return 0;
  std::size_t count = 0;
  for (std::size_t at = 0; at + type.block_bytes <= bytes.size(); at += type.block_bytes) {
    const auto* begin = bytes.data() + at;
    if (std::all_of(begin, begin + type.block_bytes, [](std::byte byte) { return byte == std::byte{0xff}; }))
      ++count;
  }
  return count;
}

// Weights are compared after the last step alone: nothing writes them unless a kernel runs wild, and they are
// large.
void compare_step(Side& ours, Side& theirs, const VerifyArguments& arguments, std::uint64_t step, bool last,
                  Outcome& outcome) {
  const bool exactly = arguments.against == "eager";
  for (std::uint32_t i = 0; i < ours.session.buffers().size(); ++i) {
    const BufferInfo& buffer = ours.session.buffers()[i];
    if (buffer.role == Role::weight && !last) continue;
    const std::vector<std::byte> a = read_bytes(ours.session, {i}), b = read_bytes(theirs.session, {i});
    Comparison comparison = exactly ? compare_exactly(buffer.type, a, b)
                                    : compare_closely(buffer.type, a, b, arguments.tolerance);
    BufferVerdict& verdict = outcome.buffers[i];
    verdict.worst_error = std::max(verdict.worst_error, comparison.relative_error);
    verdict.poisoned = std::max(verdict.poisoned, count_poisoned(buffer, a));
    if (comparison.index) outcome.failures.push_back({step, buffer.name, std::move(comparison)});
  }
}

Outcome compare_sides(Side& ours, Side& theirs, const VerifyArguments& arguments,
                      const std::vector<Sweep>& sweeps, std::uint64_t steps, Console& console) {
  std::mt19937_64 generator(arguments.seed);
  Outcome outcome;
  outcome.buffers.resize(ours.session.buffers().size());
  const SweptParams swept(ours.session, sweeps,
                          steps);  // the same handles on both sides: one schedule, one order
  const InterruptGuard interrupt;
  for (std::uint64_t step = 0; step < steps && outcome.failures.empty() && !interrupt.requested(); ++step) {
    console.progress("comparing step", step + 1, steps);
    prepare_buffers(ours, theirs, generator);
    for (Side* side : {&ours, &theirs}) {
      swept.set(side->session, step);
      require(side->session, side->session.launch());
    }
    for (Side* side : {&ours, &theirs}) require(side->session, side->session.synchronize());
    compare_step(ours, theirs, arguments, step, step + 1 == steps, outcome);
    ++outcome.steps;
  }
  console.clear_progress();
  outcome.interrupted = interrupt.requested();
  return outcome;
}

Json json_report(const Side& ours, const Side& theirs, const VerifyArguments& arguments,
                 const Outcome& outcome) {
  Json json = {{"schedule", ours.session.name()},
               {"ours", ours.label},
               {"theirs", theirs.label},
               {"equal", outcome.failures.empty()},
               {"exactly", arguments.against == "eager"},
               {"steps", outcome.steps},
               {"interrupted", outcome.interrupted},
               {"seed", arguments.seed}};
  json["differences"] = Json::array();
  for (const Failure& failure : outcome.failures) {
    const Comparison& comparison = failure.comparison;
    json["differences"].push_back({{"step", failure.step},
                                   {"buffer", failure.buffer},
                                   {"index", *comparison.index},
                                   {"ours", comparison.ours},
                                   {"theirs", comparison.theirs},
                                   {"why", comparison.why}});
  }
  json["buffers"] = Json::array();
  for (std::size_t i = 0; i < outcome.buffers.size(); ++i) {
    const BufferInfo& buffer = ours.session.buffers()[i];
    json["buffers"].push_back({{"name", buffer.name},
                               {"role", name(buffer.role)},
                               {"worst_relative_error", outcome.buffers[i].worst_error},
                               {"never_written", outcome.buffers[i].poisoned}});
  }
  return json;
}

std::string text_report(const Side& ours, const Side& theirs, const VerifyArguments& arguments,
                        const Outcome& outcome) {
  std::string text;
  double worst = 0;
  std::size_t worst_buffer = 0;
  for (std::size_t i = 0; i < outcome.buffers.size(); ++i) {
    const BufferVerdict& verdict = outcome.buffers[i];
    if (verdict.worst_error > worst) {
      worst = verdict.worst_error;
      worst_buffer = i;
    }
    if (verdict.poisoned > 0) {
      text += fmt::format("note: {} elements of the output \"{}\" were written by no kernel\n",
                          verdict.poisoned, ours.session.buffers()[i].name);
    }
  }
  for (const Failure& failure : outcome.failures) {
    const Comparison& comparison = failure.comparison;
    text += fmt::format("step {}: {}[{}]: {} on {}, {} on {} ({})\n", failure.step, failure.buffer,
                        *comparison.index, comparison.ours, ours.label, comparison.theirs, theirs.label,
                        comparison.why);
  }
  const char* verdict = !outcome.failures.empty() ? "DIFFERENT"
                        : outcome.steps == 0      ? "NOTHING COMPARED"
                                                  : "equal";
  text += fmt::format("{}: {}: {} against {}, {} steps, {} buffers, {}\n", verdict, ours.session.name(),
                      ours.label, theirs.label, outcome.steps, outcome.buffers.size(),
                      arguments.against == "eager" ? "bit by bit"
                      : worst == 0                 ? "no difference at all"
                                                   : fmt::format("worst relative error {:.3g} ({})", worst,
                                                                 ours.session.buffers()[worst_buffer].name));
  return text;
}

int verify(const VerifyArguments& arguments, Environment& environment) {
  std::vector<Sweep> sweeps;
  for (const std::string& text : arguments.sweeps) sweeps.push_back(parse_sweep(text));
  const std::uint64_t steps = step_count(arguments.steps, sweeps);
  SessionBuilder builder(arguments.session, environment.console);
  builder.options().separate_buffers = true;
  const auto device = open_device(arguments.session.device);
  const auto reference = open_reference(arguments, device);
  Side ours = build_side(builder, device, Mode::graph);
  if (arguments.against == "eager" && ours.session.mode() == Mode::eager) {
    throw Error(
        ErrorCode::missing_backend,
        fmt::format("graphs are off on {}: there is no graph to compare with plain launches", device->spec()),
        "use --against host, or another --device");
  }
  Side theirs = build_side(builder, reference, arguments.against == "eager" ? Mode::eager : Mode::graph);
  const Outcome outcome = compare_sides(ours, theirs, arguments, sweeps, steps, environment.console);
  environment.console.print(arguments.json ? to_text(json_report(ours, theirs, arguments, outcome))
                                           : text_report(ours, theirs, arguments, outcome));
  if (!outcome.failures.empty()) return exit_code(ErrorCode::run_time);
  return outcome.interrupted ? interrupted_exit_code : 0;
}

}  // namespace

void add_verify(CLI::App& program, Action& action) {
  CLI::App& command = *program.add_subcommand("verify", "Run a schedule two ways and compare every buffer");
  const auto arguments = std::make_shared<VerifyArguments>();
  add_schedule_argument(command, arguments->session);
  command
      .add_option(
          "--against", arguments->against,
          "eager: plain launches on the same device, equal bit by bit; host, cuda, cuda:1: another device")
      ->required()
      ->type_name("eager|DEVICE");
  add_build_options(command, arguments->session);
  add_set_option(command, arguments->session);
  command.add_option("-n,--steps", arguments->steps, "How many launches")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62));
  command
      .add_option("--sweep", arguments->sweeps,
                  "A step param that takes one value after another, as in rondo run")
      ->type_name("PARAM=FIRST..[LAST][:STEP]")
      ->allow_extra_args(false);
  command.add_option("--seed", arguments->seed, "Of the random inputs")
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--tolerance", arguments->tolerance,
                  "Between devices: the relative error that each float buffer may have")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_flag("--json", arguments->json, "Report as one JSON object");
  command.callback([&action, arguments] {
    action = [arguments](Environment& environment) { return verify(*arguments, environment); };
  });
}

}  // namespace rondo::cli
