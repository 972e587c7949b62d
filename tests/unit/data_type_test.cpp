#include "rondo/data_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace rondo {
namespace {

double widen(DataType type, std::uint16_t bits) { return load_as_double(type, &bits); }

std::uint16_t narrow(DataType type, double value) {
  std::uint16_t bits = 0;
  store_float(type, value, &bits);
  return bits;
}

// Rounds by arithmetic instead of by bits: scales so that one unit in the last place is 1, and lets nearbyint
// do the rest.
double round_by_arithmetic(double value, int fraction_bits, int smallest_exponent, double largest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), smallest_exponent);
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(value, fraction_bits - exponent)), exponent - fraction_bits);
  return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                     : rounded;
}

TEST(DataType, NamesAndTypesAreOneToOne) {
  for (std::size_t i = 0; i < data_type_count; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(parse_data_type(name(type)), type);
  }
  EXPECT_EQ(parse_data_type("F32"), std::nullopt);
  EXPECT_EQ(parse_data_type(""), std::nullopt);
  EXPECT_STREQ(name(DataType::boolean), "bool");
  EXPECT_STREQ(name(DataType::q8_0), "q8_0");
}

TEST(DataType, SizesAreTheFormats) {
  EXPECT_EQ(info(DataType::boolean).block_bytes, 1);
  EXPECT_EQ(info(DataType::u64).block_bytes, 8);
  EXPECT_EQ(info(DataType::bf16).block_bytes, 2);
  EXPECT_EQ(info(DataType::q4_1).block_bytes, 20);
  EXPECT_EQ(info(DataType::q4_1).block_elements, 32);
  EXPECT_EQ(info(DataType::q8_0).block_bytes, 34);
  EXPECT_EQ(info(DataType::q4_0).block_bytes, 18);
  EXPECT_EQ(info(DataType::q6_k).block_bytes, 210);
  EXPECT_EQ(info(DataType::q6_k).block_elements, 256);
  EXPECT_FALSE(is_plain(DataType::q8_0));
  EXPECT_TRUE(is_plain(DataType::f64));
}

TEST(DataType, FloatsWidenToLongerFloatsAlone) {
  EXPECT_TRUE(widens(DataType::bf16, DataType::f32));
  EXPECT_TRUE(widens(DataType::f16, DataType::f64));
  EXPECT_TRUE(widens(DataType::f32, DataType::f64));
  EXPECT_FALSE(widens(DataType::f32, DataType::f32));
  EXPECT_FALSE(widens(DataType::f16, DataType::bf16));
  EXPECT_FALSE(widens(DataType::f32, DataType::f16));
  EXPECT_FALSE(widens(DataType::i16, DataType::f32));
  EXPECT_FALSE(widens(DataType::f16, DataType::i32));
  EXPECT_FALSE(widens(DataType::q4_0, DataType::f32));
}

TEST(DataType, EverySixteenBitFloatSurvivesARoundTrip) {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    for (unsigned i = 0; i <= 0xffff; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const double value = widen(type, bits);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(widen(type, narrow(type, value)))) << name(type) << " " << i;
      } else {
        ASSERT_EQ(narrow(type, value), bits) << name(type) << " " << i;
      }
    }
  }
}

TEST(DataType, Bf16IsTheUpperHalfOfF32) {
  for (unsigned i = 0; i <= 0xffff; ++i) {
    const float expected = std::bit_cast<float>(static_cast<std::uint32_t>(i) << 16);
    const double value = widen(DataType::bf16, static_cast<std::uint16_t>(i));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value));
    } else {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(value),
                std::bit_cast<std::uint64_t>(static_cast<double>(expected)));
    }
  }
}

TEST(DataType, KnownF16Values) {
  EXPECT_EQ(widen(DataType::f16, 0x3c00), 1.0);
  EXPECT_EQ(widen(DataType::f16, 0x7bff), 65504.0);
  EXPECT_EQ(widen(DataType::f16, 0x0001), std::ldexp(1.0, -24));
  EXPECT_EQ(widen(DataType::f16, 0x0400), std::ldexp(1.0, -14));
  EXPECT_EQ(widen(DataType::f16, 0xfc00), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::signbit(widen(DataType::f16, 0x8000)));
}

