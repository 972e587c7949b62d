// The rules of libamdhip64's double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "code_object.h"
#include "compiler.h"
#include "loaded.h"

namespace rondo::doubles::hip {
namespace {

using namespace rondo::hip;
using ::testing::ElementsAre;

constexpr Result invalid_configuration{9}, invalid_image{200}, invalid_handle{400}, not_ready{600};

constexpr const char* source = R"(
extern "C" __global__ void store(int* to, int value, double factor) { *to = static_cast<int>(value * factor); }
extern "C" __global__ void append(int* to, int digit) { *to = *to * 10 + digit; }
extern "C" __global__ void nothing() {}
)";

const rtc::Binary& compiled() {
  static const rtc::Binary binary = [] {
    rtc::CompileRequest request;
    request.file = "hip_double_test.cu";
    request.source = source;
    request.entries = {"store", "append", "nothing"};
    rtc::Binary made = rtc::make_host_compiler()->compile(request);
    add_metadata(made.code, "gfx90a", made.entries);
    return made;
  }();
  return binary;
}

// A kernel's arguments, and the pointers to them that HIP is given.
struct Arguments {
  int* to = nullptr;
  int value = 0;
  double factor = 1;
  std::array<void*, 3> pointers{};
  void** get() {
    pointers = {&to, &value, &factor};
    return pointers.data();
  }
};

class HipDouble : public ::testing::Test {
 protected:
  static const LoadedDouble& hip() {
    static const LoadedDouble loaded(HIP_DOUBLE);
    return loaded;
  }

  void SetUp() override {
    hip().reset();
    ASSERT_EQ(hip().hipSetDevice(0), Result::success);
    ASSERT_EQ(hip().hipModuleLoadData(&module_, compiled().code.data()), Result::success);
    ASSERT_EQ(hip().hipStreamCreateWithFlags(&stream_, stream_non_blocking), Result::success);
    void* memory = nullptr;
    ASSERT_EQ(hip().hipMalloc(&memory, 2 * sizeof(int)), Result::success);
    memory_ = static_cast<int*>(memory);
    ASSERT_EQ(hip().hipMemsetD8Async(memory_, 0, 2 * sizeof(int), stream_), Result::success);
    ASSERT_EQ(hip().hipGraphCreate(&graph_, 0), Result::success);
  }
  void TearDown() override {
    hip().reset();
    if (exec_ != nullptr) {
      EXPECT_EQ(hip().hipGraphExecDestroy(exec_), Result::success);
    }
    EXPECT_EQ(hip().hipGraphDestroy(graph_), Result::success);
    EXPECT_EQ(hip().hipFree(memory_), Result::success);
    EXPECT_EQ(hip().hipStreamDestroy(stream_), Result::success);
    EXPECT_EQ(hip().hipModuleUnload(module_), Result::success);
    EXPECT_EQ(hip().live_handles(), 0u);
    EXPECT_EQ(hip().leaked_bytes(), 0u);
  }

  NativeFunction function(std::size_t entry) {
    NativeFunction found = nullptr;
    EXPECT_EQ(hip().hipModuleGetFunction(&found, module_, compiled().entries[entry].lowered.c_str()),
              Result::success);
    return found;
  }
  KernelNodeParameters parameters(std::size_t entry, void** arguments) {
    KernelNodeParameters made{};
    made.function = function(entry);
    made.grid = made.block = {1, 1, 1};
    made.kernel_parameters = arguments;
    return made;
  }
  KernelNodeParameters store(Arguments& arguments) { return parameters(0, arguments.get()); }
  Node add(const KernelNodeParameters& given) {
    Node node = nullptr;
    EXPECT_EQ(hip().hipGraphAddKernelNode(&node, graph_, nullptr, 0, &given), Result::success);
    return node;
  }
  Result add_result(const KernelNodeParameters& given) {
    Node node = nullptr;
    return hip().hipGraphAddKernelNode(&node, graph_, nullptr, 0, &given);
  }
  void instantiate() { ASSERT_EQ(hip().hipGraphInstantiateWithFlags(&exec_, graph_, 0), Result::success); }
  Result update(Node node, const KernelNodeParameters& given) {
    return hip().hipGraphExecKernelNodeSetParams(exec_, node, &given);
  }
  Result launch() { return hip().hipGraphLaunch(exec_, stream_); }
  std::vector<int> read() {
    std::vector<int> values(2);
    EXPECT_EQ(hip().hipMemcpyDtoHAsync(values.data(), memory_, 2 * sizeof(int), stream_), Result::success);
    EXPECT_EQ(hip().hipStreamSynchronize(stream_), Result::success);
    return values;
  }

