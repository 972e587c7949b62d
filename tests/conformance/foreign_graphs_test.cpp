// Graphs that others made, read and updated: on the doubles in CI, and on whatever device there is.
#include "foreign_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "double_control.h"
#include "foreign_graphs_fixture.h"
#include "rondo/error.h"

namespace rondo::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_P(ForeignGraphsTest, AKernelNodeIsCopiedWhetherItsArgumentsCameAsPointersOrPacked) {
  const DevicePointer out = memory(64);
  for (const ArgumentForm form : {ArgumentForm::pointers, ArgumentForm::packed}) {
    SCOPED_TRACE(form == ArgumentForm::packed ? "packed" : "pointers");
    const GraphHandle graph = driver().create_graph();
    const PackedArguments given(out, short{-3}, Job{7, out, 40, {1, 2, 3}});
    const LaunchShape shape{{2, 3, 1}, {4, 1, 1}, 512};
    const NodeHandle node = add(graph, "store_job", given, form, shape);
    ForeignKernel copy = graphs().read_kernel(node, code_objects());
    driver().destroy_graph(graph);  // the copy holds nothing of it
    EXPECT_EQ(copy.name, lowered("store_job"));
    EXPECT_EQ(copy.shape, shape);
    EXPECT_FALSE(copy.is_cooperative);
    EXPECT_EQ(copy.cluster, (Dim3{0, 0, 0}));
    EXPECT_EQ(copy.fixed, nullptr);
    ASSERT_EQ(copy.layout.size(), 3U);
    EXPECT_EQ(copy.layout[1].offset, 8U);
    EXPECT_EQ(copy.layout[1].size, 2U);
    EXPECT_EQ(copy.layout[2].offset, 16U);
    EXPECT_EQ(copy.layout[2].size, sizeof(Job));
    Job job{};
    ASSERT_EQ(copy.arguments.size(), 16 + sizeof job);
    std::memcpy(&job, copy.arguments.data() + 16, sizeof job);
    EXPECT_EQ(job.out, out);
    EXPECT_EQ(job.value, 40);
    EXPECT_EQ(job.tail[2], 3);
  }
}

TEST_P(ForeignGraphsTest, AKernelWithoutParametersIsCopied) {
  const GraphHandle graph = make_graph();
  const ForeignKernel copy =
      graphs().read_kernel(add(graph, "nothing", PackedArguments{}, ArgumentForm::pointers), code_objects());
  EXPECT_TRUE(copy.layout.empty());
  EXPECT_TRUE(copy.arguments.empty());
  const ExecHandle exec = instantiate(graph);
  EXPECT_TRUE(update_node(exec, graphs().nodes(graph)[0], copy).ok());
  run(exec);
}

TEST_P(ForeignGraphsTest, AnUpdateReachesTheExecAndNotTheGraph) {
  std::mt19937 random(std::random_device{}());
  const DevicePointer before = memory(64), after = memory(64);
  for (const ArgumentForm form : {ArgumentForm::pointers, ArgumentForm::packed}) {
    const GraphHandle graph = make_graph();
    const int value = static_cast<int>(random() % 1000);
    const NodeHandle node =
        add(graph, "store_job", PackedArguments(before, short{1}, Job{0, before, value, {}}), form);
    const ExecHandle exec = instantiate(graph);
    ForeignKernel kernel = graphs().read_kernel(node, code_objects());
    const std::vector<std::byte> original = kernel.arguments;
    const DevicePointer moved = after + 8;
    std::memcpy(kernel.arguments.data() + 16 + offsetof(Job, out), &moved, sizeof moved);
    const Status status = update_node(exec, node, kernel);
    ASSERT_TRUE(status.ok()) << status.call << ' ' << status.driver_name;
    std::fill(kernel.arguments.begin(), kernel.arguments.end(), std::byte{0xa5});
    run(exec);
    EXPECT_THAT(read<int>(after, 4), ElementsAre(poison, poison, value + 1, poison));
    EXPECT_THAT(read<int>(before, 2), ElementsAre(poison, poison));
    EXPECT_EQ(graphs().read_kernel(node, code_objects()).arguments, original);
    run(instantiate(graph));
    EXPECT_EQ(read<int>(before, 1)[0], value + 1);
    ASSERT_TRUE(driver().fill_bytes(before, 0xcd, 64, stream_).ok());
    ASSERT_TRUE(driver().fill_bytes(after, 0xcd, 64, stream_).ok());
  }
}

