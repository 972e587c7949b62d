// What only CUDA has in graphs that others made: library kernels, contexts, cooperative and cluster launches,
// older drivers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "cuda/foreign_graphs.h"
#include "cuda_graph_maker.h"
#include "foreign_graphs_fixture.h"
#include "rondo/error.h"

namespace rondo::conformance {
namespace {

using cuda::Result;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CudaForeignGraphs : public ForeignGraphsTest {
 protected:
  // A node of "store" whose kernel is the library's, in the context that is current.
  NodeHandle add_library_kernel(GraphHandle graph, cuda::Kernel kernel, DevicePointer out, int value,
                                cuda::Context context = nullptr) {
    int index = 0;
    void* pointers[] = {&out, &index, &value};
    const cuda::KernelNodeParameters parameters{nullptr, 1, 1,        1,       1,      1,
                                                1,       0, pointers, nullptr, kernel, context};
    cuda::Node node = nullptr;
    const Result result = cuda::load_api()->cuGraphAddKernelNode_v2(
        &node, reinterpret_cast<cuda::Graph>(graph), nullptr, 0, &parameters);
    EXPECT_EQ(result, Result::success);
    return reinterpret_cast<NodeHandle>(node);
  }
  void set_attribute(NodeHandle node, cuda::LaunchAttribute attribute,
                     const cuda::LaunchAttributeValue& value) {
    const auto set =
        cuda_function<Result(cuda::Node, cuda::LaunchAttribute, const cuda::LaunchAttributeValue*)>(
            "cuGraphKernelNodeSetAttribute");
    EXPECT_EQ(set(reinterpret_cast<cuda::Node>(node), attribute, &value), Result::success);
  }
  static ForeignKernel with_value(ForeignKernel kernel, int value) {
    std::memcpy(kernel.arguments.data() + 12, &value, sizeof value);
    return kernel;
  }
};

TEST_P(CudaForeignGraphs, AKernelOfALibraryIsReadAndUpdated) {
  const CudaLibrary library(binary().code, lowered("store"));
  const DevicePointer out = memory(64);
  const GraphHandle graph = make_graph();
  const NodeHandle node = add_library_kernel(graph, library.kernel(), out, 1);
  const ExecHandle exec = instantiate(graph);
  const ForeignKernel kernel = graphs().read_kernel(node, nullptr);
  EXPECT_EQ(kernel.name, lowered("store"));
  EXPECT_EQ(kernel.arguments.size(), 16U);
  EXPECT_EQ(kernel.fixed, nullptr);
  const Status status = update_node(exec, node, with_value(kernel, 2));
  ASSERT_TRUE(status.ok()) << status.call << ' ' << status.driver_name;
  run(exec);
  EXPECT_EQ(read<int>(out, 1)[0], 2);
}

TEST_P(CudaForeignGraphs, ANodeOfAnotherContextIsReadAndItsUpdateRefused) {
  const CudaLibrary library(binary().code, lowered("store"));
  const DevicePointer out = memory(64);
  const GraphHandle graph = make_graph();
  const auto create = cuda_function<Result(cuda::Context*, unsigned, cuda::Device)>("cuCtxCreate_v2");
  const auto destroy = cuda_function<Result(cuda::Context)>("cuCtxDestroy_v2");
  cuda::Context other = nullptr;
  ASSERT_EQ(create(&other, 0, 0), Result::success);
  const NodeHandle node = add_library_kernel(graph, library.kernel(), out, 1, other);
  const ForeignKernel kernel = graphs().read_kernel(node, nullptr);
  EXPECT_EQ(kernel.arguments.size(), 16U);
  ASSERT_NE(kernel.fixed, nullptr);
  EXPECT_THAT(kernel.fixed, HasSubstr("another context"));
  const ExecHandle exec = driver().instantiate(graph);
  const Status status = update_node(exec, node, kernel);
  EXPECT_EQ(status.code, ErrorCode::bad_argument);
  EXPECT_STREQ(status.call, kernel.fixed);
  driver().destroy_exec(exec);
  EXPECT_EQ(destroy(other), Result::success);
}

TEST_P(CudaForeignGraphs, ACooperativeKernelIsUpdatedToo) {
  const DevicePointer out = memory(64);
  const GraphHandle graph = make_graph();
  const NodeHandle node = add(graph, "store", PackedArguments(out, 0, 1), ArgumentForm::pointers);
  cuda::LaunchAttributeValue value{};
  value.cooperative = 1;
  set_attribute(node, cuda::LaunchAttribute::cooperative, value);
  const ExecHandle exec = instantiate(graph);
  const ForeignKernel kernel = graphs().read_kernel(node, nullptr);
  EXPECT_TRUE(kernel.is_cooperative);
  const Status status = update_node(exec, node, with_value(kernel, 3));
  ASSERT_TRUE(status.ok()) << status.call << ' ' << status.driver_name;
  run(exec);
  EXPECT_EQ(read<int>(out, 1)[0], 3);
}

TEST_P(CudaForeignGraphs, AClusterIsReadAndKept) {
  const DevicePointer out = memory(64);
  const GraphHandle graph = make_graph();
  const NodeHandle node =
      add(graph, "store", PackedArguments(out, 0, 1), ArgumentForm::pointers, {{4, 1, 1}, {1, 1, 1}, 0});
  cuda::LaunchAttributeValue value{};
  value.cluster = {2, 1, 1};
  set_attribute(node, cuda::LaunchAttribute::cluster_dimension, value);
  const ExecHandle exec = instantiate(graph);
  const ForeignKernel kernel = graphs().read_kernel(node, nullptr);
  EXPECT_EQ(kernel.cluster, (Dim3{2, 1, 1}));
  const Status status = update_node(exec, node, with_value(kernel, 4));
  ASSERT_TRUE(status.ok()) << status.call << ' ' << status.driver_name;
  run(exec);
  EXPECT_EQ(read<int>(out, 1)[0], 4);
}

TEST_P(CudaForeignGraphs, InADriverScopeUpdatesTakeEffectWhateverContextIsCurrentAndWithNone) {
  const CudaLibrary library(binary().code, lowered("store"));
  const DevicePointer source = memory(64), out = memory(64);
  write(source, std::vector<int>{10, 20, 30, 40});
  const GraphHandle graph = make_graph();
  const NodeHandle by_function = add(graph, "store", PackedArguments(out, 0, 1), ArgumentForm::packed);
  const NodeHandle by_kernel = add_library_kernel(graph, library.kernel(), out, 1);
  const NodeHandle cooperative = add(graph, "store", PackedArguments(out, 2, 1), ArgumentForm::pointers);
  cuda::LaunchAttributeValue value{};
  value.cooperative = 1;
  set_attribute(cooperative, cuda::LaunchAttribute::cooperative, value);
  const NodeHandle copy_node = maker().add_copy(graph, out + 12, source, 4);
  const NodeHandle fill_node = maker().add_fill(graph, out + 16, 1, 4, 1);
  const ExecHandle exec = instantiate(graph);
  ForeignKernel kernels[] = {graphs().read_kernel(by_function, nullptr),
                             graphs().read_kernel(by_kernel, nullptr),
                             graphs().read_kernel(cooperative, nullptr)};
  ForeignMemcpy copy = graphs().read_memcpy(copy_node);
  ForeignMemset set = graphs().read_memset(fill_node);
  const auto update_all = [&](int step) {
    const DriverScope scope(driver());
    ASSERT_TRUE(scope.status().ok());
    for (int i = 0; i < 3; ++i) {
      std::memcpy(kernels[i].arguments.data() + 8, &i, sizeof i);
      kernels[i] = with_value(kernels[i], 100 * step + i);
    }
    copy.from.address = source + static_cast<std::size_t>(step) * sizeof(int);
    set.value = static_cast<std::uint32_t>(100 * step + 4);
    for (const Status& status :
         {graphs().update(exec, by_function, kernels[0]), graphs().update(exec, by_kernel, kernels[1]),
          graphs().update(exec, cooperative, kernels[2]), graphs().update(exec, copy_node, copy),
          graphs().update(exec, fill_node, set)}) {
      EXPECT_TRUE(status.ok()) << status.call << ' ' << status.driver_name;
    }
  };
  const auto api = cuda::load_api();
  std::thread([&] {
    cuda::Context current = nullptr;
    EXPECT_EQ(api->cuCtxGetCurrent(&current), Result::success);
    EXPECT_EQ(current, nullptr);
    update_all(1);
    EXPECT_EQ(api->cuCtxGetCurrent(&current), Result::success);
    EXPECT_EQ(current, nullptr);
  }).join();
  run(exec);
  EXPECT_THAT(read<int>(out, 6), ElementsAre(100, 101, 102, 20, 104, poison));

  std::thread([&] {
    const auto create = cuda_function<Result(cuda::Context*, unsigned, cuda::Device)>("cuCtxCreate_v2");
    const auto destroy = cuda_function<Result(cuda::Context)>("cuCtxDestroy_v2");
    cuda::Context other = nullptr;
    ASSERT_EQ(create(&other, 0, 0), Result::success);
    update_all(2);
    EXPECT_EQ(destroy(other), Result::success);
  }).join();
  run(exec);
  EXPECT_THAT(read<int>(out, 6), ElementsAre(200, 201, 202, 30, 204, poison));
}

// Drivers before CUDA 12.4, by taking away what they have not.
class KnownLayouts final : public CodeObjects {
 public:
  std::string kernel;
  std::optional<std::vector<ParameterLayout>> layout(const std::string& name) const override {
    if (name != kernel) return std::nullopt;
    return std::vector<ParameterLayout>{{0, 8}, {8, 4}, {12, 4}};
  }
};

TEST_P(CudaForeignGraphs, AnOlderDriverTakesTheLayoutFromCodeObjectsOrNamesWhatIsMissing) {
  cuda::Api old = *cuda::load_api();
  old.cuFuncGetParamInfo = nullptr;
  old.cuKernelGetParamInfo = nullptr;
  old.driver_version = 12030;
  cuda::Context context = nullptr;
  ASSERT_EQ(old.cuCtxGetCurrent(&context), Result::success);
  const auto older = cuda::make_foreign_graphs(old, context);
  const DevicePointer out = memory(64);
  const GraphHandle graph = make_graph();
  const NodeHandle node = add(graph, "store", PackedArguments(out, 1, 77), ArgumentForm::packed);
  KnownLayouts layouts;
  layouts.kernel = lowered("store");
  EXPECT_EQ(older->read_kernel(node, &layouts).arguments, graphs().read_kernel(node, nullptr).arguments);
  layouts.kernel = "another";
  for (const CodeObjects* searched :
       {static_cast<const CodeObjects*>(nullptr), static_cast<const CodeObjects*>(&layouts)}) {
    try {
      static_cast<void>(older->read_kernel(node, searched));
      ADD_FAILURE() << "read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_argument);
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(lowered("store")), HasSubstr("CUDA 12.3"), HasSubstr("12.4 or later")));
    }
  }
  old.cuGraphExecMemcpyNodeSetParams = nullptr;
  old.cuGraphExecMemsetNodeSetParams = nullptr;
  const ForeignMemcpy copy = older->read_memcpy(maker().add_copy(graph, out, out + 32, 8));
  const ForeignMemset set = older->read_memset(maker().add_fill(graph, out, 1, 4, 1));
  ASSERT_NE(copy.fixed, nullptr);
  ASSERT_NE(set.fixed, nullptr);
  EXPECT_THAT(copy.fixed, HasSubstr("cuGraphExecMemcpyNodeSetParams"));
  EXPECT_THAT(set.fixed, HasSubstr("cuGraphExecMemsetNodeSetParams"));
  old.cuGraphGetEdges_v2 = nullptr;
  old.driver_version = 12020;
  try {
    static_cast<void>(older->edges(graph));
    ADD_FAILURE() << "listed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing_backend);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("cuGraphGetEdges_v2"), HasSubstr("CUDA 12.3"), HasSubstr("CUDA 12.2")));
  }
}

INSTANTIATE_TEST_SUITE_P(Device, CudaForeignGraphs, ::testing::Values("cuda"),
                         [](const auto& suite) { return suite.param; });

}  // namespace
}  // namespace rondo::conformance
