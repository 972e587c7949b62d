// Graphs of kernel nodes and their executable form.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "../driver.h"
#include "module.h"

namespace rondo::host {

class Graph;

struct Node {
  const Graph* graph;
  std::size_t index;  // in the order in which the nodes were added
  const Function* function;
  LaunchShape shape;
  std::vector<std::byte> arguments;
};

class Graph {
 public:
  // The launch has been checked.
  Node& add(const KernelLaunch& launch, const Function& function);
  // Throws Error(bad_argument) for a node of another graph, a node that is to wait for itself, and a
  // dependency that is there already (which CUDA refuses).
  void add_dependencies(std::span<const GraphEdge> added);
  // Node indices, each after all that it depends on; among those that are ready the one added first. Throws
  // Error(bad_argument) where the dependencies have a cycle.
  std::vector<std::size_t> topological_order() const;
  const Node& node(std::size_t index) const { return *nodes_[index]; }
  std::size_t size() const noexcept { return nodes_.size(); }

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
  std::set<std::pair<std::size_t, std::size_t>> edges_;
};

// All nodes of an exec as one launch finds them. Immutable while a launch of it is queued.
struct ExecVersion {
  struct Step {
    const Function* function;
    LaunchShape shape;
    std::size_t offset, bytes, capacity;  // of its arguments
    bool enabled;
  };
  std::vector<Step> steps;  // in the order of execution
  std::vector<std::byte> arguments;
  std::atomic<int> queued{0};  // launches that have not finished

  ExecVersion() = default;
  void assign(const ExecVersion& other) {
    steps = other.steps;
    arguments = other.arguments;
  }
};

class Exec {
 public:
  explicit Exec(const Graph& graph);

  const Graph& graph() const noexcept { return graph_; }
  // These two may throw std::bad_alloc, and have changed nothing then. They copy the version first where a
  // launch of it is queued.
  void update(const Node& node, const KernelLaunch& launch, const Function& function);
  void enable(const Node& node, bool enabled);
  // The current version, counted as queued once more; who runs it counts it down (release).
  std::shared_ptr<ExecVersion> queue() noexcept {
    current_->queued.fetch_add(1, std::memory_order_relaxed);
    return current_;
  }

 private:
  ExecVersion& writable();

  const Graph& graph_;
  std::vector<std::size_t> position_;  // of each node of the graph in the order of execution
  std::shared_ptr<ExecVersion> current_;
  std::vector<std::shared_ptr<ExecVersion>>
      others_;  // older versions, used again when their launches have finished
};

}  // namespace rondo::host
