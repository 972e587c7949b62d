#include "dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>

#include "scope.h"

namespace rondo {
namespace {

bool is_pointer(const PlanArgument& argument) {
  return argument.kind == PlanArgument::Kind::buffer || argument.kind == PlanArgument::Kind::slot;
}

// Bytes [begin, end) of one piece of memory.
struct Range {
  std::size_t begin, end;
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

// What has been done to one piece of memory so far: for each of its bytes the last node that wrote it, and
// those that have read it since.
class History {
 public:
  void read(Range range, std::uint32_t node, std::vector<std::uint32_t>& wait_for) {
    split(range.begin);
    split(range.end);
    std::size_t at = range.begin;
    auto segment = segments_.lower_bound(at);
    while (at < range.end) {
      if (segment == segments_.end() || segment->first != at) {
        const std::size_t end = segment == segments_.end() ? range.end : std::min(range.end, segment->first);
        segment = segments_.emplace_hint(segment, at, Segment{end, nobody, {}});
      }
      Segment& here = segment->second;
      if (here.writer != nobody && here.writer != node) wait_for.push_back(here.writer);
      if (here.readers.empty() || here.readers.back() != node) here.readers.push_back(node);
      at = here.end;
      ++segment;
    }
  }

  void write(Range range, std::uint32_t node, std::vector<std::uint32_t>& wait_for) {
    split(range.begin);
    split(range.end);
    const auto first = segments_.lower_bound(range.begin), last = segments_.lower_bound(range.end);
    for (auto segment = first; segment != last; ++segment) {
      const Segment& here = segment->second;
      if (here.writer != nobody && here.writer != node) wait_for.push_back(here.writer);
      for (const std::uint32_t reader : here.readers) {
        if (reader != node) wait_for.push_back(reader);
      }
    }
    // Whoever waits for this write waits for all of those too.
    segments_.emplace_hint(segments_.erase(first, last), range.begin, Segment{range.end, node, {}});
  }

 private:
  static constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();
  struct Segment {
    std::size_t end;
    std::uint32_t writer;
    std::vector<std::uint32_t> readers;
  };

  // Makes a segment begin at `place` where one reaches over it.
  void split(std::size_t place) {
    auto after = segments_.upper_bound(place);
    if (after == segments_.begin()) return;
    const auto segment = std::prev(after);
    if (segment->first == place || segment->second.end <= place) return;
    Segment upper = segment->second;
    segment->second.end = place;
    segments_.emplace_hint(after, place, std::move(upper));
  }

  std::map<std::size_t, Segment> segments_;  // by where they begin; they do not overlap
};

// Goes through a plan's nodes in order and tells for whom each has to wait.
class Hazards {
 public:
  // `arena` may be null: each buffer has memory of its own.
  Hazards(const Plan& plan, const Arena* arena)
      : plan_(plan), arena_(arena), is_written_(plan.buffers.size()), histories_(plan.buffers.size() + 2) {
    for (const PlanNode& node : plan.nodes) {
      for (const PlanArgument& argument : node.arguments) {
        if (argument.kind == PlanArgument::Kind::buffer && argument.writes)
          is_written_[argument.buffer] = true;
      }
    }
  }

  void waits(std::uint32_t node, std::vector<std::uint32_t>& wait_for) {
    wait_for.clear();
    for (const PlanArgument& argument : plan_.nodes[node].arguments) {
      if (!is_pointer(argument)) continue;
      // One history for each buffer of its own, one for the arena, one for the slots.
      std::size_t index = plan_.buffers.size() + 1;
      Range range{0, plan_.slots};
      if (argument.kind == PlanArgument::Kind::buffer) {
        if (!is_written_[argument.buffer]) continue;  // then no one ever waits for anyone
        index = argument.buffer;
        range = range_of(plan_.buffers[argument.buffer], argument);
        if (arena_ != nullptr && arena_->offsets[argument.buffer]) {
          index = plan_.buffers.size();
          range.begin += *arena_->offsets[argument.buffer];
          range.end += *arena_->offsets[argument.buffer];
        }
      }
      if (argument.writes) {
        histories_[index].write(range, node, wait_for);
      } else {
        histories_[index].read(range, node, wait_for);
      }
    }
  }

 private:
  const Plan& plan_;
  const Arena* arena_;
  std::vector<bool> is_written_;  // by buffer
  std::vector<History> histories_;
};

// The two temporaries for whose sake `later` waits for `earlier`.
ReuseWait reuse_wait(const Plan& plan, const Arena& arena, std::uint32_t earlier, std::uint32_t later) {
  for (const PlanArgument& a : plan.nodes[later].arguments) {
    if (a.kind != PlanArgument::Kind::buffer || !arena.offsets[a.buffer]) continue;
    const std::size_t a_begin = *arena.offsets[a.buffer], a_end = a_begin + plan.buffers[a.buffer].info.bytes;
    for (const PlanArgument& b : plan.nodes[earlier].arguments) {
      if (b.kind != PlanArgument::Kind::buffer || b.buffer == a.buffer || !arena.offsets[b.buffer]) continue;
      const std::size_t b_begin = *arena.offsets[b.buffer],
                        b_end = b_begin + plan.buffers[b.buffer].info.bytes;
      if (a_begin < b_end && b_begin < a_end) return {earlier, later, b.buffer, a.buffer};
    }
  }
  throw std::logic_error("two nodes wait for each other, and share no memory");
}

}  // namespace

Reachability order_of_nodes(const Plan& plan) {
  Hazards hazards(plan, nullptr);
  Reachability order;
  std::vector<std::uint32_t> waits;
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    hazards.waits(i, waits);
    order.add(waits);
  }
  return order;
}

FoundDependencies find_dependencies(Plan& plan, const Arena& arena) {
  Hazards hazards(plan, &arena);
  Reachability order;
  FoundDependencies found;
  std::vector<std::uint32_t> waits;
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    hazards.waits(i, waits);
    found.redundant += order.add(waits);
    for (const std::uint32_t earlier : waits) {
      if (arena.bytes > 0 && !arena.order.is_before(earlier, i))
        found.reuse_waits.push_back(reuse_wait(plan, arena, earlier, i));
    }
    plan.nodes[i].dependencies.clear();
    for (const std::uint32_t earlier : waits) plan.nodes[i].dependencies.push_back({earlier});
  }
  return found;
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
