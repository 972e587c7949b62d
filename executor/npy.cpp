#include "npy.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "file_error.h"

namespace rondo {
namespace {

constexpr char magic[] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
constexpr std::size_t max_dimensions = 64;  // NumPy's own limit (NPY_MAXDIMS)
constexpr std::size_t header_alignment = 64;

struct NpyType {
  const char* code;  // the descr, without its byte order
  DataType type;
};

// NumPy has no bfloat16; the ml_dtypes package saves its own as two opaque bytes.
constexpr NpyType npy_types[] = {
    {"b1", DataType::boolean}, {"i1", DataType::i8},  {"u1", DataType::u8},   {"i2", DataType::i16},
    {"u2", DataType::u16},     {"i4", DataType::i32}, {"u4", DataType::u32},  {"i8", DataType::i64},
    {"u8", DataType::u64},     {"f2", DataType::f16}, {"V2", DataType::bf16}, {"f4", DataType::f32},
    {"f8", DataType::f64},
};

// The header is the text of a Python dict of three keys.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::size_t start, const std::string& file)
      : text_(text), start_(start), file_(file) {}

  [[noreturn]] void fail(const std::string& what) const { throw_at_byte(file_, start_ + position_, what); }

  void parse() {
    expect('{');
    while (!accept('}')) {
      const std::string key = parse_string();
      expect(':');
      if (key == "descr" && !descr) {
        parse_descr();
      } else if (key == "fortran_order" && !fortran_order) {
        fortran_order = parse_boolean();
      } else if (key == "shape" && !shape) {
        parse_shape();
      } else {
        fail(fmt::format(
            "expected the keys \"descr\", \"fortran_order\" and \"shape\", each once, got \"{}\"", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (position_ != text_.size()) fail("expected nothing after the header's closing brace");
    if (!descr || !fortran_order || !shape)
      fail("the header lacks one of \"descr\", \"fortran_order\" and \"shape\"");
  }

  std::optional<std::string> descr;  // "" for a list of fields
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::size_t>> shape;

 private:
  void skip_space() {
    while (position_ < text_.size() && std::strchr(" \t\r\n\f", text_[position_]) != nullptr &&
           text_[position_] != '\0')
      ++position_;
  }

  bool accept(char c) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  void expect(char c) {
    if (accept(c)) return;
    if (position_ >= text_.size()) fail(fmt::format("expected '{}' in the header, got its end", c));
    fail(fmt::format("expected '{}' in the header, got byte 0x{:02x}", c,
                     static_cast<unsigned char>(text_[position_])));
  }

  std::string parse_string() {
    skip_space();
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a quoted string in the header");
    const std::size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) fail("a string in the header has no end");
    std::string value(text_.substr(position_ + 1, end - position_ - 1));
    position_ = end + 1;
    return value;
  }

  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }

  bool parse_boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    fail("expected True or False in the header");
  }

  // A struct's descr is a list of tuples; all that matters is where it ends.
  void parse_descr() {
    if (!accept('[')) {
      descr = parse_string();
      return;
    }
    descr.emplace();
    for (std::size_t depth = 1; depth > 0;) {
      skip_space();
      const char c = position_ < text_.size() ? text_[position_] : '\0';
      if (c == '\0') fail("a list in the header has no end");
      if (c == '\'' || c == '"') {
        (void)parse_string();
        continue;
      }
      if (c == '[') ++depth;
      if (c == ']') --depth;
      ++position_;
    }
  }

  std::size_t parse_extent() {
    skip_space();
    const std::size_t first = position_;
    std::size_t value = 0;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; ++position_) {
      const std::size_t digit = static_cast<std::size_t>(text_[position_] - '0');
      if (value > (std::numeric_limits<std::size_t>::max() - digit) / 10)
        fail("a dimension of more than 64 bits");
      value = value * 10 + digit;
    }
    if (position_ == first) fail("expected a dimension, a whole number of 0 or more");
    // Python 2 wrote its long integers so.
    if (position_ < text_.size() && text_[position_] == 'L') ++position_;
    return value;
  }

  void parse_shape() {
    shape.emplace();
    expect('(');
    if (accept(')')) return;
    while (true) {
      shape->push_back(parse_extent());
      if (shape->size() > max_dimensions) fail(fmt::format("more than {} dimensions", max_dimensions));
      const bool comma = accept(',');
      if (accept(')')) {
        if (!comma && shape->size() == 1) fail("expected a tuple, \"(3,)\", got a number in parentheses");
        return;
      }
      if (!comma) expect(')');
    }
  }

