#include "expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

namespace rondo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

std::int64_t value_of(std::string_view text, std::vector<std::int64_t> values = {}) {
  return Expression::parse(text).evaluate_or_throw(values);
}

// What parsing `text` complains about; the offset is checked by the caller.
ExpressionError parse_error(std::string_view text) {
  try {
    Expression::parse(text);
  } catch (const ExpressionError& error) {
    return error;
  }
  ADD_FAILURE() << "parsed: " << text;
  return ExpressionError("", 0);
}

ExpressionError value_error(std::string_view text, std::vector<std::int64_t> values = {}) {
  const Expression expression = Expression::parse(text);
  try {
    expression.evaluate_or_throw(values);
  } catch (const ExpressionError& error) {
    return error;
  }
  ADD_FAILURE() << "has a value: " << text;
  return ExpressionError("", 0);
}

ExpressionFault fault_of(std::string_view text, std::vector<std::int64_t> values = {}) {
  std::int64_t value = 77;
  const ExpressionFault fault = Expression::parse(text).evaluate(values, &value);
  if (fault != ExpressionFault::none) {
    EXPECT_EQ(value, 77) << text;
  }
  return fault;
}

TEST(Expression, FollowsThePrecedenceOfC) {
  EXPECT_EQ(value_of("1 + 2 * 3"), 7);
  EXPECT_EQ(value_of("(1 + 2) * 3"), 9);
  EXPECT_EQ(value_of("10 - 4 - 3"), 3);
  EXPECT_EQ(value_of("100 / 10 / 5"), 2);
  EXPECT_EQ(value_of("17 % 10 * 2"), 14);
  EXPECT_EQ(value_of("1 + 1 == 2"), 1);
  EXPECT_EQ(value_of("1 < 2 == 3 > 2"), 1);
  EXPECT_EQ(value_of("1 || 0 && 0"), 1);
  EXPECT_EQ(value_of("(1 || 0) && 0"), 0);
  EXPECT_EQ(value_of("-2 * -3"), 6);
  EXPECT_EQ(value_of("!0 + 1"), 2);
  EXPECT_EQ(value_of("!!5"), 1);
  EXPECT_EQ(value_of("- -5"), 5);
  EXPECT_EQ(value_of("1--1"), 2);
}

TEST(Expression, ComparesToZeroAndOne) {
  EXPECT_EQ(value_of("2 <= 2"), 1);
  EXPECT_EQ(value_of("2 >= 3"), 0);
  EXPECT_EQ(value_of("2 != 3"), 1);
  EXPECT_EQ(value_of("7 && 9"), 1);
  EXPECT_EQ(value_of("0 || 9"), 1);
  EXPECT_EQ(value_of("true + false"), 1);
}

TEST(Expression, TruncatesLikeC) {
  EXPECT_EQ(value_of("-7 / 2"), -3);
  EXPECT_EQ(value_of("-7 % 2"), -1);
  EXPECT_EQ(value_of("7 % -2"), 1);
}

TEST(Expression, ReadsLiterals) {
  EXPECT_EQ(value_of("9223372036854775807"), largest);
  EXPECT_EQ(value_of("-9223372036854775808"), smallest);
  EXPECT_EQ(value_of("0x7fffFFFFffffFFFF"), largest);
  EXPECT_EQ(value_of("-0x8000000000000000"), smallest);
  EXPECT_EQ(value_of("0X1f"), 31);
  EXPECT_EQ(value_of("  0\t\n"), 0);
}

TEST(Expression, RoundsUpWhateverTheSigns) {
  for (std::int64_t a = -9; a <= 9; ++a) {
    for (const std::int64_t b : {-4, -3, -1, 1, 3, 4}) {
      const double quotient = static_cast<double>(a) / static_cast<double>(b);
      EXPECT_EQ(value_of("ceil_div(a, b)", {a, b}), static_cast<std::int64_t>(std::ceil(quotient)))
          << a << ' ' << b;
      const std::int64_t rounded = value_of("round_up(a, b)", {a, b});
      EXPECT_EQ(rounded % b, 0) << a << ' ' << b;
      EXPECT_GE(rounded, a) << a << ' ' << b;
      EXPECT_LT(rounded - a, std::abs(b)) << a << ' ' << b;
    }
  }
}

