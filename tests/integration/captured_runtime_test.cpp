// A stream capture by CUDA's runtime, adopted: by-value structs, 4 KB of arguments and more, cooperative and
// cluster launches, retargeted at random and compared, bit for bit, with what a fresh capture gives.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <map>

#include "captured_program.h"
#include "rondo/error.h"
#include "rondo/site_map.h"
#include "runtime_test.h"

namespace rondo::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::size_t bytes = floats * sizeof(float);
constexpr int copies = 3;  // of every buffer

class CapturedRuntime : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    int major = 0;
    RUNTIME_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major < 9) GTEST_SKIP() << "clusters take compute capability 9.0";
    for (std::vector<Memory>* buffers : {&inputs_a_, &inputs_b_, &scratch_, &outputs_}) {
      for (int i = 0; i < copies; ++i) buffers->emplace_back(bytes);
    }
    std::uniform_real_distribution<float> value(-1, 1);
    std::vector<float> values(floats);
    for (std::vector<Memory>* inputs : {&inputs_a_, &inputs_b_}) {
      for (Memory& input : *inputs) {
        std::generate(values.begin(), values.end(), [&] { return value(random_); });
        input.write(values.data());
      }
    }
    // Whatever is loaded at first use cannot be while a stream captures.
    launch_all(buffers({0, 0, 0, 0}), 1.0F, stream_);
    launch_on_own_memory(outputs_[0].get<float>(), 1.0F, stream_);
    RUNTIME_CHECK(cudaStreamSynchronize(stream_));
  }

  // Which of the buffers below.
  struct Choice {
    std::size_t a, b, scratch, out;
  };
  Choice random_choice() { return {below(copies), below(copies), below(copies), below(copies)}; }
  Buffers buffers(const Choice& choice) {
    return {inputs_a_[choice.a].get<float>(), inputs_b_[choice.b].get<float>(),
            scratch_[choice.scratch].get<float>(), outputs_[choice.out].get<float>()};
  }
  Captured capture_all(const Choice& choice, float scale) {
    return Captured(capture(stream_, [&] { launch_all(buffers(choice), scale, stream_); }));
  }
  CapturedGraph adopt(const Captured& captured) {
    CapturedGraph adopted = CapturedGraph::adopt(device_, captured.graph());
    expect_all(adopted, captured.graph());
    return adopted;
  }
  // The work in order: a captured stream is a chain, but its nodes are listed in any order.
  static std::array<std::size_t, node_count> find_nodes(const CapturedGraph& graph) {
    std::array<std::size_t, node_count> found;
    found.fill(SIZE_MAX);
    const auto put = [&](Node node, std::size_t i) {
      EXPECT_EQ(found[node], SIZE_MAX) << "two nodes of one kind: " << node;
      found[node] = i;
    };
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const CapturedNode& node = graph.nodes()[i];
      if (node.kind == CapturedNodeKind::memset) put(set, i);
      if (node.kind == CapturedNodeKind::memcpy) put(copy, i);
      if (node.kind != CapturedNodeKind::kernel) continue;
      const std::string name = node.demangled();
      const std::size_t size = graph.argument(i, 0).size();
      if (name.find("run_job") != std::string::npos) put(job, i);
      if (name.find("gather") != std::string::npos)
        put(size == sizeof(Table<rows_within>)   ? within
            : size == sizeof(Table<rows_beyond>) ? beyond
                                                 : most,
            i);
      if (name.find("reverse") != std::string::npos) put(coop, i);
      if (name.find("exchange") != std::string::npos) put(cluster, i);
    }
    for (const std::size_t i : found) EXPECT_NE(i, SIZE_MAX);
    return found;
  }
  std::size_t sites_in(const CapturedGraph& graph, const Memory& memory, std::size_t node) {
    const std::vector<Site> sites = graph.sites(memory.range());
    return static_cast<std::size_t>(
        std::count_if(sites.begin(), sites.end(), [&](const Site& site) { return site.node == node; }));
  }
  SiteMap map_of(CapturedGraph& captured, const Choice& first, const Choice& second) {
    const Captured other = capture_all(second, 7.0F);
    CapturedGraph adopted = adopt(other);
    const std::vector<NamedBuffer> named{
        {"a", inputs_a_[first.a].range(), inputs_a_[second.a].range()},
        {"b", inputs_b_[first.b].range(), inputs_b_[second.b].range()},
        {"scratch", scratch_[first.scratch].range(), scratch_[second.scratch].range()},
        {"out", outputs_[first.out].range(), outputs_[second.out].range()}};
    return SiteMap::parse(SiteMap::diff(captured, adopted, named).to_json());
  }
  std::vector<std::byte> fresh(Choice choice, float scale) {
    const Captured captured = capture_all(choice, scale);
    outputs_[choice.out].poison();
    captured.launch(stream_);
    return outputs_[choice.out].read();
  }

  std::vector<Memory> inputs_a_, inputs_b_, scratch_, outputs_;
};

