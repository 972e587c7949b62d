#include "graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <queue>

#include "rondo/error.h"

namespace rondo::host {
namespace {

// What the kernels' arguments are aligned to in memory: as much as malloc gives, and all that a parameter's
// type needs.
constexpr std::size_t argument_alignment = alignof(std::max_align_t);

std::size_t round_up(std::size_t bytes) {
  return (bytes + argument_alignment - 1) / argument_alignment * argument_alignment;
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace

Node& Graph::add(const KernelLaunch& launch, const Function& function) {
  nodes_.push_back(
      std::make_unique<Node>(Node{this,
                                  nodes_.size(),
                                  &function,
                                  launch.shape,
                                  {launch.arguments, launch.arguments + launch.argument_bytes}}));
  return *nodes_.back();
}

void Graph::add_dependencies(std::span<const GraphEdge> added) {
  auto edges = edges_;
  for (std::size_t i = 0; i < added.size(); ++i) {
    const auto* before = reinterpret_cast<const Node*>(added[i].from);
    const auto* after = reinterpret_cast<const Node*>(added[i].to);
    if (before == nullptr || after == nullptr || before->graph != this || after->graph != this) {
      throw Error(ErrorCode::bad_argument, fmt::format("adding dependency {}: not a node of this graph", i));
    }
    if (before == after) {
      throw Error(ErrorCode::bad_argument,
                  fmt::format("adding dependency {}: node {} would wait for itself", i, before->index));
    }
    if (!edges.emplace(before->index, after->index).second) {
      throw Error(ErrorCode::bad_argument,
                  fmt::format("adding dependency {}: node {} before node {} is there already", i,
                              before->index, after->index));
    }
  }
  edges_ = std::move(edges);
}

std::vector<std::size_t> Graph::topological_order() const {
  std::vector<std::vector<std::size_t>> after(nodes_.size());
  std::vector<std::size_t> missing(nodes_.size(), 0);
  for (const auto& [from, to] : edges_) {
    after[from].push_back(to);
    ++missing[to];
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<std::size_t> order;
  order.reserve(nodes_.size());
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (std::size_t next : after[order.back()]) {
      if (--missing[next] == 0) ready.push(next);
    }
  }
  if (order.size() != nodes_.size()) {
    const auto waiting =
        std::find_if(missing.begin(), missing.end(), [](std::size_t count) { return count != 0; });
    throw Error(
        ErrorCode::bad_argument,
        fmt::format("instantiating a graph: its dependencies have a cycle, which node {} is in or behind",
                    waiting - missing.begin()));
  }
  return order;
}

Exec::Exec(const Graph& graph)
    : graph_(graph), position_(graph.size()), current_(std::make_shared<ExecVersion>()) {
  const std::vector<std::size_t> order = graph.topological_order();
  std::size_t bytes = 0;
  for (std::size_t index : order) bytes += round_up(graph.node(index).arguments.size());
  current_->arguments.resize(bytes);
  current_->steps.reserve(order.size());
  std::size_t offset = 0;
  for (std::size_t index : order) {
    const Node& node = graph.node(index);
    position_[index] = current_->steps.size();
    const std::size_t capacity = round_up(node.arguments.size());
    copy_bytes(current_->arguments.data() + offset, node.arguments.data(), node.arguments.size());
    current_->steps.push_back({node.function, node.shape, offset, node.arguments.size(), capacity, true});
    offset += capacity;
  }
}

ExecVersion& Exec::writable() {
  // Acquire: what the launches have read of a version was read before it is written here.
  if (current_->queued.load(std::memory_order_acquire) == 0) return *current_;
  for (std::shared_ptr<ExecVersion>& other : others_) {
    if (other->queued.load(std::memory_order_acquire) != 0) continue;
    other->assign(*current_);
    std::swap(other, current_);
    return *current_;
  }
  auto version = std::make_shared<ExecVersion>();
  version->assign(*current_);
  others_.push_back(current_);
  current_ = std::move(version);
  return *current_;
}

void Exec::update(const Node& node, const KernelLaunch& launch, const Function& function) {
  ExecVersion& version = writable();
  ExecVersion::Step& step = version.steps[position_[node.index]];
  if (launch.argument_bytes > step.capacity) {
    // Another function with more arguments: they move to the end.
    const std::size_t offset = version.arguments.size(), capacity = round_up(launch.argument_bytes);
    version.arguments.resize(offset + capacity);
    step.offset = offset;
    step.capacity = capacity;
  }
  copy_bytes(version.arguments.data() + step.offset, launch.arguments, launch.argument_bytes);
  step.bytes = launch.argument_bytes;
  step.function = &function;
  step.shape = launch.shape;
}

void Exec::enable(const Node& node, bool enabled) {
  writable().steps[position_[node.index]].enabled = enabled;
}

}  // namespace rondo::host
