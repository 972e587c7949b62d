#include "rondo/data_type.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>

namespace rondo {
namespace {

constexpr DataTypeInfo data_types[] = {
    {"bool", 1, 1, 1, true, false},      {"i8", 1, 1, 1, true, false},      {"u8", 1, 1, 1, true, false},
    {"i16", 1, 2, 2, true, false},       {"u16", 1, 2, 2, true, false},     {"i32", 1, 4, 4, true, false},
    {"u32", 1, 4, 4, true, false},       {"i64", 1, 8, 8, true, false},     {"u64", 1, 8, 8, true, false},
    {"f16", 1, 2, 2, false, true},       {"bf16", 1, 2, 2, false, true},    {"f32", 1, 4, 4, false, true},
    {"f64", 1, 8, 8, false, true},       {"q4_0", 32, 18, 2, false, false}, {"q4_1", 32, 20, 4, false, false},
    {"q6_k", 256, 210, 2, false, false}, {"q8_0", 32, 34, 2, false, false},
};
static_assert(std::size(data_types) == data_type_count);

// Rounds to a float of `exponent_bits` and `fraction_bits`, straight from double: going by way of float would
// round twice.
template <int exponent_bits, int fraction_bits>
std::uint16_t round_to_16_bits(double value) noexcept {
  static_assert(1 + exponent_bits + fraction_bits == 16);
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  constexpr std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << fraction_bits;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t sign = (bits >> 63) << 15;
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent == 1024) {
    const std::uint64_t quiet =
        fraction == 0 ? 0 : (std::uint64_t{1} << (fraction_bits - 1)) | (fraction >> (52 - fraction_bits));
    return static_cast<std::uint16_t>(sign | infinity | quiet);
  }
  if (exponent > bias) return static_cast<std::uint16_t>(sign | infinity);
  const bool subnormal = exponent < 1 - bias;
  // Bits to drop from the 53-bit significand; a subnormal drops one more for each step below the smallest
  // normal exponent.
  const int drop = 52 - fraction_bits + (subnormal ? 1 - bias - exponent : 0);
  if (drop > 53) return static_cast<std::uint16_t>(sign);
  const std::uint64_t significand = fraction | (std::uint64_t{1} << 52);
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  const std::uint64_t rest = significand & ((half << 1) - 1);
  std::uint64_t rounded = significand >> drop;
  if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
  // The significand's leading one adds itself to the exponent field, and so does a carry out of rounding, up
  // to infinity.
  if (!subnormal) rounded += static_cast<std::uint64_t>(exponent + bias - 1) << fraction_bits;
  return static_cast<std::uint16_t>(sign | rounded);
}

template <int exponent_bits, int fraction_bits>
double widen_from_16_bits(std::uint16_t bits) noexcept {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  constexpr int largest = (1 << exponent_bits) - 1;
  const int exponent = (bits >> fraction_bits) & largest;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << fraction_bits) - 1);
  const std::uint64_t sign = std::uint64_t{static_cast<std::uint64_t>(bits >> 15)} << 63;
  if (exponent == largest) {
    return std::bit_cast<double>(sign | (std::uint64_t{0x7ff} << 52) | (fraction << (52 - fraction_bits)));
  }
  if (exponent == 0) {
    const double magnitude = std::ldexp(static_cast<double>(fraction), 1 - bias - fraction_bits);
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<double>(sign | (static_cast<std::uint64_t>(exponent - bias + 1023) << 52) |
                               (fraction << (52 - fraction_bits)));
}

template <typename T>
void put(void* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
}

template <typename T>
double get(const void* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<double>(value);
}

std::uint16_t get_bits(const void* from) noexcept {
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

template <typename T>
constexpr IntegerRange range_of() noexcept {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

// A double outside an integer's range has no defined conversion; the nearest value of the range stands for
// it, and 0 for nan.
std::int64_t saturate(DataType type, double value) noexcept {
  const IntegerRange range = integer_range(type);
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(range.smallest)) return range.smallest;
  if (value >= static_cast<double>(range.largest)) return range.largest;
  return static_cast<std::int64_t>(value);
}

}  // namespace

