// From a schedule to a session: plan, compile, check, allocate, upload, instantiate. Nothing is launched.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>

#include "builtin.h"
#include "cache.h"
#include "graph_shape.h"
#include "match_signatures.h"
#include "random_weights.h"
#include "scope.h"
#include "session_state.h"
#include "slots.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Some of the plan's units.
std::vector<rtc::Binary> compile(const Plan& plan, std::span<const rtc::CompileRequest> units,
                                 const Schedule& schedule, Device& device, const SessionOptions& options) {
  std::optional<rtc::BinaryCache> cache;
  if (options.use_cache) cache.emplace(options.cache_directory);
  const unsigned threads = options.compile_threads != 0 ? options.compile_threads
                                                        : std::max(1u, std::thread::hardware_concurrency());
  const auto progress = [&](std::size_t done, std::size_t total) {
    if (options.progress) options.progress("compiling kernels", done, total);
  };
  try {
    auto binaries = rtc::compile_all(device.compiler(), cache ? &*cache : nullptr, units, threads, progress);
    if (const std::string problem = cache ? cache->problem() : ""; !problem.empty() && options.notice)
      options.notice(problem);
    return binaries;
  } catch (const Error& error) {
    // The compiler names the source; the schedule names the kernels that are made of it.
    std::vector<Diagnostic> diagnostics = error.diagnostics();
    for (Diagnostic& diagnostic : diagnostics) {
      for (const PlanKernel& kernel : plan.kernels) {
        const bool same = plan.units[kernel.unit].file == diagnostic.place.file && !kernel.pointer.empty();
        if (!same || !diagnostic.hint.empty()) continue;
        const Place place = schedule.place(kernel.pointer);
        diagnostic.hint = fmt::format("It is the source of the kernel \"{}\": {}:{}:{} [{}]", kernel.name,
                                      place.file, place.line, place.column, place.pointer);
      }
    }
    throw Error(error.code(), std::move(diagnostics));
  }
}

// Graphs are replaced by plain launches where the device's do not do what they should.
Mode usable_mode(Device& device, const SessionOptions& options) {
  if (why_eager(device, options).empty()) return Mode::graph;
  if (options.mode == Mode::graph && options.notice) options.notice(device.graph_notice());
  return Mode::eager;
}

}  // namespace

std::string why_eager(Device& device, const SessionOptions& options) {
  if (options.mode == Mode::eager) return "asked for";
  if (!device.driver().graphs_need_a_test()) return "";
  std::optional<rtc::BinaryCache> cache;
  if (options.use_cache) cache.emplace(options.cache_directory);
  return device.graph_problem(cache ? &*cache : nullptr);
}

Prepared prepare(Schedule schedule, Device& device, const SessionOptions& options) {
  const Clock::time_point start = Clock::now();
  Plan plan = make_plan(schedule, device.properties(), options);
  const double plan_ms = milliseconds_since(start);
  std::vector<rtc::Binary> binaries = compile(plan, plan.units, schedule, device, options);
  match_signatures(plan, schedule, binaries, device.properties().max_argument_bytes);
  if (add_slots(plan, schedule, device.properties())) {
    const std::span publish = std::span(plan.units).last(1);
    binaries.push_back(std::move(compile(plan, publish, schedule, device, options).front()));
  }
  const double compile_ms = milliseconds_since(start) - plan_ms;
  check_temporaries(plan, schedule);
  Arena arena = options.separate_buffers ? without_arena(plan) : place_temporaries(plan);
  FoundDependencies found = find_dependencies(plan, arena);
  const std::size_t lane_edges = limit_lanes(plan, plan.lanes);
  if (device.properties().has_programmatic_edges) plan.set_edge_kinds();
  return {.schedule = std::move(schedule),
          .plan = std::move(plan),
          .binaries = std::move(binaries),
          .arena = std::move(arena),
          .found = std::move(found),
          .lane_edges = lane_edges,
          .plan_ms = plan_ms,
          .compile_ms = compile_ms};
}