TEST_F(CapturedRuntime, EveryNodeIsCopiedWithItsArgumentsAndAttributes) {
  const Captured captured = capture_all({0, 0, 0, 0}, 2.0F);
  const CapturedGraph adopted = adopt(captured);
  ASSERT_THAT(adopted.nodes(), SizeIs(node_count));
  const auto nodes = find_nodes(adopted);
  const auto kernel = [&](Node node) -> const KernelNodeParams& { return *adopted.kernel(nodes[node]); };
  EXPECT_EQ(kernel(within).packed().size(), 4096U);
  EXPECT_EQ(kernel(beyond).argument(0).size(), 4096U);
  EXPECT_EQ(kernel(most).packed().size(), 32760U);
  Job given{};
  ASSERT_EQ(kernel(job).argument(0).size(), sizeof given);
  std::memcpy(&given, kernel(job).argument(0).data(), sizeof given);
  EXPECT_EQ(given.in, inputs_a_[0].get<float>());
  EXPECT_EQ(given.count, job_count);
  EXPECT_EQ(given.scale, 2.0F);
  EXPECT_EQ(given.tail[2], 3);
  for (const Node node : {job, within, beyond, most, cluster}) EXPECT_FALSE(kernel(node).is_cooperative());
  EXPECT_TRUE(kernel(coop).is_cooperative());
  EXPECT_EQ(kernel(coop).shape(), (LaunchShape{{4, 1, 1}, {128, 1, 1}, 0}));
  EXPECT_EQ(kernel(cluster).cluster(), (Dim3{2, 1, 1}));
}

TEST_F(CapturedRuntime, EveryPointerIsASite) {
  const Captured captured = capture_all({0, 0, 0, 0}, 2.0F);
  const CapturedGraph adopted = adopt(captured);
  const auto nodes = find_nodes(adopted);
  const std::map<Node, std::array<std::size_t, 4>> expected{
      {job, {1, 0, 0, 1}},        {within, {256, 255, 0, 1}}, {beyond, {256, 256, 0, 1}},
      {most, {2047, 2047, 0, 1}}, {coop, {1, 0, 1, 1}},       {cluster, {0, 1, 0, 1}},
      {set, {0, 0, 0, 1}},        {copy, {0, 1, 0, 1}}};
  for (const auto& [node, counts] : expected) {
    SCOPED_TRACE(node);
    EXPECT_EQ(sites_in(adopted, inputs_a_[0], nodes[node]), counts[0]);
    EXPECT_EQ(sites_in(adopted, inputs_b_[0], nodes[node]), counts[1]);
    EXPECT_EQ(sites_in(adopted, scratch_[0], nodes[node]), counts[2]);
    EXPECT_EQ(sites_in(adopted, outputs_[0], nodes[node]), counts[3]);
  }
  EXPECT_THAT(adopted.sites(inputs_a_[1].range()), SizeIs(0));
}

// 4,096 bytes at a multiple of 64 might hold a CUtensorMap.
TEST_F(CapturedRuntime, WhatMightBeADescriptorIsRetargetedWithProofAlone) {
  const Captured captured = capture_all({0, 0, 0, 0}, 2.0F);
  CapturedGraph adopted = adopt(captured);
  try {
    adopted.retarget(inputs_a_[0].range(), inputs_a_[1].range().begin);
    ADD_FAILURE() << "was retargeted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_argument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("gather<512>"), HasSubstr("diff")));
  }
  EXPECT_THAT(adopted.sites(inputs_a_[1].range()), SizeIs(0));
  const SiteMap map = map_of(adopted, {0, 0, 0, 0}, {1, 1, 1, 1});
  EXPECT_EQ(adopted.retarget(inputs_a_[0].range(), inputs_a_[1].range().begin, &map),
            1 + 256 + 256 + 2047 + 1U);
}

