#include "arena.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "gguf_bytes.h"
#include "plan_builder.h"

namespace rondo {
namespace {

using test::PlanBuilder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Arena, GivesMemoryOfWhatIsDoneToWhatComesNext) {
  PlanBuilder builder;
  const auto a = builder.buffer(64, Role::temporary), b = builder.buffer(64, Role::temporary),
             c = builder.buffer(64, Role::temporary);
  builder.node({{a, true}});
  builder.node({{a, false}, {b, true}});
  builder.node({{b, false}, {c, true}});
  const Arena arena = place_temporaries(builder.plan);
  EXPECT_EQ(arena.bytes, 512u);
  EXPECT_EQ(arena.peak_bytes, 512u);
  EXPECT_EQ(arena.offsets[a], 0u);
  EXPECT_EQ(arena.offsets[b], 256u);
  EXPECT_EQ(arena.offsets[c], 0u);
  // c takes over a's memory, so its writer waits for a's last reader, which it does anyway.
  EXPECT_THAT(find_dependencies(builder.plan, arena).reuse_waits, IsEmpty());
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

// Two chains side by side, one after the other in program order: memory that the first leaves would make the
// second wait.
TEST(Arena, TellsWhoWaitsForMemoryAlone) {
  constexpr std::size_t large = 1 << 20;
  PlanBuilder builder;
  const auto x = builder.buffer(64), y = builder.buffer(64);
  const auto a = builder.buffer(large, Role::temporary), b = builder.buffer(large, Role::temporary);
  builder.node({{a, true}});
  builder.node({{a, false}, {x, true}});
  builder.node({{b, true}});
  builder.node({{b, false}, {y, true}});
  const Arena arena = place_temporaries(builder.plan);
  EXPECT_EQ(arena.bytes, large * 4);  // the smallest there is, at the price of one wait
  const std::vector<ReuseWait> waits = find_dependencies(builder.plan, arena).reuse_waits;
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].earlier, 1u);
  EXPECT_EQ(waits[0].later, 2u);
  EXPECT_EQ(waits[0].earlier_buffer, a);
  EXPECT_EQ(waits[0].later_buffer, b);
  EXPECT_THAT(builder.dependencies(2), ElementsAre(1));
}

// Where it costs next to nothing, nobody waits for memory.
TEST(Arena, IsALittleLargerSoThatNobodyWaits) {
  PlanBuilder builder;
  for (int strand = 0; strand < 10; ++strand) {
    const auto a = builder.buffer(1000, Role::temporary), x = builder.buffer(64);
    builder.node({{a, true}});
    builder.node({{a, false}, {x, true}});
  }
  const Arena arena = place_temporaries(builder.plan);
  EXPECT_EQ(arena.peak_bytes, 4096u);
  EXPECT_EQ(arena.bytes, 40960u);
  EXPECT_THAT(find_dependencies(builder.plan, arena).reuse_waits, IsEmpty());
}

// Where there is a choice at the same size, memory comes from what is done anyway.
TEST(Arena, TakesMemoryThatNobodyWaitsFor) {
  PlanBuilder builder;
  const auto x = builder.buffer(64), y = builder.buffer(64);
  const auto a = builder.buffer(64, Role::temporary), b = builder.buffer(64, Role::temporary),
             c = builder.buffer(64, Role::temporary);
  builder.node({{a, true}});
  builder.node({{b, true}});
  builder.node({{a, false}, {x, true}});
  builder.node({{b, false}, {y, true}});
  builder.node({{y, false}, {c, true}});  // after b's end, and not after a's
  const Arena arena = place_temporaries(builder.plan);
  EXPECT_EQ(arena.bytes, 512u);
  EXPECT_EQ(arena.offsets[c], arena.offsets[b]);
  EXPECT_THAT(find_dependencies(builder.plan, arena).reuse_waits, IsEmpty());
}