TEST(Expression, TakesTheSmallestAndLargestOfMany) {
  EXPECT_EQ(value_of("min(5, 3, 9)"), 3);
  EXPECT_EQ(value_of("max(5, 3, 9)"), 9);
  EXPECT_EQ(value_of("min(5)"), 5);
  std::string many = "max(0";
  for (int i = 1; i < 900; ++i) many += ',' + std::to_string(i);
  EXPECT_EQ(value_of(many + ')'), 899);
}

TEST(Expression, SelectsWithoutEvaluatingTheOtherSide) {
  EXPECT_EQ(value_of("select(1, 10, 1 / 0)"), 10);
  EXPECT_EQ(value_of("select(0, 9223372036854775807 + 1, 20)"), 20);
  EXPECT_EQ(value_of("select(a, select(b, 1, 2), select(b, 3, 4)) + 1", {0, 1}), 4);
  EXPECT_EQ(value_of("1 + select(a > 2, 2, 3) * 10", {3}), 21);
  EXPECT_EQ(fault_of("select(1 / 0, 1, 2)"), ExpressionFault::division_by_zero);
  EXPECT_EQ(fault_of("select(1, 1 / 0, 2)"), ExpressionFault::division_by_zero);
}

TEST(Expression, EvaluatesBothSidesOfAndAndOr) {
  EXPECT_EQ(fault_of("0 && 1 / 0"), ExpressionFault::division_by_zero);
  EXPECT_EQ(fault_of("1 || 1 / 0"), ExpressionFault::division_by_zero);
}

TEST(Expression, FindsOverflow) {
  for (const char* text : {"a + 1", "a * 2", "1 + a", "-(0 - a - 2) + 0", "ceil_div(a, 1) + 1",
                           "round_up(a, 2)", "round_up(a, -2)", "a - -1"}) {
    EXPECT_EQ(fault_of(text, {largest}), ExpressionFault::overflow) << text;
  }
  for (const char* text : {"-a", "a - 1", "a / -1", "ceil_div(a, -1)", "a * -1", "a + a"}) {
    EXPECT_EQ(fault_of(text, {smallest}), ExpressionFault::overflow) << text;
  }
  EXPECT_EQ(value_of("a % -1", {smallest}), 0);
  EXPECT_EQ(value_of("round_up(a, -1)", {smallest}), smallest);
  EXPECT_EQ(value_of("round_up(a, 3)", {smallest}), smallest + 2);
  EXPECT_EQ(fault_of("round_up(1, a)", {smallest}), ExpressionFault::overflow);
  EXPECT_EQ(fault_of("-(-9223372036854775808)"), ExpressionFault::overflow);
}

TEST(Expression, FindsDivisionByZero) {
  for (const char* text : {"1 / a", "1 % a", "ceil_div(1, a)", "round_up(1, a)"}) {
    EXPECT_EQ(fault_of(text, {0}), ExpressionFault::division_by_zero) << text;
  }
}

TEST(Expression, SaysWhereAndWithWhatItFaulted) {
  const ExpressionError division = value_error("n + 7 / (n - 3)", {3});
  EXPECT_EQ(division.offset(), 6u);
  EXPECT_STREQ(division.what(), "division by zero: 7 / 0");
  const ExpressionError overflow = value_error("1 + n * n", {largest});
  EXPECT_EQ(overflow.offset(), 6u);
  EXPECT_STREQ(overflow.what(),
               "overflow: 9223372036854775807 * 9223372036854775807 does not fit a signed 64-bit integer");
  const ExpressionError negation = value_error("2 * -n", {smallest});
  EXPECT_EQ(negation.offset(), 4u);
  EXPECT_THAT(negation.what(), HasSubstr("-(-9223372036854775808)"));
  EXPECT_THAT(value_error("ceil_div(4, n)", {0}).what(), HasSubstr("ceil_div(4, 0)"));
  EXPECT_THAT(value_error("round_up(n, 2)", {largest}).what(), HasSubstr("round_up(9223372036854775807, 2)"));
}

