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
  std::uint64_t address = 0;           // st_value
};

// nullopt where the file is not such an ELF file, is damaged, or does not define the symbol. Every offset is
// checked against the file.
std::optional<ElfSymbol> find_elf_symbol(std::span<const std::byte> file, std::string_view name);

// The address that the pointer variable `name` of an AMD code object will hold, relative to where the object
// is loaded: what the relocation that fills it says (LLVM, "User Guide for AMDGPU Backend", R_AMDGPU_ABS64
// and R_AMDGPU_RELATIVE64). nullopt as above, or where it is not filled so.
std::optional<std::uint64_t> find_amd_pointer(std::span<const std::byte> file, std::string_view name);

}  // namespace rondo::rtc
