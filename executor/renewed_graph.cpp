#include "renewed_graph.h"

#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "rondo/error.h"

namespace rondo {

// Its members are the caller's while the stage is idle, built or failed, and the thread's while it is asked
// or retiring; is_changed_, updates_ and what is recorded.
class RenewedGraph::Renewal {
 public:
  Renewal(Driver& driver, const Plan& plan, const Schedule& schedule, const PackedArguments& arguments,
          std::size_t limit);
  ~Renewal();
  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;

  void count_update(std::uint32_t node) noexcept {
    ++updates_;
    note(node);
  }
  // A node that differs from the copy that the new graph is made of.
  void note(std::uint32_t node) noexcept {
    if (!is_under_way_ || is_changed_[node]) return;
    is_changed_[node] = true;
    changed_.push_back(node);  // reserved for every node
  }
  void before_launch(Graph& graph, StreamHandle stream, Counters& counters) noexcept;
  void after_launch(StreamHandle stream) noexcept;

 private:
  enum class Stage : int { idle, asked, built, failed, retiring, stopping };

  void ask() noexcept;
  void take_over(Graph& graph, StreamHandle stream, Counters& counters) noexcept;
  Status catch_up(Counters& counters) noexcept;
  void give_up(Counters& counters, Stage next) noexcept;
  void finish(Stage next) noexcept;
  void pass(Stage stage) noexcept {
    stage_.store(stage, std::memory_order_release);
    stage_.notify_all();
  }
  void work() noexcept;
  void build() noexcept;

  Driver& driver_;
  const Plan& plan_;
  const Schedule& schedule_;
  const PackedArguments& arguments_;
  const std::size_t limit_;

  std::size_t updates_ = 0;    // of the graph in use
  bool is_under_way_ = false;  // a copy has been taken, and its graph is not in use yet
  std::vector<std::uint32_t> changed_;
  std::vector<bool> is_changed_;
  // The last launch of the graph in use, recorded launch by launch while a new one is made: later the
  // caller's stream may be gone.
  OwnedEvent last_launch_;
  bool is_recorded_ = false;

  std::vector<std::byte> copied_arguments_;
  std::vector<NodeUpdate> copy_;
  std::optional<Graph>
      other_;  // the new one while it waits to be used, then the old one until it may be destroyed
  std::atomic<Stage> stage_{Stage::idle};
  std::thread thread_;
};

RenewedGraph::Renewal::Renewal(Driver& driver, const Plan& plan, const Schedule& schedule,
                               const PackedArguments& arguments, std::size_t limit)
    : driver_(driver),
      plan_(plan),
      schedule_(schedule),
      arguments_(arguments),
      limit_(limit),
      is_changed_(plan.nodes.size()),
      last_launch_(driver, driver.create_event()) {
  changed_.reserve(plan.nodes.size());
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    copy_.push_back(arguments.current(i));
    bytes += copy_.back().launch.argument_bytes;
  }
  copied_arguments_.resize(bytes);
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::run_time,
                std::string("cannot start the thread that renews the graph: ") + error.what());
  }
}

RenewedGraph::Renewal::~Renewal() {
  pass(Stage::stopping);
  thread_.join();
  // An old graph may still be running.
  if (other_) static_cast<void>(driver_.synchronize_event(last_launch_.get()));
}

void RenewedGraph::Renewal::ask() noexcept {
  std::byte* to = copied_arguments_.data();
  for (NodeUpdate& node : copy_) {
    node = arguments_.current(node.node);
    KernelLaunch& launch = node.launch;
    if (launch.argument_bytes != 0) std::memcpy(to, launch.arguments, launch.argument_bytes);
    launch.arguments = to;
    to += launch.argument_bytes;
  }
  is_under_way_ = true;
  pass(Stage::asked);
}

void RenewedGraph::Renewal::before_launch(Graph& graph, StreamHandle stream, Counters& counters) noexcept {
  Stage stage = stage_.load(std::memory_order_acquire);
  // So that there is a bound on what two graphs leak, a caller who is much faster than the thread waits.
  while ((stage == Stage::asked || stage == Stage::retiring) && updates_ >= 2 * limit_) {
    stage_.wait(stage, std::memory_order_acquire);
    stage = stage_.load(std::memory_order_acquire);
  }
  switch (stage) {
    case Stage::built:
      return take_over(graph, stream, counters);
    case Stage::failed:
      return give_up(counters, Stage::idle);
    case Stage::idle:
    case Stage::asked:
    case Stage::retiring:
    case Stage::stopping:
      return;
  }
}

