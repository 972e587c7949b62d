// Node update or slot: what the kernels' signatures, the ops and "update" make of each step param.
#include "slots.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "match_signatures.h"
#include "plan_builder.h"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

rtc::Parameter pointer(DataType type, bool is_const) {
  const auto bytes = static_cast<std::uint32_t>(info(type).block_bytes);
  return {.kind = rtc::ParameterKind::pointer,
          .is_const = is_const,
          .type = type,
          .element_size = bytes,
          .size = 8,
          .alignment = 8};
}
rtc::Parameter scalar(DataType type) {
  const auto bytes = static_cast<std::uint32_t>(info(type).block_bytes);
  return {.kind = rtc::ParameterKind::scalar,
          .is_const = false,
          .type = type,
          .element_size = 0,
          .size = bytes,
          .alignment = bytes};
}

class SlotsTest : public ::testing::Test {
 protected:
  // The plan of one op of the kernel k(float* x, <parameter>), whose second argument is `argument`.
  Plan plan(const std::string& argument, const rtc::Parameter& parameter, const std::string& update = "",
            const std::string& grid = "1") {
    const std::string more = update.empty() ? "" : fmt::format(R"j(, "update": "{}")j", update);
    schedule_ = Schedule::parse(fmt::format(R"j({{"rondo": 1, "name": "t",
          "params": {{"pos": {{"type": "i32", "step": 0, "min": 0, "max": 7{}}}, "a": {{"type": "f32", "step": 0.5{}}}}},
          "buffers": {{"x": {{"type": "f32", "shape": [64], "role": "state"}}}},
          "kernels": {{"k": {{"code": "extern \"C\" __global__ void k(float* x, int n) {{}}", "entry": "k"}}}},
          "ops": [{{"kernel": "k", "grid": ["{}"], "block": [32], "args": ["x", {}]}}]}})j",
                                            more, more, grid, argument),
                                "t.json");
    Plan plan = make_plan(*schedule_, test::small_device(), {});
    std::vector<rtc::Binary> binaries(1);
    binaries[0].entries = {
        {.expression = "k", .lowered = "k", .parameters = {pointer(DataType::f32, false), parameter}}};
    match_signatures(plan, *schedule_, binaries, 4096);
    compile_more_ = add_slots(plan, *schedule_, test::small_device());
    return plan;
  }

  std::string refusal(const std::string& argument, const rtc::Parameter& parameter,
                      const std::string& update = "", const std::string& grid = "1") {
    try {
      plan(argument, parameter, update, grid);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_schedule);
      return error.what();
    }
    return "";
  }

  std::optional<Schedule> schedule_;
  bool compile_more_ = false;
};

TEST_F(SlotsTest, AParamByNameIsASlotWhereTheKernelTakesAPointerToConst) {
  for (const char* argument : {R"("pos")", R"({"slot": "pos"})"}) {
    for (const char* update : {"", "slot"}) {
      const Plan made = plan(argument, pointer(DataType::i32, true), update);
      EXPECT_TRUE(compile_more_);
      ASSERT_EQ(made.slots, 1u);
      EXPECT_EQ(made.params[0].slot, 0u);
      EXPECT_FALSE(made.params[1].slot);
      ASSERT_EQ(made.nodes.size(), 2u);
      EXPECT_EQ(made.nodes[0].label, "publish slots");
      EXPECT_EQ(made.units[made.kernels[made.nodes[0].kernel].unit].entries.front(),
                "rondo_builtin::publish<1>");
      EXPECT_EQ(made.nodes[1].arguments[1].kind, PlanArgument::Kind::slot);
    }
  }
  const Plan real = plan(R"("a")", pointer(DataType::f32, true));
  EXPECT_EQ(real.params[1].slot, 0u);
  EXPECT_FALSE(real.params[0].slot);
}

TEST_F(SlotsTest, AParamByNameIsItsValueWhereTheKernelTakesANumber) {
  for (const char* update : {"", "node"}) {
    const Plan made = plan(R"("pos")", scalar(DataType::i32), update);
    EXPECT_FALSE(compile_more_);
    EXPECT_EQ(made.slots, 0u);
    ASSERT_EQ(made.nodes.size(), 1u);
    EXPECT_EQ(made.nodes[0].arguments[1].kind, PlanArgument::Kind::integer);
  }
  EXPECT_EQ(plan(R"("a")", scalar(DataType::f32)).nodes[0].arguments[1].kind,
            PlanArgument::Kind::float_param);
}

TEST_F(SlotsTest, APointerOfAnotherTypeOrToNonConstIsNoSlot) {
  EXPECT_THAT(refusal(R"("pos")", pointer(DataType::i64, true)),
              AllOf(HasSubstr("a pointer to const i64"), HasSubstr("the param \"pos\" of type i32")));
  EXPECT_THAT(refusal(R"("pos")", pointer(DataType::i32, false)), HasSubstr("pointer to const"));
  EXPECT_THAT(refusal(R"("pos + 1")", pointer(DataType::i32, true)), HasSubstr("pos + 1"));
}

TEST_F(SlotsTest, NodeForbidsSlots) {
  EXPECT_THAT(refusal(R"("pos")", pointer(DataType::i32, true), "node"),
              AllOf(HasSubstr("\"update\": \"node\""), HasSubstr("i32 by value"), HasSubstr("argument 1")));
  EXPECT_THAT(refusal(R"({"slot": "pos"})", pointer(DataType::i32, true), "node"),
              HasSubstr("\"update\": \"node\""));
}

TEST_F(SlotsTest, SlotDemandsThatEveryUseIsOne) {
  EXPECT_THAT(refusal(R"("pos")", scalar(DataType::i32), "slot"),
              AllOf(HasSubstr("the kernel takes it by value"), HasSubstr("`const int*`"),
                    HasSubstr("/ops/0/args/1")));
  EXPECT_THAT(refusal(R"("a")", scalar(DataType::f32), "slot"), HasSubstr("`const float*`"));
  EXPECT_THAT(refusal(R"("pos * 4")", scalar(DataType::i32), "slot"), HasSubstr("this is an expression"));
  EXPECT_THAT(refusal(R"("x[pos : 1]")", pointer(DataType::f32, true), "slot"),
              HasSubstr("the part of a buffer"));
  EXPECT_THAT(refusal(R"("x[0 : pos + 1]")", pointer(DataType::f32, true), "slot"),
              HasSubstr("the part of a buffer"));
  EXPECT_THAT(refusal(R"("pos")", pointer(DataType::i32, true), "slot", "pos + 1"),
              HasSubstr("the grid of this op"));
}

TEST_F(SlotsTest, UpdateIsForStepParamsAndHasTwoValues) {
  const auto parse = [](const std::string& param) {
    try {
      Schedule::parse(R"j({"rondo": 1, "name": "t", "params": {"p": )j" + param + R"j(}, "ops": []})j",
                      "t.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(parse(R"j({"type": "i32", "step": 0, "update": "slot"})j"), "");
  EXPECT_THAT(parse(R"j({"type": "i32", "constant": 0, "update": "slot"})j"), HasSubstr("never updated"));
  EXPECT_THAT(parse(R"j({"type": "i32", "step": 0, "update": "slots"})j"), HasSubstr("\"node\" or \"slot\""));
  EXPECT_THAT(parse(R"j({"type": "i32", "step": 0, "update": 1})j"), HasSubstr("/params/p/update"));
}

}  // namespace
}  // namespace rondo
