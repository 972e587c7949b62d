// Two sides' bytes of one buffer, compared as rondo verify demands.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "rondo/data_type.h"

namespace rondo::cli {

struct Comparison {
  double relative_error = 0;  // ‖ours − theirs‖ / ‖theirs‖; 0 for equal bytes, infinite where it has no value
  std::size_t shared_nans = 0;  // elements that are NaN on both sides, left out of the error
  // Set where the two differ by more than is allowed: the element (of a block type: the block) to name, and
  // why.
  std::optional<std::size_t> index;
  std::string ours, theirs;  // the two values there
  std::string why;
};

// Bit by bit; names the first element that differs.
Comparison compare_exactly(DataType type, std::span<const std::byte> ours, std::span<const std::byte> theirs);

// Floats: the relative error may be `tolerance` at most, NaN and infinities must be in the same places; names
// the first element that is not finite on one side alone, else the one that differs most. All other types:
// exactly.
Comparison compare_closely(DataType type, std::span<const std::byte> ours, std::span<const std::byte> theirs,
                           double tolerance);

}  // namespace rondo::cli
