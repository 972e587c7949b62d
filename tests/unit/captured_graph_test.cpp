#include "rondo/captured_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "fake_foreign_graphs.h"
#include "refusal.h"
#include "rondo/captured_picture.h"
#include "rondo/site_map.h"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr AddressRange old_memory{0x7f0000100000, 0x1000}, new_memory{0x7f0000900000, 0x1000};

struct Inner {
  std::int32_t count;
  const float* x;
  std::uint16_t flags;
};
template <std::size_t words>
struct Words {
  std::array<std::uint64_t, words> at{};
};
template <std::size_t words>
struct alignas(64) AlignedWords {
  std::array<std::uint64_t, words> at{};
};

class CapturedGraphTest : public ::testing::Test {
 protected:
  CapturedGraphTest() { fake_.graphs().allocations = {old_memory, new_memory}; }
  CapturedGraph adopt() { return CapturedGraph::adopt(fake_.device, graph_.handle()); }
  static std::uint64_t word(const CapturedGraph& graph, std::size_t node, std::size_t argument,
                            std::size_t offset = 0) {
    std::uint64_t value = 0;
    std::memcpy(&value, graph.argument(node, argument).data() + offset, sizeof value);
    return value;
  }
  FakeNode& add_pointer_kernel(std::uint64_t address, const char* name = "_Z5scalePfi") {
    return graph_.add_kernel(name, {argument_of(address), argument_of(std::int32_t{7})});
  }

  FakeDevice fake_;
  FakeGraph graph_;
  int first_exec_ = 0, second_exec_ = 0;  // their addresses are handles
};

TEST_F(CapturedGraphTest, ListsNodesInOrderWithThoseOfChildGraphs) {
  FakeGraph child;
  child.add_kernel("_Z5innerv", {});
  child.add_set(old_memory.begin, 0);
  add_pointer_kernel(old_memory.begin);
  graph_.add(ForeignNodeKind::child_graph).child = &child;
  graph_.add(ForeignNodeKind::memory);
  graph_.edges = {{graph_.nodes[0]->handle(), graph_.nodes[2]->handle()}};
  const CapturedGraph captured = adopt();
  std::vector<std::string> listed;
  for (const CapturedNode& node : captured.nodes()) {
    listed.push_back(node.path + " " + node.kind_name + " " + node.demangled());
  }
  EXPECT_THAT(listed, ElementsAre("0 kernel scale(float*, int)", "1 child graph ", "1/0 kernel inner()",
                                  "1/1 memset ", "2 memory allocation "));
  EXPECT_THAT(captured.nodes()[4].problem, Not(IsEmpty()));
  EXPECT_THAT(captured.picture().edges, ElementsAre(std::pair(0U, 4U)));
  EXPECT_EQ(captured.kernel(1), nullptr);
  EXPECT_EQ(captured.kernel(99), nullptr);
  ASSERT_NE(captured.kernel(0), nullptr);
  EXPECT_EQ(captured.kernel(0)->arguments(), 2U);
  EXPECT_EQ(captured.kernel(0)->offset(1), 8U);
  EXPECT_THAT(captured.kernel(0)->argument(1), SizeIs(4));
  EXPECT_THAT(captured.kernel(0)->argument(2), IsEmpty());
}

TEST_F(CapturedGraphTest, OwnsWhatItRead) {
  FakeNode& node = add_pointer_kernel(old_memory.begin);
  const CapturedGraph captured = adopt();
  std::fill(node.kernel.arguments.begin(), node.kernel.arguments.end(), std::byte{0xee});
  graph_.nodes.clear();
  EXPECT_EQ(word(captured, 0, 0), old_memory.begin);
}

TEST_F(CapturedGraphTest, ChildGraphsWithoutEndAreRefused) {
  graph_.add(ForeignNodeKind::child_graph).child = &graph_;
  EXPECT_THAT(refusal([&] { adopt(); }), HasSubstr("nested"));
}

