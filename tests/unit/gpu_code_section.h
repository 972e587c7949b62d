// What nvcc leaves in a program or library: a fat binary, here with one cubin of one kernel.
#pragma once

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace rondo {

// The kernel's parameters: 8 bytes, and 4 behind them.
struct GpuCodeSection {
  std::uint32_t magic = 0xba55ed50;
  std::uint16_t version = 1, header_bytes = 16;
  std::uint64_t bytes = sizeof(GpuCodeSection) - 16;
  std::uint16_t kind = 2, unknown = 0x101;
  std::uint32_t entry_header_bytes = 64;
  std::uint64_t entry_bytes = sizeof(GpuCodeSection) - 16 - 64;
  std::uint64_t more[6] = {};
  Elf64_Ehdr header = {{0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                       2,
                       190,
                       1,
                       0,
                       0,
                       sizeof(Elf64_Ehdr),
                       0,
                       sizeof(Elf64_Ehdr),
                       0,
                       0,
                       sizeof(Elf64_Shdr),
                       3,
                       1};
  Elf64_Shdr none = {};
  Elf64_Shdr names_header = {0,  SHT_STRTAB, 0, 0, sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Shdr),
                             48, 0,          0, 1, 0};
  Elf64_Shdr info_header = {
      1, SHT_PROGBITS, 0, 0, sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Shdr) + 48, 32, 0, 0, 1, 0};
  char names[48] = "\0.nv.info.";
  std::uint32_t info[8] = {0x000c1704, 0, 0x00080001, 4 << 18, 0x000c1704, 0, 0, 8 << 18};
};

constexpr GpuCodeSection gpu_code_section(std::string_view kernel) {
  GpuCodeSection section;
  std::copy(kernel.begin(), kernel.end(), section.names + sizeof("\0.nv.info.") - 1);
  return section;
}

}  // namespace rondo