TEST_P(ForeignGraphsTest, CopiesAndFillsGetOtherAddresses) {
  const DevicePointer source = memory(64), first = memory(64), second = memory(64), filled = memory(64),
                      elsewhere = memory(64);
  const std::vector<int> values{11, 12, 13, 14};
  write(source, values);
  const GraphHandle graph = make_graph();
  const NodeHandle copy_node = maker().add_copy(graph, first, source, 16);
  const NodeHandle fill_node = maker().add_fill(graph, filled, 0x01020304, 4, 2);
  EXPECT_EQ(graphs().kind(copy_node), ForeignNodeKind::memcpy);
  EXPECT_EQ(graphs().kind(fill_node), ForeignNodeKind::memset);
  const ExecHandle exec = instantiate(graph);
  ForeignMemcpy copy = graphs().read_memcpy(copy_node);
  EXPECT_TRUE(copy.from.is_device);
  EXPECT_EQ(copy.from.address, source);
  EXPECT_EQ(copy.to.address, first);
  EXPECT_EQ(copy.width_bytes, 16U);
  EXPECT_EQ(copy.fixed, nullptr);
  ForeignMemset set = graphs().read_memset(fill_node);
  EXPECT_EQ(set.address, filled);
  EXPECT_EQ(set.width * set.element_bytes, 8U);
  copy.to.address = second + 4;
  set.address = elsewhere + 4;
  const Status copied = update_node(exec, copy_node, copy);
  ASSERT_TRUE(copied.ok()) << copied.call << ' ' << copied.driver_name;
  const Status was_set = update_node(exec, fill_node, set);
  ASSERT_TRUE(was_set.ok()) << was_set.call << ' ' << was_set.driver_name;
  run(exec);
  EXPECT_THAT(read<int>(first, 1), ElementsAre(poison));
  EXPECT_THAT(read<int>(second, 6), ElementsAre(poison, 11, 12, 13, 14, poison));
  EXPECT_THAT(read<int>(filled, 2), ElementsAre(poison, poison));
  EXPECT_THAT(read<int>(elsewhere, 4), ElementsAre(poison, 0x01020304, 0x01020304, poison));
}

TEST_P(ForeignGraphsTest, ACopyFromTheHostKeepsItsSource) {
  const DevicePointer to = memory(64), other = memory(64);
  const std::array<int, 2> values{5, 6};
  const GraphHandle graph = make_graph();
  const NodeHandle node = maker().add_copy_from_host(graph, to, 8, values.data(), sizeof values);
  const ExecHandle exec = instantiate(graph);
  ForeignMemcpy copy = graphs().read_memcpy(node);
  EXPECT_FALSE(copy.from.is_device);
  EXPECT_EQ(copy.to.address, to + 8);  // of the first byte, wherever the vendor keeps the offset
  copy.to.address = other + 16;
  const Status status = update_node(exec, node, copy);
  ASSERT_TRUE(status.ok()) << status.call << ' ' << status.driver_name;
  run(exec);
  EXPECT_THAT(read<int>(to, 4), ElementsAre(poison, poison, poison, poison));
  EXPECT_THAT(read<int>(other, 7), ElementsAre(poison, poison, poison, poison, 5, 6, poison));
}

