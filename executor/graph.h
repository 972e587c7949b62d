// Plan → driver graph → executable graph, and the update of single nodes.
#pragma once

#include <span>
#include <vector>

#include "handles.h"
#include "packed_arguments.h"

namespace rondo {

class Graph {
 public:
  // One kernel node for each plan node, in the state that `nodes` gives, and the plan's dependencies. Throws
  // Error with the node's place in the schedule.
  Graph(Driver& driver, const Plan& plan, const Schedule& schedule, std::span<const NodeUpdate> nodes);

  // In a DriverScope. Updates affect launches made from now on.
  Status update(const NodeUpdate& update) noexcept {
    return driver_->update_kernel_node(exec_.get(), nodes_[update.node], update.launch);
  }
  Status enable(std::uint32_t node, bool enabled) noexcept {
    return driver_->enable_node(exec_.get(), nodes_[node], enabled);
  }
  Status launch(StreamHandle stream) noexcept { return driver_->launch_graph(exec_.get(), stream); }
  void upload(StreamHandle stream) { driver_->upload(exec_.get(), stream); }

 private:
  Driver* driver_;
  OwnedGraph graph_;  // outlives the exec: a node that an update names belongs to it
  std::vector<NodeHandle> nodes_;
  OwnedExec exec_;
};

}  // namespace rondo
