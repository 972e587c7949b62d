// The host driver by itself, on a module that is compiled with the tests. What every backend does is in
// tests/conformance.
#include "host/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <numeric>

#include "rondo/error.h"

namespace rondo::host {
namespace {

std::vector<std::byte> module_bytes() {
  std::ifstream file(HOST_TEST_MODULE, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<std::byte> binary(bytes.size());
  std::memcpy(binary.data(), bytes.data(), bytes.size());
  return binary;
}

struct AddArguments {
  DevicePointer out;
  std::int32_t value;
};

// Holds a stream until it is opened.
class Gate {
 public:
  static void wait(void* gate) { static_cast<Gate*>(gate)->opened_.get_future().wait(); }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

class HostDriver : public ::testing::Test {
 protected:
  HostDriver() {
    setenv("RONDO_HOST_THREADS", "3", 1);
    driver_ = make_driver();
    unsetenv("RONDO_HOST_THREADS");
    stream_ = driver_->create_stream();
    module_ = driver_->load_module(module_bytes());
  }

  FunctionHandle kernel(const char* name) { return driver_->function(module_, name); }

  template <class T>
  std::vector<T> read(DevicePointer from, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(driver_->read(values.data(), from, count * sizeof(T), stream_).ok());
    EXPECT_TRUE(driver_->synchronize(stream_).ok());
    return values;
  }

  DevicePointer zeros(std::size_t bytes) {
    const DevicePointer pointer = driver_->allocate(bytes);
    EXPECT_TRUE(driver_->fill_bytes(pointer, 0, bytes, stream_).ok());
    return pointer;
  }

  std::unique_ptr<Driver> driver_;
  StreamHandle stream_ = nullptr;
  ModuleHandle module_ = nullptr;
};

template <class Arguments>
KernelLaunch make_launch(FunctionHandle function, const Arguments& arguments, LaunchShape shape = {}) {
  return {function, shape, reinterpret_cast<const std::byte*>(&arguments), sizeof arguments};
}

TEST_F(HostDriver, TakesTheNumberOfThreadsFromTheEnvironment) {
  EXPECT_EQ(driver_->properties().processors, 3);
  EXPECT_EQ(driver_->properties().backend, "host");
  EXPECT_THAT(driver_->properties().architecture, ::testing::MatchesRegex("host-[0-9a-f]{16}"));
  for (const char* bad : {"0", "-1", "2x", "99999999999"}) {
    setenv("RONDO_HOST_THREADS", bad, 1);
    EXPECT_THROW(make_driver(), Error) << bad;
  }
  unsetenv("RONDO_HOST_THREADS");
}

TEST_F(HostDriver, ALaunchTakesItsArgumentsWithIt) {
  const DevicePointer out = zeros(4 * 100);
  Gate gate;
  ASSERT_TRUE(driver_->launch_host_function(stream_, &Gate::wait, &gate).ok());
  AddArguments arguments{out, 0};
  for (int i = 1; i <= 10; ++i) {
    arguments.value = i;
    ASSERT_TRUE(driver_->launch(make_launch(kernel("add"), arguments, {{100}, {}, 0}), stream_).ok());
  }
  arguments = {0, -1};
  gate.open();
  EXPECT_EQ(read<std::int32_t>(out, 100), std::vector<std::int32_t>(100, 55));
}

TEST_F(HostDriver, AWriteTakesItsBytesWithItEvenBehindABlockedStream) {
  const DevicePointer out = zeros(1 << 20);
  std::vector<std::byte> bytes(1 << 20, std::byte{7});
  Gate gate;
  ASSERT_TRUE(driver_->launch_host_function(stream_, &Gate::wait, &gate).ok());
  ASSERT_TRUE(driver_->write(out, bytes.data(), bytes.size(), stream_).ok());
  std::fill(bytes.begin(), bytes.end(), std::byte{9});
  gate.open();
  EXPECT_EQ(read<std::byte>(out, 1 << 20), std::vector<std::byte>(1 << 20, std::byte{7}));
}

TEST_F(HostDriver, OneStreamRunsWhileAnotherIsBlocked) {
  const StreamHandle other = driver_->create_stream();
  Gate gate;
  ASSERT_TRUE(driver_->launch_host_function(other, &Gate::wait, &gate).ok());
  const DevicePointer out = zeros(4);
  ASSERT_TRUE(driver_->launch(make_launch(kernel("add"), AddArguments{out, 3}), stream_).ok());
  EXPECT_EQ(read<std::int32_t>(out, 1)[0], 3);
  gate.open();
  driver_->destroy_stream(other);
}

TEST_F(HostDriver, DestroyingAStreamFinishesItsWork) {
  const DevicePointer out = zeros(4);
  ASSERT_TRUE(driver_->synchronize(stream_).ok());
  const StreamHandle other = driver_->create_stream();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(driver_->launch(make_launch(kernel("add"), AddArguments{out, 1}), other).ok());
  }
  driver_->destroy_stream(other);
  EXPECT_EQ(read<std::int32_t>(out, 1)[0], 100);
}

TEST_F(HostDriver, CountsEveryBlockOfAGridOnce) {
  const DevicePointer counts = zeros(4 * 7 * 11 * 13);
  ASSERT_TRUE(
      driver_->launch(make_launch(kernel("count_blocks"), counts, {{7, 11, 13}, {}, 0}), stream_).ok());
  EXPECT_EQ(read<std::uint32_t>(counts, 7 * 11 * 13), std::vector<std::uint32_t>(7 * 11 * 13, 1));
}

TEST_F(HostDriver, ReducesOverABlockInSharedMemory) {
  const DevicePointer sums = zeros(4 * 40);
  ASSERT_TRUE(driver_->launch(make_launch(kernel("reduce"), sums, {{40}, {256}, 256 * 4}), stream_).ok());
  EXPECT_EQ(read<std::uint32_t>(sums, 40), std::vector<std::uint32_t>(40, 255 * 256 / 2));
}

TEST_F(HostDriver, RunsNodesInTheOrderOfTheirDependenciesNotOfTheirAddition) {
  const DevicePointer out = zeros(4);
  const GraphHandle graph = driver_->create_graph();
  std::vector<NodeHandle> nodes;
  for (int digit : {3, 1, 2, 4}) {
    nodes.push_back(
        driver_->add_kernel_node(graph, make_launch(kernel("append_digit"), AddArguments{out, digit})));
  }
  const std::vector<GraphEdge> edges{{nodes[1], nodes[2]}, {nodes[2], nodes[0]}, {nodes[0], nodes[3]}};
  driver_->add_dependencies(graph, edges);
  const ExecHandle exec = driver_->instantiate(graph);
  ASSERT_TRUE(driver_->launch_graph(exec, stream_).ok());
  EXPECT_EQ(read<std::int32_t>(out, 1)[0], 1234);
  driver_->destroy_exec(exec);
  driver_->destroy_graph(graph);
}

TEST_F(HostDriver, RefusesACycle) {
  const GraphHandle graph = driver_->create_graph();
  const AddArguments arguments{zeros(4), 1};
  const NodeHandle a = driver_->add_kernel_node(graph, make_launch(kernel("add"), arguments));
  const NodeHandle b = driver_->add_kernel_node(graph, make_launch(kernel("add"), arguments));
  const std::vector<GraphEdge> circle{{a, b}, {b, a}}, self{{a, a}};
  driver_->add_dependencies(graph, circle);
  EXPECT_THROW(driver_->instantiate(graph), Error);
  EXPECT_THROW(driver_->add_dependencies(graph, self), Error);
}

TEST_F(HostDriver, AnUpdateMayNameAnotherKernelWithMoreArguments) {
  const DevicePointer out = zeros(8);
  const GraphHandle graph = driver_->create_graph();
  const NodeHandle first = driver_->add_kernel_node(graph, {kernel("nothing"), {}, nullptr, 0});
  const NodeHandle second = driver_->add_kernel_node(graph, make_launch(kernel("add"), AddArguments{out, 1}));
  const GraphEdge edge{first, second};
  driver_->add_dependencies(graph, {&edge, 1});
  const ExecHandle exec = driver_->instantiate(graph);
  Gate gate;
  ASSERT_TRUE(driver_->launch_host_function(stream_, &Gate::wait, &gate).ok());
  ASSERT_TRUE(driver_->launch_graph(exec, stream_).ok());  // adds 1
  struct {
    DevicePointer out;
    std::int64_t values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  } wide{out};
  ASSERT_TRUE(driver_->update_kernel_node(exec, first, make_launch(kernel("sum_wide"), wide)).ok());
  ASSERT_TRUE(driver_->launch_graph(exec, stream_).ok());  // adds 36 and 1
  gate.open();
  EXPECT_EQ(read<std::int64_t>(out, 1)[0], 38);
  driver_->destroy_exec(exec);
}

TEST_F(HostDriver, AnExecMayBeDestroyedWhileItsLaunchIsQueued) {
  const DevicePointer out = zeros(4);
  const GraphHandle graph = driver_->create_graph();
  driver_->add_kernel_node(graph, make_launch(kernel("add"), AddArguments{out, 5}));
  const ExecHandle exec = driver_->instantiate(graph);
  Gate gate;
  ASSERT_TRUE(driver_->launch_host_function(stream_, &Gate::wait, &gate).ok());
  ASSERT_TRUE(driver_->launch_graph(exec, stream_).ok());
  driver_->destroy_exec(exec);
  gate.open();
  EXPECT_EQ(read<std::int32_t>(out, 1)[0], 5);
}

TEST_F(HostDriver, RefusesWhatAGpuWouldRefuse) {
  const DevicePointer out = zeros(4);
  const AddArguments arguments{out, 1};
  const auto refused = [&](LaunchShape shape) {
    const Status status = driver_->launch(make_launch(kernel("add"), arguments, shape), stream_);
    return status.code == ErrorCode::bad_argument && std::strlen(status.call) > 0;
  };
  EXPECT_TRUE(refused({{0}, {}, 0}));
  EXPECT_TRUE(refused({{1, 65536}, {}, 0}));
  EXPECT_TRUE(refused({{0x80000000U}, {}, 0}));
  EXPECT_TRUE(refused({{}, {1, 0}, 0}));
  EXPECT_TRUE(refused({{}, {1, 1, 65}, 0}));
  EXPECT_TRUE(refused({{}, {33, 32}, 0}));
  EXPECT_TRUE(refused({{}, {}, 48 * 1024 + 1}));
  driver_->allow_dynamic_shared(kernel("add"), 64 * 1024);
  EXPECT_FALSE(refused({{}, {}, 64 * 1024}));
  EXPECT_THROW(driver_->allow_dynamic_shared(kernel("add"), driver_->properties().max_shared_bytes + 1),
               Error);
  KernelLaunch short_launch = make_launch(kernel("add"), arguments);
  short_launch.argument_bytes = 8;
  EXPECT_EQ(driver_->launch(short_launch, stream_).code, ErrorCode::bad_argument);
  short_launch.argument_bytes = 12;  // without the padding at the end
  EXPECT_TRUE(driver_->launch(short_launch, stream_).ok());
  EXPECT_EQ(read<std::int32_t>(out, 1)[0], 2);
}

TEST_F(HostDriver, TwoModulesOfOneKernelAreTwo) {
  const ModuleHandle other = driver_->load_module(module_bytes());
  EXPECT_NE(driver_->function(other, "add"), kernel("add"));
  driver_->unload_module(other);
  const DevicePointer out = zeros(4);
  ASSERT_TRUE(driver_->launch(make_launch(kernel("add"), AddArguments{out, 3}), stream_).ok());
  EXPECT_EQ(read<std::int32_t>(out, 1)[0], 3);
}

TEST_F(HostDriver, RefusesAModuleThatIsCutShortOrNoneAtAll) {
  const std::vector<std::byte> whole = module_bytes();
  ASSERT_GT(whole.size(), 8192U);
  for (std::size_t bytes :
       {std::size_t{0}, std::size_t{16}, std::size_t{64}, std::size_t{256}, std::size_t{4096}}) {
    EXPECT_THROW(driver_->load_module(std::span(whole).first(bytes)), Error) << bytes;
  }
  EXPECT_THROW(driver_->load_module(std::vector<std::byte>(10000, std::byte{'x'})), Error);
  EXPECT_THROW(kernel("no_such_kernel"), Error);
}

TEST_F(HostDriver, TellsTheLayoutOfAKernelsParameters) {
  const FunctionInfo info = driver_->function_info(kernel("add"), 2);
  ASSERT_TRUE(info.layout_known);
  ASSERT_EQ(info.parameters.size(), 2U);
  EXPECT_EQ(info.parameters[1].offset, 8U);
  EXPECT_EQ(info.parameters[1].size, 4U);
  EXPECT_THROW(driver_->function_info(kernel("add"), 3), Error);
}

TEST_F(HostDriver, RefusesMemoryItDoesNotHave) {
  EXPECT_THROW(driver_->allocate(0), Error);
  EXPECT_THROW(driver_->allocate(SIZE_MAX), Error);
  EXPECT_EQ(driver_->allocate(1) % 256, 0U);
}

TEST_F(HostDriver, AnEventHasATimeWhenItsStreamHasReachedIt) {
  const EventHandle from = driver_->create_event(), to = driver_->create_event();
  float milliseconds = -1;
  EXPECT_FALSE(driver_->elapsed_ms(from, to, &milliseconds).ok());
  Gate gate;
  ASSERT_TRUE(driver_->record(from, stream_).ok());
  ASSERT_TRUE(driver_->launch_host_function(stream_, &Gate::wait, &gate).ok());
  ASSERT_TRUE(driver_->record(to, stream_).ok());
  EXPECT_FALSE(driver_->elapsed_ms(from, to, &milliseconds).ok());
  gate.open();
  ASSERT_TRUE(driver_->synchronize_event(to).ok());
  ASSERT_TRUE(driver_->elapsed_ms(from, to, &milliseconds).ok());
  EXPECT_GE(milliseconds, 0);
  driver_->destroy_event(from);
  driver_->destroy_event(to);
}

}  // namespace
}  // namespace rondo::host