Session::State::State(Prepared prepared, std::shared_ptr<Device> on, const SessionOptions& options)
    : device(std::move(on)),
      driver(device->driver()),
      schedule(std::move(prepared.schedule)),
      plan(std::move(prepared.plan)),
      mode(usable_mode(*device, options)),
      updates_before_renewal(options.updates_before_renewal.value_or(driver.updates_before_renewal())),
      stream(driver, driver.create_stream()) {
  const Clock::time_point start = Clock::now();
  for (const PlanParam& param : plan.params) {
    params.push_back(param.info);
    values.push_back(rondo::info(param.info.type).is_float ? std::bit_cast<std::int64_t>(param.info.real)
                                                           : param.info.integer);
  }
  initial_values = values;
  for (const rtc::Binary& binary : prepared.binaries)
    ++(binary.from_cache ? summary.from_cache : summary.compiled);
  load_modules(prepared.binaries);
  allocate(prepared.arena);
  upload_weights(options);
  make_random_weights(options);
  check(apply_fills(stream.get()), "filling the buffers");
  index_nodes();
  arguments.emplace(
      plan, driver.properties(), functions, function_infos,
      PackedArguments::Source{.values = values, .buffers = addresses, .slots = slots_memory.get()});
  index_params();
  stage_all(ErrorCode::bad_schedule, "with the params' initial values, ", "");
  make_graph();
  summary.plan_ms = prepared.plan_ms;
  summary.compile_ms = prepared.compile_ms;
  summary.load_ms = milliseconds_since(start);
  summary.nodes = plan.nodes.size();
  summary.kernels = plan.kernels.size();
  for (const PlanNode& node : plan.nodes) summary.edges += node.dependencies.size();
}

Session::State::~State() {
  // Nothing of what a launch uses may go before it is done; a failure here has no one to be told to.
  (void)driver.synchronize(stream.get());
}

void Session::State::load_modules(const std::vector<rtc::Binary>& binaries) {
  for (std::size_t i = 0; i < binaries.size(); ++i) {
    try {
      modules.emplace_back(driver, driver.load_module(binaries[i].code));
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("loading the kernels of {}: {}", plan.units[i].file, error.what()));
    }
  }
  for (const PlanKernel& kernel : plan.kernels) {
    const rtc::Entry& entry = binaries[kernel.unit].entries[kernel.entry];
    functions.push_back(driver.function(modules[kernel.unit].get(), entry.lowered));
    function_infos.push_back(driver.function_info(functions.back(), entry.parameters.size()));
    const FunctionInfo& info = function_infos.back();
    // The binary's own word on its layout against what C++ says; a disagreement would corrupt arguments
    // silently.
    const std::vector<std::size_t> offsets = entry.offsets();
    bool same = !info.layout_known || info.parameters.size() == offsets.size();
    for (std::size_t i = 0; same && info.layout_known && i < offsets.size(); ++i) {
      same = info.parameters[i].offset == offsets[i] && info.parameters[i].size == entry.parameters[i].size;
    }
    if (!same) {
      throw Error(
          ErrorCode::run_time,
          fmt::format("the driver lays out the arguments of {} otherwise than its C++ signature says; "
                      "Rondo does not launch it",
                      entry.expression));
    }
  }
  // The largest dynamic shared memory that any node of a kernel may ask for.
  const std::size_t most_shared = driver.properties().max_shared_bytes;
  for (std::size_t k = 0; k < functions.size(); ++k) {
    if (function_infos[k].static_shared_bytes <= most_shared) continue;
    throw Error(
        ErrorCode::bad_schedule,
        fmt::format("the kernel \"{}\" has {} bytes of static shared memory; the device has {} a block",
                    plan.kernels[k].name, function_infos[k].static_shared_bytes, most_shared));
  }
  std::vector<std::size_t> most(functions.size());
  for (const PlanNode& node : plan.nodes) {
    const std::size_t limit = most_shared - function_infos[node.kernel].static_shared_bytes;
    const std::size_t asked = node.shared.is_fixed() ? static_cast<std::size_t>(node.shared.fixed) : limit;
    most[node.kernel] = std::max(most[node.kernel], std::min(asked, limit));
  }
  for (std::size_t k = 0; k < functions.size(); ++k) {
    if (most[k] > 0) driver.allow_dynamic_shared(functions[k], most[k]);
  }
  check_cooperative_nodes();
}