TEST(Expression, ListsItsVariablesOnceInOrder) {
  const Expression expression = Expression::parse("b + a * b + device.warp_size - k.0.x + min(a, min)");
  EXPECT_THAT(expression.variables(), ElementsAre("b", "a", "device.warp_size", "k.0.x", "min"));
  EXPECT_EQ(expression.evaluate_or_throw(std::vector<std::int64_t>{1, 2, 32, 4, 1}), 1 + 2 + 32 - 4 + 1);
  EXPECT_EQ(expression.text(), "b + a * b + device.warp_size - k.0.x + min(a, min)");
}

TEST(Expression, KnowsALiteral) {
  EXPECT_TRUE(Expression::parse(" 12 ").is_literal());
  EXPECT_TRUE(Expression::parse("-12").is_literal());
  EXPECT_TRUE(Expression::parse("(true)").is_literal());
  EXPECT_FALSE(Expression::parse("1 + 1").is_literal());
  EXPECT_FALSE(Expression::parse("n").is_literal());
  const Expression literal = Expression::literal(smallest);
  EXPECT_TRUE(literal.is_literal());
  EXPECT_EQ(literal.text(), "-9223372036854775808");
  EXPECT_EQ(literal.evaluate_or_throw({}), smallest);
}

struct BadText {
  const char* text;
  std::size_t offset;
  const char* message;
};

TEST(Expression, PlacesEveryErrorOfTheText) {
  const BadText cases[] = {
      {"", 0, "empty"},
      {"   ", 3, "empty"},
      {"1 +", 3, "expected a value, got the end"},
      {"1 + * 2", 4, "got '*'"},
      {"(1 + 2", 6, "expected ')' to match '(' at byte 0, got the end"},
      {"1 + 2)", 5, "')' without '('"},
      {"1, 2", 1, "outside a function"},
      {"1 2", 2, "expected an operator, got '2'"},
      {"a = 2", 2, "written =="},
      {"a & 2", 2, "did you mean &&?"},
      {"a | 2", 2, "did you mean ||?"},
      {"a $ 2", 2, "got '$'"},
      {"a \x01", 2, "byte 0x01"},
      {"\xc3\xa4", 0, "byte 0xc3"},
      {"+1", 0, "got '+'"},
      {"a < b < c", 6, "do not chain"},
      {"a == b != c", 7, "do not chain"},
      {"1.5", 0, "expected an integer"},
      {"2 * 1e3", 4, "expected an integer"},
      {"12ab", 2, "got 'a'"},
      {"0x", 0, "hexadecimal digits"},
      {"0xg", 0, "hexadecimal digits"},
      {"010", 0, "leading zero"},
      {"9223372036854775808", 0, "does not fit"},
      {"1 - 99999999999999999999", 4, "does not fit"},
      {"-9223372036854775809", 0, "does not fit"},
      {"0x10000000000000000", 0, "does not fit"},
      {"a.", 2, "rest of a name"},
      {"a..b", 2, "rest of a name"},
      {"2 * ciel_div(n, 2)", 4, "unknown function \"ciel_div\". Did you mean \"ceil_div\"?"},
      {"sqrt(2)", 0, "Known: ceil_div, round_up, min, max, select"},
      {"ceil_div(1)", 10, "second argument"},
      {"ceil_div(1, 2, 3)", 13, "takes 2 arguments"},
      {"select(1, 2)", 11, "third argument"},
      {"select(1)", 8, "two more arguments"},
      {"select(1, 2, 3, 4)", 14, "takes 3 arguments"},
      {"min()", 4, "got ')'"},
      {"min(1, 2", 8, "expected ')'"},
  };
  for (const BadText& bad : cases) {
    const ExpressionError error = parse_error(bad.text);
    EXPECT_EQ(error.offset(), bad.offset) << bad.text << ": " << error.what();
    EXPECT_THAT(error.what(), HasSubstr(bad.message)) << bad.text;
  }
}

TEST(Expression, RefusesTextAbove4096Bytes) {
  const std::string at_limit = "1" + std::string(4095, ' ');
  EXPECT_EQ(value_of(at_limit), 1);
  EXPECT_THAT(parse_error(at_limit + " ").what(), HasSubstr("4097 bytes; at most 4096"));
}