TEST(DataType, MidpointsRoundToEvenAndTheirNeighboursAway) {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    const unsigned infinity = type == DataType::f16 ? 0x7c00 : 0x7f80;
    for (unsigned i = 0; i + 1 < infinity; ++i) {
      const double low = widen(type, static_cast<std::uint16_t>(i));
      const double high = widen(type, static_cast<std::uint16_t>(i + 1));
      const double middle = low + (high - low) / 2;
      ASSERT_EQ(narrow(type, middle), i % 2 == 0 ? i : i + 1);
      ASSERT_EQ(narrow(type, std::nextafter(middle, 0.0)), i);
      ASSERT_EQ(narrow(type, std::nextafter(middle, high)), i + 1);
      ASSERT_EQ(narrow(type, -middle), 0x8000 | (i % 2 == 0 ? i : i + 1));
    }
  }
  EXPECT_EQ(narrow(DataType::f16, 65519.999), 0x7bff);
  EXPECT_EQ(narrow(DataType::f16, 65520.0), 0x7c00);
  EXPECT_EQ(narrow(DataType::f16, 1e300), 0x7c00);
  EXPECT_EQ(narrow(DataType::f16, -1e-300), 0x8000);
  EXPECT_EQ(narrow(DataType::bf16, std::numeric_limits<double>::denorm_min()), 0);
  EXPECT_EQ(narrow(DataType::bf16, std::numeric_limits<double>::max()), 0x7f80);
}

TEST(DataType, RandomDoublesRoundAsArithmeticDoes) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> mantissa(-2, 2);
  std::uniform_int_distribution<int> exponent(-160, 135);
  for (int i = 0; i < 200000; ++i) {
    const double value = std::ldexp(mantissa(random), exponent(random));
    ASSERT_EQ(widen(DataType::f16, narrow(DataType::f16, value)),
              round_by_arithmetic(value, 10, -14, 65504.0))
        << value;
    ASSERT_EQ(widen(DataType::bf16, narrow(DataType::bf16, value)),
              round_by_arithmetic(value, 7, -126, std::bit_cast<float>(0x7f7f0000u)))
        << value;
  }
}

TEST(DataType, IntegersAreStoredAtBothEndsOfTheirRange) {
  for (std::size_t i = 0; i < data_type_count; ++i) {
    const auto type = static_cast<DataType>(i);
    if (!info(type).is_integer) continue;
    const IntegerRange range = integer_range(type);
    for (const std::int64_t value : {range.smallest, range.largest, std::int64_t{1}}) {
      std::vector<unsigned char> bytes(info(type).block_bytes + 1, 0xa5);
      store_integer(type, value, bytes.data());
      EXPECT_EQ(load_as_double(type, bytes.data()), static_cast<double>(value)) << name(type);
      EXPECT_EQ(bytes.back(), 0xa5) << name(type) << " wrote past its end";
    }
  }
  EXPECT_EQ(integer_range(DataType::i8).smallest, -128);
  EXPECT_EQ(integer_range(DataType::u64).largest, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(integer_range(DataType::boolean).largest, 1);
}

TEST(DataType, IntegersBecomeFloatsWithOneRounding) {
  float value = 0;
  // A double holds the first 53 bits only, and would turn this into a midpoint.
  store_integer(DataType::f32, (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1, &value);
  EXPECT_EQ(value, std::ldexp(1.0f, 60) + std::ldexp(1.0f, 37));
  double wide = 0;
  store_integer(DataType::f64, -3, &wide);
  EXPECT_EQ(wide, -3.0);
  EXPECT_EQ(widen(DataType::f16,
                  [] {
                    std::uint16_t bits = 0;
                    store_integer(DataType::f16, -7, &bits);
                    return bits;
                  }()),
            -7.0);
}

TEST(DataType, FloatsBecomeTheNearestIntegerOfTheRange) {
  std::int8_t small = 0;
  store_float(DataType::i8, 1e9, &small);
  EXPECT_EQ(small, 127);
  store_float(DataType::i8, -std::numeric_limits<double>::infinity(), &small);
  EXPECT_EQ(small, -128);
  store_float(DataType::i8, std::numeric_limits<double>::quiet_NaN(), &small);
  EXPECT_EQ(small, 0);
  std::int64_t large = 0;
  store_float(DataType::i64, 1e30, &large);
  EXPECT_EQ(large, std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace rondo
