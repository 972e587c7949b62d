#include "dependencies.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "plan_builder.h"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using test::PlanBuilder;

TEST(Dependencies, AReaderWaitsForTheWriterAndAWriterForTheReaders) {
  PlanBuilder builder;
  const auto x = builder.buffer(4);
  builder.node({{x, true}});
  builder.node({{x, false}});
  builder.node({{x, false}});
  builder.node({{x, true}});
  builder.find();
  EXPECT_THAT(builder.dependencies(0), IsEmpty());
  EXPECT_THAT(builder.dependencies(1), ElementsAre(0));
  EXPECT_THAT(builder.dependencies(2), ElementsAre(0));
  EXPECT_THAT(builder.dependencies(3), ElementsAre(1, 2));  // and not 0, which follows
}

TEST(Dependencies, RangesThatDoNotTouchAreIndependent) {
  PlanBuilder builder;
  const auto x = builder.buffer(100);
  builder.node({{x, true, 0, 50}});
  builder.node({{x, true, 50, 50}});
  builder.node({{x, false, 49, 2}});
  builder.node({{x, true, 50, {}}});  // no extent: all of it
  builder.find();
  EXPECT_THAT(builder.dependencies(1), IsEmpty());
  EXPECT_THAT(builder.dependencies(2), ElementsAre(0, 1));
  EXPECT_THAT(builder.dependencies(3), ElementsAre(2));
}

TEST(Dependencies, AWeightIsReadByAllWithoutWaiting) {
  PlanBuilder builder;
  const auto w = builder.buffer(8, Role::weight);
  builder.node({{w, false}});
  builder.node({{w, false}});
  builder.find();
  EXPECT_THAT(builder.dependencies(1), IsEmpty());
}

// Against the definition itself: every pair with a hazard is ordered, and no edge follows from the others.
TEST(Dependencies, OfRandomPlansOrderEveryHazardAndNothingTwice) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    PlanBuilder builder;
    for (int i = 0; i < 4; ++i) builder.buffer(16);
    struct Touch {
      std::uint32_t buffer;
      std::size_t begin, end;
      bool writes;
    };
    std::vector<std::vector<Touch>> touches;
    for (int i = 0; i < 25; ++i) {
      const auto buffer = static_cast<std::uint32_t>(random() % 4),
                 other = static_cast<std::uint32_t>(random() % 4);
      const std::size_t begin = random() % 16, extent = 1 + random() % (16 - begin);
      const bool writes = random() % 3 == 0;
      builder.node({{buffer, writes, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(extent)},
                    {other, false}});
      touches.push_back({{buffer, begin, begin + extent, writes}, {other, 0, 16, false}});
    }
    builder.find();
    std::vector<std::set<std::uint32_t>> before(25);
    for (std::uint32_t i = 0; i < 25; ++i) {
      const auto dependencies = builder.dependencies(i);
      for (const std::uint32_t d : dependencies) {
        ASSERT_LT(d, i);
        for (const std::uint32_t other : dependencies)
          EXPECT_FALSE(before[other].contains(d)) << "edge " << d << " to " << i;
      }
      for (const std::uint32_t d : dependencies) {
        before[i].insert(d);
        before[i].insert(before[d].begin(), before[d].end());
      }
      for (std::uint32_t j = 0; j < i; ++j) {
        for (const Touch& a : touches[i]) {
          for (const Touch& b : touches[j]) {
            const bool hazard =
                a.buffer == b.buffer && (a.writes || b.writes) && a.begin < b.end && b.begin < a.end;
            EXPECT_TRUE(!hazard || before[i].contains(j)) << j << " before " << i;
          }
        }
      }
    }
  }
}

