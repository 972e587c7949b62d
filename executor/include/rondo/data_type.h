// The element types of params, buffers and tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rondo {

// Plain types first: those a param may have. The block types are GGUF's; a buffer of such a type counts its
// shape in weights (elements), and a row (the last dimension) must be a whole number of blocks.
enum class DataType : std::uint8_t {
  boolean,
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  f16,
  bf16,
  f32,
  f64,
  q4_0,
  q4_1,
  q6_k,
  q8_0
};

inline constexpr std::size_t data_type_count = 17;

struct DataTypeInfo {
  const char* name;  // the schedule's spelling: "bool", "i8", … "f64", "q4_0", "q4_1", "q6_k", "q8_0"
  std::size_t block_elements;  // 1 for plain types, 32 for q4_0, q4_1 and q8_0, 256 for q6_k
  std::size_t block_bytes;     // bytes of one element, or of one block: q4_0 18, q4_1 20, q6_k 210, q8_0 34
                               // (ggml-common.h)
  std::size_t alignment;  // bytes: the type's own for plain types, 4 for q4_1 (as the kernels read it), 2 for
                          // the other blocks
  bool is_integer;        // bool and i8 … u64
  bool is_float;          // f16, bf16, f32, f64
};

const DataTypeInfo& info(DataType type) noexcept;
inline const char* name(DataType type) noexcept { return info(type).name; }
inline bool is_plain(DataType type) noexcept { return info(type).block_elements == 1; }

// nullopt for a name that is not one of the above.
std::optional<DataType> parse_data_type(std::string_view name) noexcept;

// The smallest and largest value that an integer type holds, as far as int64 reaches (u64 ends at INT64_MAX
// here).
struct IntegerRange {
  std::int64_t smallest, largest;
};
IntegerRange integer_range(DataType type) noexcept;

// Writes `value` as one element of a plain type to `to` (block_bytes bytes). The caller has checked the range
// of integers.
void store_integer(DataType type, std::int64_t value, void* to) noexcept;
void store_float(DataType type, double value, void* to) noexcept;  // f16 and bf16: rounded to nearest even

// Whether a finite `value` is finite as a float type too: 1e39 is not as an f32. Infinities and NaN are what
// they are in every type.
bool fits_float(DataType type, double value) noexcept;

// Whether every value of the float type `from` is one of the wider float type `to`.
bool widens(DataType from, DataType to) noexcept;

// Reads one element of a plain type as double (exact up to 2^53).
double load_as_double(DataType type, const void* from) noexcept;

}  // namespace rondo
