// Reading a 64-bit little-endian ELF file in memory that came from elsewhere: every offset is checked against
// the file.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace rondo::rtc::elf {

using Bytes = std::span<const std::byte>;

inline std::optional<Bytes> part(Bytes file, std::uint64_t offset, std::uint64_t size) {
  if (offset > file.size() || size > file.size() - offset) return std::nullopt;
  return file.subspan(offset, size);
}

// Copied out: nothing in a file that came from elsewhere is known to be aligned.
template <class T>
std::optional<T> read(Bytes file, std::uint64_t offset) {
  const std::optional<Bytes> bytes = part(file, offset, sizeof(T));
  if (!bytes) return std::nullopt;
  T value;
  std::memcpy(&value, bytes->data(), sizeof value);
  return value;
}

// nullopt where the file is no such ELF file.
inline std::optional<Elf64_Ehdr> header_of(Bytes file) {
  const std::optional<Elf64_Ehdr> header = read<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return std::nullopt;
  }
  return header;
}

inline std::optional<Elf64_Shdr> section(Bytes file, const Elf64_Ehdr& header, std::uint32_t index) {
  if (index >= header.e_shnum || header.e_shentsize < sizeof(Elf64_Shdr) || header.e_shoff > file.size())
    return std::nullopt;
  return read<Elf64_Shdr>(file, header.e_shoff + std::uint64_t{index} * header.e_shentsize);
}

inline std::optional<Elf64_Phdr> segment(Bytes file, const Elf64_Ehdr& header, std::uint32_t index) {
  if (index >= header.e_phnum || header.e_phentsize < sizeof(Elf64_Phdr) || header.e_phoff > file.size())
    return std::nullopt;
  return read<Elf64_Phdr>(file, header.e_phoff + std::uint64_t{index} * header.e_phentsize);
}

}  // namespace rondo::rtc::elf
