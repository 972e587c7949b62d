// Named tensors and metadata out of a .gguf file, a safetensors model, an .npy file, or a folder of .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rondo/data_type.h"

namespace rondo {

struct Tensor {
  std::string name;
  std::string type_name;           // as the file calls it: "Q4_1", "<f4"
  std::optional<DataType> type;    // nullopt: a type that Rondo does not know; the data is then empty
  std::vector<std::size_t> shape;  // slowest dimension first, as in NumPy (a GGUF file lists them the other way round)
  std::span<const std::byte> data;  // valid as long as the WeightFile lives; aligned as the file has it, perhaps not at all
};

// Arrays of GGUF metadata keep their elements' kind; integers of every width are widened.
using MetadataValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<bool>, std::vector<std::int64_t>,
                                   std::vector<std::uint64_t>, std::vector<double>, std::vector<std::string>>;

class WeightFile {
 public:
  // Maps the file. Throws Error(bad_argument) that names the file and the byte offset for anything that is not a well-formed file:
  // every count, size, offset and alignment is checked against the file's length before it is used. A safetensors model is one
  // file, a *.safetensors.index.json with its shards beside it, or a folder of these; the config.json beside them is its metadata, what is in objects
  // under keys such as "rope_scaling.factor". An .npy file is one tensor of the file's stem; a folder is one tensor for each *.npy in it.
  static std::shared_ptr<const WeightFile> open(const std::filesystem::path& path);
  ~WeightFile();

  const std::filesystem::path& path() const noexcept;
  const std::vector<Tensor>& tensors() const noexcept;
  const Tensor* find(std::string_view name) const noexcept;                 // nullptr: no such tensor
  const MetadataValue* metadata(std::string_view key) const noexcept;       // nullptr: no such key
  std::vector<std::string> tensor_names() const;                           // for suggestions
  std::vector<std::string> metadata_keys() const;

 private:
  WeightFile();
  struct State;
  std::unique_ptr<State> state_;
};

// Weights without a file: each has the shape that the schedule declares, and the type, or `type` where it declares
// none (f32 for a vector where `type` is a block type). They are made on the device, the same on every one. Then constants out of
// metadata have their defaults, and no tensor is there.
struct RandomWeights {
  DataType type = DataType::f32;  // a float or block type
  std::uint64_t seed = 0;
  bool operator==(const RandomWeights&) const = default;
};

// "random:f16", "random:q8_0:7" (a seed). nullopt: the text is something else, a path. Throws Error(bad_argument) for
// what begins so and goes on wrongly.
std::optional<RandomWeights> parse_random_weights(std::string_view text);

// Writes a C-ordered .npy (format 1.0); bf16, which NumPy lacks, as "<V2", which PyPI's ml_dtypes reads and writes. Throws
// Error(run_time) when the file cannot be written, Error(bad_argument) for block types and for data that does not fill the shape.
void write_npy(const std::filesystem::path& path, DataType type, std::span<const std::size_t> shape, std::span<const std::byte> data);

}  // namespace rondo
