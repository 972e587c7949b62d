#include "safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "file_error.h"
#include "json_text.h"

namespace rondo {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors values are read as they lie in the file");

constexpr std::size_t length_bytes = 8;
// The format's own limit, of its reference implementation.
constexpr std::uint64_t max_header_bytes = 100'000'000;
constexpr std::size_t max_dimensions = 8;

struct SafetensorsType {
  const char* name;
  std::size_t bytes;
  std::optional<DataType> type;
};
constexpr SafetensorsType types[] = {
    {"BOOL", 1, DataType::boolean},
    {"U8", 1, DataType::u8},
    {"I8", 1, DataType::i8},
    {"U16", 2, DataType::u16},
    {"I16", 2, DataType::i16},
    {"F16", 2, DataType::f16},
    {"BF16", 2, DataType::bf16},
    {"U32", 4, DataType::u32},
    {"I32", 4, DataType::i32},
    {"F32", 4, DataType::f32},
    {"U64", 8, DataType::u64},
    {"I64", 8, DataType::i64},
    {"F64", 8, DataType::f64},
    {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},
    {"F8_E8M0", 1, {}},
    {"C64", 8, {}},
};

std::optional<std::uint64_t> natural(const JsonValue& value) {
  if (const auto* number = value.get<std::int64_t>())
    return *number < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(*number));
  if (const auto* number = value.get<std::uint64_t>()) return *number;
  return std::nullopt;
}

const JsonValue* find(const JsonObject& object, std::string_view key) {
  for (const auto& [name, value] : object) {
    if (name == key) return &value;
  }
  return nullptr;
}

// A JSON text inside a file; `start` is its first byte there.
class Text {
 public:
  Text(const std::string& file, std::string content, std::size_t start)
      : file_(file), content_(std::move(content)), start_(start) {
    std::vector<JsonError> errors;
    value_ = parse_json(content_, errors);
    if (errors.empty()) return;
    throw_at_byte(file_, start_ + errors.front().offset, errors.front().message, errors.front().hint);
  }

  const std::string& file() const { return file_; }
  const JsonValue& value() const { return value_; }

  [[noreturn]] void fail(const std::string& pointer, const std::string& what,
                         const std::string& hint = {}) const {
    throw_at_byte(file_, start_ + locate(content_, pointer), what, hint);
  }

 private:
  const std::string& file_;
  const std::string content_;
  const std::size_t start_;
  JsonValue value_;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Of a mapped file that is a JSON text as a whole.
std::string whole_text(const MappedFile& file, const std::string& name) {
  if (file.bytes().size() > max_header_bytes) {
    throw_file_error(
        ErrorCode::bad_argument, name,
        fmt::format("a JSON file of {} bytes; at most {} are read", file.bytes().size(), max_header_bytes));
  }
  return text_of(file.bytes());
}

// Where a tensor's data lies among all of the file's.
struct Extent {
  std::uint64_t begin, end;
  std::size_t tensor;  // its place in the header
};

class HeaderReader {
 public:
  HeaderReader(const Text& text, std::span<const std::byte> data) : text_(text), data_(data) {}

  std::vector<Tensor> run() {
    const JsonObject* header = text_.value().get<JsonObject>();
    if (!header) text_.fail("", fmt::format("expected an object, got {}", describe(text_.value())));
    for (const auto& [name, value] : *header) {
      if (name != "__metadata__") add(name, value);
    }
    check_cover();
    return std::move(tensors_);
  }

 private:
  void add(const std::string& name, const JsonValue& value) {
    const std::string pointer = child_pointer("", name);
    const JsonObject* object = value.get<JsonObject>();
    if (!object)
      text_.fail(pointer, fmt::format("tensor \"{}\": expected an object, got {}", name, describe(value)));
    Tensor tensor;
    tensor.name = name;
    const auto member = [&](const char* key) -> const JsonValue& {
      const JsonValue* found = find(*object, key);
      if (!found) text_.fail(pointer, fmt::format("tensor \"{}\" has no \"{}\"", name, key));
      return *found;
    };
    const JsonValue& dtype = member("dtype");
    const std::string* type_name = dtype.get<std::string>();
    if (!type_name)
      text_.fail(pointer + "/dtype",
                 fmt::format("tensor \"{}\": expected a type's name, got {}", name, describe(dtype)));
    tensor.type_name = *type_name;
    const std::uint64_t elements = read_shape(tensor, member("shape"), pointer + "/shape");
    const Extent extent = read_offsets(tensor, member("data_offsets"), pointer + "/data_offsets");
    const auto* type = std::find_if(std::begin(types), std::end(types), [&](const SafetensorsType& known) {
      return known.name == tensor.type_name;
    });
    if (type != std::end(types)) {
      std::uint64_t bytes = 0;
      if (__builtin_mul_overflow(elements, std::uint64_t{type->bytes}, &bytes) ||
          bytes != extent.end - extent.begin) {
        text_.fail(
            pointer + "/data_offsets",
            fmt::format("tensor \"{}\" of type {} and shape [{}] has data of {} bytes, and {} were expected",
                        name, tensor.type_name, fmt::join(tensor.shape, ", "), extent.end - extent.begin,
                        elements > UINT64_MAX / type->bytes ? std::string("more than 64 bits count")
                                                            : std::to_string(bytes)));
      }
      tensor.type = type->type;
    }
    if (tensor.type)
      tensor.data = data_.subspan(static_cast<std::size_t>(extent.begin),
                                  static_cast<std::size_t>(extent.end - extent.begin));
    extents_.push_back(extent);
    tensors_.push_back(std::move(tensor));
  }

