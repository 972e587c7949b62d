#include "rondo/site_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "fake_foreign_graphs.h"
#include "refusal.h"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr AddressRange kv_first{0x7f0000100000, 0x1000}, kv_second{0x7f0000200000, 0x1000},
    weights_first{0x7f0000300000, 0x2000}, weights_second{0x7f0000400000, 0x2000};

struct alignas(64) Tiles {
  std::array<std::uint64_t, 16> at{};
};
struct Step {
  std::int32_t rows, position;
  std::uint64_t out;
  std::uint16_t a, b;
  float scale;
};

// The same work, captured with other memory and at another position.
struct Capture {
  FakeGraph graph;

  Capture(const AddressRange& kv, const AddressRange& weights, std::int32_t position,
          std::uint32_t value = 1) {
    graph.add_kernel("_Z6appendPfS_i",
                     {argument_of(kv.begin + 64), argument_of(weights.begin + 8), argument_of(position)});
    Tiles tiles;
    tiles.at[0] = kv.begin;
    graph.add_kernel("_Z5tiles", {argument_of(tiles)});
    graph.add_kernel("_Z4step", {argument_of(Step{4, position, weights.begin, 1, 2, 0.5F})});
    graph.add_copy(weights.begin, true, kv.begin + 128, true);
    graph.add_set(kv.begin, value);
    graph.edges = {{graph.nodes[0]->handle(), graph.nodes[1]->handle()}};
  }
};

class SiteMapTest : public ::testing::Test {
 protected:
  SiteMapTest() { fake_.graphs().allocations = {kv_first, kv_second, weights_first, weights_second}; }
  CapturedGraph adopt(Capture& capture) { return CapturedGraph::adopt(fake_.device, capture.graph.handle()); }
  SiteMap diff(Capture& first, Capture& second) {
    CapturedGraph a = adopt(first), b = adopt(second);
    return SiteMap::diff(a, b, buffers_);
  }
  template <class T>
  static T value(const CapturedGraph& graph, std::size_t node, std::size_t argument, std::size_t offset = 0) {
    T value;
    std::memcpy(&value, graph.argument(node, argument).data() + offset, sizeof value);
    return value;
  }

  FakeDevice fake_;
  std::vector<NamedBuffer> buffers_ = {{"kv", kv_first, kv_second}};
  Capture first_{kv_first, weights_first, 17, 1}, second_{kv_second, weights_second, 18, 2};
};

TEST_F(SiteMapTest, FindsNamedBuffersOtherAllocationsAndScalars) {
  const SiteMap map = diff(first_, second_);
  EXPECT_THAT(map.buffers(), ElementsAre("allocation 0", "kv"));
  EXPECT_THAT(map.scalars(), ElementsAre("scalar 0", "scalar 1"));
  EXPECT_EQ(map.scalar_bytes("scalar 0"), 4U);

  CapturedGraph graph = adopt(first_);
  map.check(graph);
  map.set_buffer(graph, "kv", weights_first.begin);
  EXPECT_EQ(value<std::uint64_t>(graph, 0, 0), weights_first.begin + 64);
  EXPECT_EQ(value<std::uint64_t>(graph, 1, 0), weights_first.begin);  // proved, though it may be a tensor map
  EXPECT_EQ(value<std::uint64_t>(graph, 3, 1), weights_first.begin + 128);
  EXPECT_EQ(value<std::uint64_t>(graph, 4, 0), weights_first.begin);
  map.set_buffer(graph, "allocation 0", kv_second.begin);
  EXPECT_EQ(value<std::uint64_t>(graph, 0, 1), kv_second.begin + 8);
  EXPECT_EQ(value<std::uint64_t>(graph, 2, 0, 8), kv_second.begin);
  EXPECT_EQ(value<std::uint64_t>(graph, 3, 0), kv_second.begin);
  // The position, which is an argument here and a member of a struct there.
  map.set_scalar(graph, "scalar 0", bytes_of_value(std::int32_t{300}));
  EXPECT_EQ(value<std::int32_t>(graph, 0, 2), 300);
  EXPECT_EQ(value<std::int32_t>(graph, 2, 0, 4), 300);
  EXPECT_EQ(value<std::int32_t>(graph, 2, 0, 0), 4);
  map.set_scalar(graph, "scalar 1", bytes_of_value(std::uint32_t{9}));
  EXPECT_EQ(value<std::uint32_t>(graph, 4, 1), 9U);
  int exec = 0;
  ASSERT_TRUE(graph.apply(&exec).ok());
  EXPECT_EQ(fake_.graphs().updates.size(), 5U);
}

