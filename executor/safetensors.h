// Reads safetensors (the format: README.md of huggingface/safetensors): one file, or the shards that an index
// lists, and the config.json that checkpoints come with.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mapped_file.h"
#include "rondo/weights.h"

namespace rondo {

// By the name, or by a header where one must be.
bool looks_like_safetensors(const std::filesystem::path& path, std::span<const std::byte> bytes) noexcept;

// `bytes` is the whole file, `file` its name in errors. Reads the header only, never the tensors' data, into
// which Tensor::data points. A type that Rondo does not know gives a tensor with no type and no data. Throws
// Error(bad_argument) with the byte offset for anything malformed: as the format asks, the data is covered by
// the tensors, without overlaps and holes.
std::vector<Tensor> read_safetensors(std::span<const std::byte> bytes, const std::string& file);

// The tensors that a *.safetensors.index.json maps to files beside it, each of which is mapped and added to
// `files`. Throws Error(bad_argument) for what is malformed, missing, or a path into another folder.
std::vector<Tensor> read_safetensors_index(const std::filesystem::path& index,
                                           std::vector<MappedFile>& files);

// The values of a JSON file, those in objects under keys with dots between ("rope_scaling.factor"). Nulls,
// and arrays that are not of one kind of plain values, are left out. Empty where there is no such file.
// Throws Error(bad_argument).
std::vector<std::pair<std::string, MetadataValue>> read_config(const std::filesystem::path& path);

}  // namespace rondo
