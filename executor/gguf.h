// Reads GGUF, versions 2 and 3, little-endian (the format: ggml's docs/gguf.md).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rondo/weights.h"

namespace rondo {

struct GgufContents {
  std::vector<std::pair<std::string, MetadataValue>> metadata;
  std::vector<Tensor> tensors;  // in the file's order; their data points into `bytes`
};

bool looks_like_gguf(std::span<const std::byte> bytes) noexcept;

// `bytes` is the whole file; `file` is its name in errors. Reads the header only, never the tensors' data.
// Throws Error(bad_argument) with the byte offset for anything malformed. Memory used is at most a small
// multiple of bytes.size().
GgufContents read_gguf(std::span<const std::byte> bytes, const std::string& file);

}  // namespace rondo