TEST_F(SiteMapTest, ProvesWhatMayBeATensorMapForRetarget) {
  const SiteMap map = diff(first_, second_);
  CapturedGraph graph = adopt(first_);
  EXPECT_THAT(refusal([&] { graph.retarget(kv_first, kv_second.begin); }), HasSubstr("\"tiles\""));
  EXPECT_EQ(graph.retarget(kv_first, kv_second.begin, &map), 4U);
  EXPECT_EQ(value<std::uint64_t>(graph, 1, 0), kv_second.begin);
}

TEST_F(SiteMapTest, AMapOfAnotherProgramProvesNothing) {
  Capture other{kv_first, weights_first, 17};
  other.graph.add_kernel("_Z4more", {});
  const SiteMap map = diff(first_, second_);
  CapturedGraph graph = adopt(other);
  EXPECT_THAT(refusal([&] { graph.retarget(kv_first, kv_second.begin, &map); }),
              HasSubstr("another program"));
  EXPECT_EQ(value<std::uint64_t>(graph, 0, 0), kv_first.begin + 64);
}

TEST_F(SiteMapTest, ALookAlikeInATensorMapIsNotProved) {
  Tiles tiles;
  tiles.at[3] = kv_first.begin + 40;  // in both captures
  first_.graph.add_kernel("_Z4look", {argument_of(tiles)});
  second_.graph.add_kernel("_Z4look", {argument_of(tiles)});
  const SiteMap map = diff(first_, second_);
  CapturedGraph graph = adopt(first_);
  EXPECT_THAT(refusal([&] { graph.retarget(kv_first, kv_second.begin, &map); }), HasSubstr("\"look\""));
}

TEST_F(SiteMapTest, RoundTripsThroughJson) {
  buffers_.push_back({"odd \"name\"/~\n", {0x10, 1}, {0x20, 1}});
  first_.graph.add_kernel("k", {argument_of(std::uint64_t{0x10})});
  second_.graph.add_kernel("k", {argument_of(std::uint64_t{0x20})});
  const SiteMap map = diff(first_, second_);
  const SiteMap read = SiteMap::parse(map.to_json());
  EXPECT_EQ(read, map);
  EXPECT_EQ(read.to_json(), map.to_json());
  const SiteMap empty = diff(first_, first_);
  EXPECT_THAT(empty.buffers(), IsEmpty());
  EXPECT_EQ(SiteMap::parse(empty.to_json()), empty);
}

TEST_F(SiteMapTest, OtherWorkIsRefusedAndTheNodeNamed) {
  const auto refused = [&](auto change) {
    Capture other{kv_second, weights_second, 18};
    change(other.graph);
    return refusal([&] { diff(first_, other); });
  };
  EXPECT_THAT(refused([](FakeGraph& graph) { graph.nodes[2]->kernel.name = "_Z5other"; }),
              AllOf(HasSubstr("node 2"), HasSubstr("_Z4step"), HasSubstr("_Z5other")));
  EXPECT_THAT(refused([](FakeGraph& graph) { graph.nodes[0]->kernel.layout.pop_back(); }),
              HasSubstr("node 0"));
  EXPECT_THAT(refused([](FakeGraph& graph) { graph.nodes[0]->kernel.shape.grid.x = 7; }),
              HasSubstr("node 0"));
  EXPECT_THAT(refused([](FakeGraph& graph) { graph.nodes[3]->copy.width_bytes = 7; }), HasSubstr("node 3"));
  EXPECT_THAT(refused([](FakeGraph& graph) { graph.nodes[4]->set.width = 7; }), HasSubstr("node 4"));
  EXPECT_THAT(refused([](FakeGraph& graph) { graph.nodes.pop_back(); }),
              AllOf(HasSubstr("4 nodes"), HasSubstr("memset")));
  EXPECT_THAT(refused([](FakeGraph& graph) { graph.add_kernel("_Z4more", {}); }), HasSubstr("_Z4more"));
  EXPECT_THAT(refused([](FakeGraph& graph) { graph.edges.clear(); }), HasSubstr("depend"));
}

