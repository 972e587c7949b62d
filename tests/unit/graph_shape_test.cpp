#include "graph_shape.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <random>

#include "plan_builder.h"
#include "reachability.h"

namespace rondo {
namespace {

using test::PlanBuilder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Reachability order_of(const Plan& plan) {
  Reachability order;
  for (const PlanNode& node : plan.nodes) {
    std::vector<std::uint32_t> waits;
    for (const Dependency& earlier : node.dependencies) waits.push_back(earlier.node);
    const std::vector<std::uint32_t> before = waits;
    order.add(waits);
    EXPECT_EQ(waits, before) << "an edge that follows from others";
  }
  return order;
}

// The most nodes of which none waits for another: by Dilworth's theorem as many as the chains that a smallest
// cover has, which is the number of nodes less a largest matching of each with a later one.
std::size_t width_of(const Reachability& order) {
  const std::size_t count = order.size();
  std::vector<std::size_t> before(count, count);
  std::vector<bool> seen;
  const std::function<bool(std::size_t)> match = [&](std::size_t node) {
    for (std::size_t later = node + 1; later < count; ++later) {
      if (seen[later] ||
          !order.is_before(static_cast<std::uint32_t>(node), static_cast<std::uint32_t>(later)))
        continue;
      seen[later] = true;
      if (before[later] == count || match(before[later])) {
        before[later] = node;
        return true;
      }
    }
    return false;
  };
  std::size_t width = count;
  for (std::size_t node = 0; node < count; ++node) {
    seen.assign(count, false);
    if (match(node)) --width;
  }
  return width;
}

// A node that all others wait for, `wide` nodes side by side, and one that waits for them.
PlanBuilder fan(std::uint32_t wide) {
  PlanBuilder builder;
  const auto x = builder.buffer(4);
  builder.node({{x, true}});
  std::vector<PlanBuilder::Use> all;
  for (std::uint32_t i = 0; i < wide; ++i) {
    const auto y = builder.buffer(4);
    builder.node({{x, false}, {y, true}});
    all.push_back({y, false});
  }
  builder.node(all);
  builder.find();
  return builder;
}

TEST(GraphShape, AFanIsSpreadOverTheLanes) {
  PlanBuilder builder = fan(9);
  EXPECT_EQ(shape_of(builder.plan).depth, 3u);
  EXPECT_EQ(shape_of(builder.plan).widest, 9u);
  EXPECT_EQ(limit_lanes(builder.plan, 4), 5u);
  EXPECT_EQ(shape_of(builder.plan).widest, 4u);
  EXPECT_EQ(shape_of(builder.plan).depth, 5u);  // three in one lane, two in the others
  EXPECT_THAT(builder.dependencies(4), ElementsAre(0));
  EXPECT_EQ(builder.dependencies(5).size(), 1u);   // what comes first in its lane, and not the root
  EXPECT_EQ(builder.dependencies(10).size(), 4u);  // the lanes' last nodes
}

TEST(GraphShape, OneLaneIsAChain) {
  PlanBuilder builder = fan(9);
  limit_lanes(builder.plan, 1);
  EXPECT_EQ(shape_of(builder.plan).depth, 11u);
  EXPECT_EQ(shape_of(builder.plan).widest, 1u);
}

TEST(GraphShape, WhatIsNarrowEnoughIsLeftAlone) {
  PlanBuilder builder = fan(9);
  EXPECT_EQ(limit_lanes(builder.plan, 9), 0u);
  EXPECT_EQ(limit_lanes(builder.plan, 0), 0u);
  EXPECT_EQ(shape_of(builder.plan).widest, 9u);
  EXPECT_EQ(shape_of(Plan{}).depth, 0u);
}

// Strands keep together, in whichever order they are emitted: no lane is longer than it has to be.
TEST(GraphShape, StrandsShareTheLanesEvenly) {
  constexpr std::uint32_t strands = 12, length = 6, lanes = 4;
  for (const bool by_strand : {true, false}) {
    PlanBuilder builder;
    for (std::uint32_t i = 0; i < strands; ++i) builder.buffer(4);
    for (std::uint32_t i = 0; i < strands * length; ++i)
      builder.node({{by_strand ? i / length : i % strands, true}});
    builder.find();
    limit_lanes(builder.plan, lanes);
    EXPECT_EQ(shape_of(builder.plan).depth, strands * length / lanes);
    EXPECT_EQ(width_of(order_of(builder.plan)), lanes);
  }
}

// A long chain with work beside each of its nodes: what is beside it never holds it up.
TEST(GraphShape, TheLongestChainKeepsItsLane) {
  constexpr std::uint32_t length = 10, beside = 20, lanes = 4;
  PlanBuilder builder;
  const auto x = builder.buffer(4);
  std::vector<std::uint32_t> chain;
  for (std::uint32_t i = 0; i < length; ++i) {
    chain.push_back(static_cast<std::uint32_t>(builder.plan.nodes.size()));
    const auto y = builder.buffer(4);
    builder.node({{x, true}, {y, true}});
    for (std::uint32_t k = 0; k < beside; ++k) builder.node({{y, false}, {builder.buffer(4), true}});
  }
  builder.find();
  limit_lanes(builder.plan, lanes);
  for (std::uint32_t i = 1; i < length; ++i)
    EXPECT_THAT(builder.dependencies(chain[i]), ElementsAre(chain[i - 1]));
  EXPECT_LE(width_of(order_of(builder.plan)), lanes);
}

TEST(GraphShape, OfRandomPlansHasNoMoreChainsAndLosesNoOrder) {
  std::mt19937 random(9);
  for (int round = 0; round < 60; ++round) {
    constexpr std::uint32_t nodes = 80, buffers = 30;
    PlanBuilder builder;
    for (std::uint32_t i = 0; i < buffers; ++i) builder.buffer(4);
    for (std::uint32_t i = 0; i < nodes; ++i) {
      builder.node({{static_cast<std::uint32_t>(random() % buffers), random() % 2 == 0},
                    {static_cast<std::uint32_t>(random() % buffers), random() % 4 == 0}});
    }
    builder.find();
    const Reachability before = order_of(builder.plan);
    const std::size_t widest = shape_of(builder.plan).widest;
    const std::uint32_t lanes = 1 + static_cast<std::uint32_t>(random() % 8);
    limit_lanes(builder.plan, lanes);
    const Reachability after = order_of(builder.plan);
    if (widest > lanes) {
      EXPECT_LE(width_of(after), lanes);
    }
    for (std::uint32_t later = 0; later < nodes; ++later) {
      for (std::uint32_t earlier = 0; earlier < later; ++earlier) {
        EXPECT_TRUE(!before.is_before(earlier, later) || after.is_before(earlier, later));
      }
    }
  }
}

}  // namespace
}  // namespace rondo
