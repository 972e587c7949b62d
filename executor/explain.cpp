#include "rondo/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph_shape.h"
#include "handles.h"
#include "session_state.h"

namespace rondo {
namespace {

// Medians on an H200, CUDA 13.0, driver 580: bench/step_cost and bench/graph_shape.
constexpr double ns_of_node_update = 160, ns_of_node_update_at_launch = 27;
constexpr double us_of_launch = 1.25, us_of_launch_a_node = 0.0012, us_of_launch_a_branch = 1.1;
constexpr const char* cuda_costs =
    "expected from what was measured on an H200 (CUDA 13.0, driver 580): 160 ns a node update and 27 ns more "
    "at the "
    "next launch; a launch 1.4 to 2.5 us for chains of 128 to 1,024 nodes, and 1.1 us more for each branch "
    "beside "
    "the first";

std::size_t value_of(const Value& value, const std::vector<std::int64_t>& steps) {
  std::int64_t result = 0;
  const bool is_good = value.is_fixed() ? (result = value.fixed, true)
                                        : value.evaluate(steps, &result) == ExpressionFault::none;
  return is_good && result > 0 ? static_cast<std::size_t>(result) : 0;
}

Dim3 shape(const std::array<Value, 3>& sizes, const std::vector<std::int64_t>& steps) {
  std::array<std::uint32_t, 3> result{};
  for (std::size_t i = 0; i < 3; ++i)
    result[i] = static_cast<std::uint32_t>(std::min<std::size_t>(value_of(sizes[i], steps), UINT32_MAX));
  return {result[0], result[1], result[2]};
}

bool depends(const Value& value, std::uint32_t param) {
  return std::any_of(value.operands.begin(), value.operands.end(), [&](const Value::Operand& operand) {
    return operand.is_step && operand.value == static_cast<std::int64_t>(param);
  });
}

// How the nodes use one step param.
struct Uses {
  std::size_t values = 0, expressions = 0, parts = 0, shapes = 0;  // arguments; ops
};

std::string counted(std::size_t count, const char* one, const char* many) {
  return count == 0 ? "" : fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string why(const PlanParam& param, const Uses& uses, std::size_t readers) {
  std::vector<std::string> reasons;
  const auto add = [&](std::string reason) {
    if (!reason.empty()) reasons.push_back(std::move(reason));
  };
  add(counted(readers, "op's kernel takes a pointer to it", "ops' kernels take a pointer to it"));
  add(counted(uses.values, "argument is its value", "arguments are its value"));
  add(counted(uses.expressions, "argument is an expression with it", "arguments are expressions with it"));
  add(counted(uses.parts, "pointer depends on it", "pointers depend on it"));
  add(counted(uses.shapes, "op's grid, block or shared memory depends on it",
              "ops' grids, blocks or shared memory depend on it"));
  if (reasons.empty()) return "no op uses it";
  std::string text = fmt::format("{}", fmt::join(reasons, ", "));
  if (param.update != UpdateWay::chosen)
    text += fmt::format("; the schedule asks for \"update\": \"{}\"",
                        param.update == UpdateWay::slot ? "slot" : "node");
  return text;
}

ExplainedParam explain_param(const Plan& plan, std::uint32_t index, bool is_cuda) {
  const PlanParam& param = plan.params[index];
  ExplainedParam result{.name = param.info.name, .type = param.info.type};
  Uses uses;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const PlanNode& node = plan.nodes[i];
    const bool is_publish = plan.slots > 0 && i == 0;
    bool has_shape = depends(node.shared, index);
    for (std::size_t axis = 0; axis < 3; ++axis)
      has_shape = has_shape || depends(node.grid[axis], index) || depends(node.block[axis], index);
    bool is_touched = has_shape, is_reader = false;
    for (const PlanArgument& argument : node.arguments) {
      is_reader =
          is_reader || (!is_publish && argument.kind == PlanArgument::Kind::slot && argument.param == index);
      const bool is_real = argument.kind == PlanArgument::Kind::float_param && argument.param == index;
      const bool is_checked = argument.extent && depends(*argument.extent, index);
      if (!is_real && !is_checked && !depends(argument.value, index)) continue;
      is_touched = true;
      result.bytes += info(argument.type).block_bytes;
      if (is_publish) continue;
      ++(argument.kind == PlanArgument::Kind::buffer ? uses.parts
         : is_real || argument.named_step            ? uses.values
                                                     : uses.expressions);
    }
    if (has_shape) ++uses.shapes;
    if (is_touched) ++result.nodes;
    if (is_reader) ++result.readers;
  }
  const std::size_t rewritten = result.nodes - (param.slot ? 1 : 0);
  result.way = param.slot         ? (rewritten > 0 ? ExplainedParam::Way::mixed : ExplainedParam::Way::slot)
               : result.nodes > 0 ? ExplainedParam::Way::node
                                  : ExplainedParam::Way::unused;
  result.changes_shapes = uses.shapes > 0;
  result.why = why(param, uses, result.readers);
  if (is_cuda)
    result.set_ns = static_cast<double>(result.nodes) * (ns_of_node_update + ns_of_node_update_at_launch);
  return result;
}

std::vector<ExplainedKernel> explain_kernels(const Prepared& prepared, Driver& driver) {
  const Plan& plan = prepared.plan;
  std::vector<OwnedModule> modules;
  for (const rtc::Binary& binary : prepared.binaries)
    modules.emplace_back(driver, driver.load_module(binary.code));
  std::vector<ExplainedKernel> kernels;
  for (const PlanKernel& kernel : plan.kernels) {
    const rtc::Entry& entry = prepared.binaries[kernel.unit].entries[kernel.entry];
    const FunctionInfo info = driver.function_info(driver.function(modules[kernel.unit].get(), entry.lowered),
                                                   entry.parameters.size());
    kernels.push_back({.name = kernel.name,
                       .entry = entry.expression,
                       .registers = info.registers,
                       .local_bytes = info.local_bytes,
                       .static_shared_bytes = info.static_shared_bytes});
  }
  return kernels;
}

void explain_nodes(Explanation& result, const Plan& plan) {
  std::vector<std::int64_t> steps;
  for (const PlanParam& param : plan.params) steps.push_back(param.info.integer);
  for (const PlanNode& node : plan.nodes) {
    ExplainedNode one{.label = node.label,
                      .pointer = node.pointer,
                      .kernel = node.kernel,
                      .grid = shape(node.grid, steps),
                      .block = shape(node.block, steps),
                      .shared_bytes = value_of(node.shared, steps),
                      .is_cooperative = node.attributes.cooperative,
                      .cluster = node.attributes.cluster,
                      .priority = node.attributes.priority};
    for (const Dependency& earlier : node.dependencies) {
      const bool is_programmatic = earlier.kind == EdgeKind::programmatic;
      one.waits_for.push_back({earlier.node, is_programmatic});
      ++(is_programmatic ? result.programmatic_edges : result.full_edges);
    }
    ExplainedKernel& kernel = result.kernels[node.kernel];
    const std::size_t blocks = std::size_t{one.grid.x} * one.grid.y * one.grid.z;
    kernel.least_blocks = kernel.nodes == 0 ? blocks : std::min(kernel.least_blocks, blocks);
    kernel.most_blocks = std::max(kernel.most_blocks, blocks);
    kernel.threads =
        std::max<std::size_t>(kernel.threads, std::size_t{one.block.x} * one.block.y * one.block.z);
    kernel.dynamic_shared_bytes = std::max(kernel.dynamic_shared_bytes, one.shared_bytes);
    ++kernel.nodes;
    result.nodes.push_back(std::move(one));
  }
}

void explain_arena(Explanation& result, const Prepared& prepared) {
  const Arena& arena = prepared.arena;
  result.arena_bytes = arena.bytes;
  result.arena_peak_bytes = arena.peak_bytes;
  for (std::size_t i = 0; i < prepared.plan.buffers.size(); ++i) {
    const BufferInfo& buffer = prepared.plan.buffers[i].info;
    if (!arena.offsets[i]) continue;
    result.temporaries.push_back(
        {buffer.name, *arena.offsets[i], buffer.bytes, arena.lifetimes[i]->first, arena.lifetimes[i]->last});
  }
  std::stable_sort(result.temporaries.begin(), result.temporaries.end(),
                   [](const ExplainedTemporary& a, const ExplainedTemporary& b) {
                     return a.offset != b.offset ? a.offset < b.offset : a.first < b.first;
                   });
  for (const ReuseWait& wait : prepared.found.reuse_waits) {
    result.reuses.push_back({wait.earlier, wait.later, prepared.plan.buffers[wait.earlier_buffer].info.name,
                             prepared.plan.buffers[wait.later_buffer].info.name});
  }
}

void set_step_value(Plan& plan, const std::string& name, const std::string& text) {
  std::vector<std::string> steps;
  for (const PlanParam& param : plan.params) {
    if (param.info.is_step) steps.push_back(param.info.name);
  }
  const auto found = plan.param_index.find(name);
  if (found == plan.param_index.end() || !plan.params[found->second].info.is_step) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("the schedule has no step param \"{}\".{}", name, suggest(name, steps)));
  }
  ParamInfo& param = plan.params[found->second].info;
  // A float changes nothing of what is told, but has to be one.
  const auto value = parse_value(param, text);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) param.integer = *integer;
}

}  // namespace

