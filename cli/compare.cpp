#include "compare.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace rondo::cli {
namespace {

std::string format_element(DataType type, const std::byte* from) {
  const DataTypeInfo& details = info(type);
  std::string bytes;
  for (std::size_t i = 0; i < details.block_bytes; ++i)
    bytes += fmt::format("{:02x}", static_cast<unsigned>(from[i]));
  if (!is_plain(type)) return "bytes " + bytes;
  const double value = load_as_double(type, from);
  if (details.is_float && std::isnan(value)) return fmt::format("NaN (bytes {})", bytes);
  return details.is_float ? fmt::format("{:.9g}", value) : fmt::format("{:.0f}", value);
}

Comparison differ_at(DataType type, std::size_t index, std::span<const std::byte> ours,
                     std::span<const std::byte> theirs, std::string why) {
  const std::size_t at = index * info(type).block_bytes;
  Comparison result;
  result.index = index;
  result.ours = format_element(type, &ours[at]);
  result.theirs = format_element(type, &theirs[at]);
  result.why = std::move(why);
  return result;
}

}  // namespace

Comparison compare_exactly(DataType type, std::span<const std::byte> ours,
                           std::span<const std::byte> theirs) {
  if (ours.empty() || std::memcmp(ours.data(), theirs.data(), ours.size()) == 0) return {};
  const std::size_t size = info(type).block_bytes;
  std::size_t index = 0;
  while (std::memcmp(&ours[index * size], &theirs[index * size], size) == 0) ++index;
  Comparison result = differ_at(type, index, ours, theirs, "the bits differ");
  result.relative_error = std::numeric_limits<double>::infinity();
  return result;
}

Comparison compare_closely(DataType type, std::span<const std::byte> ours, std::span<const std::byte> theirs,
                           double tolerance) {
  const DataTypeInfo& details = info(type);
  if (!details.is_float) return compare_exactly(type, ours, theirs);
  std::size_t shared_nans = 0, worst_index = 0;
  double difference_squares = 0, squares = 0, worst = -1;
  for (std::size_t i = 0; i < ours.size() / details.block_bytes; ++i) {
    const double a = load_as_double(type, &ours[i * details.block_bytes]);
    const double b = load_as_double(type, &theirs[i * details.block_bytes]);
    if (std::isnan(a) && std::isnan(b)) {
      ++shared_nans;
      continue;
    }
    if (std::isinf(a) && a == b) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) {
      Comparison result = differ_at(type, i, ours, theirs, "not finite on one side");
      result.relative_error = std::numeric_limits<double>::infinity();
      result.shared_nans = shared_nans;
      return result;
    }
    const double difference = std::fabs(a - b);
    difference_squares += difference * difference;
    squares += b * b;
    if (difference > worst) {
      worst = difference;
      worst_index = i;
    }
  }
  const double error = difference_squares == 0 ? 0
                       : squares == 0          ? std::numeric_limits<double>::infinity()
                                               : std::sqrt(difference_squares / squares);
  Comparison result;
  if (error > tolerance) {
    result = differ_at(
        type, worst_index, ours, theirs,
        fmt::format("relative error {:.3g} above {:.3g}; the largest difference", error, tolerance));
  }
  result.relative_error = error;
  result.shared_nans = shared_nans;
  return result;
}

}  // namespace rondo::cli