TEST_P(ForeignGraphsTest, ACopyOfSeveralRowsIsReadAndWhatCannotBeUpdatedSaysSo) {
  const DevicePointer from = memory(64), to = memory(64), other = memory(64);
  write(from, std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8});
  const GraphHandle graph = make_graph();
  const NodeHandle node = maker().add_copy(graph, to, from, 8, 2, 16);
  const ExecHandle exec = instantiate(graph);
  ForeignMemcpy copy = graphs().read_memcpy(node);
  EXPECT_EQ(copy.height, 2U);
  copy.to.address = other;
  const Status status = update_node(exec, node, copy);
  run(exec);
  if (copy.fixed != nullptr) {
    EXPECT_EQ(status.code, ErrorCode::bad_argument);
    EXPECT_THAT(status.call, HasSubstr("row"));
    EXPECT_THAT(read<int>(to, 8), ElementsAre(1, 2, poison, poison, 5, 6, poison, poison));
  } else {
    EXPECT_TRUE(status.ok()) << status.call << ' ' << status.driver_name;
    EXPECT_THAT(read<int>(other, 8), ElementsAre(1, 2, poison, poison, 5, 6, poison, poison));
  }
}

// Whether a real driver takes a child graph's own nodes is for this test to say.
TEST_P(ForeignGraphsTest, NodesOfChildGraphsAreUpdatedThroughTheExec) {
  const DevicePointer out = memory(64), other = memory(64);
  const GraphHandle innermost = make_graph(), inner = make_graph(), outer = make_graph();
  add(innermost, "store", PackedArguments(out, 0, 5), ArgumentForm::pointers);
  maker().add_child(inner, innermost);
  add(inner, "store", PackedArguments(out, 1, 6), ArgumentForm::packed);
  maker().add_fill(inner, out + 8, 7, 4, 1);
  const NodeHandle child = maker().add_child(outer, inner);
  ASSERT_EQ(graphs().kind(child), ForeignNodeKind::child_graph);
  const ExecHandle exec = instantiate(outer);

  const auto retarget = [&](NodeHandle node) {
    ForeignKernel kernel = graphs().read_kernel(node, code_objects());
    std::memcpy(kernel.arguments.data(), &other, sizeof other);
    return update_node(exec, node, kernel);
  };
  const GraphHandle own = graphs().child_graph(child);
  EXPECT_NE(own, inner);
  for (const NodeHandle node : graphs().nodes(own)) {
    Status status;
    switch (graphs().kind(node)) {
      case ForeignNodeKind::child_graph:
        status = retarget(graphs().nodes(graphs().child_graph(node)).at(0));
        break;
      case ForeignNodeKind::kernel:
        status = retarget(node);
        break;
      default: {
        ForeignMemset set = graphs().read_memset(node);
        set.address = other + 8;
        status = update_node(exec, node, set);
      }
    }
    EXPECT_TRUE(status.ok()) << status.call << ' ' << status.driver_name;
  }
  run(exec);
  EXPECT_THAT(read<int>(out, 3), ElementsAre(poison, poison, poison));
  EXPECT_THAT(read<int>(other, 4), ElementsAre(5, 6, 7, poison));
}

TEST_P(ForeignGraphsTest, NodesKindsAndEdgesAreListed) {
  const DevicePointer out = memory(64);
  const GraphHandle graph = make_graph();
  EXPECT_TRUE(graphs().nodes(graph).empty());
  EXPECT_TRUE(graphs().edges(graph).empty());
  const NodeHandle first = add(graph, "append_digit", PackedArguments(out, 1), ArgumentForm::pointers);
  const NodeHandle second = maker().add_empty(graph);
  const NodeHandle third = add(graph, "append_digit", PackedArguments(out, 2), ArgumentForm::pointers);
  const GraphEdge edges[] = {{first, second}, {second, third}};
  driver().add_dependencies(graph, edges);
  EXPECT_THAT(graphs().nodes(graph), ::testing::UnorderedElementsAre(first, second, third));
  EXPECT_THAT(graphs().edges(graph),
              ::testing::UnorderedElementsAre(std::pair(first, second), std::pair(second, third)));
  EXPECT_EQ(graphs().kind(first), ForeignNodeKind::kernel);
  EXPECT_EQ(graphs().kind(second), ForeignNodeKind::empty);
  EXPECT_THROW(graphs().read_kernel(second, nullptr), Error);
  EXPECT_THROW(graphs().read_memcpy(first), Error);
}

