// The sections of an ELF file in memory that came from elsewhere, by name.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace rondo::rtc {

struct ElfSection {
  std::string_view name;               // within the file
  std::span<const std::byte> content;  // within the file; empty where the section has no bytes there
};

// In the file's order; more than 65,279 of them too. Throws Error(run_time) that says what is wrong for a
// file that is no 64-bit little-endian ELF file, is cut short or damaged.
std::vector<ElfSection> elf_sections(std::span<const std::byte> file);

}  // namespace rondo::rtc
