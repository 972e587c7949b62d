// The C interface on graphs that exist in memory alone; tests/c has the C program.
#include "c_interface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "fake_foreign_graphs.h"

namespace rondo {
namespace {

using ::testing::HasSubstr;

constexpr AddressRange first_memory{0x7f0000100000, 0x1000}, second_memory{0x7f0000900000, 0x1000};

class CInterfaceTest : public ::testing::Test {
 protected:
  CInterfaceTest() {
    fake_.graphs().allocations = {first_memory, second_memory};
    fill(graph_, first_memory.begin, 17);
    fill(other_, second_memory.begin, 18);
    EXPECT_EQ(rondo_captured_graph_adopt(&device_, graph_.handle(), nullptr, 0, &captured_), 0);
    EXPECT_EQ(rondo_captured_graph_adopt(&device_, other_.handle(), nullptr, 0, &captured_other_), 0);
  }
  ~CInterfaceTest() override {
    rondo_captured_graph_free(captured_);
    rondo_captured_graph_free(captured_other_);
  }
  static void fill(FakeGraph& graph, std::uint64_t memory, std::int32_t position) {
    FakeNode& node = graph.add_kernel("_Z5scalePfi", {argument_of(memory + 16), argument_of(position)});
    node.kernel.shape = {{4, 2, 1}, {128, 1, 1}, 99};
    node.kernel.cluster = {2, 1, 1};
    node.kernel.function = &graph;
    graph.add(ForeignNodeKind::host);
  }