  Module module_ = nullptr;
  Stream stream_ = nullptr;
  Graph graph_ = nullptr;
  Exec exec_ = nullptr;
  int* memory_ = nullptr;
};

TEST_F(HipDouble, ExportsEveryFunctionThatRondoCalls) {
#define RONDO_DOUBLE_IS_THERE(name, version, need, parameters) EXPECT_NE(hip().name, nullptr) << #name;
  RONDO_HIP_FUNCTIONS(RONDO_DOUBLE_IS_THERE)
#undef RONDO_DOUBLE_IS_THERE
  EXPECT_STREQ(hip().hipGetErrorName(Result::no_binary_for_gpu), "hipErrorNoBinaryForGpu");
}

TEST_F(HipDouble, DescribesItsDeviceInBothLayouts) {
  DevicePropertiesR0600 now{};
  DevicePropertiesR0000 before{};
  std::memset(now.room, 0x5a, sizeof now.room);
  ASSERT_EQ(hip().hipGetDevicePropertiesR0600(&now, 0), Result::success);
  ASSERT_EQ(hip().hipGetDeviceProperties(&before, 0), Result::success);
  EXPECT_STREQ(now.name, "AMD double");
  EXPECT_STREQ(now.architecture_name, "gfx90a:sramecc+:xnack-");
  EXPECT_STREQ(before.architecture_name, now.architecture_name);
  EXPECT_EQ(now.warp_size, 1);
  EXPECT_EQ(before.max_threads_per_block, now.max_threads_per_block);
  EXPECT_EQ(now.room[sizeof now.room - 1], 0x5a);  // as long as the vendor's struct, and no longer
  EXPECT_EQ(hip().hipGetDevicePropertiesR0600(&now, 1), Result::invalid_device);
  int version = 0;
  ASSERT_EQ(hip().hipRuntimeGetVersion(&version), Result::success);
  EXPECT_EQ(version / 100'000, 602);
}

TEST_F(HipDouble, EveryThreadHasItsOwnCurrentDevice) {
  setenv("RONDO_DOUBLE_HIP_DEVICES", "2", 1);
  const NativeFunction of_first = function(2);
  std::thread([&] {
    int device = -1;
    EXPECT_EQ(hip().hipGetDevice(&device), Result::success);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(hip().hipSetDevice(1), Result::success);
    // What belongs to the first device is none of the second's.
    Stream stream = nullptr;
    EXPECT_EQ(hip().hipStreamCreateWithFlags(&stream, 0), Result::success);
    KernelNodeParameters given{};
    given.function = of_first;
    given.grid = given.block = {1, 1, 1};
    EXPECT_EQ(add_result(given), Result::invalid_device_function);
    EXPECT_EQ(hip().hipMemsetD8Async(memory_, 0, 4, stream_), invalid_handle);
    EXPECT_EQ(hip().hipStreamDestroy(stream), Result::success);
    EXPECT_EQ(hip().hipSetDevice(2), Result::invalid_device);
  }).join();
  unsetenv("RONDO_DOUBLE_HIP_DEVICES");
  int device = -1;
  EXPECT_EQ(hip().hipGetDevice(&device), Result::success);
  EXPECT_EQ(device, 0);
}

TEST_F(HipDouble, MemoryIsCheckedAgainstWhatWasAllocated) {
  int value = 7;
  EXPECT_EQ(hip().hipMemcpyHtoDAsync(memory_ + 1, &value, sizeof value, stream_), Result::success);
  EXPECT_THAT(read(), ElementsAre(0, 7));
  EXPECT_EQ(hip().hipMemcpyHtoDAsync(memory_ + 2, &value, sizeof value, stream_), Result::invalid_value);
  EXPECT_EQ(hip().hipMemcpyDtoHAsync(&value, memory_ + 1, 8, stream_), Result::invalid_value);
  EXPECT_EQ(hip().hipMemsetD8Async(&value, 0, 4, stream_), Result::invalid_value);
  EXPECT_EQ(hip().hipFree(&value), Result::invalid_value);
  EXPECT_EQ(hip().hipFree(memory_ + 1), Result::invalid_value);
  EXPECT_EQ(hip().hipFree(nullptr), Result::success);
  void* huge = nullptr;
  EXPECT_EQ(hip().hipMalloc(&huge, std::size_t{1} << 60), Result::out_of_memory);
}

TEST_F(HipDouble, StaleHandlesAreRefused) {
  Stream stream = nullptr;
  Event event = nullptr;
  ASSERT_EQ(hip().hipStreamCreateWithFlags(&stream, 0), Result::success);
  ASSERT_EQ(hip().hipEventCreateWithFlags(&event, event_default), Result::success);
  float milliseconds = -1;
  EXPECT_EQ(hip().hipEventElapsedTime(&milliseconds, event, event), not_ready);
  EXPECT_EQ(hip().hipEventRecord(event, stream), Result::success);
  EXPECT_EQ(hip().hipEventSynchronize(event), Result::success);
  EXPECT_EQ(hip().hipEventElapsedTime(&milliseconds, event, event), Result::success);
  EXPECT_EQ(milliseconds, 0);
  EXPECT_EQ(hip().hipStreamDestroy(stream), Result::success);
  EXPECT_EQ(hip().hipStreamDestroy(stream), invalid_handle);
  EXPECT_EQ(hip().hipStreamSynchronize(stream), invalid_handle);
  EXPECT_EQ(hip().hipEventRecord(event, stream), invalid_handle);
  EXPECT_EQ(hip().hipEventDestroy(event), Result::success);
  EXPECT_EQ(hip().hipEventSynchronize(event), invalid_handle);
  EXPECT_EQ(hip().hipStreamWaitEvent(stream_, event, 0), invalid_handle);
  EXPECT_EQ(hip().hipModuleUnload(nullptr), invalid_handle);
  EXPECT_EQ(hip().hipGraphDestroy(reinterpret_cast<Graph>(memory_)), Result::invalid_value);
}

TEST_F(HipDouble, AnEventOrdersTwoStreams) {
  Stream other = nullptr;
  Event event = nullptr;
  ASSERT_EQ(hip().hipStreamCreateWithFlags(&other, 0), Result::success);
  ASSERT_EQ(hip().hipEventCreateWithFlags(&event, event_default), Result::success);
  Arguments digit;
  digit.to = memory_;
  for (digit.value = 1; digit.value < 9; ++digit.value) {
    const Stream stream = digit.value % 2 == 0 ? other : stream_,
                 next = digit.value % 2 == 0 ? stream_ : other;
    ASSERT_EQ(hip().hipModuleLaunchKernel(function(1), 1, 1, 1, 1, 1, 1, 0, stream, digit.get(), nullptr),
              Result::success);
    ASSERT_EQ(hip().hipEventRecord(event, stream), Result::success);
    ASSERT_EQ(hip().hipStreamWaitEvent(next, event, 0), Result::success);
  }
  EXPECT_THAT(read(), ElementsAre(12345678, 0));
  EXPECT_EQ(hip().hipEventDestroy(event), Result::success);
  EXPECT_EQ(hip().hipStreamDestroy(other), Result::success);
}

TEST_F(HipDouble, CodeObjectsAreForOneArchitecture) {
  rtc::CompileRequest request;
  request.file = "empty.cu";
  request.source = "extern \"C\" __global__ void nothing() {}";
  request.entries = {"nothing"};
  const rtc::Binary plain = rtc::make_host_compiler()->compile(request);
  const auto result_for = [&](const char* architecture) {
    std::vector<std::byte> code = plain.code;
    if (*architecture != '\0') add_metadata(code, architecture, plain.entries);
    Module module = nullptr;
    const Result result = hip().hipModuleLoadData(&module, code.data());
    if (result == Result::success) {
      EXPECT_EQ(hip().hipModuleUnload(module), Result::success);
    }
    return result;
  };
  EXPECT_EQ(result_for("gfx90a"), Result::success);
  EXPECT_EQ(result_for("gfx90a:xnack-"), Result::success);
  EXPECT_EQ(result_for("gfx90a:xnack+"), Result::no_binary_for_gpu);
  EXPECT_EQ(result_for("gfx1030"), Result::no_binary_for_gpu);
  EXPECT_EQ(result_for(""), Result::no_binary_for_gpu);  // an ordinary shared object
  Module module = nullptr;
  EXPECT_EQ(hip().hipModuleLoadData(&module, std::string(4096, 'x').c_str()), invalid_image);
  NativeFunction none = nullptr;
  EXPECT_EQ(hip().hipModuleGetFunction(&none, module_, "no_such_kernel"), Result::not_found);
}

TEST_F(HipDouble, WhatBelongsToAModuleEndsWithIt) {
  Module module = nullptr;
  ASSERT_EQ(hip().hipModuleLoadData(&module, compiled().code.data()), Result::success);
  KernelNodeParameters given = parameters(2, nullptr);
  NativeFunction other = nullptr;
  ASSERT_EQ(hip().hipModuleGetFunction(&other, module, compiled().entries[2].lowered.c_str()),
            Result::success);
  given.function = other;
  add(given);
  instantiate();
  ASSERT_EQ(launch(), Result::success);
  ASSERT_EQ(hip().hipModuleUnload(module), Result::success);
  EXPECT_EQ(launch(), Result::invalid_device_function);
  EXPECT_EQ(add_result(given), Result::invalid_device_function);
  EXPECT_EQ(hip().hipModuleLaunchKernel(other, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
            invalid_handle);
}

TEST_F(HipDouble, LaunchesTakeEitherFormOfArguments) {
  Arguments arguments{memory_, 21, 2.0};
  ASSERT_EQ(hip().hipModuleLaunchKernel(function(0), 1, 1, 1, 1, 1, 1, 0, stream_, arguments.get(), nullptr),
            Result::success);
  struct {
    int* to;
    int value;
    double factor;
  } packed{memory_ + 1, 5, 3.0};
  std::size_t bytes = sizeof packed;
  void* extra[] = {reinterpret_cast<void*>(1), &packed, reinterpret_cast<void*>(2), &bytes,
                   reinterpret_cast<void*>(3)};
  ASSERT_EQ(hip().hipModuleLaunchKernel(function(0), 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, extra),
            Result::success);
  EXPECT_THAT(read(), ElementsAre(42, 15));
  EXPECT_EQ(hip().hipModuleLaunchKernel(function(0), 1, 1, 1, 1, 1, 1, 0, stream_, arguments.get(), extra),
            Result::invalid_value);

  KernelNodeParameters given = parameters(0, nullptr);
  given.extra = extra;
  add(given);
  packed.value = -1;  // the node has its own
  instantiate();
  ASSERT_EQ(launch(), Result::success);
  EXPECT_THAT(read(), ElementsAre(42, 15));
  extra[4] = nullptr;  // CUDA's end of the list
  EXPECT_EQ(add_result(given), Result::invalid_value);
}

TEST_F(HipDouble, RefusesLaunchesThatHipRefuses) {
  Arguments arguments{memory_, 1, 1.0};
  const auto with = [&](auto change) {
    KernelNodeParameters given = store(arguments);
    change(given);
    return add_result(given);
  };
  EXPECT_EQ(with([](auto& given) { given.function = nullptr; }), Result::invalid_value);
  EXPECT_EQ(with([&](auto& given) { given.function = memory_; }), Result::invalid_device_function);
  EXPECT_EQ(with([](auto& given) { given.grid.y = 0; }), Result::invalid_value);
  EXPECT_EQ(with([](auto& given) { given.block.z = 0; }), Result::invalid_value);
  EXPECT_EQ(with([](auto& given) { given.kernel_parameters = nullptr; }), Result::invalid_value);
  EXPECT_EQ(with([](auto& given) { given.block.x = 2048; }), invalid_configuration);
  // 2^22 × 2^10 threads on one axis, and one block less.
  EXPECT_EQ(with([](auto& given) { given.grid.x = 1u << 22, given.block.x = 1024; }), invalid_configuration);
  EXPECT_EQ(with([](auto& given) { given.grid.x = (1u << 22) - 1, given.block.x = 1024; }), Result::success);
  // Without parameters there is nothing to pass.
  EXPECT_EQ(add_result(parameters(2, nullptr)), Result::success);
}

TEST_F(HipDouble, ANodeKeepsWhatItsArgumentsWere) {
  Arguments arguments{memory_, 3, 2.0};
  const Node first = add(store(arguments));
  arguments = {memory_ + 1, 5, 2.0};
  const Node second = add(store(arguments));
  arguments.value = 1000;
  ASSERT_EQ(hip().hipGraphAddDependencies(graph_, &first, &second, 1), Result::success);
  EXPECT_EQ(hip().hipGraphAddDependencies(graph_, &first, &second, 1), Result::invalid_value);
  EXPECT_EQ(hip().hipGraphAddDependencies(graph_, &first, &first, 1), Result::invalid_value);
  instantiate();
  ASSERT_EQ(launch(), Result::success);
  EXPECT_THAT(read(), ElementsAre(6, 10));
  std::array<Node, 3> nodes{};
  std::size_t count = 3;
  ASSERT_EQ(hip().hipGraphGetNodes(graph_, nodes.data(), &count), Result::success);
  EXPECT_EQ(count, 2u);
  EXPECT_THAT(nodes, ElementsAre(first, second, nullptr));
}

TEST_F(HipDouble, UpdatesAffectLaterLaunchesAndNoOtherNode) {
  Arguments digit{memory_, 1, 0};
  const Node node = add(parameters(1, digit.get()));
  Arguments other{memory_ + 1, 4, 1};
  add(store(other));
  instantiate();
  ASSERT_EQ(launch(), Result::success);
  for (digit.value = 2; digit.value <= 9; ++digit.value) {
    ASSERT_EQ(update(node, parameters(1, digit.get())), Result::success);
    ASSERT_EQ(launch(), Result::success);
  }
  EXPECT_THAT(read(), ElementsAre(123456789, 4));
  ASSERT_EQ(hip().hipGraphNodeSetEnabled(exec_, node, 0), Result::success);
  ASSERT_EQ(launch(), Result::success);
  EXPECT_THAT(read(), ElementsAre(123456789, 4));
  // The source graph's node has not changed.
  KernelNodeParameters kept{};
  ASSERT_EQ(hip().hipGraphKernelNodeGetParams(node, &kept), Result::success);
  EXPECT_EQ(*static_cast<int*>(kept.kernel_parameters[1]), 1);
}

TEST_F(HipDouble, AnUpdateNeedsTheNodeOfALiveGraph) {
  Arguments arguments{memory_, 1, 1.0};
  Graph other = nullptr;
  ASSERT_EQ(hip().hipGraphCreate(&other, 0), Result::success);
  Node node = nullptr;
  const KernelNodeParameters given = store(arguments);
  ASSERT_EQ(hip().hipGraphAddKernelNode(&node, other, nullptr, 0, &given), Result::success);
  ASSERT_EQ(hip().hipGraphInstantiateWithFlags(&exec_, other, 0), Result::success);
  const Node stranger = add(given);
  EXPECT_EQ(update(stranger, given), Result::invalid_value);
  EXPECT_EQ(update(node, given), Result::success);
  ASSERT_EQ(hip().hipGraphDestroy(other), Result::success);
  EXPECT_EQ(update(node, given), Result::invalid_value);
  EXPECT_EQ(launch(), Result::success);  // of the source graph it needs nothing
  EXPECT_THAT(read(), ElementsAre(1, 0));
}

TEST_F(HipDouble, GetGivesTheNodesOwnMemory) {
  Arguments arguments{memory_, 3, 2.0};
  const Node node = add(store(arguments));
  KernelNodeParameters first{}, second{};
  ASSERT_EQ(hip().hipGraphKernelNodeGetParams(node, &first), Result::success);
  ASSERT_EQ(hip().hipGraphKernelNodeGetParams(node, &second), Result::success);
  EXPECT_EQ(first.kernel_parameters, second.kernel_parameters);
  EXPECT_NE(first.kernel_parameters[1], &arguments.value);
  // It can be written to, and that is what a later instantiation takes.
  *static_cast<int*>(first.kernel_parameters[1]) = 8;
  instantiate();
  ASSERT_EQ(launch(), Result::success);
  EXPECT_THAT(read(), ElementsAre(16, 0));
  // Set with parameters of our own copies them.
  Arguments ours{memory_, 5, 1.0};
  const KernelNodeParameters given = store(ours);
  ASSERT_EQ(hip().set_parameters(node, &given), Result::success);
  ASSERT_EQ(hip().hipGraphKernelNodeGetParams(node, &second), Result::success);
  EXPECT_NE(second.kernel_parameters, given.kernel_parameters);
  EXPECT_EQ(*static_cast<int*>(second.kernel_parameters[1]), 5);
  // Set with the node's own array keeps the struct as it is (ROCm 6).
  second.grid.x = 2;
  ASSERT_EQ(hip().set_parameters(node, &second), Result::success);
  ASSERT_EQ(hip().hipGraphKernelNodeGetParams(node, &first), Result::success);
  EXPECT_EQ(first.kernel_parameters, second.kernel_parameters);
  EXPECT_EQ(first.grid.x, 2u);
}

TEST_F(HipDouble, FailsTheCallThatATestNames) {
  Arguments digit{memory_, 1, 0};
  const Node node = add(parameters(1, digit.get()));
  instantiate();
  hip().reset();
  hip().fail("hipGraphLaunch", 2, static_cast<int>(Result::launch_failure));
  hip().fail("hipGraphExecKernelNodeSetParams", 1, static_cast<int>(Result::out_of_memory));
  EXPECT_EQ(launch(), Result::success);
  digit.value = 2;
  EXPECT_EQ(update(node, parameters(1, digit.get())), Result::out_of_memory);
  EXPECT_EQ(launch(), Result::launch_failure);
  EXPECT_EQ(launch(), Result::success);
  EXPECT_THAT(read(), ElementsAre(11, 0));  // what failed has done nothing
  EXPECT_EQ(hip().calls("hipGraphLaunch"), 3u);
}

// How ROCm misbehaves.

TEST_F(HipDouble, IgnoresUpdatesWhenTold) {
  hip().set_mode("ignore_updates");
  Arguments arguments{memory_, 1, 1.0};
  const Node node = add(store(arguments));
  instantiate();
  arguments.value = 2;
  EXPECT_EQ(update(node, store(arguments)), Result::success);
  ASSERT_EQ(launch(), Result::success);
  EXPECT_THAT(read(), ElementsAre(1, 0));
}

TEST_F(HipDouble, SharesArgumentsWhenTold) {
  hip().set_mode("share_arguments");
  Arguments arguments{memory_, 1, 1.0};
  const Node first = add(store(arguments));
  arguments = {memory_ + 1, 2, 1.0};
  add(store(arguments));
  instantiate();
  ASSERT_EQ(launch(), Result::success);
  EXPECT_THAT(read(), ElementsAre(0, 2));
  arguments.value = 3;
  EXPECT_EQ(update(first, store(arguments)), Result::success);
  ASSERT_EQ(launch(), Result::success);
  EXPECT_THAT(read(), ElementsAre(0, 3));
}

TEST_F(HipDouble, LeaksUntilTheExecIsDestroyedWhenTold) {
  hip().set_mode("leak");
  Arguments arguments{memory_, 1, 1.0};
  const Node node = add(store(arguments));
  instantiate();
  EXPECT_EQ(hip().leaked_bytes(), 0u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(update(node, store(arguments)), Result::success);
  const std::size_t leaked = hip().leaked_bytes();
  EXPECT_GT(leaked, 100u * 5000);
  EXPECT_EQ(hip().hipGraphExecDestroy(exec_), Result::success);
  exec_ = nullptr;
  EXPECT_EQ(hip().leaked_bytes(), 0u);
  EXPECT_EQ(hip().most_leaked_bytes(), leaked);
}

TEST_F(HipDouble, Rocm54RefusesModuleFunctionsInNodes) {
  hip().set_mode("rocm_5.4");
  int version = 0;
  ASSERT_EQ(hip().hipRuntimeGetVersion(&version), Result::success);
  EXPECT_EQ(version / 100'000, 504);
  Arguments arguments{memory_, 1, 1.0};
  EXPECT_EQ(add_result(store(arguments)), Result::invalid_device_function);
  EXPECT_EQ(hip().hipModuleLaunchKernel(function(0), 1, 1, 1, 1, 1, 1, 0, stream_, arguments.get(), nullptr),
            Result::success);
  EXPECT_THAT(read(), ElementsAre(1, 0));
}

TEST(HipDouble54, LacksWhatRocm54Lacks) {
  const LoadedDouble old(HIP_5_4_DOUBLE);
  EXPECT_EQ(old.hipGetDevicePropertiesR0600, nullptr);
  EXPECT_EQ(old.hipGraphUpload, nullptr);
  EXPECT_EQ(old.hipGraphNodeSetEnabled, nullptr);
  EXPECT_EQ(old.hipLaunchHostFunc, nullptr);
  DevicePropertiesR0000 properties{};
  ASSERT_EQ(old.hipGetDeviceProperties(&properties, 0), Result::success);
  EXPECT_STREQ(properties.architecture_name, "gfx90a:sramecc+:xnack-");
}

}  // namespace
}  // namespace rondo::doubles::hip
