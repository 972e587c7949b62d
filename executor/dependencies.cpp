#include "dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "scope.h"

namespace rondo {
namespace {

constexpr std::size_t arena_granularity = 256;  // a driver's own alignment of allocations

std::size_t round_up(std::size_t bytes) {
  return (bytes + arena_granularity - 1) / arena_granularity * arena_granularity;
}

bool is_pointer(const PlanArgument& argument) {
  return argument.kind == PlanArgument::Kind::buffer || argument.kind == PlanArgument::Kind::slot;
}

// Bytes [begin, end) of one piece of memory.
struct Range {
  std::size_t begin, end;
};

// What has been done to one piece of memory so far: the nodes that any later access may have to wait for.
class History {
 public:
  void read(Range range, std::uint32_t node, std::vector<std::uint32_t>& wait_for) {
    for (const Access& access : accesses_) {
      if (access.is_write && overlaps(access.range, range) && access.node != node)
        wait_for.push_back(access.node);
    }
    accesses_.push_back({range, node, false});
  }

  void write(Range range, std::uint32_t node, std::vector<std::uint32_t>& wait_for) {
    for (const Access& access : accesses_) {
      if (overlaps(access.range, range) && access.node != node) wait_for.push_back(access.node);
    }
    // What the new write covers is behind it for good: whoever waits for the write waits for those too.
    std::erase_if(accesses_, [&](const Access& access) {
      return access.range.begin >= range.begin && access.range.end <= range.end && access.node != node;
    });
    accesses_.push_back({range, node, true});
  }

 private:
  struct Access {
    Range range;
    std::uint32_t node;
    bool is_write;
  };

  static bool overlaps(Range a, Range b) { return a.begin < b.end && b.begin < a.end; }

  std::vector<Access> accesses_;
};

// Removes from `waits` each node that another of them already waits for, through however many others.
class Reduction {
 public:
  explicit Reduction(const std::vector<PlanNode>& nodes) : nodes_(nodes), seen_(nodes.size(), 0) {}

  void reduce(std::vector<std::uint32_t>& waits) {
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    if (waits.size() < 2) return;
    ++mark_;
    // Nodes wait for earlier ones only, so nothing below the first needs to be looked at.
    const std::uint32_t first = waits.front();
    std::vector<std::uint32_t> open;
    for (const std::uint32_t wait : waits)
      open.insert(open.end(), nodes_[wait].dependencies.begin(), nodes_[wait].dependencies.end());
    while (!open.empty()) {
      const std::uint32_t node = open.back();
      open.pop_back();
      if (node < first || seen_[node] == mark_) continue;
      seen_[node] = mark_;
      open.insert(open.end(), nodes_[node].dependencies.begin(), nodes_[node].dependencies.end());
    }
    std::erase_if(waits, [&](std::uint32_t wait) { return seen_[wait] == mark_; });
  }

 private:
  const std::vector<PlanNode>& nodes_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t mark_ = 0;
};

Range range_of(const PlanBuffer& buffer, const PlanArgument& argument) {
  if (!argument.value.is_fixed() || !argument.extent || !argument.extent->is_fixed())
    return {0, buffer.info.bytes};
  const std::size_t begin = static_cast<std::size_t>(argument.value.fixed);
  const std::size_t block = buffer.type().block_elements;
  const std::size_t end =
      (begin + static_cast<std::size_t>(argument.extent->fixed) + block - 1) / block * block;
  return {buffer.byte_offset(begin), buffer.byte_offset(end)};
}

}  // namespace

Arena place_temporaries(const Plan& plan) {
  struct Life {
    std::uint32_t first, last;
  };
  std::map<std::uint32_t, Life> lives;  // by buffer
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    for (const PlanArgument& argument : plan.nodes[i].arguments) {
      if (argument.kind != PlanArgument::Kind::buffer ||
          plan.buffers[argument.buffer].info.role != Role::temporary)
        continue;
      lives.emplace(argument.buffer, Life{i, i}).first->second.last = i;
    }
  }
  std::vector<std::uint32_t> order;
  for (const auto& [buffer, life] : lives) order.push_back(buffer);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return lives[a].first < lives[b].first; });

  Arena arena;
  arena.offsets.resize(plan.buffers.size());
  struct Placed {
    std::size_t begin, end;
    std::uint32_t last;
  };
  std::vector<Placed> live;  // by address
  for (const std::uint32_t buffer : order) {
    std::erase_if(live, [&](const Placed& placed) { return placed.last < lives[buffer].first; });
    const std::size_t bytes = round_up(plan.buffers[buffer].info.bytes);
    std::size_t begin = 0;
    auto next = live.begin();
    for (; next != live.end() && next->begin - begin < bytes; ++next) begin = next->end;
    live.insert(next, {begin, begin + bytes, lives[buffer].last});
    arena.offsets[buffer] = begin;
    arena.bytes = std::max(arena.bytes, begin + bytes);
  }
  return arena;
}

void find_dependencies(Plan& plan, const Arena& arena) {
  // One history for each buffer of its own, one for the arena, one for the slots.
  const std::size_t arena_index = plan.buffers.size(), slots_index = arena_index + 1;
  std::vector<History> histories(plan.buffers.size() + 2);
  Reduction reduction(plan.nodes);
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    PlanNode& node = plan.nodes[i];
    for (const PlanArgument& argument : node.arguments) {
      if (!is_pointer(argument)) continue;
      std::size_t index = slots_index;
      Range range{0, plan.slots};
      if (argument.kind == PlanArgument::Kind::buffer) {
        const PlanBuffer& buffer = plan.buffers[argument.buffer];
        if (buffer.info.role == Role::weight) continue;  // nothing ever writes one
        range = range_of(buffer, argument);
        index = argument.buffer;
        if (!arena.offsets.empty() && arena.offsets[argument.buffer]) {
          index = arena_index;
          range.begin += *arena.offsets[argument.buffer];
          range.end += *arena.offsets[argument.buffer];
        }
      }
      if (argument.writes) {
        histories[index].write(range, i, node.dependencies);
      } else {
        histories[index].read(range, i, node.dependencies);
      }
    }
    reduction.reduce(node.dependencies);
  }
}

void check_temporaries(const Plan& plan, const Schedule& schedule) {
  Complaints complaints(schedule);
  std::vector<bool> written(plan.buffers.size());
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const PlanNode& node = plan.nodes[i];
    for (std::size_t k = 0; k < node.arguments.size(); ++k) {
      const PlanArgument& argument = node.arguments[k];
      if (argument.kind != PlanArgument::Kind::buffer || argument.writes || written[argument.buffer])
        continue;
      const BufferInfo& buffer = plan.buffers[argument.buffer].info;
      if (buffer.role != Role::temporary) continue;
      complaints.add(
          {.place = plan.place(schedule, i, k),
           .message = fmt::format(
               "the temporary \"{}\" is read here before any op of the step has written it", buffer.name),
           .hint = "A buffer whose content lasts from step to step has the role \"state\"."});
    }
    for (const PlanArgument& argument : node.arguments) {
      if (argument.kind == PlanArgument::Kind::buffer && argument.writes) written[argument.buffer] = true;
    }
  }
  complaints.throw_if_any();
}

}  // namespace rondo