// Every wait of the final plan that the plan without shared memory does not have is told, and no other.
TEST(Arena, OfRandomPlansTellsEveryWaitForMemoryAlone) {
  std::mt19937 random(3);
  std::size_t told = 0;
  for (int round = 0; round < 100; ++round) {
    PlanBuilder builder;
    constexpr std::uint32_t buffers = 14, nodes = 40;
    for (std::uint32_t i = 0; i < buffers; ++i)
      builder.buffer((1 + random() % 300) << 14, i < 3 ? Role::state : Role::temporary);
    for (std::uint32_t i = 0; i < nodes; ++i) {
      const std::uint32_t near = i * buffers / nodes;
      const auto x = static_cast<std::uint32_t>((near + random() % 4) % buffers),
                 y = static_cast<std::uint32_t>((near + random() % 4) % buffers);
      builder.node({{x, true}, {y, false}});
    }
    const Arena arena = place_temporaries(builder.plan);
    EXPECT_GE(arena.bytes, arena.peak_bytes);
    const std::vector<ReuseWait> waits = find_dependencies(builder.plan, arena).reuse_waits;
    std::size_t expected = 0;
    for (std::uint32_t i = 0; i < nodes; ++i) {
      for (const std::uint32_t earlier : builder.dependencies(i)) {
        if (arena.order.is_before(earlier, i)) continue;
        ASSERT_LT(expected, waits.size());
        EXPECT_EQ(waits[expected].earlier, earlier);
        EXPECT_EQ(waits[expected].later, i);
        ++expected;
      }
    }
    EXPECT_EQ(expected, waits.size());
    told += expected;
  }
  EXPECT_GT(told, 0u);
}

// A Llama of `layers` layers, in all but the weights' values.
test::GgufBytes small_llama(std::uint32_t layers) {
  constexpr std::uint32_t u32 = 4, f32 = 6, text = 8, tensor_f32 = 0;
  constexpr std::uint64_t d = 64, d_ff = 172, vocab = 320;
  std::vector<std::pair<std::string, std::vector<std::uint64_t>>> tensors{
      {"token_embd.weight", {d, vocab}}, {"output_norm.weight", {d}}, {"output.weight", {d, vocab}}};
  for (std::uint32_t i = 0; i < layers; ++i) {
    const auto add = [&](const char* name, std::vector<std::uint64_t> shape) {
      tensors.emplace_back(fmt::format("blk.{}.{}.weight", i, name), std::move(shape));
    };
    add("attn_norm", {d}), add("ffn_norm", {d});
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) add(name, {d, d});
    add("ffn_gate", {d, d_ff}), add("ffn_up", {d, d_ff}), add("ffn_down", {d_ff, d});
  }
  test::GgufBytes file;
  file.header(3, tensors.size(), 6).key("general.architecture", text).string("llama");
  file.key("llama.block_count", u32).value(layers);
  file.key("llama.embedding_length", u32).value(static_cast<std::uint32_t>(d));
  file.key("llama.feed_forward_length", u32).value(static_cast<std::uint32_t>(d_ff));
  file.key("llama.attention.head_count", u32).value(std::uint32_t{4});
  file.key("llama.attention.layer_norm_rms_epsilon", f32).value(1e-5f);
  std::uint64_t bytes = 0;
  for (const auto& [name, shape] : tensors) {
    file.tensor(name, shape, tensor_f32, bytes);
    bytes += shape[0] * (shape.size() > 1 ? shape[1] : 1) * 4;
    bytes = (bytes + 31) / 32 * 32;
  }
  file.align(32).zeros(bytes);
  return file;
}

TEST(Arena, OfTheDecodeScheduleIsAsSmallAsItCanBe) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("rondo_arena_test_{}.gguf", ::getpid());
  const test::GgufBytes model = small_llama(6);
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(model.bytes().data()),
             static_cast<std::streamsize>(model.bytes().size()));
  SessionOptions options;
  options.weights = WeightFile::open(file);
  std::filesystem::remove(file);  // it stays mapped
  DeviceProperties device = test::small_device();
  device.processors = 132;
  device.max_shared_bytes = 232448;
  const Schedule schedule = Schedule::load(RONDO_SOURCE_DIR "/configs/llama/decode.json");
  Plan plan = make_plan(schedule, device, options);
  // As the kernels' signatures have it, which are not compiled here.
  for (PlanNode& node : plan.nodes) {
    const bool adds = plan.kernels[node.kernel].name.starts_with("project_add");
    for (PlanArgument& argument : node.arguments) {
      const bool is_h =
          argument.kind == PlanArgument::Kind::buffer && plan.buffers[argument.buffer].info.name == "h";
      argument.writes = argument.access == Access::write || (adds && is_h);
    }
  }
  const Arena arena = place_temporaries(plan);
  RecordProperty("arena_bytes", std::to_string(arena.bytes));
  RecordProperty("peak_bytes", std::to_string(arena.peak_bytes));
  EXPECT_GT(arena.peak_bytes, 0u);
  EXPECT_LE(static_cast<double>(arena.bytes), 1.05 * static_cast<double>(arena.peak_bytes));
  EXPECT_THAT(find_dependencies(plan, arena).reuse_waits, IsEmpty());
}

}  // namespace
}  // namespace rondo