TEST_F(SiteMapTest, UnknownNamesWrongSizesAndBasesAreRefused) {
  const SiteMap map = diff(first_, second_);
  CapturedGraph graph = adopt(first_);
  EXPECT_THAT(refusal([&] { map.set_buffer(graph, "kw", 0); }), HasSubstr("Did you mean \"kv\"?"));
  EXPECT_THAT(refusal([&] { map.set_scalar(graph, "scalar 7", {}); }), HasSubstr("scalar 7"));
  EXPECT_THAT(refusal([&] { map.set_scalar(graph, "scalar 0", bytes_of_value(std::int64_t{0})); }),
              AllOf(HasSubstr("4 bytes"), HasSubstr("8 were given")));
  EXPECT_THAT(refusal([&] { map.set_buffer(graph, "kv", UINT64_MAX - 8); }), HasSubstr("no address"));
  // The memcpy and the memset may not leave device memory: nothing at all is changed.
  EXPECT_THAT(refusal([&] { map.set_buffer(graph, "kv", 0x9000); }), HasSubstr("no device memory"));
  EXPECT_EQ(value<std::uint64_t>(graph, 0, 0), kv_first.begin + 64);
  Capture other{kv_first, weights_first, 17};
  other.graph.nodes[2]->kernel.name = "_Z5other";
  CapturedGraph of_other = adopt(other);
  EXPECT_THAT(refusal([&] { map.set_scalar(of_other, "scalar 0", bytes_of_value(1)); }),
              HasSubstr("_Z5other"));
  EXPECT_EQ(value<std::int32_t>(of_other, 0, 2), 17);
}

TEST_F(SiteMapTest, NodesThatCannotBeChangedAreRefusedByNameBeforeAnythingHasChanged) {
  const SiteMap map = diff(first_, second_);
  first_.graph.nodes[2]->kernel.fixed = "belongs to another context";
  first_.graph.nodes[3]->copy.fixed = "copies more than one row";
  CapturedGraph graph = adopt(first_);
  for (const auto& [name, node] : {std::pair{"kv", "node 3"}, {"allocation 0", "node 2"}}) {
    EXPECT_THAT(refusal([&] { map.set_buffer(graph, name, kv_second.begin); }),
                AllOf(HasSubstr(node), HasSubstr("cannot be changed")));
  }
  EXPECT_THAT(refusal([&] { map.set_scalar(graph, "scalar 0", bytes_of_value(std::int32_t{300})); }),
              AllOf(HasSubstr("node 2"), HasSubstr("another context")));
  EXPECT_THAT(refusal([&] { graph.retarget(kv_first, kv_second.begin, &map); }), HasSubstr("node 3"));
  int exec = 0;
  EXPECT_TRUE(graph.apply(&exec).ok());
  EXPECT_THAT(fake_.graphs().updates, IsEmpty());
}

TEST_F(SiteMapTest, BuffersHaveNamesOfTheirOwn) {
  buffers_ = {{"", kv_first, kv_second}};
  EXPECT_THAT(refusal([&] { diff(first_, second_); }), HasSubstr("no name"));
  buffers_ = {{"x", kv_first, kv_second}, {"x", weights_first, weights_second}};
  EXPECT_THAT(refusal([&] { diff(first_, second_); }), HasSubstr("\"x\""));
  buffers_ = {{"allocation 0", kv_first, kv_second}};
  EXPECT_THAT(diff(first_, second_).buffers(), ElementsAre("allocation 0", "allocation 1"));
}

