#include "buffers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "rondo/weights.h"

namespace rondo::cli {

std::string describe(DataType type, const std::vector<std::size_t>& shape) {
  return fmt::format("{} [{}]", name(type), fmt::join(shape, ", "));
}

std::string describe_bytes(std::size_t bytes) {
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

void require(Session& session, const Status& status) {
  if (!status.ok()) throw session.error(status);
}

void write_from_npy(Session& session, const std::string& buffer, const std::string& file) {
  const BufferHandle handle = session.buffer(buffer);
  const BufferInfo& expected = session.buffers()[handle.index];
  if (expected.role == Role::temporary) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("--input {}={}: \"{}\" is a temporary, which every launch overwrites", buffer,
                            file, buffer),
                "give values for buffers of the other roles");
  }
  if (std::filesystem::path(file).extension() != ".npy") {
    throw Error(ErrorCode::bad_argument, fmt::format("--input {}={}: expected an .npy file", buffer, file));
  }
  const auto weights = WeightFile::open(file);
  const Tensor& tensor = weights->tensors().at(0);
  if (tensor.type != expected.type || tensor.shape != expected.shape) {
    const std::string given =
        tensor.type ? describe(*tensor.type, tensor.shape)
                    : fmt::format("\"{}\" [{}]", tensor.type_name, fmt::join(tensor.shape, ", "));
    throw Error(ErrorCode::bad_argument,
                fmt::format("--input {}={}: the buffer is {}, the file has {}", buffer, file,
                            describe(expected.type, expected.shape), given));
  }
  require(session, session.write(handle, tensor.data));
  require(session, session.synchronize());
}

void read_to_npy(Session& session, const std::string& buffer, const std::string& file) {
  const BufferHandle handle = session.buffer(buffer);
  const BufferInfo& info = session.buffers()[handle.index];
  if (!info.readable) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("--output {}={}: \"{}\" is a temporary that shares its memory with others",
                            buffer, file, buffer),
                "add --separate-buffers to read it");
  }
  write_npy(file, info.type, info.shape, read_bytes(session, handle));
}

std::vector<std::byte> read_bytes(Session& session, BufferHandle buffer) {
  std::vector<std::byte> bytes(session.buffers()[buffer.index].bytes);
  require(session, session.read(buffer, bytes));
  return bytes;
}

std::vector<std::byte> random_elements(const BufferInfo& buffer, std::mt19937_64& generator) {
  std::vector<std::byte> bytes(buffer.bytes);
  const DataTypeInfo& type = info(buffer.type);
  if (!is_plain(buffer.type)) {
    throw Error(ErrorCode::bad_argument, fmt::format("buffer \"{}\": no random values of type {} can be made",
                                                     buffer.name, type.name));
  }
  std::uniform_real_distribution<double> real(-1, 1);
  std::uniform_int_distribution<std::int64_t> integer(0, buffer.type == DataType::boolean ? 1 : 15);
  for (std::size_t at = 0; at + type.block_bytes <= bytes.size(); at += type.block_bytes) {
    if (type.is_float) {
      store_float(buffer.type, real(generator), &bytes[at]);
    } else {
      store_integer(buffer.type, integer(generator), &bytes[at]);
    }
  }
  return bytes;
}

Digest digest(const BufferInfo& buffer, const std::vector<std::byte>& bytes) {
  Digest result;
  const std::size_t size = info(buffer.type).block_bytes;
  result.elements = bytes.size() / size;
  double smallest = std::numeric_limits<double>::infinity(), largest = -smallest, sum = 0, squares = 0;
  for (std::size_t i = 0; i < result.elements; ++i) {
    const double value = load_as_double(buffer.type, &bytes[i * size]);
    if (i < 4) result.first.push_back(value);
    if (std::isnan(value)) {
      ++result.nans;
      continue;
    }
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
    sum += value;
    squares += value * value;
  }
  if (const std::size_t numbers = result.elements - result.nans; numbers > 0) {
    result.smallest = smallest;
    result.largest = largest;
    result.mean = sum / static_cast<double>(numbers);
    result.norm = std::sqrt(squares);
  }
  return result;
}

}  // namespace rondo::cli