TEST_F(CapturedGraphTest, NullGraphsNodesAndOtherKindsAreRefused) {
  EXPECT_THAT(refusal([&] { CapturedGraph::adopt(fake_.device, nullptr); }), HasSubstr("null"));
  EXPECT_THAT(refusal([&] { KernelNodeParams::copy(*fake_.device, nullptr); }), HasSubstr("null"));
  FakeNode& node = graph_.add_set(old_memory.begin, 0);
  EXPECT_THAT(refusal([&] { KernelNodeParams::copy(*fake_.device, node.handle()); }),
              HasSubstr("a memset node"));
  const auto host = open_device("host");
  EXPECT_THAT(refusal([&] { CapturedGraph::adopt(host, graph_.handle()); }), HasSubstr("host"));
}

TEST_F(CapturedGraphTest, FindsPointersInStructsAtTheirAlignmentAlone) {
  const Inner inner{3, reinterpret_cast<const float*>(old_memory.begin + 16), 1};
  // An address across two words, as no pointer lies.
  std::array<std::byte, 16> across{};
  std::memcpy(across.data() + 4, &old_memory.begin, 8);
  graph_.add_kernel("k",
                    {argument_of(std::int32_t{1}), argument_of(inner), {{across.begin(), across.end()}, 8}});
  EXPECT_THAT(adopt().sites(old_memory), ElementsAre(Site{0, 1, 8, old_memory.begin + 16, true}));
}

TEST_F(CapturedGraphTest, WordsOfArgumentsThatAreNotAlignedAreNoPointers) {
  // 12 bytes at offset 4: its type has an alignment of 4.
  std::vector<std::byte> bytes(12);
  std::memcpy(bytes.data() + 4, &old_memory.begin, 8);
  graph_.add_kernel("k", {argument_of(std::int32_t{1}), {bytes, 4}});
  EXPECT_THAT(adopt().sites(old_memory), IsEmpty());
}

TEST_F(CapturedGraphTest, ARangeHasItsFirstByteAndNotTheOneBeyond) {
  add_pointer_kernel(old_memory.begin);
  add_pointer_kernel(old_memory.begin + old_memory.bytes);
  add_pointer_kernel(old_memory.begin + old_memory.bytes - 1);
  add_pointer_kernel(old_memory.begin - 1);
  const auto sites = adopt().sites(old_memory);
  ASSERT_THAT(sites, SizeIs(2));
  EXPECT_EQ(sites[0].node, 0U);
  EXPECT_EQ(sites[1].node, 2U);
  EXPECT_THAT(adopt().sites({old_memory.begin, 0}), IsEmpty());
}

TEST_F(CapturedGraphTest, MemcpyAndMemsetNodesHaveSitesAtTheirDeviceEnds) {
  graph_.add_copy(old_memory.begin, true, old_memory.begin + 64, true);
  graph_.add_copy(old_memory.begin, false, old_memory.begin + 8, true);  // from the host
  graph_.add_set(old_memory.begin + 32, static_cast<std::uint32_t>(old_memory.begin));
  EXPECT_THAT(
      adopt().sites(old_memory),
      ElementsAre(Site{0, 0, 0, old_memory.begin, true}, Site{0, 1, 0, old_memory.begin + 64, true},
                  Site{1, 1, 0, old_memory.begin + 8, true}, Site{2, 0, 0, old_memory.begin + 32, true}));
}

// A CUtensorMap is 128 bytes at a multiple of 64, and so is what holds one.
TEST_F(CapturedGraphTest, WordsOfWhatMayBeATensorMapAreNotCertain) {
  AlignedWords<16> map;
  map.at[0] = old_memory.begin;
  AlignedWords<24> holder;  // 192 bytes
  holder.at[9] = old_memory.begin;
  graph_.add_kernel("k", {argument_of(map), argument_of(holder)});
  const CapturedGraph captured = adopt();
  EXPECT_THAT(captured.sites(old_memory),
              ElementsAre(Site{0, 0, 0, old_memory.begin, false}, Site{0, 1, 72, old_memory.begin, false}));
}