  // Gives the number of elements.
  std::uint64_t read_shape(Tensor& tensor, const JsonValue& value, const std::string& pointer) const {
    const JsonArray* array = value.get<JsonArray>();
    if (!array || array->size() > max_dimensions) {
      text_.fail(pointer, fmt::format("tensor \"{}\": expected a shape of up to {} dimensions, got {}",
                                      tensor.name, max_dimensions,
                                      array ? fmt::format("{} dimensions", array->size()) : describe(value)));
    }
    std::uint64_t elements = 1;
    for (const JsonValue& item : *array) {
      const std::optional<std::uint64_t> extent = natural(item);
      if (!extent || *extent > std::numeric_limits<std::size_t>::max())
        text_.fail(pointer, fmt::format("tensor \"{}\": expected a dimension, 0 or more, got {}", tensor.name,
                                        describe(item)));
      if (__builtin_mul_overflow(elements, *extent, &elements))
        text_.fail(pointer,
                   fmt::format("tensor \"{}\" has more elements than 64 bits can count", tensor.name));
      tensor.shape.push_back(static_cast<std::size_t>(*extent));
    }
    return elements;
  }

  Extent read_offsets(const Tensor& tensor, const JsonValue& value, const std::string& pointer) const {
    const JsonArray* array = value.get<JsonArray>();
    if (!array || array->size() != 2) {
      text_.fail(pointer,
                 fmt::format("tensor \"{}\": expected two offsets, [begin, end], got {}", tensor.name,
                             array ? fmt::format("{} of them", array->size()) : describe(value)));
    }
    const auto begin = natural((*array)[0]), end = natural((*array)[1]);
    if (!begin || !end || *begin > *end || *end > data_.size()) {
      text_.fail(
          pointer,
          fmt::format(
              "tensor \"{}\": expected offsets from 0 to {}, the end of the file's data, got {} and {}",
              tensor.name, data_.size(), describe((*array)[0]), describe((*array)[1])),
          file_cut_short_hint);
    }
    return {*begin, *end, tensors_.size()};
  }

