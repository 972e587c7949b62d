#include "arguments.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "rondo/error.h"

namespace rondo::cli {
namespace {

constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

TEST(ParseAssignment, SplitsAtTheFirstEqualsSign) {
  EXPECT_EQ(parse_assignment("--set", "a=b=c"), (std::pair<std::string, std::string>("a", "b=c")));
  EXPECT_EQ(parse_assignment("--set", "a="), (std::pair<std::string, std::string>("a", "")));
}

TEST(ParseAssignment, RefusesTextWithoutName) {
  EXPECT_THROW(parse_assignment("--set", "a"), Error);
  EXPECT_THROW(parse_assignment("--set", "=1"), Error);
  EXPECT_THROW(parse_assignment("--set", ""), Error);
}

TEST(ParseSweep, CountsBothEnds) {
  const Sweep sweep = parse_sweep("pos=3..7");
  EXPECT_EQ(sweep.param, "pos");
  EXPECT_EQ(sweep.count, 5u);
  EXPECT_EQ(sweep.value(0), 3);
  EXPECT_EQ(sweep.value(4), 7);
}

TEST(ParseSweep, StopsBeforeAnEndThatNoStepReaches) {
  EXPECT_EQ(parse_sweep("pos=0..10:4").count, 3u);
  EXPECT_EQ(parse_sweep("pos=0..3:4").count, 1u);
  const Sweep down = parse_sweep("pos=5..-5:-3");
  EXPECT_EQ(down.count, 4u);
  EXPECT_EQ(down.value(3), -4);
}

TEST(ParseSweep, WithoutEndGoesOnAsFarAsTheTypeHolds) {
  const Sweep sweep = parse_sweep("pos=-1..:2");
  EXPECT_FALSE(sweep.count);
  EXPECT_EQ(sweep.value(1000), 1999);
  EXPECT_FALSE(sweep.value(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_FALSE(parse_sweep("pos=9223372036854775807..").value(1));
}

TEST(ParseSweep, TakesTheWholeRangeOfTheType) {
  const Sweep sweep = parse_sweep("pos=-9223372036854775808..9223372036854775807:9223372036854775807");
  EXPECT_EQ(sweep.count, 3u);
  EXPECT_EQ(sweep.value(0), smallest);
  const Sweep down = parse_sweep("pos=9223372036854775807..-1:-9223372036854775808");
  EXPECT_EQ(down.count, 2u);
  EXPECT_EQ(down.value(0), largest);
  EXPECT_EQ(down.value(1), -1);
}

TEST(StepCount, ComesFromTheOptionElseTheSweepsElseIsOne) {
  const Sweep five = parse_sweep("a=1..5"), open = parse_sweep("b=0..");
  EXPECT_EQ(step_count({}, {}), 1u);
  EXPECT_EQ(step_count({}, {open}), 1u);
  EXPECT_EQ(step_count({}, {open, five}), 5u);
  EXPECT_EQ(step_count(3, {open, five}), 3u);
  EXPECT_EQ(step_count(7, {open}), 7u);
  EXPECT_THROW(step_count(6, {five}), Error);
  EXPECT_THROW(step_count({}, {five, parse_sweep("c=1..4")}), Error);
}

}  // namespace
}  // namespace rondo::cli