TEST_F(CapturedGraphTest, StructsThatCannotHoldATensorMapAreCertain) {
  Words<92> matmul;  // 736 bytes
  Words<34> attention;
  AlignedWords<8> small;  // 64 bytes
  Words<16> shifted;      // 128 bytes at no multiple of 64
  matmul.at[8] = attention.at[0] = small.at[0] = shifted.at[0] = old_memory.begin;
  graph_.add_kernel("matmul", {argument_of(matmul)});
  graph_.add_kernel("attention", {argument_of(attention)});
  graph_.add_kernel("small", {argument_of(small)});
  graph_.add_kernel("shifted", {argument_of(std::uint64_t{1}), argument_of(shifted)});
  CapturedGraph captured = adopt();
  for (const Site& site : captured.sites(old_memory)) EXPECT_TRUE(site.is_certain) << site.node;
  EXPECT_EQ(captured.retarget(old_memory, new_memory.begin), 4U);
}

TEST_F(CapturedGraphTest, DevicesWithoutTensorMapsHaveNoUncertainWords) {
  AlignedWords<16> words;
  words.at[0] = old_memory.begin;
  graph_.add_kernel("k", {argument_of(words)});
  for (const auto& [backend, architecture, certain] : {std::tuple{"hip", "gfx942", true},
                                                       {"cuda", "sm_80", true},
                                                       {"cuda", "sm_90", false},
                                                       {"cuda", "sm_100", false}}) {
    const FakeDevice fake(backend, architecture);
    const CapturedGraph captured = CapturedGraph::adopt(fake.device, graph_.handle());
    EXPECT_EQ(captured.sites(old_memory).at(0).is_certain, certain) << architecture;
  }
}

TEST_F(CapturedGraphTest, RetargetKeepsOffsetsAndAppliesEachChangedNodeOnce) {
  const Inner inner{3, reinterpret_cast<const float*>(old_memory.begin + 16), 1};
  graph_.add_kernel("both", {argument_of(old_memory.begin + 8), argument_of(inner)});
  add_pointer_kernel(new_memory.begin);
  graph_.add_copy(old_memory.begin, true, old_memory.begin + 64, true);
  graph_.add_set(old_memory.begin + 32, 5);
  CapturedGraph captured = adopt();
  EXPECT_EQ(captured.retarget(old_memory, new_memory.begin), 5U);
  ASSERT_TRUE(captured.apply(&first_exec_).ok());
  const auto& updates = fake_.graphs().updates;
  ASSERT_THAT(updates, SizeIs(3));
  EXPECT_EQ(updates[0].node, graph_.nodes[0]->handle());
  EXPECT_EQ(updates[0].exec, &first_exec_);
  std::uint64_t pointers[2] = {};
  std::memcpy(pointers, updates[0].arguments.data(), 8);
  std::memcpy(pointers + 1, updates[0].arguments.data() + 16, 8);
  EXPECT_THAT(pointers, ElementsAre(new_memory.begin + 8, new_memory.begin + 16));
  EXPECT_EQ(updates[1].from, new_memory.begin);
  EXPECT_EQ(updates[1].to, new_memory.begin + 64);
  EXPECT_EQ(updates[2].to, new_memory.begin + 32);
  EXPECT_EQ(updates[2].value, 5U);
  EXPECT_EQ(fake_.graphs().open_scopes, 0);
}

TEST_F(CapturedGraphTest, AppliesOnlyWhatChangedSinceTheLastApplyToThisExec) {
  for (int i = 0; i < 4; ++i) add_pointer_kernel(old_memory.begin + 8 * static_cast<std::uint64_t>(i));
  CapturedGraph captured = adopt();
  auto& updates = fake_.graphs().updates;
  ASSERT_TRUE(captured.apply(&first_exec_).ok());
  EXPECT_THAT(updates, IsEmpty());

  captured.retarget({old_memory.begin + 8, 8}, new_memory.begin);
  ASSERT_TRUE(captured.apply(&first_exec_).ok());
  ASSERT_TRUE(captured.apply(&first_exec_).ok());
  EXPECT_THAT(updates, SizeIs(1));

  captured.set_argument(3, 1, bytes_of_value(std::int32_t{7}));  // what it was
  ASSERT_TRUE(captured.apply(&first_exec_).ok());
  EXPECT_THAT(updates, SizeIs(1));
  captured.set_argument(3, 1, bytes_of_value(std::int32_t{8}));
  ASSERT_TRUE(captured.apply(&first_exec_).ok());
  ASSERT_THAT(updates, SizeIs(2));
  EXPECT_EQ(updates[1].node, graph_.nodes[3]->handle());

  // Another exec gets all that changed since the graph was adopted, and so does one after reset.
  ASSERT_TRUE(captured.apply(&second_exec_).ok());
  EXPECT_THAT(updates, SizeIs(4));
  captured.reset();
  ASSERT_TRUE(captured.apply(&second_exec_).ok());
  EXPECT_THAT(updates, SizeIs(6));
  // What the first one missed meanwhile, too.
  ASSERT_TRUE(captured.apply(&first_exec_).ok());
  EXPECT_THAT(updates, SizeIs(8));
}