Explanation explain(const std::filesystem::path& file, Device& device, const SessionOptions& options,
                    const std::vector<std::pair<std::string, std::string>>& step_values) {
  Prepared prepared = prepare(Schedule::load(file), device, options);
  for (const auto& [name, text] : step_values) set_step_value(prepared.plan, name, text);
  const Plan& plan = prepared.plan;
  Explanation result;
  result.schedule = prepared.schedule.name;
  result.device = device.properties();
  result.mode_reason = why_eager(device, options);
  result.mode = result.mode_reason.empty() ? Mode::graph : Mode::eager;
  if (result.mode == Mode::graph) result.mode_reason = "graphs work on this device";
  result.slots = plan.slots;
  const bool is_measured = result.device.backend == "cuda" && result.mode == Mode::graph;
  for (std::uint32_t i = 0; i < plan.params.size(); ++i) {
    if (plan.params[i].info.is_step) result.params.push_back(explain_param(plan, i, is_measured));
  }
  result.kernels = explain_kernels(prepared, device.driver());
  explain_nodes(result, plan);
  const GraphShape shape = shape_of(plan);
  result.depth = shape.depth;
  result.widest = shape.widest;
  result.lanes = plan.lanes;
  result.lane_edges = prepared.lane_edges;
  result.redundant_edges = prepared.found.redundant;
  if (is_measured) {
    const double branches = static_cast<double>(std::max<std::size_t>(shape.widest, 1) - 1);
    result.launch_us = us_of_launch + us_of_launch_a_node * static_cast<double>(plan.nodes.size()) +
                       us_of_launch_a_branch * branches;
    result.cost_source = cuda_costs;
  } else {
    result.cost_source = result.mode == Mode::eager
                             ? "no costs are expected: every step launches op by op"
                             : fmt::format("not measured on {} devices", result.device.backend);
  }
  explain_arena(result, prepared);
  return result;
}

}  // namespace rondo
