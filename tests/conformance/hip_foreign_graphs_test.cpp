// What only HIP has in graphs that others made: layouts out of code objects, older numberings, copies that it
// does not tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "double_control.h"
#include "foreign_graphs_fixture.h"
#include "hip/foreign_graphs.h"
#include "rondo/error.h"

namespace rondo::conformance {
namespace {

using hip::Result;
using ::testing::AllOf;
using ::testing::HasSubstr;

class HipForeignGraphs : public ForeignGraphsTest {};

class NoCodeObjects final : public CodeObjects {
 public:
  std::optional<std::vector<ParameterLayout>> layout(const std::string&) const override {
    return std::nullopt;
  }
  std::string left_out() const override { return " Not searched: something."; }
};

TEST_P(HipForeignGraphs, AKernelWhoseCodeIsNotKnownIsRefusedByName) {
  const DevicePointer out = memory(64);
  const NodeHandle node = add(make_graph(), "store", PackedArguments(out, 0, 1), ArgumentForm::pointers);
  const NoCodeObjects none;
  for (const CodeObjects* searched :
       {static_cast<const CodeObjects*>(nullptr), static_cast<const CodeObjects*>(&none)}) {
    try {
      static_cast<void>(graphs().read_kernel(node, searched));
      ADD_FAILURE() << "read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_argument);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(lowered("store")), HasSubstr("code object")));
      const std::string more = searched == nullptr ? "" : " Not searched: something.";
      EXPECT_THAT(error.what(), HasSubstr("has it." + more));
    }
  }
}

TEST_P(HipForeignGraphs, PackedArgumentsThatAreTooShortAreNotReadBeyondTheirEnd) {
  const DevicePointer out = memory(64);
  const PackedArguments given(out, 0, 1);
  const NodeHandle node =
      maker().add_kernel(make_graph(), {function("store"), {}, given.data(), 12}, {}, ArgumentForm::packed);
  try {
    static_cast<void>(graphs().read_kernel(node, code_objects()));
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("12 bytes"), HasSubstr("16")));
  }
}

// ROCm 5.2's numbers of types; and a copy of the kind that hipGraphMemcpyNodeGetParams leaves empty.
Result old_type(hip::Node node, unsigned* type) {
  const Result result = hip::load_api()->hipGraphNodeGetType(node, type);
  ++*type;
  return result;
}
Result tells_nothing(hip::Node, hip::Memcpy3D*) { return Result::success; }

TEST_P(HipForeignGraphs, OlderNumbersOfTypesAreUnderstood) {
  hip::Api old = *hip::load_api();
  old.hipGraphNodeGetType = old_type;
  const auto older = hip::make_foreign_graphs(old, 0);
  const DevicePointer out = memory(64);
  const GraphHandle graph = make_graph();
  EXPECT_EQ(older->kind(add(graph, "store", PackedArguments(out, 0, 1), ArgumentForm::pointers)),
            ForeignNodeKind::kernel);
  EXPECT_EQ(older->kind(maker().add_copy(graph, out, out + 32, 8)), ForeignNodeKind::memcpy);
  EXPECT_EQ(older->kind(maker().add_empty(graph)), ForeignNodeKind::empty);
}

TEST_P(HipForeignGraphs, ACopyThatIsNotToldIsFixed) {
  hip::Api other = *hip::load_api();
  other.hipGraphMemcpyNodeGetParams = tells_nothing;
  const auto foreign = hip::make_foreign_graphs(other, 0);
  const DevicePointer memory_here = memory(64);
  const GraphHandle graph = make_graph();
  const NodeHandle node = maker().add_copy(graph, memory_here, memory_here + 32, 8);
  const ForeignMemcpy copy = foreign->read_memcpy(node);
  ASSERT_NE(copy.fixed, nullptr);
  EXPECT_FALSE(copy.from.is_device);
  EXPECT_FALSE(copy.to.is_device);
  const DriverScope scope(driver());
  ASSERT_TRUE(scope.status().ok());
  const Status status = foreign->update(instantiate(graph), node, copy);
  EXPECT_EQ(status.code, ErrorCode::bad_argument);
  EXPECT_THAT(status.call, HasSubstr("does not tell"));
}

TEST_P(HipForeignGraphs, AskingForTheNumbersOfTypesMayFailAndLeavesNothing) {
  if (!DoubleControl::is_there()) GTEST_SKIP() << "with a double alone";
  const DoubleControl control(GetParam());
  const NodeHandle node = maker().add_empty(make_graph());
  const std::size_t live = control.live_handles();
  constexpr int unknown_error = 999;
  for (const char* function : {"hipGraphCreate", "hipGraphAddEmptyNode", "hipGraphNodeGetType"}) {
    const auto foreign = hip::make_foreign_graphs(*hip::load_api(), 0);
    control.fail(function, 1, unknown_error);
    try {
      static_cast<void>(foreign->kind(node));
      ADD_FAILURE() << function;
    } catch (const Error& error) {
      EXPECT_EQ(error.driver_code(), unknown_error) << error.what();
    }
    EXPECT_EQ(foreign->kind(node), ForeignNodeKind::empty);
    EXPECT_EQ(control.live_handles(), live);
  }
}

TEST_P(HipForeignGraphs, AnOlderRocmIsToldWhatItLacks) {
  hip::Api old = *hip::load_api();
  old.hipGraphGetEdges = nullptr;
  old.hipGraphExecMemcpyNodeSetParams = nullptr;
  old.hipGraphExecMemsetNodeSetParams = nullptr;
  old.runtime_version = 40421401;
  const auto older = hip::make_foreign_graphs(old, 0);
  const DevicePointer out = memory(64);
  const GraphHandle graph = make_graph();
  const ForeignMemcpy copy = older->read_memcpy(maker().add_copy(graph, out, out + 32, 8));
  const ForeignMemset set = older->read_memset(maker().add_fill(graph, out, 1, 4, 1));
  ASSERT_NE(copy.fixed, nullptr);
  ASSERT_NE(set.fixed, nullptr);
  EXPECT_THAT(copy.fixed, HasSubstr("hipGraphExecMemcpyNodeSetParams"));
  EXPECT_THAT(set.fixed, HasSubstr("hipGraphExecMemsetNodeSetParams"));
  try {
    static_cast<void>(older->edges(graph));
    ADD_FAILURE() << "listed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing_backend);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("hipGraphGetEdges"), HasSubstr("ROCm 4.5"), HasSubstr("4.4")));
  }
}

INSTANTIATE_TEST_SUITE_P(Device, HipForeignGraphs, ::testing::Values("hip"),
                         [](const auto& suite) { return suite.param; });

}  // namespace
}  // namespace rondo::conformance
