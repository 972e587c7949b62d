// The rules that the libcuda double keeps, each of which some program has broken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "compiler.h"
#include "cuda_double.h"

namespace rondo::cuda {
namespace {

constexpr auto ok = Result::success;
constexpr auto not_initialized = static_cast<Result>(3);
constexpr auto invalid_context = static_cast<Result>(201);
constexpr auto invalid_handle = static_cast<Result>(400);
constexpr auto context_is_destroyed = static_cast<Result>(709);
constexpr auto not_permitted = static_cast<Result>(800);

// Whether the kernel can read from, or write to, a page of this process; a pipe asks it without a crash.
class Page {
 public:
  static bool readable(const void* address) {
    const Page page;
    return write(page.ends_[1], address, 1) == 1;
  }
  static bool writable(void* address) {
    const Page page;
    const char same = *static_cast<const char*>(address);
    return write(page.ends_[1], &same, 1) == 1 && read(page.ends_[0], address, 1) == 1;
  }

 private:
  Page() { EXPECT_EQ(pipe(ends_), 0); }
  ~Page() {
    close(ends_[0]);
    close(ends_[1]);
  }
  int ends_[2];
};

// A context, a stream, memory and two kernels.
class CudaDoubleRules : public ::testing::Test {
 protected:
  void SetUp() override {
    Context context = nullptr;
    ASSERT_EQ(api_.cuDevicePrimaryCtxRetain(&context, 0), ok);
    ASSERT_EQ(api_.cuCtxPushCurrent_v2(context), ok);
    static const rtc::Binary binary = compile();
    ASSERT_EQ(api_.cuModuleLoadDataEx(&module_, binary.code.data(), 0, nullptr, nullptr), ok);
    ASSERT_EQ(api_.cuModuleGetFunction(&put_, module_, binary.entries[0].lowered.c_str()), ok);
    ASSERT_EQ(api_.cuModuleGetFunction(&nothing_, module_, binary.entries[1].lowered.c_str()), ok);
    ASSERT_EQ(api_.cuStreamCreate(&stream_, stream_non_blocking), ok);
    ASSERT_EQ(api_.cuMemAlloc_v2(&memory_, 64), ok);
    ASSERT_EQ(api_.cuMemsetD8Async(memory_, 0, 64, stream_), ok);
    ASSERT_EQ(api_.cuGraphCreate(&graph_, 0), ok);
  }
  void TearDown() override {
    EXPECT_EQ(api_.cuStreamDestroy_v2(stream_), ok);
    if (graph_ != nullptr) {
      EXPECT_EQ(api_.cuGraphDestroy(graph_), ok);
    }
    EXPECT_EQ(api_.cuMemFree_v2(memory_), ok);
    if (module_ != nullptr) {
      EXPECT_EQ(api_.cuModuleUnload(module_), ok);
    }
    EXPECT_EQ(double_.live_handles(), 0U);
    Context context = nullptr;
    EXPECT_EQ(api_.cuCtxPopCurrent_v2(&context), ok);
    EXPECT_EQ(api_.cuDevicePrimaryCtxRelease_v2(0), ok);
  }

  static rtc::Binary compile() {
    rtc::CompileRequest request;
    request.file = "rules.cu";
    request.source =
        "__global__ void put(int* out, signed char index, double value) { out[index] = (int)value; }\n"
        "__global__ void nothing() {}\n";
    request.entries = {"put", "nothing"};
    request.architecture = "sm_90";
    return rtc::make_nvrtc_compiler()->compile(request);
  }

