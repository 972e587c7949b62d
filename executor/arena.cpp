#include "arena.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "dependencies.h"

namespace rondo {
namespace {

constexpr std::size_t granularity = 256;  // a driver's own alignment of allocations
// Above this many temporaries the placement that compares each with each is left out.
constexpr std::size_t most_compared = 2048;
// A buffer with more last uses than these counts as one that nobody is known to come after.
constexpr std::size_t most_last_uses = 32;

// So much more memory than the smallest placement takes is given for fewer waits.
constexpr std::size_t spare_bytes = std::size_t{1} << 20, spare_percent = 5;

constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();

std::size_t round_up(std::size_t bytes) { return (bytes + granularity - 1) / granularity * granularity; }

struct Item {
  std::uint32_t buffer;
  std::size_t bytes;  // rounded
  Lifetime life;
};

// The temporaries, and who comes after the last use of which.
class Temporaries {
 public:
  Temporaries(const Plan& plan, const Reachability& order) : order_(order), uses_(plan.buffers.size()) {
    for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
      for (const PlanArgument& argument : plan.nodes[i].arguments) {
        if (argument.kind != PlanArgument::Kind::buffer ||
            plan.buffers[argument.buffer].info.role != Role::temporary)
          continue;
        std::vector<std::uint32_t>& uses = uses_[argument.buffer].nodes;
        if (uses.empty() || uses.back() != i) uses.push_back(i);
      }
    }
    for (std::uint32_t buffer = 0; buffer < uses_.size(); ++buffer) {
      const std::vector<std::uint32_t>& nodes = uses_[buffer].nodes;
      if (nodes.empty()) continue;
      items_.push_back({buffer, round_up(plan.buffers[buffer].info.bytes), {nodes.front(), nodes.back()}});
    }
    std::stable_sort(items_.begin(), items_.end(),
                     [](const Item& a, const Item& b) { return a.life.first < b.life.first; });
  }

  const std::vector<Item>& items() const noexcept { return items_; }  // by first use
  Lifetime life(std::uint32_t buffer) const {
    return {uses_[buffer].nodes.front(), uses_[buffer].nodes.back()};
  }

  // Whether `later`, whose life begins when that of `earlier` is over, comes after it without any shared
  // memory.
  bool is_after(std::uint32_t earlier, std::uint32_t later) {
    const std::vector<std::uint32_t>& last = last_uses(earlier);
    const std::uint32_t first = uses_[later].nodes.front();
    return last.size() <= most_last_uses && std::all_of(last.begin(), last.end(), [&](std::uint32_t node) {
             return order_.is_before(node, first);
           });
  }

  std::size_t peak() const {
    std::vector<std::pair<std::uint32_t, const Item*>> ends;
    for (const Item& item : items_) ends.emplace_back(item.life.last, &item);
    std::sort(ends.begin(), ends.end());
    std::size_t now = 0, most = 0;
    auto end = ends.begin();
    for (const Item& item : items_) {
      for (; end->first < item.life.first; ++end) now -= end->second->bytes;
      now += item.bytes;
      most = std::max(most, now);
    }
    return most;
  }

 private:
  struct Uses {
    std::vector<std::uint32_t> nodes,
        last;  // last: those that come before no other use; found when asked for
  };

  const std::vector<std::uint32_t>& last_uses(std::uint32_t buffer) {
    Uses& uses = uses_[buffer];
    if (!uses.last.empty()) return uses.last;
    for (auto node = uses.nodes.rbegin(); node != uses.nodes.rend(); ++node) {
      const bool is_last = std::none_of(uses.last.begin(), uses.last.end(),
                                        [&](std::uint32_t other) { return order_.is_before(*node, other); });
      if (is_last) uses.last.push_back(*node);
      if (uses.last.size() > most_last_uses) break;
    }
    return uses.last;
  }

  const Reachability& order_;
  std::vector<Uses> uses_;  // by buffer
  std::vector<Item> items_;
};

struct Placement {
  std::vector<std::size_t> offsets;  // by item
  std::size_t bytes = 0;
  std::size_t waits = 0;  // pairs of which the later waits only because it has the earlier's memory
};

// Who had which bytes last. Segments follow each other without gaps.
class Ownership {
 public:
  explicit Ownership(Temporaries& temporaries) : temporaries_(temporaries) {}