// All blocks of a cooperative launch are on the device at once; a driver refuses more only when it is
// launched.
void Session::State::check_cooperative_nodes() {
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const PlanNode& node = plan.nodes[i];
    if (!node.attributes.cooperative) continue;
    const auto dim = [](const std::array<Value, 3>& extents) {
      return Dim3{static_cast<std::uint32_t>(extents[0].fixed), static_cast<std::uint32_t>(extents[1].fixed),
                  static_cast<std::uint32_t>(extents[2].fixed)};
    };
    const LaunchShape shape{dim(node.grid), dim(node.block), static_cast<std::uint32_t>(node.shared.fixed)};
    const std::size_t blocks = std::size_t{shape.grid.x} * shape.grid.y * shape.grid.z;
    const std::size_t resident = driver.resident_blocks(functions[node.kernel], shape);
    if (blocks <= resident) continue;
    throw Error(
        ErrorCode::bad_schedule,
        {.place = plan.place(schedule, i),
         .message = fmt::format("a cooperative op has all its blocks on the device at once: {} of these "
                                "fit, and the grid has {}",
                                resident, blocks),
         .hint = "Give it a smaller grid, and each block more to do."});
  }
}

void Session::State::allocate(const Arena& arena) {
  summary.arena_bytes = arena.bytes;
  if (arena.bytes > 0) arena_memory = OwnedMemory(driver, driver.allocate(arena.bytes));
  if (plan.slots > 0) slots_memory = OwnedMemory(driver, driver.allocate(plan.slots * slot_bytes));
  memory.resize(plan.buffers.size());
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer& buffer = plan.buffers[i];
    BufferInfo info = buffer.info;
    if (arena.offsets[i]) {
      own_addresses.push_back(arena_memory.get() + *arena.offsets[i]);
      info.readable = false;
    } else if (buffer.same_as) {
      own_addresses.push_back(own_addresses[*buffer.same_as]);
    } else {
      memory[i] = OwnedMemory(driver, driver.allocate(buffer.info.bytes));
      own_addresses.push_back(memory[i].get());
      summary.buffer_bytes += buffer.info.bytes;
    }
    buffers.push_back(std::move(info));
  }
  addresses = own_addresses;
}

void Session::State::make_random_weights(const SessionOptions& options) {
  rtc::CompileRequest unit = random_weights_unit();
  unit.architecture = driver.properties().architecture;
  const auto is_random = [this](std::size_t i) {
    return plan.buffers[i].random_seed && !plan.buffers[i].same_as;
  };
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const std::string entry = random_weights_entry(plan.buffers[i].info.type);
    if (is_random(i) && std::find(unit.entries.begin(), unit.entries.end(), entry) == unit.entries.end())
      unit.entries.push_back(entry);
  }
  if (unit.entries.empty()) return;
  const rtc::Binary binary = std::move(compile(plan, {&unit, 1}, schedule, *device, options).front());
  const OwnedModule module(driver, driver.load_module(binary.code));
  const DriverScope scope(driver);
  check(scope.status(), "entering the driver");
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    if (!is_random(i)) continue;
    const auto entry =
        std::find_if(binary.entries.begin(), binary.entries.end(), [&](const rtc::Entry& each) {
          return each.expression == random_weights_entry(plan.buffers[i].info.type);
        });
    const FunctionHandle function = driver.function(module.get(), entry->lowered);
    check(launch_random_weights(driver, function, plan.buffers[i], addresses[i], stream.get()),
          "making random weights");
  }
  check(driver.synchronize(stream.get()), "making random weights");  // before the module goes
}