TEST_F(CapturedGraphTest, UpdatesAreMadeInADriverScope) {
  add_pointer_kernel(old_memory.begin);
  for (const char* backend : {"cuda", "hip"}) {
    const FakeDevice fake(backend);
    auto captured = CapturedGraph::adopt(fake.device, graph_.handle());
    captured.retarget(old_memory, new_memory.begin);
    const Status status = captured.apply(&first_exec_);  // the fake refuses all others
    EXPECT_TRUE(status.ok()) << backend << ' ' << status.driver_name;
    EXPECT_THAT(fake.graphs().updates, SizeIs(1)) << backend;
    EXPECT_EQ(fake.graphs().open_scopes, 0) << backend;
  }
}

TEST_F(CapturedGraphTest, NoScopeIsEnteredWhereTheCallerSaysThatAContextIsCurrent) {
  add_pointer_kernel(old_memory.begin);
  CapturedGraph captured = adopt();
  captured.retarget(old_memory, new_memory.begin);
  // The fake refuses updates outside of a scope, and tells so.
  EXPECT_FALSE(captured.apply(&first_exec_, CapturedGraph::ThreadContext::current).ok());
}

TEST_F(CapturedGraphTest, AFailureOfTheDriverIsTold) {
  for (int i = 0; i < 3; ++i) add_pointer_kernel(old_memory.begin);
  CapturedGraph captured = adopt();
  captured.retarget(old_memory, new_memory.begin);
  fake_.graphs().updates_before_failure = 1;
  const Status status = captured.apply(&first_exec_);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(captured.has_failed());
  const Error error = captured.error(status);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("node 1"), HasSubstr("scale(float*, int)"),
                                  HasSubstr("FAKE_ERROR"), HasSubstr("fakeUpdate")));
  EXPECT_EQ(error.driver_code(), 1);

  fake_.graphs().updates_before_failure = SIZE_MAX;
  const Status refused = captured.apply(&first_exec_);
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(captured.error(refused).what(), HasSubstr("reset()"));
  EXPECT_THAT(fake_.graphs().updates, SizeIs(1));
  captured.reset();
  ASSERT_TRUE(captured.apply(&first_exec_).ok());
  EXPECT_THAT(fake_.graphs().updates, SizeIs(4));
  EXPECT_EQ(captured.apply(nullptr).code, ErrorCode::bad_argument);
}

TEST_F(CapturedGraphTest, RetargetIsAllOrNothing) {
  AlignedWords<16> words;
  words.at[0] = old_memory.begin;
  add_pointer_kernel(old_memory.begin);
  graph_.add_kernel("_Z5tilesv", {argument_of(words)});
  CapturedGraph captured = adopt();
  EXPECT_THAT(refusal([&] { captured.retarget(old_memory, new_memory.begin); }),
              AllOf(HasSubstr("node 1"), HasSubstr("\"tiles()\""), HasSubstr("diff")));
  EXPECT_EQ(word(captured, 0, 0), old_memory.begin);
  ASSERT_TRUE(captured.apply(&first_exec_).ok());
  EXPECT_THAT(fake_.graphs().updates, IsEmpty());
}

