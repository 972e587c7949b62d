// Tables: structs of pointers by value, out of buffers. What the plan makes of them, and what it refuses.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <unistd.h>

#include <optional>

#include "match_signatures.h"
#include "plan_builder.h"
#include "slots.h"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

rtc::Parameter structure(std::uint32_t size, std::uint32_t alignment = 8) {
  return {.kind = rtc::ParameterKind::structure,
          .is_const = false,
          .type = std::nullopt,
          .element_size = 0,
          .size = size,
          .alignment = alignment};
}

rtc::Parameter pointer(bool is_const) {
  return {.kind = rtc::ParameterKind::pointer,
          .is_const = is_const,
          .type = DataType::f32,
          .element_size = 4,
          .size = 8,
          .alignment = 8};
}

class TablesTest : public ::testing::Test {
 protected:
  TablesTest() {
    const std::array<float, 4> values{1, 2, 3, 4};
    const std::array<std::size_t, 1> shape{4};
    write_npy(file_, DataType::f32, shape, std::as_bytes(std::span(values)));
    options_.weights = WeightFile::open(file_);
  }
  ~TablesTest() override { std::filesystem::remove(file_); }

  // The plan of an op of a kernel that takes a number and `parameter`, the op giving 7 and `argument`.
  Plan plan(const std::string& argument, const rtc::Parameter& parameter,
            const std::string& update = "node") {
    schedule_ = Schedule::parse(fmt::format(R"j({{"rondo": 1, "name": "t",
          "params": {{"n": {{"type": "i32", "constant": 3}}, "none": {{"type": "i32", "constant": 0}},
                      "pos": {{"type": "i32", "step": 0, "min": 0, "max": 7, "update": "{}"}}}},
          "buffers": {{"x": {{"type": "f32", "shape": [64], "role": "state"}},
                       "h": {{"type": "f32", "shape": [64], "role": "temporary"}},
                       "w": {{"role": "weight", "tensor": "rondo_tables_test_{}"}},
                       "k.{{i}}": {{"for": {{"i": "n"}}, "type": "f16", "shape": [8], "role": "state"}}}},
          "kernels": {{"kernel": {{"code": "not compiled", "entry": "entry"}}}},
          "ops": [{{"kernel": "kernel", "grid": [1], "block": [32], "args": [7, {}]}}]}})j",
                                            update, ::getpid(), argument),
                                "t.json");
    Plan plan = make_plan(*schedule_, device_, options_);
    std::vector<rtc::Binary> binaries(1);
    const rtc::Parameter number{.kind = rtc::ParameterKind::scalar,
                                .is_const = false,
                                .type = DataType::i32,
                                .element_size = 0,
                                .size = 4,
                                .alignment = 4};
    binaries[0].entries = {{.expression = "entry", .lowered = "entry", .parameters = {number, parameter}}};
    match_signatures(plan, *schedule_, binaries, device_.max_argument_bytes);
    add_slots(plan, *schedule_, device_);
    check_temporaries(plan, *schedule_);
    return plan;
  }

  std::string refusal(const std::string& argument, const rtc::Parameter& parameter,
                      const std::string& update = "node") {
    try {
      plan(argument, parameter, update);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_schedule);
      return error.what();
    }
    return "";
  }

  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / fmt::format("rondo_tables_test_{}.npy", ::getpid());
  SessionOptions options_;
  DeviceProperties device_ = test::small_device();
  std::optional<Schedule> schedule_;
};

TEST_F(TablesTest, PointersFollowEachOtherRowByRow) {
  const Plan made = plan(R"j({"table": ["x[2 * i]", "k.{i}"], "for": {"i": "n"}})j", structure(48));
  const std::vector<PlanArgument>& arguments = made.nodes[0].arguments;
  ASSERT_EQ(arguments.size(), 7u);
  EXPECT_EQ(made.nodes[0].argument_bytes, 56u);
  std::vector<std::string> buffers;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    EXPECT_EQ(arguments[i].offset, 8 * i);
    EXPECT_EQ(arguments[i].parameter, 1u);
    EXPECT_EQ(arguments[i].value.fixed, i % 2 == 1 ? static_cast<std::int64_t>(i - 1) : 0);
    buffers.push_back(made.buffers[arguments[i].buffer].info.name);
  }
  EXPECT_THAT(buffers, ElementsAre("x", "k.0", "x", "k.1", "x", "k.2"));
  EXPECT_EQ(plan(R"j({"table": ["x"]})j", structure(8)).nodes[0].arguments.size(), 2u);
}

TEST_F(TablesTest, WeightsAreReadAndAllElseIsWrittenTooUnlessTheOpSaysLess) {
  const Plan made =
      plan(R"j({"table": ["w", {"read": "w"}, "x", {"read": "x"}, {"write": "x"}]})j", structure(40));
  std::vector<bool> writes;
  for (std::size_t i = 1; i < 6; ++i) writes.push_back(made.nodes[0].arguments[i].writes);
  EXPECT_THAT(writes, ElementsAre(false, false, true, false, true));
  EXPECT_THAT(refusal(R"j({"table": ["x", {"write": "w"}]})j", structure(16)),
              AllOf(HasSubstr("\"w\" is a weight, which no kernel may write"), HasSubstr("argument 1"),
                    HasSubstr("[/ops/0/args/1/table/1]")));
  EXPECT_THAT(
      refusal(R"j({"table": [{"read": "h"}]})j", structure(8)),
      AllOf(HasSubstr("the temporary \"h\" is read here before"), HasSubstr("[/ops/0/args/1/table/0]")));
  EXPECT_EQ(refusal(R"j({"table": [{"write": "h"}]})j", structure(8)), "");
}