TEST_F(SiteMapTest, HostileJsonIsRefusedWithItsPlace) {
  const auto refused = [](const std::string& json) {
    return refusal([&] { SiteMap::parse(json, "map.json"); });
  };
  const auto with = [](const std::string& buffers, const std::string& scalars) {
    return R"({"rondo_site_map": 1, "nodes": [{"path": "0", "kind": "kernel", "name": "k", "argument_bytes": [16]}],
      "buffers": )" +
           buffers + ", \"scalars\": " + scalars + "}";
  };
  EXPECT_THAT(refused(""), HasSubstr("map.json"));
  EXPECT_THAT(refused("{\n  \"rondo_site_map\": \"1\"}"),
              AllOf(HasSubstr("map.json:2:"), HasSubstr("[/rondo_site_map]")));
  EXPECT_THAT(refused(R"({"rondo_site_map": 9, "nodes": []})"), HasSubstr("found version 9"));
  EXPECT_THAT(refused(R"({"rondo_site_map": 1})"), HasSubstr("\"nodes\""));
  EXPECT_THAT(
      refused(
          R"({"rondo_site_map": 1, "nodes": [{"path": "0", "kind": "kernel", "argument_bytes": [4294967296]}]})"),
      HasSubstr("[/nodes/0/argument_bytes/0]"));
  EXPECT_THAT(refused(with("[]", "{}")), HasSubstr("[/buffers]"));
  EXPECT_THAT(refused(with(R"({"": [{"node": 0, "argument": 0, "offset": 0, "addend": 0}]})", "{}")),
              HasSubstr("empty"));
  EXPECT_THAT(refused(with(R"({"x": []})", "{}")), HasSubstr("[/buffers/x]"));
  EXPECT_THAT(refused(with(R"({"x": [{"node": 1, "argument": 0, "offset": 0, "addend": 0}]})", "{}")),
              HasSubstr("[/buffers/x/0/node]"));
  EXPECT_THAT(refused(with(R"({"x": [{"node": 0, "argument": 1, "offset": 0, "addend": 0}]})", "{}")),
              HasSubstr("[/buffers/x/0/argument]"));
  EXPECT_THAT(refused(with(R"({"x": [{"node": 0, "argument": 0, "offset": 12, "addend": 0}]})", "{}")),
              HasSubstr("[/buffers/x/0/offset]"));
  EXPECT_THAT(refused(with(R"({"x": [{"node": 0, "argument": 0, "offset": 16, "addend": 0}]})", "{}")),
              HasSubstr("[/buffers/x/0/offset]"));
  EXPECT_THAT(refused(with(R"({"x": [{"node": -1, "argument": 0, "offset": 0, "addend": 0}]})", "{}")),
              HasSubstr("[/buffers/x/0/node]"));
  EXPECT_THAT(refused(with(
                  "{}", R"({"s": [{"node": 0, "argument": 0, "offset": 4294967295, "bytes": 4294967295}]})")),
              HasSubstr("[/scalars/s/0/offset]"));
  EXPECT_THAT(refused(with("{}", R"({"s": [{"node": 0, "argument": 0, "offset": 0, "bytes": 0}]})")),
              HasSubstr("[/scalars/s/0/bytes]"));
  EXPECT_THAT(
      refused(with(
          "{}",
          R"({"s": [{"node": 0, "argument": 0, "offset": 0, "bytes": 4}, {"node": 0, "argument": 0, "offset": 8, "bytes": 8}]})")),
      HasSubstr("[/scalars/s/1]"));
}

TEST_F(SiteMapTest, DamagedJsonIsRefusedOrReadAndNeverMore) {
  const std::string json = diff(first_, second_).to_json();
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = json;
    for (int change = 0; change < 3; ++change)
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    if (round % 4 == 0) damaged.resize(random() % damaged.size());
    CapturedGraph graph = adopt(first_);
    try {
      const SiteMap map = SiteMap::parse(damaged);
      for (const std::string& name : map.buffers()) map.set_buffer(graph, name, kv_second.begin);
      for (const std::string& name : map.scalars()) {
        map.set_scalar(graph, name, std::vector<std::byte>(map.scalar_bytes(name)));
      }
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace rondo