  // Whether a placement goes where somebody else's memory would make it wait.
  enum class Wait : std::uint8_t { allowed, never };

  // The lowest place for `item`, or the one in the smallest gap that is large enough; none beyond `limit`.
  std::optional<std::size_t> find(const Item& item, Wait wait, bool smallest_gap, std::size_t limit) {
    while (!ends_.empty() && ends_.top().first < item.life.first) {
      live_bytes_ -= ends_.top().second;
      ends_.pop();
    }
    std::optional<std::size_t> found;
    std::size_t found_gap = 0, begin = 0;
    const auto try_gap = [&](std::size_t end) {
      const std::size_t gap = end - begin;
      if (gap < item.bytes || (found && (!smallest_gap || gap >= found_gap))) return;
      found = begin;
      found_gap = gap;
    };
    // Where less is free than it needs, only the end is left.
    const bool is_full = extent() - live_bytes_ < item.bytes;
    const std::size_t first = is_full ? first_of_end(item, wait) : 0;
    if (first > 0) begin = segments_[first - 1].end;
    for (std::size_t i = first; i < segments_.size(); ++i) {
      const Segment& segment = segments_[i];
      if (is_free(segment.owner, item, wait)) continue;
      try_gap(segment.begin);
      if (found && !smallest_gap) return found;
      begin = segment.end;
    }
    if (limit > begin) try_gap(limit);
    return found;
  }

  // Gives the bytes to `item`. How many earlier owners it waits for only because of that.
  std::size_t give(const Item& item, std::size_t offset) {
    const std::size_t end = offset + item.bytes;
    live_bytes_ += item.bytes;
    ends_.emplace(item.life.last, item.bytes);
    if (end > extent()) segments_.push_back({extent(), end, nobody});
    split(offset);
    split(end);
    const auto first = at(offset), last = at(end);
    std::vector<std::uint32_t> owners;
    for (auto segment = first; segment != last; ++segment) {
      if (segment->owner != nobody && !temporaries_.is_after(segment->owner, item.buffer))
        owners.push_back(segment->owner);
    }
    *first = {offset, end, item.buffer};
    segments_.erase(first + 1, last);
    std::sort(owners.begin(), owners.end());
    return static_cast<std::size_t>(std::unique(owners.begin(), owners.end()) - owners.begin());
  }

  std::size_t extent() const noexcept { return segments_.empty() ? 0 : segments_.back().end; }

 private:
  struct Segment {
    std::size_t begin, end;
    std::uint32_t owner;
  };

  bool is_free(std::uint32_t owner, const Item& item, Wait wait) {
    if (owner == nobody) return true;
    return temporaries_.life(owner).last < item.life.first &&
           (wait == Wait::allowed || temporaries_.is_after(owner, item.buffer));
  }
  // The segment behind the last one that is taken.
  std::size_t first_of_end(const Item& item, Wait wait) {
    std::size_t first = segments_.size();
    while (first > 0 && is_free(segments_[first - 1].owner, item, wait)) --first;
    return first;
  }
  std::vector<Segment>::iterator at(std::size_t begin) {
    return std::lower_bound(segments_.begin(), segments_.end(), begin,
                            [](const Segment& segment, std::size_t place) { return segment.begin < place; });
  }
  void split(std::size_t place) {
    auto segment = at(place);
    if (segment == segments_.begin() || (segment != segments_.end() && segment->begin == place)) return;
    --segment;
    if (segment->end <= place) return;
    const Segment upper{place, segment->end, segment->owner};
    segment->end = place;
    segments_.insert(segment + 1, upper);
  }

