// Reads one symbol's bytes out of a 64-bit little-endian ELF file in memory: a shared object or a cubin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rondo::rtc {

struct ElfSymbol {
  std::span<const std::byte> content;  // within the file; empty where the section has no bytes there
  std::uint8_t other = 0;              // st_other, where cubins mark kernels
};

// nullopt where the file is not such an ELF file, is damaged, or does not define the symbol. Every offset is
// checked against the file.
std::optional<ElfSymbol> find_elf_symbol(std::span<const std::byte> file, std::string_view name);

}  // namespace rondo::rtc
