#include "dependencies.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A plan of f32 buffers and nodes that read and write them.
class PlanBuilder {
 public:
  std::uint32_t buffer(std::size_t elements, Role role = Role::state) {
    PlanBuffer buffer{};
    buffer.info.name = "b" + std::to_string(plan.buffers.size());
    buffer.info.type = DataType::f32;
    buffer.info.role = role;
    buffer.elements = elements;
    buffer.info.bytes = elements * 4;
    plan.buffers.push_back(buffer);
    return static_cast<std::uint32_t>(plan.buffers.size() - 1);
  }

  struct Use {
    std::uint32_t buffer;
    bool writes;
    std::optional<std::int64_t> offset = {}, extent = {};
  };

  void node(std::initializer_list<Use> uses) {
    PlanNode& node = plan.nodes.emplace_back();
    for (const Use& use : uses) {
      PlanArgument argument;
      argument.kind = PlanArgument::Kind::buffer;
      argument.buffer = use.buffer;
      argument.writes = use.writes;
      if (use.offset) argument.value = Value::of(*use.offset);
      if (use.extent) argument.extent = Value::of(*use.extent);
      node.arguments.push_back(argument);
    }
  }

  std::vector<std::uint32_t> dependencies(std::size_t node) { return plan.nodes[node].dependencies; }
  void find() {
    Arena none;
    none.offsets.resize(plan.buffers.size());
    find_dependencies(plan, none);
  }

  Plan plan;
};

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

TEST(Arena, GivesMemoryOfWhatIsDoneToWhatComesNext) {
  PlanBuilder builder;
  const auto a = builder.buffer(64, Role::temporary), b = builder.buffer(64, Role::temporary),
             c = builder.buffer(64, Role::temporary);
  builder.node({{a, true}});
  builder.node({{a, false}, {b, true}});
  builder.node({{b, false}, {c, true}});
  const Arena arena = place_temporaries(builder.plan);
  EXPECT_EQ(arena.bytes, 512u);
  EXPECT_EQ(arena.offsets[a], 0u);
  EXPECT_EQ(arena.offsets[b], 256u);
  EXPECT_EQ(arena.offsets[c], 0u);
  // c takes over a's memory, so its writer waits for a's last reader.
  find_dependencies(builder.plan, arena);
  EXPECT_THAT(builder.dependencies(2), ElementsAre(1));
}

TEST(Arena, NeverOverlapsTwoThatLiveAtTheSameTime) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    PlanBuilder builder;
    for (int i = 0; i < 12; ++i) builder.buffer(1 + random() % 500, Role::temporary);
    std::vector<std::pair<int, int>> lives(12, {1000, -1});
    for (int i = 0; i < 30; ++i) {
      const auto x = static_cast<std::uint32_t>(random() % 12), y = static_cast<std::uint32_t>(random() % 12);
      builder.node({{x, true}, {y, false}});
      for (const auto z : {x, y}) lives[z] = {std::min(lives[z].first, i), std::max(lives[z].second, i)};
    }
    const Arena arena = place_temporaries(builder.plan);
    for (std::size_t x = 0; x < 12; ++x) {
      for (std::size_t y = 0; y < x; ++y) {
        if (!arena.offsets[x] || !arena.offsets[y] || lives[x].first > lives[y].second ||
            lives[y].first > lives[x].second)
          continue;
        const std::size_t x0 = *arena.offsets[x], y0 = *arena.offsets[y];
        EXPECT_TRUE(x0 + builder.plan.buffers[x].info.bytes <= y0 ||
                    y0 + builder.plan.buffers[y].info.bytes <= x0);
      }
    }
  }
}

}  // namespace
}  // namespace rondo
