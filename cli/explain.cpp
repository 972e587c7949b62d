// rondo explain: what was made of a schedule, and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "buffers.h"
#include "commands.h"
#include "report.h"
#include "rondo/dot_text.h"
#include "rondo/explain.h"

namespace rondo::cli {
namespace {

struct ExplainArguments {
  SessionArguments session;
  bool json = false, dot = false;
};

// How much of a long list people are shown.
constexpr std::size_t most_rows = 24;

const char* name_of(ExplainedParam::Way way) {
  switch (way) {
    case ExplainedParam::Way::unused:
      return "unused";
    case ExplainedParam::Way::node:
      return "node";
    case ExplainedParam::Way::slot:
      return "slot";
    case ExplainedParam::Way::mixed:
      return "mixed";
  }
  return "";
}

std::string size(const Dim3& dim) { return fmt::format("{}x{}x{}", dim.x, dim.y, dim.z); }

Json json_of(const Dim3& dim) { return Json::array({dim.x, dim.y, dim.z}); }

template <typename T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json params_json(const Explanation& explanation) {
  Json params = Json::array();
  for (const ExplainedParam& param : explanation.params) {
    params.push_back({{"name", param.name},
                      {"type", rondo::name(param.type)},
                      {"update", name_of(param.way)},
                      {"why", param.why},
                      {"nodes", param.nodes},
                      {"bytes", param.bytes},
                      {"readers", param.readers},
                      {"changes_shapes", param.changes_shapes},
                      {"expected_ns", json_of(param.set_ns)}});
  }
  return params;
}

Json nodes_json(const Explanation& explanation) {
  Json nodes = Json::array();
  for (const ExplainedNode& node : explanation.nodes) {
    Json waits = Json::array();
    for (const ExplainedNode::Edge& edge : node.waits_for)
      waits.push_back({{"node", edge.earlier}, {"programmatic", edge.is_programmatic}});
    nodes.push_back({{"label", node.label},
                     {"pointer", node.pointer},
                     {"kernel", node.kernel},
                     {"grid", json_of(node.grid)},
                     {"block", json_of(node.block)},
                     {"shared_bytes", node.shared_bytes},
                     {"cooperative", node.is_cooperative},
                     {"cluster", json_of(node.cluster)},
                     {"priority", node.priority},
                     {"waits_for", std::move(waits)}});
  }
  return nodes;
}

Json kernels_json(const Explanation& explanation) {
  Json kernels = Json::array();
  for (const ExplainedKernel& kernel : explanation.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"entry", kernel.entry},
                       {"nodes", kernel.nodes},
                       {"registers", json_of(kernel.registers)},
                       {"local_bytes", json_of(kernel.local_bytes)},
                       {"static_shared_bytes", kernel.static_shared_bytes},
                       {"dynamic_shared_bytes", kernel.dynamic_shared_bytes},
                       {"threads", kernel.threads},
                       {"least_blocks", kernel.least_blocks},
                       {"most_blocks", kernel.most_blocks}});
  }
  return kernels;
}

Json arena_json(const Explanation& explanation) {
  Json temporaries = Json::array(), reuses = Json::array();
  for (const ExplainedTemporary& temporary : explanation.temporaries) {
    temporaries.push_back({{"name", temporary.name},
                           {"offset", temporary.offset},
                           {"bytes", temporary.bytes},
                           {"first_node", temporary.first},
                           {"last_node", temporary.last}});
  }
  for (const ExplainedReuse& reuse : explanation.reuses) {
    reuses.push_back({{"earlier_node", reuse.earlier},
                      {"later_node", reuse.later},
                      {"earlier_temporary", reuse.earlier_temporary},
                      {"later_temporary", reuse.later_temporary}});
  }
  return {{"bytes", explanation.arena_bytes},
          {"peak_bytes", explanation.arena_peak_bytes},
          {"temporaries", std::move(temporaries)},
          {"waits_for_memory_alone", std::move(reuses)}};
}