void RenewedGraph::Renewal::after_launch(StreamHandle stream) noexcept {
  const bool is_due = updates_ >= limit_ && stage_.load(std::memory_order_acquire) == Stage::idle;
  if (!is_under_way_ && !is_due) return;
  is_recorded_ = driver_.record(last_launch_.get(), stream).ok();
  // Behind a launch that is recorded, so that there is something to wait for when the old graph goes.
  if (is_due && is_recorded_) ask();
}

// The new graph was made of a copy; what has been set since goes into it now.
Status RenewedGraph::Renewal::catch_up(Counters& counters) noexcept {
  for (const std::uint32_t index : changed_) {
    const NodeUpdate& now = arguments_.current(index);
    if (const Status status = other_->update(now); !status.ok()) return status;
    ++counters.node_updates;
    if (now.enabled == copy_[index].enabled) continue;
    if (const Status status = other_->enable(index, now.enabled); !status.ok()) return status;
    ++counters.node_toggles;
  }
  return {};
}

void RenewedGraph::Renewal::take_over(Graph& graph, StreamHandle stream, Counters& counters) noexcept {
  // The old graph is good and goes on where the new one cannot be had, or cannot be put behind its last
  // launch.
  if (!is_recorded_ || !catch_up(counters).ok() || !driver_.wait(stream, last_launch_.get()).ok()) {
    return give_up(counters, Stage::retiring);
  }
  std::swap(graph, *other_);
  ++counters.instantiations;
  ++counters.renewals;
  updates_ = changed_.size();
  finish(Stage::retiring);
}

// To be tried again after as many updates.
void RenewedGraph::Renewal::give_up(Counters& counters, Stage next) noexcept {
  ++counters.failed_renewals;
  updates_ = 0;
  finish(next);
}

void RenewedGraph::Renewal::finish(Stage next) noexcept {
  is_under_way_ = false;
  for (const std::uint32_t index : changed_) is_changed_[index] = false;
  changed_.clear();
  pass(next);
}

void RenewedGraph::Renewal::work() noexcept {
  while (true) {
    Stage stage = stage_.load(std::memory_order_acquire);
    Stage next = stage;
    switch (stage) {
      case Stage::stopping:
        return;
      case Stage::asked:
        build();
        next = other_ ? Stage::built : Stage::failed;
        break;
      case Stage::retiring:
        static_cast<void>(driver_.synchronize_event(last_launch_.get()));
        other_.reset();
        next = Stage::idle;
        break;
      case Stage::idle:
      case Stage::built:
      case Stage::failed:
        stage_.wait(stage, std::memory_order_acquire);
        continue;
    }
    // Fails where the stage has become stopping meanwhile.
    stage_.compare_exchange_strong(stage, next, std::memory_order_acq_rel);
    stage_.notify_all();
  }
}

void RenewedGraph::Renewal::build() noexcept {
  try {
    other_.emplace(driver_, plan_, schedule_, copy_);
  } catch (const std::exception&) {
    other_.reset();  // counted as a failed renewal
  }
}

namespace {

std::vector<NodeUpdate> current_nodes(const Plan& plan, const PackedArguments& arguments) {
  std::vector<NodeUpdate> nodes;
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) nodes.push_back(arguments.current(i));
  return nodes;
}

}  // namespace

RenewedGraph::RenewedGraph(Driver& driver, const Plan& plan, const Schedule& schedule,
                           const PackedArguments& arguments, std::size_t updates_before_renewal,
                           Counters& counters)
    : graph_(driver, plan, schedule, current_nodes(plan, arguments)), counters_(counters) {
  ++counters_.instantiations;
  if (updates_before_renewal != 0) {
    renewal_ = std::make_unique<Renewal>(driver, plan, schedule, arguments, updates_before_renewal);
  }
}

RenewedGraph::~RenewedGraph() = default;

void RenewedGraph::count_update(std::uint32_t node) noexcept { renewal_->count_update(node); }

Status RenewedGraph::enable(std::uint32_t node, bool enabled) noexcept {
  const Status status = graph_.enable(node, enabled);
  if (!status.ok()) return status;
  ++counters_.node_toggles;
  if (renewal_) renewal_->note(node);
  return {};
}

Status RenewedGraph::launch_and_renew(StreamHandle stream) noexcept {
  renewal_->before_launch(graph_, stream, counters_);
  const Status status = graph_.launch(stream);
  if (!status.ok()) return status;
  ++counters_.graph_launches;
  renewal_->after_launch(stream);
  return {};
}

}  // namespace rondo