  KernelNodeParameters parameters(void** values, void** extra = nullptr) const {
    return {put_, 1, 1, 1, 1, 1, 1, 0, values, extra, nullptr, nullptr};
  }
  KernelNodeParameters get(Node node) const {
    KernelNodeParameters result{};
    EXPECT_EQ(api_.cuGraphKernelNodeGetParams_v2(node, &result), ok);
    return result;
  }
  // A node that does out[index] = value; what it was given is overwritten at once.
  Node add(signed char index, double value) {
    DeviceAddress out = memory_;
    void* values[] = {&out, &index, &value};
    const KernelNodeParameters given = parameters(values);
    Node node = nullptr;
    EXPECT_EQ(api_.cuGraphAddKernelNode_v2(&node, graph_, nullptr, 0, &given), ok);
    out = 0;
    index = -1;
    value = -1;
    std::fill(std::begin(values), std::end(values), nullptr);
    return node;
  }
  Exec instantiate() {
    Exec exec = nullptr;
    EXPECT_EQ(api_.cuGraphInstantiateWithFlags(&exec, graph_, 0), ok);
    return exec;
  }
  void run(Exec exec) {
    ASSERT_EQ(api_.cuGraphLaunch(exec, stream_), ok);
    ASSERT_EQ(api_.cuStreamSynchronize(stream_), ok);
  }
  std::array<int, 4> read() {
    std::array<int, 4> values{};
    EXPECT_EQ(api_.cuMemcpyDtoHAsync_v2(values.data(), memory_, sizeof values, stream_), ok);
    EXPECT_EQ(api_.cuStreamSynchronize(stream_), ok);
    return values;
  }