TEST_F(CapturedGraphTest, NodesThatCannotBeChangedAreRefusedBeforeAnythingHasChanged) {
  add_pointer_kernel(old_memory.begin);
  FakeNode& fixed = add_pointer_kernel(old_memory.begin);
  fixed.kernel.fixed = "belongs to another context";
  FakeNode& unknown = add_pointer_kernel(old_memory.begin + 1);
  unknown.unreadable = "nobody knows the layout";
  graph_.add(ForeignNodeKind::host);
  CapturedGraph captured = adopt();
  EXPECT_THAT(refusal([&] { captured.retarget(old_memory, new_memory.begin); }),
              AllOf(HasSubstr("node 1"), HasSubstr("belongs to another context")));
  EXPECT_EQ(word(captured, 0, 0), old_memory.begin);
  EXPECT_THAT(refusal([&] { captured.set_argument(2, 0, bytes_of_value(std::uint64_t{0})); }),
              AllOf(HasSubstr("node 2"), HasSubstr("nobody knows the layout")));
  EXPECT_THAT(refusal([&] { captured.set_argument(3, 0, {}); }), HasSubstr("node 3 (host)"));
}

TEST_F(CapturedGraphTest, CopiesAndSetsStayInDeviceMemory) {
  graph_.add_copy(old_memory.begin, true, 0x1000, false);
  graph_.add_set(old_memory.begin, 0);
  CapturedGraph captured = adopt();
  EXPECT_THAT(refusal([&] { captured.retarget(old_memory, 0x5000); }),
              AllOf(HasSubstr("0x5000"), HasSubstr("node 0")));
  EXPECT_THAT(refusal([&] { captured.set_argument(0, 1, bytes_of_value(old_memory.begin)); }),
              HasSubstr("no device memory"));
  EXPECT_THAT(refusal([&] { captured.set_argument(1, 0, 4, bytes_of_value(std::int32_t{1})); }),
              HasSubstr("as a whole"));
  captured.set_argument(1, 1, bytes_of_value(std::uint32_t{77}));
  captured.set_argument(1, 0, bytes_of_value(new_memory.begin));
  ASSERT_TRUE(captured.apply(&first_exec_).ok());
  ASSERT_THAT(fake_.graphs().updates, SizeIs(1));
  EXPECT_EQ(fake_.graphs().updates[0].value, 77U);
  EXPECT_EQ(fake_.graphs().updates[0].to, new_memory.begin);
}

TEST_F(CapturedGraphTest, CopiesAndSetsStayInDeviceMemoryToTheirLastByte) {
  graph_.add_copy(old_memory.begin, true, old_memory.begin + 64, true);  // 64 bytes
  graph_.add_set(old_memory.begin, 0);                                   // 16 elements of 4 bytes
  FakeNode& rows = graph_.add_set(old_memory.begin, 0);
  rows.set.height = 3;
  rows.set.pitch = 256;
  CapturedGraph captured = adopt();
  const std::uint64_t end = new_memory.begin + new_memory.bytes;
  const auto set = [&](std::size_t node, std::size_t argument, std::uint64_t address) {
    captured.set_argument(node, argument, bytes_of_value(address));
  };
  for (const std::size_t argument : {0U, 1U}) {
    set(0, argument, end - 64);
    EXPECT_THAT(refusal([&] { set(0, argument, end - 63); }),
                AllOf(HasSubstr("64 bytes"), HasSubstr("node 0"), HasSubstr("no device memory")));
  }
  set(1, 0, end - 64);
  EXPECT_THAT(refusal([&] { set(1, 0, end - 60); }), HasSubstr("no device memory"));
  EXPECT_THAT(refusal([&] { set(1, 0, new_memory.begin + 2); }),
              AllOf(HasSubstr("no multiple of 4"), HasSubstr("node 1")));
  set(2, 0, end - 2 * 256 - 64);
  EXPECT_THAT(refusal([&] { set(2, 0, end - 2 * 256 - 60); }), HasSubstr("576 bytes"));
  EXPECT_THAT(refusal([&] { set(0, 0, UINT64_MAX - 8); }), HasSubstr("no device memory"));
  EXPECT_EQ(word(captured, 0, 0), end - 64);
  // Memory that was mapped in parts.
  fake_.graphs().allocations.push_back({end, 0x1000});
  set(0, 1, end - 32);
}