  std::string_view text_;
  std::size_t start_;
  const std::string& file_;
  std::size_t position_ = 0;
};

// Where the header's text lies: its start and its length.
std::pair<std::size_t, std::size_t> find_header(std::span<const std::byte> bytes, const std::string& file) {
  if (!looks_like_npy(bytes))
    throw_at_byte(file, 0, "expected NumPy's magic string, \"\\x93NUMPY\"",
                  "Save the array with numpy.save.");
  constexpr std::size_t version_at = sizeof magic;
  constexpr std::size_t length_at = version_at + 2;
  if (bytes.size() < length_at)
    throw_at_byte(file, version_at, "the file ends before its format version", file_cut_short_hint);
  const unsigned major = std::to_integer<unsigned>(bytes[version_at]);
  const unsigned minor = std::to_integer<unsigned>(bytes[version_at + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    throw_at_byte(file, version_at, fmt::format("format {}.{}; 1.0, 2.0 and 3.0 are read", major, minor),
                  "Save the array with numpy.save.");
  }
  const std::size_t width = major == 1 ? 2 : 4;
  if (bytes.size() < length_at + width)
    throw_at_byte(file, length_at, "the file ends before its header's length", file_cut_short_hint);
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i)
    length |= std::to_integer<std::size_t>(bytes[length_at + i]) << (8 * i);
  const std::size_t start = length_at + width;
  if (length > bytes.size() - start) {
    throw_at_byte(
        file, length_at,
        fmt::format("a header of {} bytes, and {} are left in the file", length, bytes.size() - start),
        file_cut_short_hint);
  }
  return {start, length};
}

std::optional<std::size_t> byte_count(DataType type, std::span<const std::size_t> shape) {
  std::size_t bytes = info(type).block_bytes;
  bool empty = false;
  for (const std::size_t extent : shape) empty = empty || extent == 0;
  if (empty) return 0;
  for (const std::size_t extent : shape) {
    if (bytes > std::numeric_limits<std::size_t>::max() / extent) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

std::string make_header(DataType type, std::span<const std::size_t> shape) {
  std::string code;
  for (const NpyType& known : npy_types) {
    if (known.type == type) code = known.code;
  }
  const char order = info(type).block_bytes == 1 ? '|' : '<';
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': (", order, code);
  for (const std::size_t extent : shape) header += fmt::format("{},{}", extent, shape.size() == 1 ? "" : " ");
  header += "), }";
  const std::size_t prefix = sizeof magic + 4;
  header.append(header_alignment - 1 - (prefix + header.size()) % header_alignment, ' ');
  return header + '\n';
}

}  // namespace

bool looks_like_npy(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= sizeof magic && std::memcmp(bytes.data(), magic, sizeof magic) == 0;
}

Tensor read_npy(std::span<const std::byte> bytes, const std::string& file, std::string name) {
  const auto [start, length] = find_header(bytes, file);
  HeaderParser header({reinterpret_cast<const char*>(bytes.data()) + start, length}, start, file);
  header.parse();
  Tensor tensor{.name = std::move(name),
                .type_name = *header.descr,
                .type = {},
                .shape = std::move(*header.shape),
                .data = {}};
  const char order = tensor.type_name.empty() ? '\0' : tensor.type_name[0];
  if (order == '>') {
    throw_at_byte(file, start, fmt::format("big-endian data, \"{}\"", tensor.type_name),
                  "Save the array with a.astype(a.dtype.newbyteorder('<')).");
  }
  if (*header.fortran_order) {
    throw_at_byte(file, start, "Fortran order",
                  "Save the array with numpy.save(file, numpy.ascontiguousarray(a)).");
  }
  if (tensor.type_name.empty()) tensor.type_name = "a struct";
  if (order != '<' && order != '|') return tensor;
  for (const NpyType& known : npy_types) {
    if (std::string_view(tensor.type_name).substr(1) == known.code) tensor.type = known.type;
  }
  if (!tensor.type) return tensor;
  const std::size_t data_start = start + length;
  const std::optional<std::size_t> size = byte_count(*tensor.type, tensor.shape);
  if (!size) throw_at_byte(file, start, "the shape has more bytes than 64 bits can count");
  if (*size > bytes.size() - data_start) {
    throw_at_byte(file, data_start,
                  fmt::format("the shape needs {} bytes of data, and the file has {}", *size,
                              bytes.size() - data_start),
                  file_cut_short_hint);
  }
  tensor.data = bytes.subspan(data_start, *size);
  return tensor;
}

void write_npy(const std::filesystem::path& path, DataType type, std::span<const std::size_t> shape,
               std::span<const std::byte> data) {
  const auto refuse = [&](ErrorCode code, const std::string& what, const std::string& hint = "") {
    throw_file_error(code, path.string(), what, hint);
  };
  if (!is_plain(type)) {
    refuse(ErrorCode::bad_argument, fmt::format("NumPy has no type for {}", rondo::name(type)),
           "Write a buffer of a plain type.");
  }
  const std::optional<std::size_t> size = byte_count(type, shape);
  if (size != data.size() || shape.size() > max_dimensions) {
    refuse(ErrorCode::bad_argument, fmt::format("{} bytes are not an array of {} with the shape [{}]",
                                                data.size(), rondo::name(type), fmt::join(shape, ", ")));
  }
  const std::string header = make_header(type, shape);
  std::string start(magic, sizeof magic);
  start += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  start += header;
  const auto fail = [&](const char* doing) {
    const int code = errno;
    refuse(ErrorCode::run_time, fmt::format("{}: {}", doing, std::generic_category().message(code)),
           "Check the path, its permissions and the space left.");
  };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (!file) fail("cannot be created");
  const bool written = std::fwrite(start.data(), 1, start.size(), file.get()) == start.size() &&
                       (data.empty() || std::fwrite(data.data(), 1, data.size(), file.get()) == data.size());
  if (!written) fail("cannot be written");
  if (std::fclose(file.release()) != 0) fail("cannot be written");
}

}  // namespace rondo
