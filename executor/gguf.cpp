#include "gguf.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <unordered_set>

#include "file_error.h"

namespace rondo {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF values are read as they lie in the file");

constexpr char magic[] = {'G', 'G', 'U', 'F'};
constexpr std::uint32_t max_dimensions = 8;
constexpr std::uint64_t default_alignment = 32;

// gguf_type in ggml's gguf.h.
enum class ValueType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

struct GgmlType {
  std::uint32_t number;  // ggml_type in ggml.h
  const char* name;
  std::optional<DataType> type;
};

constexpr GgmlType ggml_types[] = {
    {0, "F32", DataType::f32},
    {1, "F16", DataType::f16},
    {2, "Q4_0", DataType::q4_0},
    {3, "Q4_1", DataType::q4_1},
    {6, "Q5_0", {}},
    {7, "Q5_1", {}},
    {8, "Q8_0", DataType::q8_0},
    {9, "Q8_1", {}},
    {10, "Q2_K", {}},
    {11, "Q3_K", {}},
    {12, "Q4_K", {}},
    {13, "Q5_K", {}},
    {14, "Q6_K", DataType::q6_k},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", {}},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", {}},
    {24, "I8", DataType::i8},
    {25, "I16", DataType::i16},
    {26, "I32", DataType::i32},
    {27, "I64", DataType::i64},
    {28, "F64", DataType::f64},
    {29, "IQ1_M", {}},
    {30, "BF16", DataType::bf16},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {39, "MXFP4", {}},
    {40, "NVFP4", {}},
    {41, "Q1_0", {}},
};