TEST_F(CapturedGraphTest, ArgumentsOfTheWrongSizeAndPlaceAreRefused) {
  add_pointer_kernel(old_memory.begin);
  CapturedGraph captured = adopt();
  const auto word = bytes_of_value(std::uint64_t{0});
  EXPECT_THAT(refusal([&] { captured.set_argument(0, 1, word); }),
              AllOf(HasSubstr("4 bytes"), HasSubstr("8")));
  EXPECT_THAT(refusal([&] { captured.set_argument(0, 2, word); }), HasSubstr("no argument 2"));
  EXPECT_THAT(refusal([&] { captured.set_argument(1, 0, word); }), HasSubstr("no node 1"));
  EXPECT_THAT(refusal([&] { captured.set_argument(0, 0, 1, word); }), HasSubstr("not in it"));
  EXPECT_THAT(refusal([&] { captured.set_argument(0, 0, SIZE_MAX, word); }), HasSubstr("not in it"));
  captured.set_argument(0, 0, 4, bytes_of_value(std::uint32_t{1}));
  EXPECT_EQ(CapturedGraphTest::word(captured, 0, 0), (old_memory.begin & 0xffffffff) | 0x100000000);
}

TEST_F(CapturedGraphTest, ARetargetBeyondTheLastAddressIsRefused) {
  add_pointer_kernel(old_memory.begin);
  CapturedGraph captured = adopt();
  EXPECT_THAT(refusal([&] { captured.retarget(old_memory, UINT64_MAX - 100); }), HasSubstr("last address"));
}

TEST_F(CapturedGraphTest, AllocationsAreAskedForOnce) {
  CapturedGraph captured = adopt();
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(captured.allocation(old_memory.begin + i), old_memory);
  EXPECT_EQ(fake_.graphs().allocation_queries, 1U);
  EXPECT_EQ(captured.allocation(0x10), std::nullopt);
  EXPECT_EQ(captured.allocation(0x10), std::nullopt);
  EXPECT_EQ(fake_.graphs().allocation_queries, 3U);
  // Freed; what lies there now overlaps both ends of the old one.
  const AddressRange later{old_memory.begin - 64, 128};
  fake_.graphs().allocations = {later};
  EXPECT_EQ(captured.allocation(later.begin), later);
  EXPECT_EQ(captured.allocation(old_memory.begin), later);
  EXPECT_EQ(captured.allocation(old_memory.begin + 100), std::nullopt);
  captured.forget_allocations();
  captured.allocation(later.begin);
  EXPECT_EQ(fake_.graphs().allocation_queries, 6U);
}

TEST_F(CapturedGraphTest, RememberedAllocationsDoNotGrowWithoutBound) {
  CapturedGraph captured = adopt();
  auto& allocations = fake_.graphs().allocations;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    allocations = {{0x1000 * (i + 1), 0x800}};
    ASSERT_TRUE(captured.allocation(0x1000 * (i + 1) + 5).has_value());
  }
  fake_.graphs().allocation_queries = 0;
  allocations.clear();
  EXPECT_TRUE(captured.allocation(0x1000 * 5000).has_value());
  EXPECT_FALSE(captured.allocation(0x1000).has_value());  // of those before the 4,097th
}

TEST_F(CapturedGraphTest, TextIsEscapedAndReadBack) {
  FakeNode& node = graph_.add_kernel("say \"hi\"\\n\n\x01", {argument_of(old_memory.begin)});
  node.kernel.is_cooperative = true;
  node.kernel.cluster = {2, 1, 1};
  AlignedWords<16> words;
  words.at[3] = new_memory.begin + 5;
  graph_.add_kernel("_Z1kPf", {argument_of(words)});
  graph_.add(ForeignNodeKind::host);
  graph_.edges = {{graph_.nodes[0]->handle(), graph_.nodes[1]->handle()}};
  const CapturedGraph captured = adopt();
  EXPECT_THAT(captured.to_dot(),
              AllOf(HasSubstr(R"(say \"hi\"\\n\l)"), HasSubstr("n0 -> n1;"), Not(HasSubstr("\x01"))));
  const std::string json = captured.to_json();
  const CapturedPicture read = CapturedPicture::parse(json, "graph.json");
  EXPECT_EQ(read.to_json(), json);
  EXPECT_EQ(read.to_dot(), captured.to_dot());
  ASSERT_THAT(read.sites, SizeIs(2));
  EXPECT_EQ(read.sites[1].site, (Site{1, 0, 24, new_memory.begin + 5, false}));
  EXPECT_THAT(read.to_text(), AllOf(HasSubstr("k(float*)"), HasSubstr("allocation 1 + 0x5, not certain"),
                                    HasSubstr("cannot be changed"), HasSubstr("cooperative cluster 2×1×1")));
}