// A tensor of floats as wider floats.
Status Session::State::write_widened(const PlanBuffer& buffer, DevicePointer to) {
  constexpr std::size_t a_piece = 1 << 20;  // elements
  const DataType narrow = *buffer.tensor->type;
  const std::size_t from_bytes = info(narrow).block_bytes, to_bytes = buffer.type().block_bytes;
  std::vector<std::byte> piece(std::min(a_piece, buffer.elements) * to_bytes);
  for (std::size_t start = 0; start < buffer.elements; start += a_piece) {
    const std::size_t count = std::min(a_piece, buffer.elements - start);
    const std::byte* from = buffer.tensor->data.data() + start * from_bytes;
    for (std::size_t i = 0; i < count; ++i)
      store_float(buffer.info.type, load_as_double(narrow, from + i * from_bytes),
                  piece.data() + i * to_bytes);
    const Status status = driver.write(to + start * to_bytes, piece.data(), count * to_bytes, stream.get());
    if (!status.ok()) return status;
  }
  return {};
}

void Session::State::upload_weights(const SessionOptions& options) {
  std::size_t total = 0, done = 0;
  for (const PlanBuffer& buffer : plan.buffers)
    total += buffer.tensor != nullptr && !buffer.same_as ? buffer.info.bytes : 0;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer& buffer = plan.buffers[i];
    if (buffer.tensor == nullptr || buffer.same_as) continue;
    const DataTypeInfo& from = info(*buffer.tensor->type);
    const std::size_t bytes = buffer.elements / from.block_elements * from.block_bytes;
    if (buffer.tensor->data.size() != bytes) {
      throw Error(ErrorCode::bad_argument,
                  fmt::format("the tensor \"{}\" has {} bytes, and its shape and type need {}",
                              buffer.tensor->name, buffer.tensor->data.size(), bytes));
    }
    const bool is_widened = *buffer.tensor->type != buffer.info.type;
    check(is_widened ? write_widened(buffer, addresses[i])
                     : driver.write(addresses[i], buffer.tensor->data.data(), bytes, stream.get()),
          "uploading weights");
    done += buffer.info.bytes;
    if (options.progress) options.progress("loading weights", done, total);
  }
}

void Session::State::index_nodes() {
  nodes_of_param.resize(plan.params.size());
  nodes_of_buffer.resize(plan.buffers.size());
  is_written.resize(plan.buffers.size());
  is_marked.resize(plan.nodes.size());
  marked.reserve(plan.nodes.size());
  const auto add = [](std::vector<std::uint32_t>& nodes, std::uint32_t node) {
    if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
  };
  // What is published needs no look at the node: `set` puts it there.
  for (std::uint32_t i = plan.slots > 0 ? publish_node + 1 : 0; i < plan.nodes.size(); ++i) {
    const PlanNode& node = plan.nodes[i];
    const auto depends = [&](const Value& value) {
      for (const Value::Operand& operand : value.operands) {
        if (operand.is_step) add(nodes_of_param[static_cast<std::size_t>(operand.value)], i);
      }
    };
    for (std::size_t axis = 0; axis < 3; ++axis) {
      depends(node.grid[axis]);
      depends(node.block[axis]);
    }
    depends(node.shared);
    for (const PlanArgument& argument : node.arguments) {
      depends(argument.value);
      if (argument.extent) depends(*argument.extent);
      if (argument.kind == PlanArgument::Kind::float_param) add(nodes_of_param[argument.param], i);
      if (argument.kind != PlanArgument::Kind::buffer) continue;
      add(nodes_of_buffer[argument.buffer], i);
      if (argument.writes) is_written[argument.buffer] = true;
    }
  }
}