// A product that overflows stands as nullopt.
std::optional<std::uint64_t> multiply(std::uint64_t a, std::uint64_t b) {
  if (a != 0 && b > std::numeric_limits<std::uint64_t>::max() / a) return std::nullopt;
  return a * b;
}

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  [[noreturn]] void fail(std::size_t offset, const std::string& what, const std::string& hint = "") const {
    throw_at_byte(file_, offset, what, hint);
  }

  void require(std::uint64_t size, const char* what) const {
    if (size > remaining()) {
      fail(position_, fmt::format("{} needs {} bytes, and {} are left in the file", what, size, remaining()),
           file_cut_short_hint);
    }
  }

  template <typename T>
  T read(const char* what) {
    require(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return value;
  }

  std::string read_string(const char* what) {
    const std::uint64_t length = read<std::uint64_t>(what);
    require(length, what);
    std::string text(reinterpret_cast<const char*>(bytes_.data() + position_),
                     static_cast<std::size_t>(length));
    position_ += static_cast<std::size_t>(length);
    return text;
  }

  bool read_boolean(const char* what) {
    const std::size_t at = position_;
    const std::uint8_t value = read<std::uint8_t>(what);
    if (value > 1) fail(at, fmt::format("expected a bool, 0 or 1, got {}", value));
    return value == 1;
  }

  // A count is believed only where the file is long enough for that many elements of at least `smallest`
  // bytes.
  std::size_t read_count(std::size_t smallest, const char* what) {
    const std::size_t at = position_;
    const std::uint64_t count = read<std::uint64_t>(what);
    if (count > remaining() / smallest) {
      fail(
          at,
          fmt::format("{} is {}, more than the {} bytes left in the file can hold", what, count, remaining()),
          file_cut_short_hint);
    }
    return static_cast<std::size_t>(count);
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::size_t position_ = 0;
};

template <typename Stored, typename Kept>
MetadataValue read_numbers(Reader& reader) {
  const std::size_t count = reader.read_count(sizeof(Stored), "an array's length");
  std::vector<Kept> values(count);
  for (Kept& value : values) value = static_cast<Kept>(reader.read<Stored>("an array's element"));
  return values;
}

MetadataValue read_array(Reader& reader) {
  const std::size_t at = reader.position();
  const std::uint32_t type = reader.read<std::uint32_t>("an array's element type");
  switch (static_cast<ValueType>(type)) {
    case ValueType::u8:
      return read_numbers<std::uint8_t, std::uint64_t>(reader);
    case ValueType::i8:
      return read_numbers<std::int8_t, std::int64_t>(reader);
    case ValueType::u16:
      return read_numbers<std::uint16_t, std::uint64_t>(reader);
    case ValueType::i16:
      return read_numbers<std::int16_t, std::int64_t>(reader);
    case ValueType::u32:
      return read_numbers<std::uint32_t, std::uint64_t>(reader);
    case ValueType::i32:
      return read_numbers<std::int32_t, std::int64_t>(reader);
    case ValueType::u64:
      return read_numbers<std::uint64_t, std::uint64_t>(reader);
    case ValueType::i64:
      return read_numbers<std::int64_t, std::int64_t>(reader);
    case ValueType::f32:
      return read_numbers<float, double>(reader);
    case ValueType::f64:
      return read_numbers<double, double>(reader);
    case ValueType::boolean: {
      std::vector<bool> values(reader.read_count(1, "an array's length"));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = reader.read_boolean("an array's element");
      return values;
    }
    case ValueType::string: {
      std::vector<std::string> values(reader.read_count(sizeof(std::uint64_t), "an array's length"));
      for (std::string& value : values) value = reader.read_string("an array's string");
      return values;
    }
    case ValueType::array:
      reader.fail(at, "an array of arrays, which neither ggml nor Rondo reads");
  }
  reader.fail(at, fmt::format("expected an array's element type, 0 to 12, got {}", type));
}

MetadataValue read_value(Reader& reader) {
  const std::size_t at = reader.position();
  const std::uint32_t type = reader.read<std::uint32_t>("a value's type");
  constexpr const char* what = "a metadata value";
  switch (static_cast<ValueType>(type)) {
    case ValueType::u8:
      return std::uint64_t{reader.read<std::uint8_t>(what)};
    case ValueType::i8:
      return std::int64_t{reader.read<std::int8_t>(what)};
    case ValueType::u16:
      return std::uint64_t{reader.read<std::uint16_t>(what)};
    case ValueType::i16:
      return std::int64_t{reader.read<std::int16_t>(what)};
    case ValueType::u32:
      return std::uint64_t{reader.read<std::uint32_t>(what)};
    case ValueType::i32:
      return std::int64_t{reader.read<std::int32_t>(what)};
    case ValueType::u64:
      return reader.read<std::uint64_t>(what);
    case ValueType::i64:
      return reader.read<std::int64_t>(what);
    case ValueType::f32:
      return double{reader.read<float>(what)};
    case ValueType::f64:
      return reader.read<double>(what);
    case ValueType::boolean:
      return reader.read_boolean(what);
    case ValueType::string:
      return reader.read_string(what);
    case ValueType::array:
      return read_array(reader);
  }
  reader.fail(at, fmt::format("expected a value's type, 0 to 12, got {}", type));
}

// A tensor as the header declares it, before the start of the data is known.
struct Declaration {
  std::size_t offset_at;  // where in the file its offset is written, for errors
  std::uint64_t offset;
  std::optional<std::uint64_t> bytes;  // nullopt: a type of unknown size
};

Declaration read_declaration(Reader& reader, Tensor& tensor) {
  const std::size_t at = reader.position();
  tensor.name = reader.read_string("a tensor's name");
  const std::uint32_t dimensions = reader.read<std::uint32_t>("a tensor's dimension count");
  if (dimensions > max_dimensions) {
    reader.fail(at, fmt::format("tensor \"{}\" has {} dimensions; at most {} are read", tensor.name,
                                dimensions, max_dimensions));
  }
  tensor.shape.resize(dimensions);
  std::uint64_t elements = 1;
  for (std::size_t i = dimensions; i-- > 0;) {
    const std::uint64_t extent = reader.read<std::uint64_t>("a tensor's dimension");
    if (extent == 0) reader.fail(at, fmt::format("tensor \"{}\" has a dimension of 0", tensor.name));
    const std::optional<std::uint64_t> product = multiply(elements, extent);
    if (!product)
      reader.fail(at, fmt::format("tensor \"{}\" has more elements than 64 bits can count", tensor.name));
    elements = *product;
    tensor.shape[i] = static_cast<std::size_t>(extent);
  }
  const std::uint32_t number = reader.read<std::uint32_t>("a tensor's type");
  tensor.type_name = fmt::format("ggml type {}", number);
  for (const GgmlType& known : ggml_types) {
    if (known.number != number) continue;
    tensor.type_name = known.name;
    tensor.type = known.type;
  }
  Declaration declaration{};
  declaration.offset_at = reader.position();
  declaration.offset = reader.read<std::uint64_t>("a tensor's offset");
  if (!tensor.type) return declaration;
  const DataTypeInfo& type = info(*tensor.type);
  const std::size_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % type.block_elements != 0) {
    reader.fail(
        at,
        fmt::format("tensor \"{}\" is {}, and its rows of {} elements are not a whole number of blocks of {}",
                    tensor.name, tensor.type_name, row, type.block_elements));
  }
  declaration.bytes = multiply(elements / type.block_elements, type.block_bytes);
  if (!declaration.bytes)
    reader.fail(at, fmt::format("tensor \"{}\" has more bytes than 64 bits can count", tensor.name));
  return declaration;
}

