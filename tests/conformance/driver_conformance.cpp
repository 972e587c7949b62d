#include "driver_conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>

#include "driver_conformance_kernels.h"
#include "must_be_there.h"
#include "rondo/error.h"

namespace rondo::conformance {

TestDevice& TestDevice::get(const std::string& spec) {
  // Never destroyed: a driver's library may be gone by the time static objects are.
  static auto& devices = *new std::map<std::string, TestDevice>;
  const auto found = devices.find(spec);
  if (found != devices.end()) return found->second;
  TestDevice& test_device = devices[spec];
  try {
    auto device = open_device(spec);
    rtc::CompileRequest request;
    request.file = "driver_conformance_kernels.h";
    request.source = kernel_source;
    request.entries.assign(std::begin(kernel_names), std::end(kernel_names));
    request.architecture = device->properties().architecture;
    test_device.binary = device->compiler().compile(request);
    test_device.device = std::move(device);
  } catch (const Error& error) {
    test_device.problem = error.what();
    if (error.code() != ErrorCode::missing_backend) throw;
  }
  return test_device;
}

void DriverConformance::SetUp() {
  TestDevice& test_device = TestDevice::get(GetParam());
  if (test_device.device == nullptr) {
    if (must_be_there(GetParam())) FAIL() << test_device.problem;
    GTEST_SKIP() << test_device.problem;
  }
  test_device_ = &test_device;
  driver_ = &test_device.device->driver();
  scope_.emplace(*driver_);
  ASSERT_TRUE(scope_->status().ok());
  module_ = driver_->load_module(test_device.binary.code);
  stream_ = driver_->create_stream();
}

void DriverConformance::TearDown() {
  if (driver_ == nullptr) return;
  if (stream_ != nullptr) driver_->destroy_stream(stream_);
  for (ExecHandle exec : execs_) driver_->destroy_exec(exec);
  for (GraphHandle graph : graphs_) driver_->destroy_graph(graph);
  for (DevicePointer pointer : memory_) driver_->release(pointer);
  if (module_ != nullptr) driver_->unload_module(module_);
  scope_.reset();
}

const rtc::Entry& DriverConformance::entry(const std::string& kernel) const {
  for (const rtc::Entry& entry : test_device_->binary.entries) {
    if (entry.expression == kernel) return entry;
  }
  throw std::logic_error("no kernel " + kernel);
}

FunctionHandle DriverConformance::function(const std::string& kernel) {
  FunctionHandle& function = functions_[kernel];
  if (function == nullptr) function = driver_->function(module_, entry(kernel).lowered);
  return function;
}

Status DriverConformance::launch(const std::string& kernel, PackedArguments arguments, LaunchShape shape) {
  const Status status = driver_->launch(make_launch(kernel, arguments, shape), stream_);
  arguments.overwrite();
  return status;
}

DevicePointer DriverConformance::memory(std::size_t bytes, std::uint8_t fill) {
  memory_.push_back(driver_->allocate(bytes));
  EXPECT_TRUE(driver_->fill_bytes(memory_.back(), fill, bytes, stream_).ok());
  return memory_.back();
}

GraphHandle DriverConformance::graph() {
  graphs_.push_back(driver_->create_graph());
  return graphs_.back();
}

NodeHandle DriverConformance::add_node(GraphHandle graph, const std::string& kernel,
                                       PackedArguments arguments, LaunchShape shape) {
  const NodeHandle node = driver_->add_kernel_node(graph, make_launch(kernel, arguments, shape));
  arguments.overwrite();
  return node;
}

ExecHandle DriverConformance::instantiate(GraphHandle graph) {
  execs_.push_back(driver_->instantiate(graph));
  return execs_.back();
}

Status DriverConformance::update(ExecHandle exec, NodeHandle node, const std::string& kernel,
                                 PackedArguments arguments, LaunchShape shape) {
  const Status status = driver_->update_kernel_node(exec, node, make_launch(kernel, arguments, shape));
  arguments.overwrite();
  return status;
}

namespace {

std::vector<std::uint32_t> random_values(std::size_t count) {
  std::mt19937 random(std::random_device{}());
  std::vector<std::uint32_t> values(count);
  for (std::uint32_t& value : values) value = static_cast<std::uint32_t>(random() % 1000);
  return values;
}

// Memory and streams.

TEST_P(DriverConformance, MemoryGivesBackWhatWasWritten) {
  const std::size_t count = (3 << 20) / 4 + 1;
  const DevicePointer there = memory(count * 4);
  EXPECT_EQ(there % 256, 0U);
  const auto values = random_values(count);
  auto source = values;
  ASSERT_TRUE(driver().write(there, source.data(), count * 4, stream_).ok());
  std::fill(source.begin(), source.end(), 0U);  // may be used again when write has returned
  EXPECT_EQ(read<std::uint32_t>(there, count), values);
  EXPECT_EQ(read_one<std::uint32_t>(there + 4 * (count - 1)), values.back());
  ASSERT_TRUE(driver().fill_bytes(there + 4, 0x5a, 4, stream_).ok());
  EXPECT_EQ(read<std::uint32_t>(there, 3), (std::vector<std::uint32_t>{values[0], 0x5a5a5a5aU, values[2]}));
}

TEST_P(DriverConformance, MemoryThatIsNotThereIsRefused) {
  EXPECT_THROW(driver().allocate(0), Error);
  EXPECT_THROW(driver().allocate(std::size_t{1} << 60), Error);
}

TEST_P(DriverConformance, AStreamKeepsTheOrderOfItsWork) {
  const DevicePointer out = memory(8, 0);
  for (int digit = 1; digit <= 9; ++digit) {
    ASSERT_TRUE(launch("append_digit", PackedArguments(out, digit)).ok());
    if (digit != 4) continue;
    const unsigned long long start = 7;
    ASSERT_TRUE(driver().write(out, &start, sizeof start, stream_).ok());
  }
  EXPECT_EQ(read_one<unsigned long long>(out), 756789U);
}

TEST_P(DriverConformance, AHostFunctionRunsBetweenEarlierAndLaterWork) {
  const DevicePointer out = memory(4, 0);
  ASSERT_TRUE(driver().synchronize(stream_).ok());
  Gate gate;
  std::atomic<int> calls{0};
  ASSERT_TRUE(gate.close(driver(), stream_).ok());
  const auto count = [](void* n) { static_cast<std::atomic<int>*>(n)->fetch_add(1); };
  ASSERT_TRUE(driver().launch_host_function(stream_, count, &calls).ok());
  ASSERT_TRUE(launch("add", PackedArguments(out, 5)).ok());
  EXPECT_EQ(calls.load(), 0);
  gate.open();
  EXPECT_EQ(read_one<int>(out), 5);
  EXPECT_EQ(calls.load(), 1);
}

TEST_P(DriverConformance, OneStreamRunsWhileAnotherIsBlocked) {
  // CUDA orders the work of a stream and does not promise that two run side by side; on an H200 (driver 580)
  // they did not beside a stream that waits in a host function.
  if (driver().properties().backend != "host") GTEST_SKIP() << "a promise of the host driver alone";
  const DevicePointer out = memory(4, 0);
  const StreamHandle other = driver().create_stream();
  Gate gate;
  ASSERT_TRUE(gate.close(driver(), other).ok());
  ASSERT_TRUE(launch("add", PackedArguments(out, 6)).ok());
  EXPECT_EQ(read_one<int>(out), 6);
  gate.open();
  ASSERT_TRUE(driver().synchronize(other).ok());
  EXPECT_FALSE(gate.opened_by_itself());
  driver().destroy_stream(other);
}

TEST_P(DriverConformance, EventsAreReachedInOrder) {
  const EventHandle from = driver().create_event(), to = driver().create_event();
  ASSERT_TRUE(driver().record(from, stream_).ok());
  ASSERT_TRUE(launch("nothing", PackedArguments()).ok());
  ASSERT_TRUE(driver().record(to, stream_).ok());
  ASSERT_TRUE(driver().synchronize_event(to).ok());
  float milliseconds = -1;
  ASSERT_TRUE(driver().elapsed_ms(from, to, &milliseconds).ok());
  EXPECT_GE(milliseconds, 0.0F);
  driver().destroy_event(from);
  driver().destroy_event(to);
}

// Launches.

TEST_P(DriverConformance, AStreamWaitsForAnEventOfAnother) {
  Gate gate;
  const StreamHandle other = driver().create_stream();
  const EventHandle event = driver().create_event();
  const DevicePointer memory_of_both = memory(2 * sizeof(int));
  ASSERT_TRUE(driver().wait(other, event).ok());  // not recorded yet: nothing to wait for
  ASSERT_TRUE(gate.close(driver(), stream_).ok());
  ASSERT_TRUE(launch("store", PackedArguments(memory_of_both, 0, 17)).ok());
  ASSERT_TRUE(driver().record(event, stream_).ok());
  ASSERT_TRUE(driver().wait(other, event).ok());
  driver().destroy_event(event);
  const PackedArguments arguments(memory_of_both, 1, memory_of_both);
  ASSERT_TRUE(driver().launch(make_launch("copy_one", arguments), other).ok());
  gate.open();
  ASSERT_TRUE(driver().synchronize(other).ok());
  EXPECT_EQ(read<int>(memory_of_both, 2), (std::vector<int>{17, 17}));
  EXPECT_FALSE(gate.opened_by_itself());
  driver().destroy_stream(other);
}

TEST_P(DriverConformance, ParametersLieWhereTheCompilerSaysTheyDo) {
  for (const char* kernel : kernel_names) {
    EXPECT_THROW(driver().function_info(function(kernel), 65), Error);
    const FunctionInfo info = driver().function_info(function(kernel), entry(kernel).parameters.size());
    EXPECT_GT(info.max_threads_per_block, 0U);
    if (!info.layout_known) continue;
    const std::vector<std::size_t> offsets = entry(kernel).offsets();
    ASSERT_EQ(info.parameters.size(), offsets.size()) << kernel;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      EXPECT_EQ(info.parameters[i].offset, offsets[i]) << kernel << " parameter " << i;
      EXPECT_EQ(info.parameters[i].size, entry(kernel).parameters[i].size) << kernel << " parameter " << i;
    }
  }
}

TEST_P(DriverConformance, ArgumentsOfEverySizeArrive) {
  const DevicePointer out = memory(7 * 8);
  const PackedArguments arguments(out, static_cast<signed char>(-3), 2.5, static_cast<short>(-1234),
                                  -5'000'000'000LL, true, 0.25F, static_cast<unsigned char>(200));
  EXPECT_EQ(arguments.size(), entry("mixed").argument_bytes());
  ASSERT_TRUE(launch("mixed", arguments).ok());
  EXPECT_EQ(read<double>(out, 7), (std::vector<double>{-3, 2.5, -1234, -5e9, 1, 0.25, 200}));
}

TEST_P(DriverConformance, EveryThreadOfALaunchRunsOnceWithItsOwnIndices) {
  for (const LaunchShape& shape : {LaunchShape{{1000}, {1}, 0}, LaunchShape{{7, 5, 3}, {1}, 0},
                                   LaunchShape{{3, 2, 2}, {4, 3, 2}, 0}, LaunchShape{{2}, {1024}, 0}}) {
    const std::size_t count = std::size_t{shape.grid.x} * shape.grid.y * shape.grid.z * shape.block.x *
                              shape.block.y * shape.block.z;
    const DevicePointer counts = memory(4 * count, 0);
    ASSERT_TRUE(launch("count_threads", PackedArguments(counts), shape).ok());
    EXPECT_EQ(read<std::uint32_t>(counts, count), std::vector<std::uint32_t>(count, 1));
  }
}

TEST_P(DriverConformance, AKernelWithoutParametersRuns) {
  ASSERT_TRUE(launch("nothing", PackedArguments(), {{3}, {32}, 0}).ok());
  const GraphHandle g = graph();
  const NodeHandle node = add_node(g, "nothing", PackedArguments());
  const ExecHandle exec = instantiate(g);
  ASSERT_TRUE(update(exec, node, "nothing", PackedArguments(), {{2}, {}, 0}).ok());
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  EXPECT_TRUE(driver().synchronize(stream_).ok());
}

TEST_P(DriverConformance, ABlockReducesThroughSharedMemoryAndBarriers) {
  const std::uint32_t blocks = 50;
  const auto values = random_values(blocks * 256);
  const DevicePointer in = memory(4 * values.size()), out = memory(4 * blocks);
  ASSERT_TRUE(driver().write(in, values.data(), 4 * values.size(), stream_).ok());
  for (int n : {256, 200, 1}) {
    ASSERT_TRUE(launch("reduce", PackedArguments(out, in, n), {{blocks}, {256}, 0}).ok());
    std::vector<std::uint32_t> expected;
    for (std::ptrdiff_t b = 0; b < blocks; ++b) {
      expected.push_back(std::accumulate(values.begin() + 256 * b, values.begin() + 256 * b + n, 0U));
    }
    EXPECT_EQ(read<std::uint32_t>(out, blocks), expected) << n;
  }
}

TEST_P(DriverConformance, DynamicSharedMemoryIsAsLargeAsTheLaunchSays) {
  auto values = random_values(3 * 512);
  const DevicePointer there = memory(4 * values.size());
  ASSERT_TRUE(driver().write(there, values.data(), 4 * values.size(), stream_).ok());
  ASSERT_TRUE(launch("reverse", PackedArguments(there), {{3}, {512}, 512 * 4}).ok());
  for (int b = 0; b < 3; ++b) std::reverse(values.begin() + 512 * b, values.begin() + 512 * (b + 1));
  EXPECT_EQ(read<std::uint32_t>(there, values.size()), values);
}

TEST_P(DriverConformance, AllOfTheDevicesSharedMemoryCanBeAllowed) {
  const std::size_t bytes = driver().properties().max_shared_bytes;
  ASSERT_GT(bytes, 48U * 1024);
  const DevicePointer out = memory(8);
  driver().allow_dynamic_shared(function("touch_shared"), bytes);
  driver().allow_dynamic_shared(function("touch_shared"), 1024);  // takes nothing back
  const auto words = static_cast<std::uint32_t>(bytes / 4);
  ASSERT_TRUE(launch("touch_shared", PackedArguments(out, words), {{}, {}, words * 4}).ok());
  EXPECT_EQ(read<std::uint32_t>(out, 2), (std::vector<std::uint32_t>{17, words}));
  EXPECT_THROW(driver().allow_dynamic_shared(function("touch_shared"), bytes + 1), Error);
}

// Graphs.

TEST_P(DriverConformance, AChainRunsInTheOrderOfItsDependencies) {
  const DevicePointer out = memory(8, 0);
  const GraphHandle g = graph();
  std::map<int, NodeHandle> nodes;
  for (int digit : {5, 2, 9, 1, 7, 3, 8, 6, 4})
    nodes[digit] = add_node(g, "append_digit", PackedArguments(out, digit));
  std::vector<GraphEdge> edges;
  for (int digit = 1; digit < 9; ++digit) edges.push_back({nodes[digit], nodes[digit + 1]});
  driver().add_dependencies(g, edges);
  const ExecHandle exec = instantiate(g);
  driver().upload(exec, stream_);
  EXPECT_EQ(read_one<unsigned long long>(out), 0U);  // building runs nothing
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  EXPECT_EQ(read_one<unsigned long long>(out), 123456789U);
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  EXPECT_EQ(read_one<unsigned long long>(out), 123456789123456789U);
}

TEST_P(DriverConformance, AJoinWaitsForBothBranchesOfAFork) {
  const DevicePointer x = memory(4), y = memory(4), z = memory(4), out = memory(4);
  const GraphHandle g = graph();
  const NodeHandle join = add_node(g, "combine", PackedArguments(out, 100, y, 1, z));
  const NodeHandle left = add_node(g, "combine", PackedArguments(y, 2, x, 0, x));
  const NodeHandle right = add_node(g, "combine", PackedArguments(z, 1, x, 4, x));
  const NodeHandle root = add_node(g, "store", PackedArguments(x, 0, 3));
  const std::vector<GraphEdge> edges{{root, left}, {root, right}, {left, join}, {right, join}};
  driver().add_dependencies(g, edges);
  const ExecHandle exec = instantiate(g);
  for (int value = 3; value < 50; ++value) {
    ASSERT_TRUE(update(exec, root, "store", PackedArguments(x, 0, value)).ok());
    ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
    ASSERT_EQ(read_one<int>(out), 205 * value);
  }
}

TEST_P(DriverConformance, TwoNodesOfOneKernelKeepTheirOwnArguments) {
  const DevicePointer out = memory(8, 0);
  const GraphHandle g = graph();
  const NodeHandle first = add_node(g, "append_digit", PackedArguments(out, 1));
  const NodeHandle second = add_node(g, "append_digit", PackedArguments(out, 2));
  depend(g, first, second);
  const ExecHandle exec = instantiate(g);
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  EXPECT_EQ(read_one<unsigned long long>(out), 12U);
  ASSERT_TRUE(update(exec, second, "append_digit", PackedArguments(out, 3)).ok());
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  EXPECT_EQ(read_one<unsigned long long>(out), 1213U);
  ASSERT_TRUE(update(exec, first, "append_digit", PackedArguments(out, 4)).ok());
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  EXPECT_EQ(read_one<unsigned long long>(out), 121343U);
}

// An update must be seen by the next launch and by none that is queued: 1,000 of them, behind a stream that
// is held.
TEST_P(DriverConformance, EveryQueuedLaunchKeepsTheArgumentsItWasQueuedWith) {
  constexpr int steps = 1000;
  const DevicePointer value = memory(4), out = memory(4 * steps);
  const GraphHandle g = graph();
  const NodeHandle set = add_node(g, "store", PackedArguments(value, 0, -1));
  const NodeHandle keep = add_node(g, "copy_one", PackedArguments(out, 0, value));
  depend(g, set, keep);
  const ExecHandle exec = instantiate(g);
  driver().upload(exec, stream_);
  ASSERT_TRUE(driver().synchronize(stream_).ok());
  Gate gate;
  ASSERT_TRUE(gate.close(driver(), stream_).ok());
  std::vector<int> expected;
  for (int step = 0; step < steps; ++step) {
    expected.push_back(7 * step + 1);
    EXPECT_TRUE(update(exec, set, "store", PackedArguments(value, 0, expected.back())).ok());
    EXPECT_TRUE(update(exec, keep, "copy_one", PackedArguments(out, step, value)).ok());
    EXPECT_TRUE(driver().launch_graph(exec, stream_).ok());
  }
  EXPECT_TRUE(update(exec, set, "store", PackedArguments(value, 0, -2)).ok());  // no launch has this
  gate.open();
  EXPECT_EQ(read<int>(out, steps), expected);
  EXPECT_FALSE(gate.opened_by_itself());
}

TEST_P(DriverConformance, ADisabledNodeIsLeftOutOfLaterLaunchesOnly) {
  const DevicePointer out = memory(8, 0);
  const GraphHandle g = graph();
  std::vector<NodeHandle> nodes;
  for (int digit : {1, 2, 3}) {
    nodes.push_back(add_node(g, "append_digit", PackedArguments(out, digit)));
    if (nodes.size() > 1) depend(g, nodes[nodes.size() - 2], nodes.back());
  }
  const ExecHandle exec = instantiate(g);
  Gate gate;
  ASSERT_TRUE(gate.close(driver(), stream_).ok());
  EXPECT_TRUE(driver().launch_graph(exec, stream_).ok());  // 123
  EXPECT_TRUE(driver().enable_node(exec, nodes[1], false).ok());
  EXPECT_TRUE(driver().launch_graph(exec, stream_).ok());  // 13
  EXPECT_TRUE(driver().enable_node(exec, nodes[1], true).ok());
  EXPECT_TRUE(update(exec, nodes[1], "append_digit", PackedArguments(out, 5)).ok());
  EXPECT_TRUE(driver().launch_graph(exec, stream_).ok());  // 153
  EXPECT_TRUE(driver().enable_node(exec, nodes[0], false).ok());
  EXPECT_TRUE(driver().launch_graph(exec, stream_).ok());  // 53
  gate.open();
  EXPECT_EQ(read_one<unsigned long long>(out), 1231315353U);
}

TEST_P(DriverConformance, AnUpdateChangesGridBlockAndSharedMemory) {
  const DevicePointer counts = memory(4 * 1000, 0), there = memory(4 * 1024);
  auto values = random_values(1024);
  ASSERT_TRUE(driver().write(there, values.data(), 4 * 1024, stream_).ok());
  const GraphHandle g = graph();
  const NodeHandle count = add_node(g, "count_threads", PackedArguments(counts), {{2}, {1}, 0});
  const NodeHandle reverse = add_node(g, "reverse", PackedArguments(there), {{1}, {16}, 16 * 4});
  const ExecHandle exec = instantiate(g);
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  ASSERT_TRUE(update(exec, count, "count_threads", PackedArguments(counts), {{3, 2}, {5, 4, 2}, 0}).ok());
  ASSERT_TRUE(update(exec, reverse, "reverse", PackedArguments(there), {{4}, {256}, 256 * 4}).ok());
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  std::vector<std::uint32_t> expected(1000, 0);
  for (std::size_t i = 0; i < 240; ++i) expected[i] = i < 2 ? 2 : 1;
  EXPECT_EQ(read<std::uint32_t>(counts, 1000), expected);
  std::reverse(values.begin(), values.begin() + 16);
  for (int b = 0; b < 4; ++b) std::reverse(values.begin() + 256 * b, values.begin() + 256 * (b + 1));
  EXPECT_EQ(read<std::uint32_t>(there, 1024), values);
}

TEST_P(DriverConformance, AnUpdateMayNameAnotherKernel) {
  const DevicePointer out = memory(8, 0);
  const GraphHandle g = graph();
  const NodeHandle node = add_node(g, "append_digit", PackedArguments(out, 4));
  const ExecHandle exec = instantiate(g);
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  ASSERT_TRUE(update(exec, node, "combine", PackedArguments(out + 4, 3, out, 2, out)).ok());
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  EXPECT_EQ(read<int>(out, 2), (std::vector<int>{4, 20}));
}

TEST_P(DriverConformance, TwoExecsOfOneGraphAreTwo) {
  const DevicePointer out = memory(8, 0);
  const GraphHandle g = graph();
  const NodeHandle node = add_node(g, "append_digit", PackedArguments(out, 1));
  const ExecHandle first = instantiate(g), second = instantiate(g);
  ASSERT_TRUE(update(second, node, "append_digit", PackedArguments(out, 2)).ok());
  ASSERT_TRUE(driver().launch_graph(first, stream_).ok());
  ASSERT_TRUE(driver().launch_graph(second, stream_).ok());
  ASSERT_TRUE(driver().launch_graph(first, stream_).ok());
  EXPECT_EQ(read_one<unsigned long long>(out), 121U);
}

TEST_P(DriverConformance, ADependencyThatIsThereAlreadyIsRefused) {
  const DevicePointer out = memory(8, 0);
  const GraphHandle g = graph();
  const NodeHandle first = add_node(g, "append_digit", PackedArguments(out, 1));
  const NodeHandle second = add_node(g, "append_digit", PackedArguments(out, 2));
  depend(g, first, second);
  EXPECT_THROW(depend(g, first, second), Error);
}

// Errors.

TEST_P(DriverConformance, ALaunchOutsideTheDevicesLimitsIsRefusedAndRunsNothing) {
  const DevicePointer out = memory(4, 0);
  const DeviceProperties& device = driver().properties();
  const PackedArguments arguments(out, 1);
  const GraphHandle g = graph();
  const NodeHandle node = add_node(g, "add", PackedArguments(out, 1));
  const ExecHandle exec = instantiate(g);
  const auto threads = static_cast<std::uint32_t>(device.max_threads_per_block);
  for (const LaunchShape& shape :
       {LaunchShape{{0}, {}, 0}, LaunchShape{{1, 0}, {}, 0}, LaunchShape{{1, device.max_grid.y + 1}, {}, 0},
        LaunchShape{{}, {0}, 0}, LaunchShape{{}, {threads, 2}, 0},
        LaunchShape{{}, {1, 1, device.max_block.z + 1}, 0},
        LaunchShape{{}, {}, static_cast<std::uint32_t>(device.max_shared_bytes) + 1}}) {
    const std::string text = fmt::format("grid {},{} block {},{},{} shared {}", shape.grid.x, shape.grid.y,
                                         shape.block.x, shape.block.y, shape.block.z, shape.shared_bytes);
    const KernelLaunch refused = make_launch("add", arguments, shape);
    const Status plain = driver().launch(refused, stream_);
    EXPECT_EQ(plain.code, ErrorCode::bad_argument) << text;
    EXPECT_STRNE(plain.call, "") << text;
    EXPECT_EQ(driver().update_kernel_node(exec, node, refused).code, ErrorCode::bad_argument) << text;
    EXPECT_THROW(driver().add_kernel_node(g, refused), Error) << text;
  }
  // What was refused has left no trace: the exec has its old shape, and the stream works.
  ASSERT_TRUE(driver().launch_graph(exec, stream_).ok());
  EXPECT_EQ(read_one<int>(out), 1);
}

TEST_P(DriverConformance, SharedMemoryThatWasNotAllowedIsRefused) {
  const DevicePointer out = memory(4, 0);
  EXPECT_FALSE(launch("add", PackedArguments(out, 1), {{}, {}, 48 * 1024 + 16}).ok());
  EXPECT_EQ(read_one<int>(out), 0);
}

TEST_P(DriverConformance, AModuleThatIsNoneIsRefused) {
  EXPECT_THROW(driver().load_module({}), Error);
  EXPECT_THROW(driver().load_module(std::vector<std::byte>(5000, std::byte{'x'})), Error);
  const std::vector<std::byte>& code = TestDevice::get(GetParam()).binary.code;
  EXPECT_THROW(driver().load_module(std::span(code).first(100)), Error);
  EXPECT_THROW(driver().load_module(std::span(code).first(4096)), Error);
}

TEST_P(DriverConformance, AnUnknownKernelIsRefusedByName) {
  const ModuleHandle module = driver().load_module(TestDevice::get(GetParam()).binary.code);
  try {
    driver().function(module, "no_such_kernel");
    ADD_FAILURE() << "found";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no_such_kernel"), std::string::npos) << error.what();
  }
  driver().unload_module(module);
}

INSTANTIATE_TEST_SUITE_P(Device, DriverConformance, ::testing::Values("host", "cuda", "hip"),
                         [](const auto& suite) { return suite.param; });

}  // namespace
}  // namespace rondo::conformance