  CudaDouble& double_ = CudaDouble::get();
  const Api& api_ = *double_.api;
  Module module_ = nullptr;
  Function put_ = nullptr, nothing_ = nullptr;
  Stream stream_ = nullptr;
  DeviceAddress memory_ = 0;
  Graph graph_ = nullptr;
};

using ::testing::ElementsAre;

TEST(CudaDoubleStart, NothingWorksBeforeCuInit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process that has not called it
  const auto try_it = [] {
    std::string problem;
    const DynamicLibrary library = DynamicLibrary::open(RONDO_DOUBLE_CUDA, problem);
    int count = -1;
    const auto get_count = library.function<Result(int*)>("cuDeviceGetCount");
    const bool refused = get_count(&count) == not_initialized && count == -1;
    const bool started = library.function<Result(unsigned)>("cuInit")(0) == ok && get_count(&count) == ok;
    std::_Exit(refused && started && count == 1 ? 0 : 1);
  };
  EXPECT_EXIT(try_it(), ::testing::ExitedWithCode(0), "");
}

TEST(CudaDoubleStart, ShowsTheVendorsNamesAlone) {
  const DynamicLibrary& library = CudaDouble::get().library;
  EXPECT_NE(library.symbol("cuGraphLaunch"), nullptr);
  EXPECT_EQ(library.symbol("cuGraphAddKernelNode"), nullptr);      // another interface under the same name
  EXPECT_EQ(library.symbol("_ZN5rondo7doubles4hostEv"), nullptr);  // rondo::doubles::host()
}

TEST_F(CudaDoubleRules, EveryThreadNeedsAContextOfItsOwn) {
  Result elsewhere = ok;
  Context current = reinterpret_cast<Context>(1);
  std::thread([&] {
    DeviceAddress address = 0;
    elsewhere = api_.cuMemAlloc_v2(&address, 16);
    EXPECT_EQ(api_.cuCtxGetCurrent(&current), ok);
  }).join();
  EXPECT_EQ(elsewhere, invalid_context);
  EXPECT_EQ(current, nullptr);
  EXPECT_EQ(api_.cuCtxGetCurrent(&current), ok);
  EXPECT_NE(current, nullptr);
  EXPECT_EQ(api_.cuCtxPushCurrent_v2(reinterpret_cast<Context>(8)), invalid_context);
}

TEST_F(CudaDoubleRules, TheContextsStackAndItsCountAreKept) {
  Context context = nullptr, popped = nullptr;
  ASSERT_EQ(api_.cuCtxPopCurrent_v2(&context), ok);
  EXPECT_EQ(api_.cuCtxPopCurrent_v2(&popped), invalid_context);
  EXPECT_EQ(api_.cuStreamSynchronize(stream_), invalid_context);
  ASSERT_EQ(api_.cuCtxPushCurrent_v2(context), ok);
  ASSERT_EQ(api_.cuDevicePrimaryCtxRelease_v2(0), ok);
  EXPECT_EQ(api_.cuStreamSynchronize(stream_), context_is_destroyed);
  EXPECT_EQ(api_.cuCtxPushCurrent_v2(context), invalid_context);
  EXPECT_EQ(api_.cuDevicePrimaryCtxRelease_v2(0), invalid_context);
  ASSERT_EQ(api_.cuDevicePrimaryCtxRetain(&popped, 0), ok);
  EXPECT_EQ(popped, context);
  EXPECT_EQ(api_.cuStreamSynchronize(stream_), ok);
}

TEST_F(CudaDoubleRules, ANodeOwnsItsArguments) {
  add(1, 17);
  const Exec exec = instantiate();
  run(exec);
  EXPECT_THAT(read(), ElementsAre(0, 17, 0, 0));
  EXPECT_EQ(api_.cuGraphExecDestroy(exec), ok);
}

TEST_F(CudaDoubleRules, WhatGetReturnsCannotBeWrittenAndEndsAtTheNextSet) {
  const Node node = add(1, 17);
  const KernelNodeParameters got = get(node);
  ASSERT_NE(got.kernel_parameters, nullptr);
  EXPECT_EQ(got.extra, nullptr);
  EXPECT_EQ(*static_cast<double*>(got.kernel_parameters[2]), 17);
  EXPECT_TRUE(Page::readable(got.kernel_parameters));
  EXPECT_FALSE(Page::writable(got.kernel_parameters));
  EXPECT_FALSE(Page::writable(got.kernel_parameters[2]));
  // Handing it back as it is is allowed: Set copies during the call.
  ASSERT_EQ(double_.cuGraphKernelNodeSetParams_v2(node, &got), ok);
  EXPECT_FALSE(Page::readable(got.kernel_parameters));
  const KernelNodeParameters again = get(node);
  EXPECT_EQ(*static_cast<double*>(again.kernel_parameters[2]), 17);
  EXPECT_EQ(get(node).kernel_parameters, again.kernel_parameters);  // valid until the parameters are modified
  ASSERT_EQ(api_.cuGraphDestroy(graph_), ok);
  graph_ = nullptr;
  EXPECT_FALSE(Page::readable(again.kernel_parameters));
}

TEST_F(CudaDoubleRules, PackedArgumentsComeInAnyOrderAndGetReturnsThemSo) {
  struct {
    DeviceAddress out;
    signed char index;
    double value;
  } packed{memory_, 2, 5};
  std::size_t size = sizeof packed;
  void* extra[] = {launch_buffer_size(), &size, launch_buffer(), &packed, launch_end()};
  const Node node = add(0, 1);
  const KernelNodeParameters given = parameters(nullptr, extra);
  ASSERT_EQ(double_.cuGraphKernelNodeSetParams_v2(node, &given), ok);
  const KernelNodeParameters got = get(node);
  EXPECT_EQ(got.kernel_parameters, nullptr);
  ASSERT_NE(got.extra, nullptr);
  EXPECT_NE(got.extra, extra);
  EXPECT_FALSE(Page::writable(got.extra));
  ASSERT_EQ(api_.cuLaunchKernel(put_, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, got.extra), ok);
  EXPECT_THAT(read(), ElementsAre(0, 0, 5, 0));
}

TEST_F(CudaDoubleRules, ArgumentsGivenTwiceNotAtAllOrShortAreRefused) {
  DeviceAddress out = memory_;
  signed char index = 0;
  double value = 1;
  void* values[] = {&out, &index, &value};
  std::array<std::byte, 24> packed{};
  std::size_t size = packed.size();
  void* extra[] = {launch_buffer(), packed.data(), launch_buffer_size(), &size, launch_end()};
  const auto launch = [&](void** first, void** second) {
    return api_.cuLaunchKernel(put_, 1, 1, 1, 1, 1, 1, 0, stream_, first, second);
  };
  EXPECT_EQ(launch(values, extra), Result::invalid_value);
  EXPECT_EQ(launch(nullptr, nullptr), Result::invalid_value);
  size = 16;
  EXPECT_EQ(launch(nullptr, extra), Result::invalid_value);
  extra[2] = reinterpret_cast<void*>(7);
  EXPECT_EQ(launch(nullptr, extra), Result::invalid_value);
  values[1] = nullptr;
  EXPECT_EQ(launch(values, nullptr), Result::invalid_value);
  EXPECT_EQ(api_.cuLaunchKernel(nothing_, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr), ok);
  EXPECT_THAT(read(), ElementsAre(0, 0, 0, 0));
}

TEST_F(CudaDoubleRules, TheDriverKnowsAKernelsParameters) {
  std::size_t offset = 0, size = 0;
  for (const std::array<std::size_t, 3> expected :
       {std::array<std::size_t, 3>{0, 0, 8}, {1, 8, 1}, {2, 16, 8}}) {
    ASSERT_EQ(api_.cuFuncGetParamInfo(put_, expected[0], &offset, &size), ok);
    EXPECT_EQ(offset, expected[1]);
    EXPECT_EQ(size, expected[2]);
  }
  EXPECT_EQ(api_.cuFuncGetParamInfo(put_, 3, &offset, &size), Result::invalid_value);
  EXPECT_EQ(api_.cuFuncGetParamInfo(nothing_, 0, &offset, &size), Result::invalid_value);
}

TEST_F(CudaDoubleRules, AnExecKeepsItsOwnCopyAndItsNodesMustStillBeInTheGraph) {
  const Node node = add(0, 3);
  const Exec exec = instantiate();
  DeviceAddress out = memory_;
  signed char index = 1;
  double value = 4;
  void* values[] = {&out, &index, &value};
  const KernelNodeParameters given = parameters(values);
  ASSERT_EQ(double_.cuGraphKernelNodeSetParams_v2(node, &given), ok);  // the graph's node, not the exec's
  run(exec);
  EXPECT_THAT(read(), ElementsAre(3, 0, 0, 0));
  ASSERT_EQ(api_.cuGraphExecKernelNodeSetParams_v2(exec, node, &given), ok);
  ASSERT_EQ(api_.cuGraphDestroy(graph_), ok);
  graph_ = nullptr;
  EXPECT_EQ(api_.cuGraphExecKernelNodeSetParams_v2(exec, node, &given), Result::invalid_value);
  EXPECT_EQ(api_.cuGraphNodeSetEnabled(exec, node, 0), Result::invalid_value);
  run(exec);
  EXPECT_THAT(read(), ElementsAre(3, 4, 0, 0));
  EXPECT_EQ(api_.cuGraphExecDestroy(exec), ok);
}

TEST_F(CudaDoubleRules, ADependencyIsAddedOnceAndTheNodesAreListed) {
  const std::array<Node, 2> nodes{add(0, 1), add(1, 2)};
  EXPECT_EQ(api_.cuGraphAddDependencies(graph_, &nodes[0], &nodes[1], 1), ok);
  EXPECT_EQ(api_.cuGraphAddDependencies(graph_, &nodes[0], &nodes[1], 1), Result::invalid_value);
  EXPECT_EQ(api_.cuGraphAddDependencies(graph_, &nodes[0], &nodes[0], 1), Result::invalid_value);
  std::array<Node, 3> listed{};
  std::size_t count = 0;
  ASSERT_EQ(api_.cuGraphGetNodes(graph_, nullptr, &count), ok);
  EXPECT_EQ(count, 2U);
  count = 3;
  ASSERT_EQ(api_.cuGraphGetNodes(graph_, listed.data(), &count), ok);
  EXPECT_EQ(count, 2U);
  EXPECT_THAT(listed, ElementsAre(nodes[0], nodes[1], nullptr));
  EXPECT_EQ(api_.cuGraphAddDependencies(graph_, &nodes[1], &nodes[0], 1),
            ok);  // a cycle shows when instantiated
  Exec exec = nullptr;
  EXPECT_EQ(api_.cuGraphInstantiateWithFlags(&exec, graph_, 0), Result::invalid_value);
}

TEST_F(CudaDoubleRules, StaleHandlesAndThoseOfAnotherKindAreRefused) {
  Stream stream = nullptr;
  Event event = nullptr;
  ASSERT_EQ(api_.cuStreamCreate(&stream, stream_non_blocking), ok);
  ASSERT_EQ(api_.cuEventCreate(&event, event_default), ok);
  ASSERT_EQ(api_.cuStreamDestroy_v2(stream), ok);
  ASSERT_EQ(api_.cuEventDestroy_v2(event), ok);
  EXPECT_EQ(api_.cuStreamDestroy_v2(stream), invalid_handle);
  EXPECT_EQ(api_.cuStreamSynchronize(stream), invalid_handle);
  EXPECT_EQ(api_.cuEventRecord(event, stream_), invalid_handle);
  EXPECT_EQ(api_.cuStreamSynchronize(reinterpret_cast<Stream>(graph_)), invalid_handle);
  EXPECT_EQ(api_.cuGraphLaunch(reinterpret_cast<Exec>(graph_), stream_), Result::invalid_value);
  EXPECT_EQ(api_.cuMemFree_v2(memory_ + 8), Result::invalid_value);
  const Exec exec = instantiate();
  ASSERT_EQ(api_.cuGraphExecDestroy(exec), ok);
  EXPECT_EQ(api_.cuGraphLaunch(exec, stream_), Result::invalid_value);
}

TEST_F(CudaDoubleRules, AnUnloadedModulesKernelsCannotBeLaunched) {
  add(0, 1);
  const Exec exec = instantiate();
  ASSERT_EQ(api_.cuModuleUnload(module_), ok);
  module_ = nullptr;
  EXPECT_EQ(api_.cuGraphLaunch(exec, stream_), invalid_handle);
  EXPECT_EQ(api_.cuLaunchKernel(nothing_, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr), invalid_handle);
  Exec second = nullptr;
  EXPECT_EQ(api_.cuGraphInstantiateWithFlags(&second, graph_, 0), invalid_handle);
  EXPECT_EQ(api_.cuGraphExecDestroy(exec), ok);
}

TEST_F(CudaDoubleRules, CopiesStayWithinOneAllocation) {
  std::array<char, 80> bytes{};
  EXPECT_EQ(api_.cuMemcpyHtoDAsync_v2(memory_, bytes.data(), 65, stream_), Result::invalid_value);
  EXPECT_EQ(api_.cuMemcpyDtoHAsync_v2(bytes.data(), memory_ + 60, 5, stream_), Result::invalid_value);
  EXPECT_EQ(api_.cuMemsetD8Async(memory_ - 1, 0, 1, stream_), Result::invalid_value);
  EXPECT_EQ(api_.cuMemcpyHtoDAsync_v2(memory_, bytes.data(), 64, stream_), ok);
}

TEST_F(CudaDoubleRules, SharedMemoryBeyondTheDefaultIsAskedForFirst) {
  const auto launch = [&](unsigned bytes) {
    return api_.cuLaunchKernel(nothing_, 1, 1, 1, 1, 1, 1, bytes, stream_, nullptr, nullptr);
  };
  EXPECT_EQ(launch(48 * 1024), ok);
  EXPECT_EQ(launch(48 * 1024 + 1), Result::invalid_value);
  ASSERT_EQ(api_.cuFuncSetAttribute(nothing_, FunctionAttribute::max_dynamic_shared_bytes, 64 * 1024), ok);
  EXPECT_EQ(launch(64 * 1024), ok);
}

TEST_F(CudaDoubleRules, AHostFunctionMayMakeNoCall) {
  struct {
    const Api& api;
    Result result;
  } seen{api_, ok};
  const auto function = [](void* data) {
    auto& inside = *static_cast<decltype(seen)*>(data);
    int count = 0;
    inside.result = inside.api.cuDeviceGetCount(&count);
  };
  ASSERT_EQ(api_.cuLaunchHostFunc(stream_, function, &seen), ok);
  ASSERT_EQ(api_.cuStreamSynchronize(stream_), ok);
  EXPECT_EQ(seen.result, not_permitted);
}

TEST_F(CudaDoubleRules, ACallThatIsToldToFailDoesNothing) {
  add(0, 9);
  const Exec exec = instantiate();
  double_.reset();
  double_.fail("cuGraphLaunch", 2, 719);
  EXPECT_EQ(api_.cuGraphLaunch(exec, stream_), ok);
  EXPECT_THAT(read(), ElementsAre(9, 0, 0, 0));
  ASSERT_EQ(api_.cuMemsetD8Async(memory_, 0, 64, stream_), ok);
  EXPECT_EQ(api_.cuGraphLaunch(exec, stream_), Result::launch_failed);
  EXPECT_THAT(read(), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(api_.cuGraphLaunch(exec, stream_), ok);
  EXPECT_EQ(double_.calls("cuGraphLaunch"), 3U);
  EXPECT_EQ(api_.cuGraphExecDestroy(exec), ok);
}

}  // namespace
}  // namespace rondo::cuda