TEST_F(CapturedGraphTest, ATableSteersNoTerminal) {
  const CapturedPicture picture =
      CapturedPicture::parse(R"({"rondo_captured_graph": 1, "device": "", "nodes": [
    {"path": "\u001b[2J", "kind": "\u007f", "name": "é\u009b\r1", "problem": "one\ntwo\t\u0000", "arguments": []}],
    "edges": [], "allocations": [], "sites": []})",
                             "graph.json");
  const std::string text = picture.to_text();
  EXPECT_THAT(text, AllOf(HasSubstr("\\x1b[2J"), HasSubstr("\\x7f"), HasSubstr("é\\x9b\\x0d1"),
                          HasSubstr("one two\\x09\\x00")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  for (const char c : text + picture.to_dot())
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
}

TEST_F(CapturedGraphTest, HostilePicturesAreRefusedWithTheirPlace) {
  const auto refused = [](const std::string& json) {
    return refusal([&] { CapturedPicture::parse(json, "graph.json"); });
  };
  EXPECT_THAT(refused("{"), HasSubstr("graph.json:1:"));
  EXPECT_THAT(refused("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(refused(R"({"rondo_captured_graph": 2})"), HasSubstr("version 1"));
  EXPECT_THAT(refused(R"({"rondo_captured_graph": 1, "nods": []})"), HasSubstr("Did you mean \"nodes\"?"));
  const std::string head = R"({"rondo_captured_graph": 1, "device": "cuda:0", "nodes": [
    {"path": "0", "kind": "kernel", "arguments": [{"offset": 0, "bytes": "0000000000000000"}]}], )";
  EXPECT_THAT(refused(head + R"("edges": [[0, 1]], "allocations": [], "sites": []})"),
              HasSubstr("[/edges/0/1]"));
  EXPECT_THAT(refused(head + R"("edges": [[0]], "allocations": [], "sites": []})"), HasSubstr("[/edges/0]"));
  EXPECT_THAT(refused(head + R"("edges": [], "allocations": [{"begin": "7", "bytes": 1}], "sites": []})"),
              HasSubstr("[/allocations/0/begin]"));
  EXPECT_THAT(refused(head + R"("edges": [], "allocations": [{"begin": "0x7", "bytes": 1}], "sites":
    [{"node": 0, "argument": 0, "offset": 1, "value": "0x7", "certain": true, "allocation": 0}]})"),
              HasSubstr("[/sites/0/offset]"));
  const std::string site = head + R"("edges": [], "allocations": [{"begin": "0x70", "bytes": 16}], "sites":
    [{"node": 0, "argument": 0, "certain": true, "allocation": 0, )";
  EXPECT_THAT(refused(site + R"("offset": 0, "value": "0x80"}]})"),
              AllOf(HasSubstr("[/sites/0/value]"), HasSubstr("not in allocation 0")));
  EXPECT_THAT(refused(site + R"("offset": 8, "value": "0x70"}]})"), HasSubstr("[/sites/0/offset]"));
  EXPECT_THAT(refused(site + R"("offset": 4294967296, "value": "0x70"}]})"), HasSubstr("[/sites/0/offset]"));
  EXPECT_THAT(refused(R"({"rondo_captured_graph": 1, "device": "", "nodes":
    [{"path": "0", "kind": "kernel", "arguments": [{"offset": 0, "bytes": "0"}]}]})"),
              HasSubstr("[/nodes/0/arguments/0/bytes]"));
}

}  // namespace
}  // namespace rondo