  FakeDevice fake_;
  rondo_device device_{fake_.device};
  FakeGraph graph_, other_;
  rondo_captured_graph *captured_ = nullptr, *captured_other_ = nullptr;
  int exec_ = 0;
};

TEST_F(CInterfaceTest, CopiesAKernelNode) {
  rondo_kernel_node_params* params = nullptr;
  ASSERT_EQ(rondo_kernel_node_params_copy(&device_, graph_.nodes[0]->handle(), nullptr, 0, &params), 0);
  const char* name = nullptr;
  void* function = nullptr;
  rondo_launch_shape shape{};
  std::size_t count = 0, size = 0, all = 0;
  const void *bytes = nullptr, *packed = nullptr;
  EXPECT_EQ(rondo_kernel_node_params_name(params, &name), 0);
  EXPECT_STREQ(name, "_Z5scalePfi");
  EXPECT_EQ(rondo_kernel_node_params_function(params, &function), 0);
  EXPECT_EQ(function, &graph_);
  EXPECT_EQ(rondo_kernel_node_params_shape(params, &shape), 0);
  EXPECT_EQ(shape.grid[1], 2U);
  EXPECT_EQ(shape.block[0], 128U);
  EXPECT_EQ(shape.shared_bytes, 99U);
  EXPECT_EQ(shape.cluster[0], 2U);
  EXPECT_EQ(shape.is_cooperative, 0);
  EXPECT_EQ(rondo_kernel_node_params_argument_count(params, &count), 0);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(rondo_kernel_node_params_argument(params, 1, &bytes, &size), 0);
  EXPECT_EQ(size, 4U);
  EXPECT_EQ(*static_cast<const std::int32_t*>(bytes), 17);
  EXPECT_EQ(rondo_kernel_node_params_packed(params, &packed, &all), 0);
  EXPECT_EQ(static_cast<const char*>(bytes) - static_cast<const char*>(packed), 8);
  EXPECT_EQ(all, 12U);
  EXPECT_EQ(rondo_kernel_node_params_argument(params, 2, &bytes, &size), 2);
  EXPECT_THAT(rondo_last_error(), HasSubstr("no argument 2"));
  rondo_kernel_node_params_free(params);
  EXPECT_EQ(rondo_kernel_node_params_copy(&device_, graph_.nodes[1]->handle(), nullptr, 0, &params), 2);
  EXPECT_THAT(rondo_last_error(), HasSubstr("host node"));
}

TEST_F(CInterfaceTest, ListsRetargetsAndApplies) {
  std::size_t count = 0, size = 0;
  EXPECT_EQ(rondo_captured_graph_node_count(captured_, &count), 0);
  EXPECT_EQ(count, 2U);
  rondo_captured_node node{};
  EXPECT_EQ(rondo_captured_graph_node(captured_, 1, &node), 0);
  EXPECT_STREQ(node.kind, "host");
  EXPECT_STRNE(node.problem, "");
  EXPECT_EQ(rondo_captured_graph_node(captured_, 2, &node), 2);

  std::array<rondo_site, 2> sites{};
  EXPECT_EQ(
      rondo_captured_graph_sites(captured_, first_memory.begin, first_memory.bytes, sites.data(), 2, &count),
      0);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(sites[0].value, first_memory.begin + 16);
  EXPECT_EQ(sites[0].is_certain, 1);
  EXPECT_EQ(rondo_captured_graph_sites(captured_, first_memory.begin, first_memory.bytes, nullptr, 0, &count),
            0);
  EXPECT_EQ(rondo_captured_graph_sites(captured_, first_memory.begin, first_memory.bytes, nullptr, 1, &count),
            2);

  std::uint64_t begin = 0;
  EXPECT_EQ(rondo_captured_graph_allocation(captured_, first_memory.begin + 5, &begin, &size), 0);
  EXPECT_EQ(AddressRange({begin, size}), first_memory);
  EXPECT_EQ(rondo_captured_graph_allocation(captured_, 1, &begin, &size), 0);
  EXPECT_EQ(size, 0U);
  EXPECT_EQ(rondo_captured_graph_forget_allocations(captured_), 0);

  EXPECT_EQ(rondo_captured_graph_retarget(captured_, first_memory.begin, first_memory.bytes,
                                          second_memory.begin, nullptr, &count),
            0);
  EXPECT_EQ(count, 1U);
  const std::int32_t position = 300;
  EXPECT_EQ(rondo_captured_graph_set_argument(captured_, 0, 1, 0, &position, sizeof position), 0);
  EXPECT_EQ(rondo_captured_graph_set_argument(captured_, 0, 1, 1, &position, sizeof position), 2);
  const void* bytes = nullptr;
  EXPECT_EQ(rondo_captured_graph_argument(captured_, 0, 1, &bytes, &size), 0);
  EXPECT_EQ(*static_cast<const std::int32_t*>(bytes), 300);
  EXPECT_EQ(rondo_captured_graph_argument(captured_, 1, 0, &bytes, &size), 2);
  EXPECT_EQ(rondo_captured_graph_apply(captured_, &exec_), 0);
  EXPECT_EQ(fake_.graphs().updates.size(), 1U);

  fake_.graphs().updates_before_failure = 0;
  EXPECT_EQ(rondo_captured_graph_set_argument(captured_, 0, 1, 0, &exec_, sizeof exec_), 0);
  EXPECT_EQ(rondo_captured_graph_apply(captured_, &exec_), 1);
  EXPECT_THAT(rondo_last_error(), HasSubstr("FAKE_ERROR"));
  EXPECT_EQ(rondo_captured_graph_reset(captured_), 0);
  fake_.graphs().updates_before_failure = SIZE_MAX;
  EXPECT_EQ(rondo_captured_graph_apply(captured_, &exec_), 0);
  EXPECT_EQ(rondo_captured_graph_apply(captured_, nullptr), 2);

  char* text = nullptr;
  EXPECT_EQ(rondo_captured_graph_to_json(captured_, &text), 0);
  EXPECT_THAT(text, HasSubstr("_Z5scalePfi"));
  rondo_string_free(text);
  EXPECT_EQ(rondo_captured_graph_to_dot(captured_, &text), 0);
  EXPECT_THAT(text, HasSubstr("digraph"));
  rondo_string_free(text);
}

TEST_F(CInterfaceTest, NodesThatCannotBeChangedAreRefusedByName) {
  graph_.nodes[0]->kernel.fixed = "belongs to another context";
  rondo_captured_graph* fixed = nullptr;
  ASSERT_EQ(rondo_captured_graph_adopt(&device_, graph_.handle(), nullptr, 0, &fixed), 0);
  const std::int32_t position = 300;
  std::size_t count = 77;
  const auto refused = [](int code, const char* node) {
    EXPECT_EQ(code, 2);
    EXPECT_THAT(rondo_last_error(), HasSubstr(std::string(node) + " cannot be changed"));
  };
  refused(rondo_captured_graph_retarget(fixed, first_memory.begin, first_memory.bytes, second_memory.begin,
                                        nullptr, &count),
          "node 0 (kernel \"scale(float*, int)\")");
  refused(rondo_captured_graph_set_argument(fixed, 0, 1, 0, &position, sizeof position),
          "node 0 (kernel \"scale(float*, int)\")");
  refused(rondo_captured_graph_set_argument(fixed, 1, 0, 0, nullptr, 0), "node 1 (host)");
  EXPECT_EQ(count, 77U);
  EXPECT_EQ(rondo_captured_graph_apply(fixed, &exec_), 0);
  EXPECT_TRUE(fake_.graphs().updates.empty());
  rondo_captured_graph_free(fixed);
}

// Every pointer that is not said to may be NULL.
TEST_F(CInterfaceTest, NullsAreRefusedByName) {
  rondo_kernel_node_params* params = nullptr;
  rondo_site_map* map = nullptr;
  ASSERT_EQ(rondo_kernel_node_params_copy(&device_, graph_.nodes[0]->handle(), nullptr, 0, &params), 0);
  ASSERT_EQ(rondo_site_map_diff(captured_, captured_other_, nullptr, 0, &map), 0);
  const auto refused = [](const char* says, int code) {
    EXPECT_EQ(code, 2) << says;
    EXPECT_THAT(rondo_last_error(), HasSubstr(says));
  };
  void* const node = graph_.nodes[0]->handle();
  const char *name = nullptr, *no_file = nullptr;
  const void* bytes = nullptr;
  char* text = nullptr;
  void* function = nullptr;
  std::size_t count = 0;
  std::uint64_t begin = 0;
  rondo_launch_shape shape{};
  rondo_captured_node info{};
  rondo_captured_graph* made = nullptr;
  rondo_kernel_node_params* copied = nullptr;
  rondo_site_map* other = nullptr;
  const rondo_named_buffer nameless{};

  refused("`device`", rondo_kernel_node_params_copy(nullptr, node, nullptr, 0, &copied));
  refused("node is null", rondo_kernel_node_params_copy(&device_, nullptr, nullptr, 0, &copied));
  refused("`code_object_files`", rondo_kernel_node_params_copy(&device_, node, nullptr, 1, &copied));
  refused("`code_object_files[i]`", rondo_kernel_node_params_copy(&device_, node, &no_file, 1, &copied));
  refused("`params`", rondo_kernel_node_params_copy(&device_, node, nullptr, 0, nullptr));
  refused("`params`", rondo_kernel_node_params_name(nullptr, &name));
  refused("`name`", rondo_kernel_node_params_name(params, nullptr));
  refused("`params`", rondo_kernel_node_params_function(nullptr, &function));
  refused("`function`", rondo_kernel_node_params_function(params, nullptr));
  refused("`params`", rondo_kernel_node_params_shape(nullptr, &shape));
  refused("`shape`", rondo_kernel_node_params_shape(params, nullptr));
  refused("`params`", rondo_kernel_node_params_argument_count(nullptr, &count));
  refused("`count`", rondo_kernel_node_params_argument_count(params, nullptr));
  refused("`params`", rondo_kernel_node_params_argument(nullptr, 0, &bytes, &count));
  refused("`bytes`", rondo_kernel_node_params_argument(params, 0, nullptr, &count));
  refused("`size`", rondo_kernel_node_params_argument(params, 0, &bytes, nullptr));
  refused("`params`", rondo_kernel_node_params_packed(nullptr, &bytes, &count));
  refused("`bytes`", rondo_kernel_node_params_packed(params, nullptr, &count));
  refused("`size`", rondo_kernel_node_params_packed(params, &bytes, nullptr));

  refused("`device`", rondo_captured_graph_adopt(nullptr, graph_.handle(), nullptr, 0, &made));
  refused("graph to adopt is null", rondo_captured_graph_adopt(&device_, nullptr, nullptr, 0, &made));
  refused("`captured`", rondo_captured_graph_adopt(&device_, graph_.handle(), nullptr, 0, nullptr));
  refused("`captured`", rondo_captured_graph_node_count(nullptr, &count));
  refused("`count`", rondo_captured_graph_node_count(captured_, nullptr));
  refused("`captured`", rondo_captured_graph_node(nullptr, 0, &info));
  refused("`info`", rondo_captured_graph_node(captured_, 0, nullptr));
  refused("`captured`", rondo_captured_graph_argument(nullptr, 0, 0, &bytes, &count));
  refused("`bytes`", rondo_captured_graph_argument(captured_, 0, 0, nullptr, &count));
  refused("`size`", rondo_captured_graph_argument(captured_, 0, 0, &bytes, nullptr));
  refused("`captured`", rondo_captured_graph_sites(nullptr, 0, 1, nullptr, 0, &count));
  refused("`count`", rondo_captured_graph_sites(captured_, 0, 1, nullptr, 0, nullptr));
  refused("`captured`", rondo_captured_graph_allocation(nullptr, 0, &begin, &count));
  refused("`begin`", rondo_captured_graph_allocation(captured_, 0, nullptr, &count));
  refused("`bytes`", rondo_captured_graph_allocation(captured_, 0, &begin, nullptr));
  refused("`captured`", rondo_captured_graph_forget_allocations(nullptr));
  refused("`captured`", rondo_captured_graph_retarget(nullptr, 0, 1, 0, nullptr, nullptr));
  refused("`captured`", rondo_captured_graph_set_argument(nullptr, 0, 0, 0, &count, 1));
  refused("`bytes`", rondo_captured_graph_set_argument(captured_, 0, 0, 0, nullptr, 1));
  refused("`captured`", rondo_captured_graph_apply(nullptr, &exec_));
  refused("exec is null", rondo_captured_graph_apply(captured_, nullptr));
  refused("`captured`", rondo_captured_graph_reset(nullptr));
  refused("`captured`", rondo_captured_graph_to_json(nullptr, &text));
  refused("`text`", rondo_captured_graph_to_json(captured_, nullptr));
  refused("`captured`", rondo_captured_graph_to_dot(nullptr, &text));
  refused("`text`", rondo_captured_graph_to_dot(captured_, nullptr));

  refused("`first`", rondo_site_map_diff(nullptr, captured_, nullptr, 0, &other));
  refused("`second`", rondo_site_map_diff(captured_, nullptr, nullptr, 0, &other));
  refused("`buffers`", rondo_site_map_diff(captured_, captured_other_, nullptr, 1, &other));
  refused("`buffers[i].name`", rondo_site_map_diff(captured_, captured_other_, &nameless, 1, &other));
  refused("`map`", rondo_site_map_diff(captured_, captured_other_, nullptr, 0, nullptr));
  refused("`json`", rondo_site_map_parse(nullptr, &other));
  refused("`map`", rondo_site_map_parse("{}", nullptr));
  refused("`map`", rondo_site_map_to_json(nullptr, &text));
  refused("`text`", rondo_site_map_to_json(map, nullptr));
  refused("`map`", rondo_site_map_check(nullptr, captured_));
  refused("`captured`", rondo_site_map_check(map, nullptr));
  refused("`map`", rondo_site_map_set_buffer(nullptr, captured_, "x", 0));
  refused("`captured`", rondo_site_map_set_buffer(map, nullptr, "x", 0));
  refused("`name`", rondo_site_map_set_buffer(map, captured_, nullptr, 0));
  refused("`map`", rondo_site_map_set_scalar(nullptr, captured_, "x", &count, 1));
  refused("`captured`", rondo_site_map_set_scalar(map, nullptr, "x", &count, 1));
  refused("`name`", rondo_site_map_set_scalar(map, captured_, nullptr, &count, 1));
  refused("`bytes`", rondo_site_map_set_scalar(map, captured_, "scalar 0", nullptr, 4));
  for (const void* handle : {static_cast<void*>(other), static_cast<void*>(made), static_cast<void*>(copied)})
    EXPECT_EQ(handle, nullptr);
  rondo_kernel_node_params_free(params);
  rondo_site_map_free(map);
}

TEST_F(CInterfaceTest, DiffsAndUpdatesByName) {
  const rondo_named_buffer buffer{"kv", first_memory.begin, first_memory.bytes, second_memory.begin,
                                  second_memory.bytes};
  rondo_site_map *map = nullptr, *read = nullptr;
  ASSERT_EQ(rondo_site_map_diff(captured_, captured_other_, &buffer, 1, &map), 0);
  char* json = nullptr;
  ASSERT_EQ(rondo_site_map_to_json(map, &json), 0);
  ASSERT_EQ(rondo_site_map_parse(json, &read), 0);
  rondo_string_free(json);
  EXPECT_EQ(read->map, map->map);
  EXPECT_EQ(rondo_site_map_check(read, captured_other_), 0);
  EXPECT_EQ(rondo_site_map_set_buffer(read, captured_, "kv", second_memory.begin), 0);
  EXPECT_EQ(rondo_site_map_set_buffer(read, captured_, "vk", second_memory.begin), 2);
  const std::int32_t position = 5;
  EXPECT_EQ(rondo_site_map_set_scalar(read, captured_, "scalar 0", &position, sizeof position), 0);
  EXPECT_EQ(rondo_site_map_set_scalar(read, captured_, "scalar 0", &position, 2), 2);
  const void* bytes = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(rondo_captured_graph_argument(captured_, 0, 0, &bytes, &size), 0);
  EXPECT_EQ(*static_cast<const std::uint64_t*>(bytes), second_memory.begin + 16);
  rondo_site_map_free(map);
  rondo_site_map_free(read);
}

}  // namespace
}  // namespace rondo