TEST_P(ForeignGraphsTest, AnAddressLiesInItsWholeAllocationOrInNone) {
  const DevicePointer one = memory(1000);
  const auto range = graphs().allocation(one + 700);
  ASSERT_TRUE(range);
  EXPECT_LE(range->begin, one);
  EXPECT_TRUE(range->contains(one + 999));
  const int on_the_stack = 0;
  EXPECT_EQ(graphs().allocation(reinterpret_cast<std::uintptr_t>(&on_the_stack)), std::nullopt);
  EXPECT_EQ(graphs().allocation(0), std::nullopt);
  EXPECT_EQ(graphs().allocation(0x3f800000'3f800000), std::nullopt);
}

TEST_P(ForeignGraphsTest, ManyCallsInARowShareOneScope) {
  const DevicePointer out = memory(64);
  const GraphHandle graph = make_graph();
  const NodeHandle node = add(graph, "store", PackedArguments(out, 0, 1), ArgumentForm::pointers);
  const ExecHandle exec = instantiate(graph);
  ForeignKernel kernel = graphs().read_kernel(node, code_objects());
  {
    const DriverScope scope(driver());
    ASSERT_TRUE(scope.status().ok());
    for (int value = 0; value < 100; ++value) {
      std::memcpy(kernel.arguments.data() + 12, &value, sizeof value);
      ASSERT_TRUE(graphs().update(exec, node, kernel).ok());
    }
  }
  run(exec);
  EXPECT_EQ(read<int>(out, 1)[0], 99);
}

// What a failing call leaves: an error with the vendor's code, and a graph that works as before.
TEST_P(ForeignGraphsTest, EveryCallMayFail) {
  if (!DoubleControl::is_there()) GTEST_SKIP() << "with a double alone";
  const DoubleControl control(GetParam());
  const DriverScope scope(driver());  // so that no context is left on the stack by a pop that fails
  ASSERT_TRUE(scope.status().ok());
  const DevicePointer out = memory(64), source = memory(64);
  const GraphHandle graph = make_graph(), inner = make_graph();
  add(inner, "store", PackedArguments(out, 3, 3), ArgumentForm::pointers);
  const NodeHandle kernel_node = add(graph, "store", PackedArguments(out, 0, 1), ArgumentForm::pointers);
  const NodeHandle copy_node = maker().add_copy(graph, out + 16, source, 4);
  const NodeHandle fill_node = maker().add_fill(graph, out + 32, 9, 4, 1);
  const NodeHandle child = maker().add_child(graph, inner);
  const GraphEdge edge{kernel_node, copy_node};
  driver().add_dependencies(graph, {&edge, 1});
  const ExecHandle exec = instantiate(graph);
  const auto work = [&] {
    static_cast<void>(graphs().nodes(graph));
    static_cast<void>(graphs().edges(graph));
    static_cast<void>(graphs().kind(kernel_node));
    static_cast<void>(graphs().child_graph(child));
    check(update_node(exec, kernel_node, graphs().read_kernel(kernel_node, code_objects())), "updating");
    check(update_node(exec, copy_node, graphs().read_memcpy(copy_node)), "updating");
    check(update_node(exec, fill_node, graphs().read_memset(fill_node)), "updating");
  };
  work();  // what is asked once a device is not counted
  control.reset();
  work();
  const std::size_t calls = control.calls("*");
  EXPECT_GT(calls, 12U);
  constexpr int unknown_error = 999;
  std::size_t told = 0;
  for (std::size_t nth = 1; nth <= calls; ++nth) {
    control.reset();
    control.fail("*", nth, unknown_error);
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.driver_code(), unknown_error) << error.what();
      ++told;
    }
  }
  control.reset();
  EXPECT_EQ(told, calls);
  work();
  run(exec);
  EXPECT_THAT(read<int>(out, 10),
              ElementsAre(1, poison, poison, 3, poison, poison, poison, poison, 9, poison));
}

INSTANTIATE_TEST_SUITE_P(Device, ForeignGraphsTest, ::testing::Values("cuda", "hip"),
                         [](const auto& suite) { return suite.param; });

TEST(ForeignGraphsOfTheHost, AreNone) { EXPECT_EQ(open_device("host")->driver().foreign_graphs(), nullptr); }

}  // namespace
}  // namespace rondo::conformance
