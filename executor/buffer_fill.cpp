#include "buffer_fill.h"

#include <cstring>

namespace rondo {
namespace {

// The finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<std::byte> random_elements(DataType type, std::size_t elements, std::uint64_t seed) {
  const DataTypeInfo& of = info(type);
  std::vector<std::byte> bytes(elements * of.block_bytes);
  const std::uint64_t start = mix(seed);
  for (std::size_t i = 0; i < elements; ++i) {
    const std::uint64_t bits = mix(start + i);
    std::byte* const to = bytes.data() + i * of.block_bytes;
    if (of.is_float) {
      store_float(type, static_cast<double>(bits >> 40) / (1 << 23) - 1.0, to);
    } else {
      store_integer(type, static_cast<std::int64_t>(bits >> (type == DataType::boolean ? 63 : 60)), to);
    }
  }
  return bytes;
}

std::vector<std::byte> equal_elements(DataType type, std::size_t elements, double value) {
  const DataTypeInfo& of = info(type);
  std::vector<std::byte> bytes(elements * of.block_bytes);
  std::byte element[8] = {};
  if (of.is_float) {
    store_float(type, value, element);
  } else {
    store_integer(type, static_cast<std::int64_t>(value), element);
  }
  for (std::size_t i = 0; i < elements; ++i)
    std::memcpy(bytes.data() + i * of.block_bytes, element, of.block_bytes);
  return bytes;
}

}  // namespace rondo