  // "The byte buffer needs to be entirely indexed, and cannot contain holes"; and no byte belongs to two.
  void check_cover() {
    std::sort(extents_.begin(), extents_.end(), [](const Extent& a, const Extent& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    std::uint64_t at = 0;
    for (const Extent& extent : extents_) {
      const std::string& name = tensors_[extent.tensor].name;
      if (extent.begin != at) {
        text_.fail(child_pointer("", name) + "/data_offsets",
                   fmt::format("tensor \"{}\" begins at {} of the data, and the one before it ends at {}: {}",
                               name, extent.begin, at,
                               extent.begin < at ? "they overlap" : "there is a hole between them"));
      }
      at = extent.end;
    }
    if (at != data_.size()) {
      throw_file_error(ErrorCode::bad_argument, text_.file(),
                       fmt::format("the tensors end at {} of the data, which has {} bytes", at, data_.size()),
                       file_cut_short_hint);
    }
  }

  const Text& text_;
  std::span<const std::byte> data_;
  std::vector<Tensor> tensors_;
  std::vector<Extent> extents_;
};

template <typename Kept>
std::optional<MetadataValue> array_of(const JsonArray& array) {
  std::vector<Kept> values;
  for (const JsonValue& item : array) {
    const auto* value = item.get<Kept>();
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return MetadataValue(std::move(values));
}

std::optional<MetadataValue> metadata_of(const JsonValue& value) {
  if (const auto* boolean = value.get<bool>()) return *boolean;
  if (const auto* integer = value.get<std::int64_t>()) return *integer;
  if (const auto* integer = value.get<std::uint64_t>()) return *integer;
  if (const auto* real = value.get<double>()) return *real;
  if (const auto* text = value.get<std::string>()) return *text;
  const JsonArray* array = value.get<JsonArray>();
  if (!array || array->empty()) return std::nullopt;
  if (auto values = array_of<std::int64_t>(*array)) return values;
  if (auto values = array_of<double>(*array)) return values;
  if (auto values = array_of<std::string>(*array)) return values;
  return array_of<bool>(*array);
}

// As deep as parse_json reads.
void add_metadata(const JsonObject& object, const std::string& prefix,
                  std::vector<std::pair<std::string, MetadataValue>>& metadata) {
  for (const auto& [key, value] : object) {
    if (const JsonObject* inner = value.get<JsonObject>()) {
      add_metadata(*inner, prefix + key + ".", metadata);
    } else if (auto kept = metadata_of(value)) {
      metadata.emplace_back(prefix + key, std::move(*kept));
    }
  }
}

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

bool looks_like_safetensors(const std::filesystem::path& path, std::span<const std::byte> bytes) noexcept {
  if (path.extension() == ".safetensors") return true;
  std::uint64_t length = 0;
  if (bytes.size() <= length_bytes) return false;
  std::memcpy(&length, bytes.data(), sizeof length);
  return length <= bytes.size() - length_bytes && bytes[length_bytes] == std::byte{'{'};
}

std::vector<Tensor> read_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  std::uint64_t length = 0;
  if (bytes.size() < length_bytes) {
    throw_at_byte(file, 0,
                  fmt::format("the header's length needs 8 bytes, and the file has {}", bytes.size()),
                  file_cut_short_hint);
  }
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > max_header_bytes || length > bytes.size() - length_bytes) {
    throw_at_byte(file, 0,
                  fmt::format("expected a header of up to {} bytes, got a length of {}",
                              std::min<std::uint64_t>(max_header_bytes, bytes.size() - length_bytes), length),
                  file_cut_short_hint);
  }
  const auto header = bytes.subspan(length_bytes, static_cast<std::size_t>(length));
  const Text text(file, text_of(header), length_bytes);
  return HeaderReader(text, bytes.subspan(length_bytes + header.size())).run();
}

std::vector<Tensor> read_safetensors_index(const std::filesystem::path& index,
                                           std::vector<MappedFile>& files) {
  const std::string name = index.string();
  const Text text(name, whole_text(MappedFile(index), name), 0);
  const JsonObject* root = text.value().get<JsonObject>();
  const JsonValue* map = root ? find(*root, "weight_map") : nullptr;
  const JsonObject* names = map ? map->get<JsonObject>() : nullptr;
  if (!names)
    text.fail(map ? "/weight_map" : "",
              "expected an object with the key \"weight_map\", an object of file names");
  std::map<std::string, std::unordered_map<std::string, Tensor>> shards;  // by file, by tensor
  std::vector<Tensor> tensors;
  for (const auto& [tensor, where] : *names) {
    const std::string pointer = child_pointer("/weight_map", tensor);
    const std::string* shard = where.get<std::string>();
    if (!shard || !is_plain_file_name(*shard)) {
      text.fail(pointer, fmt::format("tensor \"{}\": expected the name of a file in the same folder, got {}",
                                     tensor, describe(where)));
    }
    const auto [known, is_new] = shards.try_emplace(*shard);
    if (is_new) {
      const std::filesystem::path path = index.parent_path() / *shard;
      files.emplace_back(path);
      for (Tensor& each : read_safetensors(files.back().bytes(), path.string()))
        known->second.emplace(each.name, std::move(each));
    }
    const auto found = known->second.find(tensor);
    if (found == known->second.end())
      text.fail(pointer, fmt::format("tensor \"{}\" is said to be in \"{}\", which has no such tensor",
                                     tensor, *shard));
    tensors.push_back(std::move(found->second));
  }
  return tensors;
}

std::vector<std::pair<std::string, MetadataValue>> read_config(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  const std::string name = path.string();
  const Text text(name, whole_text(MappedFile(path), name), 0);
  const JsonObject* root = text.value().get<JsonObject>();
  if (!root) text.fail("", fmt::format("expected an object, got {}", describe(text.value())));
  std::vector<std::pair<std::string, MetadataValue>> metadata;
  add_metadata(*root, "", metadata);
  return metadata;
}

}  // namespace rondo
