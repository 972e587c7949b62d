// A graph that is replaced by a new one after a number of node updates.
//
// Current ROCm keeps the kernarg memory of every exec update until the exec is destroyed, about 5.5 KB each
// (ROCm/rocm-systems#10713). So the state of all nodes is copied at some launch, a thread of its own builds a new graph and exec from
// it, and a later launch brings that up to date with what was updated meanwhile, and goes on with it. The old one is destroyed when
// its last launch is done. The caller waits for none of this, unless twice as many updates have come before the new graph is there and the
// old one gone: then `launch` waits, so that there is a bound on what is leaked.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "graph.h"
#include "rondo/session.h"

namespace rondo {

class RenewedGraph {
 public:
  // All references outlive this object, and all of them but `arguments` and `counters` stay as they are. `updates_before_renewal`:
  // 0 for never. Throws Error as Graph.
  RenewedGraph(Driver& driver, const Plan& plan, const Schedule& schedule, const PackedArguments& arguments,
               std::size_t updates_before_renewal, Counters& counters);
  ~RenewedGraph();
  RenewedGraph(const RenewedGraph&) = delete;
  RenewedGraph& operator=(const RenewedGraph&) = delete;

  void upload(StreamHandle stream) { graph_.upload(stream); }
  // Affect launches made from now on. `arguments` must have accepted the same state before the next launch.
  Status update(const NodeUpdate& update) noexcept {
    const Status status = graph_.update(update);
    if (!status.ok()) return status;
    ++counters_.node_updates;
    if (renewal_) count_update(update.node);
    return status;
  }
  Status enable(std::uint32_t node, bool enabled) noexcept;
  // The new graph's first launch waits for the old one's last, in whatever streams they are. Launches in several streams are in no
  // other order than the driver's own, which CUDA promises for the launches of one exec, or the caller's.
  Status launch(StreamHandle stream) noexcept {
    if (renewal_) return launch_and_renew(stream);
    const Status status = graph_.launch(stream);
    if (status.ok()) ++counters_.graph_launches;
    return status;
  }

 private:
  class Renewal;

  void count_update(std::uint32_t node) noexcept;
  Status launch_and_renew(StreamHandle stream) noexcept;

  Graph graph_;
  Counters& counters_;
  std::unique_ptr<Renewal> renewal_;  // null: never
};

}  // namespace rondo
