#include "graph.h"

namespace rondo {

KernelLaunch launch_of(const NodeUpdate& update, FunctionHandle function) noexcept {
  return {.function = function,
          .shape = update.shape,
          .arguments = update.arguments.data(),
          .argument_bytes = update.arguments.size()};
}

Graph::Graph(Driver& driver, const Plan& plan, const Schedule& schedule,
             std::span<const FunctionHandle> functions, std::span<const NodeUpdate> nodes)
    : driver_(&driver), graph_(driver, driver.create_graph()) {
  nodes_.reserve(plan.nodes.size());
  std::vector<NodeHandle> from, to;
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    try {
      const FunctionHandle function = functions[plan.nodes[i].kernel];
      nodes_.push_back({driver.add_kernel_node(graph_.get(), launch_of(nodes[i], function)), function});
    } catch (const Error& error) {
      throw Error(error.code(), {.place = plan.place(schedule, i), .message = error.what(), .hint = ""});
    }
    for (const std::uint32_t earlier : plan.nodes[i].dependencies) {
      from.push_back(nodes_[earlier].handle);
      to.push_back(nodes_[i].handle);
    }
  }
  driver.add_dependencies(graph_.get(), from, to);
  exec_ = OwnedExec(driver, driver.instantiate(graph_.get()));
  const DriverScope scope(driver);
  check(scope.status(), "entering the driver");
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    if (!nodes[i].enabled) check(enable(i, false), "disabling a node whose grid is empty at first");
  }
}

Status Graph::update(const NodeUpdate& update) noexcept {
  const Node& node = nodes_[update.node];
  return driver_->update_kernel_node(exec_.get(), node.handle, launch_of(update, node.function));
}

Status Graph::enable(std::uint32_t node, bool enabled) noexcept {
  return driver_->enable_node(exec_.get(), nodes_[node].handle, enabled);
}

}  // namespace rondo