TEST_F(CapturedRuntime, RandomRetargetsGiveWhatAFreshCaptureGives) {
  constexpr int rounds = 200;
  Choice now{0, 0, 0, 0};
  const Captured captured = capture_all(now, 1.0F);
  CapturedGraph adopted = adopt(captured);
  const auto nodes = find_nodes(adopted);
  const SiteMap map = map_of(adopted, now, {1, 1, 1, 1});
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const Choice then = random_choice();
    const auto scale = static_cast<float>(below(1000));
    const std::vector<std::byte> wanted = fresh(then, scale);
    const std::array<std::tuple<const char*, const Memory*, const Memory*>, 4> moves{
        {{"a", &inputs_a_[now.a], &inputs_a_[then.a]},
         {"b", &inputs_b_[now.b], &inputs_b_[then.b]},
         {"scratch", &scratch_[now.scratch], &scratch_[then.scratch]},
         {"out", &outputs_[now.out], &outputs_[then.out]}}};
    for (const auto& [name, from, to] : moves) {
      if (round % 2 == 0) {
        EXPECT_GT(adopted.retarget(from->range(), to->range().begin, &map), 0U) << name;
      } else {
        map.set_buffer(adopted, name, to->range().begin);
      }
    }
    adopted.set_argument(nodes[job], 0, offsetof(Job, scale), std::as_bytes(std::span(&scale, 1)));
    now = then;
    for (Memory& output : outputs_) output.poison();
    for (Memory& scratch : scratch_) scratch.poison();
    apply(adopted, captured);
    captured.launch(stream_);
    ASSERT_TRUE(outputs_[now.out].read() == wanted) << "not what a fresh capture gives";
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      ASSERT_TRUE(i == now.out || outputs_[i].is_poisoned()) << "output " << i << " was written";
    for (std::size_t i = 0; i < scratch_.size(); ++i)
      ASSERT_EQ(scratch_[i].is_poisoned(), i != now.scratch) << "scratch " << i;
  }
}

// So that the comparison above means something.
TEST_F(CapturedRuntime, TheProgramsResultsAreRight) {
  const std::vector<std::byte> out = fresh({0, 0, 0, 0}, 3.0F);
  const std::vector<std::byte> in_a = inputs_a_[0].read(), in_b = inputs_b_[0].read();
  const auto at = [](const std::vector<std::byte>& memory, std::size_t i) {
    float value = 0;
    std::memcpy(&value, memory.data() + i * sizeof value, sizeof value);
    return value;
  };
  for (std::size_t i = 0; i < 500; ++i) {
    const auto& row = i % 2 == 0 ? in_a : in_b;
    EXPECT_NEAR(at(out, job_at + i), 3.0F * at(in_a, i) + static_cast<float>(i % 3 + 1), 1e-5);
    for (const std::size_t slice : {within_at, beyond_at, most_at})
      EXPECT_EQ(at(out, slice + i), at(row, i + i % 7));
    EXPECT_EQ(at(out, coop_at + i), 2.0F * at(in_a, coop_count - 1 - i));
    EXPECT_EQ(at(out, cluster_at + i), at(in_b, i ^ cluster_block));
    EXPECT_EQ(at(out, copy_at + i), at(in_b, i));
    EXPECT_EQ(out[set_at * sizeof(float) + i], std::byte{0x3e});
  }
}

TEST_F(CapturedRuntime, WhatCannotBeChangedIsRefusedByNameAndTheRestIsNot) {
  const Captured captured(
      capture(stream_, [&] { launch_on_own_memory(outputs_[0].get<float>(), 5.0F, stream_); }));
  CapturedGraph adopted = CapturedGraph::adopt(device_, captured.graph());
  std::map<std::string, int> kinds;
  for (std::size_t i = 0; i < adopted.nodes().size(); ++i) {
    const CapturedNode& node = adopted.nodes()[i];
    ++kinds[node.kind_name];
    if (node.kind == CapturedNodeKind::kernel) {
      EXPECT_EQ(node.problem, "");
      continue;
    }
    EXPECT_NE(node.problem, "");
    try {
      adopted.set_argument(i, 0, {});
      ADD_FAILURE() << node.kind_name << " was changed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("node " + node.path), HasSubstr(node.kind_name)));
    }
  }
  EXPECT_EQ(kinds, (std::map<std::string, int>{{"kernel", 2}, {"memory allocation", 2}, {"host", 1}}));
  EXPECT_EQ(adopted.retarget(outputs_[0].range(), outputs_[1].range().begin), 1U);
  apply(adopted, captured);
  for (Memory& output : outputs_) output.poison();
  captured.launch(stream_);
  EXPECT_TRUE(outputs_[0].is_poisoned());
  float first = 0;
  std::memcpy(&first, outputs_[1].read().data(), sizeof first);
  EXPECT_EQ(first, 5.0F);
}

}  // namespace
}  // namespace rondo::integration