std::size_t read_header(Reader& reader, std::size_t& metadata_count) {
  if (!looks_like_gguf(reader.bytes())) reader.fail(0, "expected \"GGUF\"", "Give a GGUF file.");
  (void)reader.read<std::uint32_t>("the magic number");
  const std::size_t at = reader.position();
  const std::uint32_t version = reader.read<std::uint32_t>("the version");
  // A big-endian file differs from a little-endian one in nothing but its bytes' order (gguf.md,
  // "endianness").
  if (version != 0 && (version & 0xffff) == 0) {
    reader.fail(at, "a big-endian GGUF file, which Rondo does not read",
                "Convert it with gguf_convert_endian.py of PyPI's gguf.");
  }
  if (version != 2 && version != 3) {
    reader.fail(at, fmt::format("GGUF version {}; versions 2 and 3 are read", version),
                "Convert the model again with a current llama.cpp.");
  }
  // A tensor takes at least a length, a dimension count, a type and an offset; a pair a length, a type and
  // one byte.
  const std::size_t tensor_count = reader.read_count(24, "the tensor count");
  metadata_count = reader.read_count(13, "the metadata count");
  return tensor_count;
}

std::uint64_t read_metadata(Reader& reader, std::size_t count, GgufContents& contents) {
  std::uint64_t alignment = default_alignment;
  std::unordered_set<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = reader.position();
    std::string key = reader.read_string("a metadata key");
    if (!keys.insert(key).second) reader.fail(at, fmt::format("metadata key \"{}\" occurs twice", key));
    const std::size_t value_at = reader.position();
    MetadataValue value = read_value(reader);
    if (key == "general.alignment") {
      const std::uint64_t* number = std::get_if<std::uint64_t>(&value);
      if (number == nullptr || !std::has_single_bit(*number) ||
          *number > std::numeric_limits<std::uint32_t>::max()) {
        reader.fail(value_at, "general.alignment is not an unsigned 32-bit power of two");
      }
      alignment = *number;
    }
    contents.metadata.emplace_back(std::move(key), std::move(value));
  }
  return alignment;
}

std::vector<Declaration> read_declarations(Reader& reader, std::size_t count, GgufContents& contents) {
  std::vector<Declaration> declarations;
  std::unordered_set<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = reader.position();
    Tensor tensor;
    declarations.push_back(read_declaration(reader, tensor));
    if (!names.insert(tensor.name).second)
      reader.fail(at, fmt::format("tensor \"{}\" occurs twice", tensor.name));
    contents.tensors.push_back(std::move(tensor));
  }
  return declarations;
}

}  // namespace

bool looks_like_gguf(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= sizeof magic && std::memcmp(bytes.data(), magic, sizeof magic) == 0;
}

GgufContents read_gguf(std::span<const std::byte> bytes, const std::string& file) {
  Reader reader(bytes, file);
  GgufContents contents;
  std::size_t metadata_count = 0;
  const std::size_t tensor_count = read_header(reader, metadata_count);
  const std::uint64_t alignment = read_metadata(reader, metadata_count, contents);
  const std::vector<Declaration> declarations = read_declarations(reader, tensor_count, contents);

  // No overflow: the position lies inside a mapped file, and the alignment has 32 bits.
  const std::uint64_t start = (reader.position() + alignment - 1) / alignment * alignment;
  const std::uint64_t available = start < bytes.size() ? bytes.size() - start : 0;
  for (std::size_t i = 0; i < declarations.size(); ++i) {
    const Declaration& declaration = declarations[i];
    Tensor& tensor = contents.tensors[i];
    if (declaration.offset % alignment != 0) {
      reader.fail(
          declaration.offset_at,
          fmt::format("tensor \"{}\" starts at offset {}, which is not a multiple of the alignment, {}",
                      tensor.name, declaration.offset, alignment));
    }
    const std::uint64_t size = declaration.bytes.value_or(0);
    if (declaration.offset > available || size > available - declaration.offset) {
      reader.fail(declaration.offset_at,
                  fmt::format("tensor \"{}\" has {} bytes at offset {} of the data, which starts at byte {}; "
                              "the file ends at byte {}",
                              tensor.name, size, declaration.offset, start, bytes.size()),
                  file_cut_short_hint);
    }
    if (size == 0) continue;
    tensor.data =
        bytes.subspan(static_cast<std::size_t>(start + declaration.offset), static_cast<std::size_t>(size));
  }
  return contents;
}

}  // namespace rondo