TEST_F(TablesTest, StructsOfAnotherSizeOrAlignment) {
  EXPECT_THAT(
      refusal(R"j({"table": ["x", "k.{i}"], "for": {"i": "n"}})j", structure(40)),
      AllOf(HasSubstr("the table has 6 pointers (3 × 2), 48 bytes; parameter 1 of kernel \"kernel\" is "
                      "a struct of 40 bytes"),
            HasSubstr("[/ops/0/args/1]")));
  EXPECT_THAT(
      refusal(R"j({"table": ["x", "x"]})j", structure(24)),
      HasSubstr("the table has 2 pointers, 16 bytes; parameter 1 of kernel \"kernel\" is a struct of 24"));
  EXPECT_THAT(refusal(R"j({"table": ["x", "x"]})j", structure(16, 16)),
              HasSubstr("is a struct of 16 bytes aligned to 16, and a struct of pointers is aligned to 8"));
  EXPECT_THAT(refusal(R"j({"table": ["x"]})j", structure(8, 4)), HasSubstr("aligned to 4"));
}

TEST_F(TablesTest, TablesAndStructsBelongTogether) {
  EXPECT_THAT(refusal(R"j({"table": ["x"]})j", pointer(false)),
              HasSubstr("parameter 1 of kernel \"kernel\" is a pointer to f32, not a struct by value"));
  EXPECT_THAT(
      refusal(R"j("x")j", structure(8)),
      AllOf(HasSubstr("expected a struct of 8 bytes by value, which {\"table\": …} fills with pointers"),
            HasSubstr("got the buffer \"x\" of type f32")));
  EXPECT_THAT(refusal(R"j("pos")j", structure(8)), HasSubstr("got the param \"pos\""));
  EXPECT_THAT(refusal(R"j({"table": ["x"]}, {"table": ["x"]})j", structure(8)),
              HasSubstr("takes 2 arguments, the op gives 3"));
}

TEST_F(TablesTest, MoreBytesThanTheDeviceTakes) {
  EXPECT_THAT(
      refusal(R"j({"table": ["x", "x"], "for": {"i": 257}})j", structure(4112)),
      AllOf(HasSubstr("the table has 514 pointers, 4112 bytes; a kernel's arguments have up to 4096 bytes "
                      "in all on this device"),
            HasSubstr("CUDA 12.1"), HasSubstr("[/ops/0/args/1]")));
  EXPECT_THAT(refusal(R"j({"table": ["x"], "for": {"i": 1000000}})j", structure(8)),
              HasSubstr("1000000 pointers"));
  // The table fits, and the number before it is too much.
  EXPECT_THAT(refusal(R"j({"table": ["x", "x"], "for": {"i": 256}})j", structure(4096)),
              AllOf(HasSubstr("take 4104 bytes; this device has 4096"), HasSubstr("CUDA 12.1")));
  device_.max_argument_bytes = 32764;
  EXPECT_EQ(refusal(R"j({"table": ["x", "x"], "for": {"i": 257}})j", structure(4112)), "");
}

TEST_F(TablesTest, RowsThatCannotBe) {
  EXPECT_THAT(refusal(R"j({"table": ["x"], "for": {"i": "none"}})j", structure(8)),
              HasSubstr("the table has no pointers: its \"for\" counts to 0"));
  EXPECT_THAT(refusal(R"j({"table": ["x"], "for": {"i": "none - 1"}})j", structure(8)),
              AllOf(HasSubstr("this one -1"), HasSubstr("[/ops/0/args/1/for]")));
  EXPECT_THAT(refusal(R"j({"table": ["k.{i}"], "for": {"i": "n + 1"}})j", structure(32)),
              AllOf(HasSubstr("no buffer \"k.3\""), HasSubstr("[/ops/0/args/1/table/0]")));
  EXPECT_THAT(refusal(R"j({"table": ["x", "k.{i}[4 * i : 4]"], "for": {"i": "n"}})j", structure(48)),
              AllOf(HasSubstr("elements 8 to 11 of \"k.2\""), HasSubstr("[/ops/0/args/1/table/1]")));
}

TEST_F(TablesTest, PointersThatDependOnAParamThatIsToBeASlot) {
  EXPECT_THAT(refusal(R"j({"table": ["x", "x[pos]"]})j", structure(16), "slot"),
              AllOf(HasSubstr("the part of a buffer"), HasSubstr("[/ops/0/args/1/table/1]")));
}

TEST_F(TablesTest, ReadByItselfIsForPointersToConst) {
  EXPECT_EQ(refusal(R"j({"read": "x"})j", pointer(true)), "");
  EXPECT_THAT(refusal(R"j({"read": "x"})j", pointer(false)),
              HasSubstr("only reads this buffer, and the kernel's parameter is a pointer to non-const"));
}

}  // namespace
}  // namespace rondo
