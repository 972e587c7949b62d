// What a launch may ask for beside its shape, and the ways one node may wait for another, told by what the
// device does.
#include <map>
#include <random>
#include <vector>

#include "double_control.h"
#include "driver_conformance.h"
#include "rondo/error.h"

namespace rondo::conformance {
namespace {

KernelLaunch with(KernelLaunch launch, const LaunchAttributes& attributes) {
  launch.attributes = &attributes;
  return launch;
}

TEST_P(DriverConformance, BlocksOfACooperativeLaunchMayWaitForEachOther) {
  if (!driver().properties().has_cooperative_launches)
    GTEST_SKIP() << "the device has no cooperative launches";
  constexpr int blocks = 16;
  const LaunchShape shape{.grid = {blocks, 1, 1}, .block = {32, 1, 1}, .shared_bytes = 0};
  EXPECT_GE(driver().resident_blocks(function("meet"), shape), std::size_t{blocks});
  const DevicePointer arrived = memory(4, 0), seen = memory(blocks * 8);
  const LaunchAttributes attributes{.cooperative = true, .argument_offsets = entry("meet").offsets()};
  const auto arguments = [&](long long value) {
    return PackedArguments(static_cast<signed char>(blocks), value, arrived, short{-7}, seen);
  };
  const auto expect = [&](long long value) {
    EXPECT_EQ(read<long long>(seen, blocks), std::vector<long long>(blocks, value - 7));
  };
  PackedArguments plain = arguments(1LL << 40);
  ASSERT_TRUE(driver().launch(with(make_launch("meet", plain, shape), attributes), stream_).ok());
  plain.overwrite();
  expect(1LL << 40);
  const GraphHandle g = graph();
  PackedArguments first = arguments(-3);
  const NodeHandle node = driver().add_kernel_node(g, with(make_launch("meet", first, shape), attributes));
  first.overwrite();
  const ExecHandle exec = instantiate(g);
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  expect(-3);
  for (long long value = 1; value < 20; ++value) {
    PackedArguments next = arguments(value << 33);
    ASSERT_TRUE(
        driver().update_kernel_node(exec, node, with(make_launch("meet", next, shape), attributes)).ok());
    next.overwrite();
    ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
    expect(value << 33);
  }
}

TEST_P(DriverConformance, ACooperativeLaunchOfMoreBlocksThanFitIsRefused) {
  if (!driver().properties().has_cooperative_launches)
    GTEST_SKIP() << "the device has no cooperative launches";
  LaunchShape shape{.grid = {1, 1, 1}, .block = {32, 1, 1}, .shared_bytes = 0};
  shape.grid.x = static_cast<std::uint32_t>(driver().resident_blocks(function("meet"), shape)) + 1;
  const DevicePointer arrived = memory(4, 0), seen = memory(8);
  const LaunchAttributes attributes{.cooperative = true, .argument_offsets = entry("meet").offsets()};
  const PackedArguments arguments(static_cast<signed char>(1), 5LL, arrived, short{0}, seen);
  EXPECT_FALSE(driver().launch(with(make_launch("meet", arguments, shape), attributes), stream_).ok());
  EXPECT_EQ(read_one<int>(arrived), 0);
}

TEST_P(DriverConformance, AClusterHasAsManyBlocksAsTheLaunchSays) {
  if (driver().properties().max_cluster_blocks == 0)
    GTEST_SKIP() << "the device has no thread block clusters";
  const LaunchShape shape{.grid = {8, 4, 1}, .block = {32, 1, 1}, .shared_bytes = 0};
  constexpr std::size_t blocks = 32;
  const DevicePointer out = memory(blocks * 12);
  const PackedArguments arguments(out);
  const auto expect = [&](unsigned x, unsigned y) {
    const std::vector<unsigned> told = read<unsigned>(out, 3 * blocks);
    std::map<unsigned, unsigned> ranks;
    for (std::size_t block = 0; block < blocks; ++block) {
      EXPECT_EQ(told[3 * block], x);
      EXPECT_EQ(told[3 * block + 1], y);
      ++ranks[told[3 * block + 2]];
    }
    ASSERT_EQ(ranks.size(), std::size_t{x} * y);
    for (const auto& [rank, count] : ranks) {
      EXPECT_LT(rank, x * y);
      EXPECT_EQ(count, blocks / (x * y));
    }
  };
  for (const Dim3 cluster : {Dim3{4, 1, 1}, Dim3{1, 2, 1}, Dim3{2, 4, 1}}) {
    const LaunchAttributes attributes{.cluster = cluster};
    const KernelLaunch launch = with(make_launch("ask_cluster", arguments, shape), attributes);
    ASSERT_TRUE(driver().launch(launch, stream_).ok());
    expect(cluster.x, cluster.y);
    const GraphHandle g = graph();
    const NodeHandle node = driver().add_kernel_node(g, launch);
    const ExecHandle exec = instantiate(g);
    const DevicePointer other = memory(blocks * 12);
    const PackedArguments moved(other);
    ASSERT_TRUE(
        driver()
            .update_kernel_node(exec, node, with(make_launch("ask_cluster", moved, shape), attributes))
            .ok());
    ASSERT_TRUE(driver().fill_bytes(out, 0xcd, blocks * 12, stream_).ok());
    ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
    EXPECT_EQ(read_one<unsigned>(out), 0xcdcdcdcdU);
    EXPECT_EQ(read<unsigned>(other, 2), (std::vector<unsigned>{cluster.x, cluster.y}));
  }
}

// A hint: what a device does not have, it ignores, and no result depends on it.
TEST_P(DriverConformance, APriorityOfAnySizeRunsTheKernel) {
  const DevicePointer out = memory(8, 0);
  unsigned long long expected = 0;
  int digit = 0;
  for (const std::int32_t priority : {-1, 1, -1000000, 1000000}) {
    const LaunchAttributes attributes{.priority = priority};
    const PackedArguments first(out, ++digit), second(out, ++digit);
    ASSERT_TRUE(driver().launch(with(make_launch("append_digit", first), attributes), stream_).ok())
        << priority;
    const GraphHandle g = graph();
    driver().add_kernel_node(g, with(make_launch("append_digit", second), attributes));
    const ExecHandle exec = driver().instantiate(g, true);
    EXPECT_TRUE(driver().launch_graph(exec, stream_).ok()) << priority;
    expected = 100 * expected + static_cast<unsigned long long>(10 * (digit - 1) + digit);
    EXPECT_EQ(read_one<unsigned long long>(out), expected) << priority;
    driver().destroy_exec(exec);
  }
}

// On a device that has no programmatic edges, they are full ones.
TEST_P(DriverConformance, AKernelBehindAProgrammaticEdgeSeesAllThatTheOneBeforeWrites) {
  constexpr int spin = 20000;
  const DevicePointer x = memory(4), y = memory(4), z = memory(4), out = memory(4);
  const GraphHandle g = graph();
  const NodeHandle last = add_node(g, "combine_early", PackedArguments(out, 100, y, 1, z));
  const NodeHandle left = add_node(g, "combine_early", PackedArguments(y, 2, x, 0, x));
  const NodeHandle right = add_node(g, "store_late", PackedArguments(z, 7, spin));
  const NodeHandle root = add_node(g, "store_late", PackedArguments(x, 3, spin));
  // Of both kinds, in one call and into one node.
  const std::vector<GraphEdge> edges{{root, left, EdgeKind::programmatic},
                                     {root, right, EdgeKind::full},
                                     {left, last, EdgeKind::full},
                                     {right, last, EdgeKind::programmatic}};
  driver().add_dependencies(g, edges);
  const ExecHandle exec = instantiate(g);
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < 200; ++i) {
    const auto a = static_cast<int>(random() % 1000), b = static_cast<int>(random() % 1000);
    ASSERT_TRUE(update(exec, root, "store_late", PackedArguments(x, a, spin)).ok());
    ASSERT_TRUE(update(exec, right, "store_late", PackedArguments(z, b, spin)).ok());
    ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
    ASSERT_EQ(read_one<int>(out), 200 * a + b);
  }
}

TEST_P(DriverConformance, AProgrammaticEdgeThatIsThereAlreadyIsRefused) {
  const DevicePointer out = memory(8, 0);
  const GraphHandle g = graph();
  const NodeHandle second = add_node(g, "append_digit", PackedArguments(out, 2));
  const NodeHandle first = add_node(g, "append_digit", PackedArguments(out, 1));
  depend(g, first, second, EdgeKind::full);
  EXPECT_THROW(depend(g, first, second, EdgeKind::programmatic), Error);
  ASSERT_TRUE(driver().launch_graph(instantiate(g), stream_).ok());
  EXPECT_EQ(read_one<unsigned long long>(out), 12U);
}

TEST_P(DriverConformance, AKernelBehindAProgrammaticEdgeStartsBeforeTheOneBeforeHasEnded) {
  if (!driver().properties().has_programmatic_edges) GTEST_SKIP() << "the device has no programmatic edges";
  if (DoubleControl::is_there()) GTEST_SKIP() << "the double takes them as full ones";
  constexpr int tries = 1000000;
  const DevicePointer started = memory(4, 0), seen = memory(4), out = memory(4);
  const GraphHandle g = graph();
  const NodeHandle first = add_node(g, "await_dependent", PackedArguments(started, seen, tries));
  const NodeHandle second = add_node(g, "start", PackedArguments(started, seen, out));
  depend(g, first, second, EdgeKind::programmatic);
  ASSERT_TRUE(driver().launch_graph(instantiate(g), stream_).ok());
  EXPECT_EQ(read_one<int>(out), 1);
}

}  // namespace
}  // namespace rondo::conformance
