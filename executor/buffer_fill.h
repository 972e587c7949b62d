// The initial contents of buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rondo/data_type.h"

namespace rondo {

// `elements` elements of a plain type, from a counter-based generator: uniform in [-1, 1) for floats, over 0
// … 15 for integers (0 and 1 for bool). Element i depends on `seed` and i alone.
std::vector<std::byte> random_elements(DataType type, std::size_t elements, std::uint64_t seed);
// `elements` times `value`.
std::vector<std::byte> equal_elements(DataType type, std::size_t elements, double value);

}  // namespace rondo