Json to_json(const Explanation& explanation) {
  return {{"schedule", explanation.schedule},
          {"device", cli::to_json(explanation.device)},
          {"mode", cli::name(explanation.mode)},
          {"mode_reason", explanation.mode_reason},
          {"params", params_json(explanation)},
          {"slots", explanation.slots},
          {"graph",
           {{"nodes", explanation.nodes.size()},
            {"full_edges", explanation.full_edges},
            {"programmatic_edges", explanation.programmatic_edges},
            {"redundant_edges_removed", explanation.redundant_edges},
            {"depth", explanation.depth},
            {"widest_level", explanation.widest},
            {"lanes", explanation.lanes},
            {"lane_edges", explanation.lane_edges},
            {"expected_launch_us", json_of(explanation.launch_us)}}},
          {"costs", explanation.cost_source},
          {"kernels", kernels_json(explanation)},
          {"arena", arena_json(explanation)},
          {"nodes", nodes_json(explanation)}};
}

// Rows of text with columns as wide as what they hold; the last column as it comes.
class Table {
 public:
  explicit Table(std::vector<std::string> heads) { rows_.push_back(std::move(heads)); }

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string text() const {
    std::vector<std::size_t> widths(rows_.front().size());
    const std::size_t shown = std::min(rows_.size(), most_rows + 1);
    for (std::size_t i = 0; i < shown; ++i) {
      for (std::size_t k = 0; k < widths.size(); ++k) widths[k] = std::max(widths[k], rows_[i][k].size());
    }
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) {
      std::string line = " ";
      for (std::size_t k = 0; k < widths.size(); ++k) line += fmt::format(" {:<{}}", rows_[i][k], widths[k]);
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    if (shown < rows_.size()) text += fmt::format("  and {} more (--json lists all)\n", rows_.size() - shown);
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string or_dash(const std::optional<std::size_t>& value) { return value ? std::to_string(*value) : "-"; }

std::string params_text(const Explanation& explanation) {
  if (explanation.params.empty()) return "No step params: every launch is the same.\n";
  Table table({"param", "update", "nodes", "bytes", "readers", "shapes", "ns a step", "why"});
  for (const ExplainedParam& param : explanation.params) {
    table.add({param.name, name_of(param.way), std::to_string(param.nodes), std::to_string(param.bytes),
               std::to_string(param.readers), param.changes_shapes ? "yes" : "no",
               param.set_ns ? fmt::format("{:.0f}", *param.set_ns) : "-", param.why});
  }
  std::string text =
      "Step params (nodes and bytes that a new value rewrites; readers of its slot)\n" + table.text();
  if (explanation.slots > 0)
    text += fmt::format("  {} in slots: one node publishes all of them, and is rewritten once a step.\n",
                        explanation.slots);
  return text;
}

std::string graph_text(const Explanation& explanation) {
  std::string text = fmt::format(
      "Graph: {} nodes, {} full and {} programmatic edges ({} redundant ones removed), {} deep, {} wide\n",
      explanation.nodes.size(), explanation.full_edges, explanation.programmatic_edges,
      explanation.redundant_edges, explanation.depth, explanation.widest);
  if (explanation.lane_edges > 0) {
    text += fmt::format("  laid out in {} lanes: {} nodes wait for one that they could run beside\n",
                        explanation.lanes, explanation.lane_edges);
  } else if (explanation.lanes > 0) {
    text += fmt::format("  not wider than its {} lanes: laid out as the ops' dependencies say\n",
                        explanation.lanes);
  }
  if (explanation.launch_us)
    text += fmt::format("  a launch is expected to take {:.1f} us of host time\n", *explanation.launch_us);
  return text + fmt::format("  Host costs: {}.\n", explanation.cost_source);
}

std::string kernels_text(const Explanation& explanation) {
  Table table({"kernel", "nodes", "registers", "local", "shared", "threads", "blocks", "entry"});
  for (const ExplainedKernel& kernel : explanation.kernels) {
    const std::string blocks = kernel.least_blocks == kernel.most_blocks
                                   ? std::to_string(kernel.most_blocks)
                                   : fmt::format("{}-{}", kernel.least_blocks, kernel.most_blocks);
    table.add({kernel.name, std::to_string(kernel.nodes), or_dash(kernel.registers),
               or_dash(kernel.local_bytes),
               fmt::format("{}+{}", kernel.static_shared_bytes, kernel.dynamic_shared_bytes),
               std::to_string(kernel.threads), blocks, kernel.entry});
  }
  std::string text =
      "Kernels (shared: static + dynamic bytes; shapes with the params' values)\n" + table.text();
  Table attributes({"node", "op", "attributes"});
  std::size_t count = 0;
  for (std::size_t i = 0; i < explanation.nodes.size(); ++i) {
    const ExplainedNode& node = explanation.nodes[i];
    std::string what = node.is_cooperative ? "cooperative " : "";
    if (node.cluster.x != 0) what += fmt::format("cluster {} ", size(node.cluster));
    if (node.priority != 0) what += fmt::format("priority {}", node.priority);
    if (what.empty()) continue;
    attributes.add({std::to_string(i), node.label, what});
    ++count;
  }
  return count == 0 ? text : text + "Launch attributes\n" + attributes.text();
}

std::string arena_text(const Explanation& explanation) {
  if (explanation.temporaries.empty()) return "No temporaries share memory.\n";
  std::string text = fmt::format(
      "Arena: {}, peak of live bytes {}, ratio {:.3f}\n", describe_bytes(explanation.arena_bytes),
      describe_bytes(explanation.arena_peak_bytes),
      static_cast<double>(explanation.arena_bytes) / static_cast<double>(explanation.arena_peak_bytes));
  const auto node = [&](std::uint32_t index) {
    return fmt::format("{} {}", index, explanation.nodes[index].label);
  };
  Table table({"offset", "bytes", "temporary", "from node", "to node"});
  for (const ExplainedTemporary& temporary : explanation.temporaries) {
    table.add({std::to_string(temporary.offset), std::to_string(temporary.bytes), temporary.name,
               node(temporary.first), node(temporary.last)});
  }
  text += table.text();
  if (explanation.reuses.empty()) return text + "  No op waits for memory alone.\n";
  Table reuses({"node", "waits for node", "because", "has the memory of"});
  for (const ExplainedReuse& reuse : explanation.reuses)
    reuses.add({node(reuse.later), node(reuse.earlier), reuse.later_temporary, reuse.earlier_temporary});
  return text +
         fmt::format("  {} could run side by side and do not, for the sake of memory:\n",
                     explanation.reuses.size()) +
         reuses.text();
}

std::string to_text(const Explanation& explanation) {
  return fmt::format("{} on {}: {} mode ({})\n\n{}\n{}\n{}\n{}", explanation.schedule,
                     describe(explanation.device), cli::name(explanation.mode), explanation.mode_reason,
                     params_text(explanation), graph_text(explanation), kernels_text(explanation),
                     arena_text(explanation));
}

std::string to_dot(const Explanation& explanation) {
  std::string text = fmt::format("digraph {} {{\n  node [shape=box];\n", dot_quoted(explanation.schedule));
  for (std::size_t i = 0; i < explanation.nodes.size(); ++i) {
    const ExplainedNode& node = explanation.nodes[i];
    const std::string& kernel = explanation.kernels[node.kernel].name;
    const std::string label = node.label.ends_with(kernel) ? node.label : node.label + " " + kernel;
    text +=
        fmt::format("  n{} [label={}];\n", i,
                    dot_quoted(fmt::format("{} {} {} x {}", i, label, size(node.grid), size(node.block))));
    for (const ExplainedNode::Edge& edge : node.waits_for)
      text +=
          fmt::format("  n{} -> n{}{};\n", edge.earlier, i, edge.is_programmatic ? " [style=dashed]" : "");
  }
  return text + "}\n";
}

int show(const ExplainArguments& arguments, Environment& environment) {
  SessionBuilder builder(arguments.session, environment.console);
  const auto device = open_device(arguments.session.device);
  const Explanation explanation = explain(arguments.session.schedule, *device, builder.options(),
                                          parse_assignments("--set", arguments.session.settings));
  environment.console.clear_progress();
  environment.console.print(arguments.dot    ? to_dot(explanation)
                            : arguments.json ? cli::to_text(to_json(explanation))
                                             : to_text(explanation));
  return 0;
}

}  // namespace

void add_explain(CLI::App& program, Action& action) {
  CLI::App& command = *program.add_subcommand(
      "explain", "Say what is made of a schedule: updates and their cost, graph, kernels, arena");
  const auto arguments = std::make_shared<ExplainArguments>();
  add_schedule_argument(command, arguments->session);
  add_build_options(command, arguments->session);
  add_mode_option(command, arguments->session);
  add_set_option(command, arguments->session);
  CLI::Option* const dot = command.add_flag("--dot", arguments->dot, "The graph alone, for Graphviz");
  command.add_flag("--json", arguments->json, "Everything, as one JSON object")->excludes(dot);
  command.callback([&action, arguments] {
    action = [arguments](Environment& environment) { return show(*arguments, environment); };
  });
}

}  // namespace rondo::cli
