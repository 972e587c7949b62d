#include "graph.h"

namespace rondo {

Graph::Graph(Driver& driver, const Plan& plan, const Schedule& schedule, std::span<const NodeUpdate> nodes)
    : driver_(&driver), graph_(driver, driver.create_graph()) {
  nodes_.reserve(plan.nodes.size());
  std::vector<GraphEdge> edges;
  bool has_priorities = false;
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    try {
      nodes_.push_back(driver.add_kernel_node(graph_.get(), nodes[i].launch));
    } catch (const Error& error) {
      throw Error(error.code(), {.place = plan.place(schedule, i), .message = error.what(), .hint = ""});
    }
    has_priorities = has_priorities || plan.nodes[i].attributes.priority != 0;
    for (const Dependency& earlier : plan.nodes[i].dependencies)
      edges.push_back({nodes_[earlier.node], nodes_[i], earlier.kind});
  }
  driver.add_dependencies(graph_.get(), edges);
  exec_ = OwnedExec(driver, driver.instantiate(graph_.get(), has_priorities));
  const DriverScope scope(driver);
  check(scope.status(), "entering the driver");
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    if (!nodes[i].enabled) check(enable(i, false), "disabling a node whose grid is empty at first");
  }
}

}  // namespace rondo