TEST(Expression, RefusesMoreThan64Levels) {
  const auto nested = [](const std::string& open, const std::string& close, int levels) {
    std::string text;
    for (int i = 0; i < levels; ++i) text += open;
    text += "1";
    for (int i = 0; i < levels; ++i) text += close;
    return text;
  };
  EXPECT_EQ(value_of(nested("(", ")", 64)), 1);
  EXPECT_THAT(parse_error(nested("(", ")", 65)).what(), HasSubstr("more than 64 levels"));
  EXPECT_EQ(parse_error(nested("(", ")", 65)).offset(), 64u);
  EXPECT_EQ(value_of(nested("!", "", 64)), 1);
  EXPECT_THAT(parse_error(nested("!", "", 65)).what(), HasSubstr("more than 64 levels"));
  EXPECT_THAT(parse_error(nested("- ", "", 4000)).what(), HasSubstr("at most 4096"));
  EXPECT_THAT(parse_error(nested("-", "", 4000)).what(), HasSubstr("more than 64 levels"));
  EXPECT_EQ(value_of(nested("min(", ")", 64)), 1);
  EXPECT_THAT(parse_error(nested("min(", ")", 65)).what(), HasSubstr("more than 64 levels"));
}

TEST(Expression, FitsItsStackAtTheDeepest) {
  // Every level leaves as many operands pending as there are levels of precedence.
  std::string text;
  for (int i = 0; i < 64; ++i) text += "max(0,0||1&&0==0<0+1*";
  text += "1";
  text += std::string(64, ')');
  EXPECT_EQ(value_of(text), 1);
}

TEST(Expression, RefusesTooManyNames) {
  std::string text = "v0";
  for (int i = 1; i < 32; ++i) text += "+v" + std::to_string(i);
  EXPECT_EQ(value_of(text, std::vector<std::int64_t>(32, 1)), 32);
  EXPECT_THAT(parse_error(text + "+w").what(), HasSubstr("more than 32 different names"));
  EXPECT_EQ(parse_error(text + "+w").offset(), text.size() + 1);
}

// What a step computes in place of the whole expression must be the same for every value.
TEST(Affine, IsTheExpressionForEveryValueOfTheVariable) {
  for (const char* text : {"x", "-x", "x * 3 + 1", "2 * (x - k) - (5 - x) * k", "k - x", "x * k * 2 + k",
                           "7 + 0 * x", "x - x"}) {
    const Expression expression = Expression::parse(text);
    const auto& names = expression.variables();
    const auto which = static_cast<std::size_t>(std::find(names.begin(), names.end(), "x") - names.begin());
    std::vector<std::int64_t> values(names.size(), 11);
    const auto form = expression.affine(values, which, -1000, 1000);
    ASSERT_TRUE(form) << text;
    for (std::int64_t x = -1000; x <= 1000; x += 37) {
      values[which] = x;
      std::int64_t value = 0;
      ASSERT_EQ(expression.evaluate(values, &value), ExpressionFault::none);
      EXPECT_EQ(form->scale * x + form->addend, value) << text << " for " << x;
    }
  }
}

TEST(Affine, IsNotGivenForOtherForms) {
  for (const char* text : {"x * x", "x / 2", "x % 2", "min(x, 3)", "select(x, 1, 2)", "x < 3", "!x",
                           "ceil_div(x, 2)", "round_up(x, 4)"}) {
    EXPECT_FALSE(Expression::parse(text).affine(std::vector<std::int64_t>{0}, 0, 0, 10)) << text;
  }
}

TEST(Affine, IsNotGivenWhereSomethingMayOverflow) {
  const auto form = [](const char* text, std::int64_t from, std::int64_t to) {
    return Expression::parse(text).affine(std::vector<std::int64_t>{0}, 0, from, to);
  };
  EXPECT_TRUE(form("x * 4611686018427387904", -2, 1));
  EXPECT_FALSE(form("x * 4611686018427387904", -2, 2));
  EXPECT_FALSE(form("x * 4611686018427387904 - x * 4611686018427387904", 0, 2));  // on the way to 0
  EXPECT_TRUE(form("x + 1", INT64_MIN, INT64_MAX - 1));
  EXPECT_FALSE(form("x + 1", 0, INT64_MAX));
  EXPECT_FALSE(form("-x", INT64_MIN, 0));
  EXPECT_FALSE(form("x * 4611686018427387904 * 4", 0, 0));  // the factor itself
}

}  // namespace
}  // namespace rondo