const DataTypeInfo& info(DataType type) noexcept { return data_types[static_cast<std::size_t>(type)]; }

std::optional<DataType> parse_data_type(std::string_view name) noexcept {
  for (std::size_t i = 0; i < data_type_count; ++i) {
    if (name == data_types[i].name) return static_cast<DataType>(i);
  }
  return std::nullopt;
}

IntegerRange integer_range(DataType type) noexcept {
  switch (type) {
    case DataType::boolean:
      return {0, 1};
    case DataType::i8:
      return range_of<std::int8_t>();
    case DataType::u8:
      return range_of<std::uint8_t>();
    case DataType::i16:
      return range_of<std::int16_t>();
    case DataType::u16:
      return range_of<std::uint16_t>();
    case DataType::i32:
      return range_of<std::int32_t>();
    case DataType::u32:
      return range_of<std::uint32_t>();
    case DataType::i64:
      return range_of<std::int64_t>();
    case DataType::u64:
      return {0, std::numeric_limits<std::int64_t>::max()};
    default:
      return {0, 0};
  }
}

void store_integer(DataType type, std::int64_t value, void* to) noexcept {
  switch (type) {
    case DataType::boolean:
      return put(to, static_cast<std::uint8_t>(value != 0));
    case DataType::i8:
    case DataType::u8:
      return put(to, static_cast<std::uint8_t>(value));
    case DataType::i16:
    case DataType::u16:
      return put(to, static_cast<std::uint16_t>(value));
    case DataType::i32:
    case DataType::u32:
      return put(to, static_cast<std::uint32_t>(value));
    case DataType::i64:
    case DataType::u64:
      return put(to, value);
    case DataType::f32:
      return put(to, static_cast<float>(value));
    default:
      return store_float(type, static_cast<double>(value), to);
  }
}

void store_float(DataType type, double value, void* to) noexcept {
  switch (type) {
    case DataType::f16:
      return put(to, round_to_16_bits<5, 10>(value));
    case DataType::bf16:
      return put(to, round_to_16_bits<8, 7>(value));
    case DataType::f32:
      return put(to, static_cast<float>(value));
    case DataType::f64:
      return put(to, value);
    case DataType::boolean:
      return store_integer(type, value != 0 ? 1 : 0, to);
    case DataType::q4_0:
    case DataType::q4_1:
    case DataType::q6_k:
    case DataType::q8_0:
      return;
    default:
      return store_integer(type, saturate(type, value), to);
  }
}

double load_as_double(DataType type, const void* from) noexcept {
  switch (type) {
    case DataType::boolean:
      return get<std::uint8_t>(from) != 0 ? 1 : 0;
    case DataType::i8:
      return get<std::int8_t>(from);
    case DataType::u8:
      return get<std::uint8_t>(from);
    case DataType::i16:
      return get<std::int16_t>(from);
    case DataType::u16:
      return get<std::uint16_t>(from);
    case DataType::i32:
      return get<std::int32_t>(from);
    case DataType::u32:
      return get<std::uint32_t>(from);
    case DataType::i64:
      return get<std::int64_t>(from);
    case DataType::u64:
      return get<std::uint64_t>(from);
    case DataType::f16:
      return widen_from_16_bits<5, 10>(get_bits(from));
    case DataType::bf16:
      return widen_from_16_bits<8, 7>(get_bits(from));
    case DataType::f32:
      return get<float>(from);
    case DataType::f64:
      return get<double>(from);
    default:
      return 0;
  }
}

bool widens(DataType from, DataType to) noexcept {
  return info(from).is_float && info(to).is_float && info(from).block_bytes < info(to).block_bytes;
}

bool fits_float(DataType type, double value) noexcept {
  std::byte element[8];
  store_float(type, value, element);
  return !std::isfinite(value) || std::isfinite(load_as_double(type, element));
}

}  // namespace rondo