  using End = std::pair<std::uint32_t, std::size_t>;  // of a life: its last node, and the bytes
  Temporaries& temporaries_;
  std::vector<Segment> segments_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;  // of those that live
  std::size_t live_bytes_ = 0;
};

// In the order of first uses. `avoid`: where nobody waits for it, as long as that does not make the arena
// grow; `grow`: even then.
struct ByStart {
  bool avoid, grow, smallest_gap;
};

Placement place_by_start(Temporaries& temporaries, ByStart way) {
  constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
  Placement placement;
  Ownership ownership(temporaries);
  for (const Item& item : temporaries.items()) {
    std::optional<std::size_t> offset;
    if (way.avoid)
      offset = ownership.find(item, Ownership::Wait::never, way.smallest_gap,
                              way.grow ? no_limit : ownership.extent());
    if (!offset) offset = ownership.find(item, Ownership::Wait::allowed, way.smallest_gap, no_limit);
    placement.waits += ownership.give(item, *offset);
    placement.offsets.push_back(*offset);
  }
  placement.bytes = ownership.extent();
  return placement;
}

// The largest first, each in the lowest gap that is free for all of its life.
Placement place_by_size(Temporaries& temporaries) {
  const std::vector<Item>& items = temporaries.items();
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return items[a].bytes > items[b].bytes; });
  Placement placement;
  placement.offsets.resize(items.size());
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : order) {
    std::size_t begin = 0;
    for (const std::size_t other : placed) {
      if (items[other].life.last < items[i].life.first || items[i].life.last < items[other].life.first)
        continue;
      if (placement.offsets[other] >= begin + items[i].bytes) break;
      begin = std::max(begin, placement.offsets[other] + items[other].bytes);
    }
    placement.offsets[i] = begin;
    const auto after =
        std::upper_bound(placed.begin(), placed.end(), begin,
                         [&](std::size_t at, std::size_t p) { return at < placement.offsets[p]; });
    placed.insert(after, i);
  }
  Ownership ownership(temporaries);
  for (std::size_t i = 0; i < items.size(); ++i)
    placement.waits += ownership.give(items[i], placement.offsets[i]);
  placement.bytes = ownership.extent();
  return placement;
}

Placement best_placement(Temporaries& temporaries, std::size_t peak) {
  std::vector<Placement> tried;
  for (const ByStart way : {ByStart{.avoid = true, .grow = true, .smallest_gap = false},
                            ByStart{.avoid = true, .grow = false, .smallest_gap = false},
                            ByStart{.avoid = true, .grow = false, .smallest_gap = true},
                            ByStart{.avoid = false, .grow = false, .smallest_gap = false},
                            ByStart{.avoid = false, .grow = false, .smallest_gap = true}}) {
    tried.push_back(place_by_start(temporaries, way));
    if (tried.back().bytes == peak && tried.back().waits == 0) return tried.back();
  }
  const auto is_smaller = [](const Placement& a, const Placement& b) { return a.bytes < b.bytes; };
  std::size_t smallest = std::min_element(tried.begin(), tried.end(), is_smaller)->bytes;
  if (smallest > peak && temporaries.items().size() <= most_compared) {
    tried.push_back(place_by_size(temporaries));
    smallest = std::min(smallest, tried.back().bytes);
  }
  const std::size_t limit = smallest + std::max(spare_bytes, smallest / 100 * spare_percent);
  std::erase_if(tried, [&](const Placement& placement) { return placement.bytes > limit; });
  return *std::min_element(tried.begin(), tried.end(), [](const Placement& a, const Placement& b) {
    return a.waits != b.waits ? a.waits < b.waits : a.bytes < b.bytes;
  });
}

}  // namespace

Arena without_arena(const Plan& plan) {
  Arena arena;
  arena.offsets.resize(plan.buffers.size());
  arena.lifetimes.resize(plan.buffers.size());
  return arena;
}

Arena place_temporaries(const Plan& plan) {
  Arena arena = without_arena(plan);
  arena.order = order_of_nodes(plan);
  Temporaries temporaries(plan, arena.order);
  arena.peak_bytes = temporaries.peak();
  const Placement placement = best_placement(temporaries, arena.peak_bytes);
  arena.bytes = placement.bytes;
  for (std::size_t i = 0; i < temporaries.items().size(); ++i) {
    const Item& item = temporaries.items()[i];
    arena.offsets[item.buffer] = placement.offsets[i];
    arena.lifetimes[item.buffer] = item.life;
  }
  return arena;
}

}  // namespace rondo
