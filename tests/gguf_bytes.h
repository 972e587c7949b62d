// Builds GGUF files byte by byte, well-formed or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace rondo::test {

class GgufBytes {
 public:
  template <typename T>
  GgufBytes& value(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }

  GgufBytes& zeros(std::size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }

  GgufBytes& align(std::size_t alignment) {
    return zeros((alignment - bytes_.size() % alignment) % alignment);
  }

  GgufBytes& string(const std::string& text) {
    value<std::uint64_t>(text.size());
    for (const char c : text) value(c);
    return *this;
  }

  GgufBytes& header(std::uint32_t version, std::uint64_t tensors, std::uint64_t metadata) {
    for (const char c : {'G', 'G', 'U', 'F'}) value(c);
    return value(version).value(tensors).value(metadata);
  }

  GgufBytes& key(const std::string& name, std::uint32_t type) { return string(name).value(type); }

  // Strings and 32-bit integers as arrays of metadata.
  GgufBytes& strings(const std::string& name, const std::vector<std::string>& texts) {
    key(name, 9).value<std::uint32_t>(8).value<std::uint64_t>(texts.size());
    for (const std::string& text : texts) string(text);
    return *this;
  }

  GgufBytes& integers(const std::string& name, const std::vector<std::int32_t>& numbers) {
    key(name, 9).value<std::uint32_t>(5).value<std::uint64_t>(numbers.size());
    for (const std::int32_t number : numbers) value(number);
    return *this;
  }

  // Dimensions as the file has them: fastest first.
  GgufBytes& tensor(const std::string& name, const std::vector<std::uint64_t>& dimensions, std::uint32_t type,
                    std::uint64_t offset) {
    string(name).value(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t extent : dimensions) value(extent);
    return value(type).value(offset);
  }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace rondo::test
