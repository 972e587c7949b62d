// Reads NumPy's .npy, format 1.0 to 3.0 (NumPy's NEP 1 and numpy.lib.format): little-endian, C order.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "rondo/weights.h"

namespace rondo {

bool looks_like_npy(std::span<const std::byte> bytes) noexcept;

// `bytes` is the whole file, `file` its name in errors. A type that Rondo does not know (complex, text, a
// struct) gives a tensor with no type and no data; big-endian data and Fortran order are refused. Bytes after
// the data are ignored, as NumPy does. Throws Error(bad_argument) with the byte offset.
Tensor read_npy(std::span<const std::byte> bytes, const std::string& file, std::string name);

}  // namespace rondo
