#include "compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace rondo::cli {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

Comparison closely(const std::vector<float>& ours, const std::vector<float>& theirs,
                   double tolerance = 1e-3) {
  return compare_closely(DataType::f32, std::as_bytes(std::span(ours)), std::as_bytes(std::span(theirs)),
                         tolerance);
}

TEST(CompareExactly, FindsTheFirstElementThatDiffers) {
  const std::vector<float> ours = {0.0f, 1.0f, 2.0f}, theirs = {0.0f, -1.0f, 3.0f};
  const Comparison result =
      compare_exactly(DataType::f32, std::as_bytes(std::span(ours)), std::as_bytes(std::span(theirs)));
  EXPECT_EQ(result.index, 1u);
  EXPECT_EQ(result.ours, "1");
  EXPECT_EQ(result.theirs, "-1");
}

TEST(CompareExactly, TellsZerosApartAndTakesEqualNaNsAsEqual) {
  const std::vector<float> zero = {0.0f}, minus = {-0.0f}, nans = {nan};
  const auto bytes = [](const std::vector<float>& values) { return std::as_bytes(std::span(values)); };
  EXPECT_EQ(compare_exactly(DataType::f32, bytes(zero), bytes(minus)).index, 0u);
  EXPECT_FALSE(compare_exactly(DataType::f32, bytes(nans), bytes(nans)).index);
}

TEST(CompareExactly, CountsBlocksOfABlockType) {
  std::vector<std::byte> ours(68), theirs(68);  // two blocks of q8_0
  theirs[40] = std::byte{1};
  EXPECT_EQ(compare_exactly(DataType::q8_0, ours, theirs).index, 1u);
}

TEST(CompareClosely, MeasuresTheNormOfTheDifference) {
  const Comparison result = closely({3.0f, 4.01f}, {3.0f, 4.0f}, 0.01);
  EXPECT_FALSE(result.index);
  EXPECT_NEAR(result.relative_error, 0.01 / 5, 1e-6);
}

TEST(CompareClosely, NamesTheElementThatDiffersMost) {
  const Comparison result = closely({1.1f, 2.0f, 3.5f}, {1.0f, 2.0f, 3.0f});
  EXPECT_EQ(result.index, 2u);
  EXPECT_EQ(result.ours, "3.5");
  EXPECT_EQ(result.theirs, "3");
}

TEST(CompareClosely, RefusesNaNOnOneSideHoweverLargeTheTolerance) {
  EXPECT_EQ(closely({1.0f, nan}, {1.0f, 2.0f}, 1e9).index, 1u);
  EXPECT_EQ(closely({1.0f, 2.0f}, {nan, 2.0f}, 1e9).index, 0u);
  EXPECT_EQ(closely({infinity}, {-infinity}, 1e9).index, 0u);
}

TEST(CompareClosely, LeavesOutWhatIsNaNOrInfiniteOnBothSides) {
  const Comparison result = closely({nan, infinity, 1.0f}, {nan, infinity, 1.0f});
  EXPECT_FALSE(result.index);
  EXPECT_EQ(result.shared_nans, 1u);
  EXPECT_EQ(result.relative_error, 0);
}

TEST(CompareClosely, RefusesAnythingAgainstZeros) {
  EXPECT_FALSE(closely({0.0f}, {0.0f}).index);
  EXPECT_EQ(closely({1e-30f}, {0.0f}).index, 0u);
}

TEST(CompareClosely, WantsIntegersEqual) {
  const std::vector<std::int32_t> ours = {1000000, 1}, theirs = {1000001, 1};
  EXPECT_EQ(
      compare_closely(DataType::i32, std::as_bytes(std::span(ours)), std::as_bytes(std::span(theirs)), 1.0)
          .index,
      0u);
}

}  // namespace
}  // namespace rondo::cli