void Session::State::index_params() {
  is_pending.resize(plan.params.size());
  pending.reserve(plan.params.size());
  for (std::uint32_t i = 0; i < plan.params.size(); ++i) {
    const PlanParam& param = plan.params[i];
    const std::vector<std::uint32_t>& nodes = nodes_of_param[i];
    Settable& at = settable.emplace_back();
    at.smallest = param.info.smallest;
    at.largest = param.info.largest;
    at.slot = param.slot ? arguments->slots() + *param.slot * slot_bytes : nullptr;
    at.type = param.info.type;
    if (at.slot != nullptr) {
      const std::uint64_t bits = slot_bits(at.type, values[i]);
      std::memcpy(at.slot, &bits, sizeof bits);
    }
    at.has_nodes = !nodes.empty();
    if (param.info.is_step) {
      at.form = rondo::info(at.type).is_float         ? Settable::Form::real
                : at.slot != nullptr && !at.has_nodes ? Settable::Form::slot
                                                      : Settable::Form::integer;
    }
    at.is_plain = std::all_of(nodes.begin(), nodes.end(),
                              [&](std::uint32_t node) { return arguments->is_plain(node); });
    at.may_be_unsafe =
        at.form == Settable::Form::integer && !(is_safe(i, at.smallest) && is_safe(i, at.largest));
    if (at.may_be_unsafe && !is_safe(i, values[i])) ++unsafe_params;
  }
}

// All nodes as the params and bindings are now. Where that is refused, nothing has changed.
void Session::State::stage_all(ErrorCode refusal, const char* before, const char* hint) {
  mark_pending();
  // An update that failed half-way has left marks.
  marked.clear();
  std::fill(is_marked.begin(), is_marked.end(), std::uint8_t{0});
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    arguments->touch(i);
    mark(i);
  }
  const Status status = stage_marked();
  if (!status.ok()) throw Error(refusal, staging_diagnostic(status, before, hint));
}

// Of the state that was staged.
void Session::State::make_graph() {
  graph.reset();
  check(apply_marked(), "accepting all nodes' state");  // there is no graph to be told
  if (mode == Mode::graph) {
    graph =
        std::make_unique<RenewedGraph>(driver, plan, schedule, *arguments, updates_before_renewal, counters);
    graph->upload(stream.get());
  }
  check(driver.synchronize(stream.get()), "waiting for the uploads");
}

void Session::State::rebuild() {
  stage_all(ErrorCode::bad_argument, "", "Nothing was rebuilt; set other values and rebuild again.");
  has_failed = true;  // until there is a graph again
  check(driver.synchronize(stream.get()), "waiting for the launches that are queued");
  make_graph();
  has_failed = false;
}

namespace {

void check_device(const std::shared_ptr<Device>& device) {
  if (!device)
    throw Error(ErrorCode::bad_argument, "a session needs a device, and the pointer is null",
                "open_device gives one");
}

}  // namespace

Session Session::load(const std::filesystem::path& file, std::shared_ptr<Device> device,
                      const SessionOptions& options) {
  check_device(device);
  Prepared prepared = prepare(Schedule::load(file), *device, options);
  return Session(std::make_unique<State>(std::move(prepared), std::move(device), options));
}

Session Session::parse(std::string text, const std::filesystem::path& file, std::shared_ptr<Device> device,
                       const SessionOptions& options) {
  check_device(device);
  Prepared prepared = prepare(Schedule::parse(std::move(text), file), *device, options);
  return Session(std::make_unique<State>(std::move(prepared), std::move(device), options));
}

std::vector<Diagnostic> check_schedule(const std::filesystem::path& file, Device* device,
                                       const SessionOptions& options) {
  try {
    Schedule schedule = Schedule::load(file);
    if (device != nullptr) prepare(std::move(schedule), *device, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_schedule) throw;
    return error.diagnostics();
  }
  return {};
}

}  // namespace rondo
