#include "graph_shape.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <optional>
#include <vector>

#include "reachability.h"

namespace rondo {
namespace {

constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();

class Lanes {
 public:
  Lanes(const Plan& plan, std::uint32_t lanes)
      : most_(lanes),
        height_(plan.nodes.size()),
        heir_(plan.nodes.size(), nobody),
        level_(plan.nodes.size()),
        lane_of_(plan.nodes.size()) {
    for (auto node = static_cast<std::uint32_t>(plan.nodes.size()); node-- > 0;) {
      for (const Dependency& earlier : plan.nodes[node].dependencies) {
        if (height_[node] + 1 < height_[earlier.node]) continue;
        height_[earlier.node] = height_[node] + 1;
        heir_[earlier.node] = node;
      }
    }
  }

  // Adds to `waits` of the next node what its lane makes it wait for. Whether there is such a thing.
  bool assign(std::uint32_t node, std::vector<std::uint32_t>& waits) {
    std::uint32_t ready = 0;
    for (const std::uint32_t wait : waits) ready = std::max(ready, level_[wait] + 1);
    const std::uint32_t lane = choose(node, waits, ready);
    bool added = false;
    if (lane == tails_.size()) {
      tails_.push_back(node);
    } else {
      const std::uint32_t tail = tails_[lane];
      added = !is_behind(waits, tail);
      if (added) waits.push_back(tail);
      ready = std::max(ready, level_[tail] + 1);
      tails_[lane] = node;
    }
    level_[node] = ready;
    lane_of_[node] = lane;
    order_.add(waits);
    return added;
  }

 private:
  // What speaks against a lane, the weightiest first.
  struct Score {
    bool is_reserved = false;  // for a node with more behind it than this one has
    std::uint32_t start = 0;
    // own: its tail has kept it for this node. free: the node comes after its tail anyway. taken: it will
    // wait.
    enum Kind : std::uint8_t { own, free, opened, free_for_another, taken } kind = opened;
    std::uint32_t rank = 0;

    auto operator<=>(const Score&) const = default;
  };

  // Whether a node that waits for `waits` comes after `tail`.
  bool is_behind(const std::vector<std::uint32_t>& waits, std::uint32_t tail) const {
    return std::any_of(waits.begin(), waits.end(), [&](std::uint32_t wait) {
      return wait == tail || (tail < wait && order_.is_before(tail, wait));
    });
  }

  Score score(std::uint32_t lane, std::uint32_t node, const std::vector<std::uint32_t>& waits,
              std::uint32_t ready) const {
    const std::uint32_t tail = tails_[lane], heir = heir_[tail];
    const bool has_heir = heir != nobody && heir > node;  // that has no lane yet
    Score score{.is_reserved = has_heir && height_[heir] > height_[node],
                .start = std::max(ready, level_[tail] + 1)};
    if (!is_behind(waits, tail)) {
      score.kind = Score::taken;
      // Behind what it waits for itself: one edge in place of two.
      score.rank = !waits.empty() && lane_of_[waits.back()] == lane ? 0 : 1;
      return score;
    }
    score.kind = heir == node ? Score::own : has_heir ? Score::free_for_another : Score::free;
    score.rank = nobody - level_[tail];  // those that are free for longer stay so
    return score;
  }

  std::uint32_t choose(std::uint32_t node, const std::vector<std::uint32_t>& waits,
                       std::uint32_t ready) const {
    const auto open = static_cast<std::uint32_t>(tails_.size());
    std::uint32_t best = open;
    std::optional<Score> lowest;
    if (open < most_) lowest = Score{.start = ready};
    for (std::uint32_t lane = 0; lane < open; ++lane) {
      const Score one = score(lane, node, waits, ready);
      if (lowest && !(one < *lowest)) continue;
      lowest = one;
      best = lane;
    }
    return best;
  }

  std::uint32_t most_;
  std::vector<std::uint32_t> tails_;   // by lane: its last node
  std::vector<std::uint32_t> height_;  // by node: how many nodes follow one after another
  std::vector<std::uint32_t> heir_;    // by node: with whom the longest chain goes on
  std::vector<std::uint32_t> level_;   // by node: when it starts, if every node takes the time 1
  std::vector<std::uint32_t> lane_of_;
  Reachability order_;
};

}  // namespace

GraphShape shape_of(const Plan& plan) {
  std::vector<std::size_t> level(plan.nodes.size()), nodes;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    for (const Dependency& earlier : plan.nodes[i].dependencies)
      level[i] = std::max(level[i], level[earlier.node] + 1);
    if (level[i] >= nodes.size()) nodes.resize(level[i] + 1);
    ++nodes[level[i]];
  }
  return {.depth = nodes.size(), .widest = nodes.empty() ? 0 : *std::max_element(nodes.begin(), nodes.end())};
}

std::size_t limit_lanes(Plan& plan, std::uint32_t lanes) {
  if (lanes == 0 || shape_of(plan).widest <= lanes) return 0;
  Lanes layout(plan, lanes);
  std::size_t added = 0;
  std::vector<std::uint32_t> waits;
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    std::vector<Dependency>& dependencies = plan.nodes[i].dependencies;
    waits.clear();
    for (const Dependency& earlier : dependencies) waits.push_back(earlier.node);
    if (layout.assign(i, waits)) ++added;
    dependencies.clear();
    for (const std::uint32_t earlier : waits) dependencies.push_back({earlier});
  }
  return added;
}

}  // namespace rondo