// The same edges as the definition gives, on plans with long chains, fans and slices of one buffer.
TEST(Dependencies, OfRandomPlansAreThoseOfTheNaiveReduction) {
  std::mt19937 random(23);
  for (int round = 0; round < 60; ++round) {
    constexpr std::uint32_t nodes = 120, buffers = 6, elements = 24;
    PlanBuilder builder;
    for (std::uint32_t i = 0; i < buffers; ++i) builder.buffer(elements);
    std::vector<std::vector<PlanBuilder::Use>> all;
    for (std::uint32_t i = 0; i < nodes; ++i) {
      std::vector<PlanBuilder::Use> uses;
      for (std::uint32_t k = 0; k <= random() % 3; ++k) {
        const auto begin = static_cast<std::int64_t>(random() % elements);
        const auto extent =
            static_cast<std::int64_t>(1 + random() % static_cast<std::uint32_t>(elements - begin));
        PlanBuilder::Use use{static_cast<std::uint32_t>(random() % buffers), random() % 4 == 0};
        if (random() % 3 != 0) use = {use.buffer, use.writes, begin, extent};
        uses.push_back(use);
      }
      builder.node(uses);
      all.push_back(uses);
    }
    builder.find();
    const auto overlap = [&](const PlanBuilder::Use& a, const PlanBuilder::Use& b) {
      const std::int64_t a0 = a.offset.value_or(0), a1 = a0 + a.extent.value_or(elements);
      const std::int64_t b0 = b.offset.value_or(0), b1 = b0 + b.extent.value_or(elements);
      return a.buffer == b.buffer && (a.writes || b.writes) && a0 < b1 && b0 < a1;
    };
    std::vector<std::set<std::uint32_t>> before(nodes);
    for (std::uint32_t i = 0; i < nodes; ++i) {
      std::set<std::uint32_t> direct;
      for (std::uint32_t j = 0; j < i; ++j) {
        for (const auto& a : all[i]) {
          for (const auto& b : all[j]) {
            if (overlap(a, b)) direct.insert(j);
          }
        }
      }
      for (const std::uint32_t j : direct) {
        before[i].insert(j);
        before[i].insert(before[j].begin(), before[j].end());
      }
      std::vector<std::uint32_t> expected;
      for (const std::uint32_t j : direct) {
        const bool follows = std::any_of(direct.begin(), direct.end(),
                                         [&](std::uint32_t other) { return before[other].contains(j); });
        if (!follows) expected.push_back(j);
      }
      ASSERT_EQ(builder.dependencies(i), expected) << "node " << i << " of round " << round;
    }
  }
}

// Beyond a page of nodes, where rows share pages.
TEST(Reachability, IsExactOverManyPages) {
  constexpr std::uint32_t nodes = 5000, checked = 40;
  std::mt19937 random(5);
  Reachability order;
  std::vector<std::vector<bool>> before;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    std::vector<std::uint32_t> waits;
    for (std::uint32_t k = 0; i > 0 && k < random() % 4; ++k) {
      const std::uint32_t back = random() % 5 == 0 ? i : std::min(i, 50u);
      waits.push_back(i - 1 - static_cast<std::uint32_t>(random() % back));
    }
    std::vector<bool> row(i);
    for (const std::uint32_t wait : waits) {
      for (std::uint32_t j = 0; j < before[wait].size(); ++j) row[j] = row[j] || before[wait][j];
    }
    std::vector<std::uint32_t> expected;
    std::sort(waits.begin(), waits.end());
    std::unique_copy(waits.begin(), waits.end(), std::back_inserter(expected));
    std::erase_if(expected, [&](std::uint32_t wait) { return row[wait]; });
    for (const std::uint32_t wait : waits) row[wait] = true;
    before.push_back(row);
    order.add(waits);
    ASSERT_EQ(waits, expected) << "node " << i;
    for (std::uint32_t k = 0; i > 0 && k < checked; ++k) {
      const auto j = static_cast<std::uint32_t>(random() % i);
      ASSERT_EQ(order.is_before(j, i), row[j]) << j << " before " << i;
    }
    ASSERT_FALSE(order.is_before(i, i));
  }
}

}  // namespace
}  // namespace rondo
