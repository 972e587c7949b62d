#include "elf_symbols.h"

#include <cstring>

#include "elf_file.h"

namespace rondo::rtc {
namespace {

using elf::Bytes;
using elf::part;
using elf::read;
using elf::section;

bool is_named(Bytes strings, std::uint32_t offset, std::string_view name) {
  if (offset >= strings.size() || strings.size() - offset <= name.size()) return false;
  return std::memcmp(strings.data() + offset, name.data(), name.size()) == 0 &&
         strings[offset + name.size()] == std::byte{0};
}

Bytes content_of(Bytes file, const Elf64_Ehdr& header, const Elf64_Sym& symbol) {
  const std::optional<Elf64_Shdr> home = section(file, header, symbol.st_shndx);
  if (!home || home->sh_type == SHT_NOBITS || symbol.st_value < home->sh_addr) return {};
  const std::optional<Bytes> bytes = part(file, home->sh_offset, home->sh_size);
  if (!bytes) return {};
  return part(*bytes, symbol.st_value - home->sh_addr, symbol.st_size).value_or(Bytes{});
}

}  // namespace

std::optional<ElfSymbol> find_elf_symbol(Bytes file, std::string_view name) {
  const std::optional<Elf64_Ehdr> header = elf::header_of(file);
  if (!header) return std::nullopt;
  for (std::uint32_t i = 0; i < header->e_shnum; ++i) {
    const std::optional<Elf64_Shdr> table = section(file, *header, i);
    if (!table || (table->sh_type != SHT_SYMTAB && table->sh_type != SHT_DYNSYM)) continue;
    const std::optional<Elf64_Shdr> names = section(file, *header, table->sh_link);
    if (!names || names->sh_type != SHT_STRTAB) continue;
    const std::optional<Bytes> symbols = part(file, table->sh_offset, table->sh_size);
    const std::optional<Bytes> strings = part(file, names->sh_offset, names->sh_size);
    if (!symbols || !strings) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols->size(); at += sizeof(Elf64_Sym)) {
      const Elf64_Sym symbol = *read<Elf64_Sym>(*symbols, at);
      if (symbol.st_shndx == SHN_UNDEF || !is_named(*strings, symbol.st_name, name)) continue;
      return ElfSymbol{content_of(file, *header, symbol), symbol.st_other, symbol.st_value};
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> find_amd_pointer(Bytes file, std::string_view name) {
  constexpr std::uint32_t absolute = 3, relative = 13;  // R_AMDGPU_ABS64, R_AMDGPU_RELATIVE64
  const std::optional<Elf64_Ehdr> header = elf::header_of(file);
  const std::optional<ElfSymbol> variable = find_elf_symbol(file, name);
  if (!header || !variable) return std::nullopt;
  for (std::uint32_t i = 0; i < header->e_shnum; ++i) {
    const std::optional<Elf64_Shdr> table = section(file, *header, i);
    if (!table || table->sh_type != SHT_RELA) continue;
    const std::optional<Bytes> entries = part(file, table->sh_offset, table->sh_size);
    const std::optional<Elf64_Shdr> symbols = section(file, *header, table->sh_link);
    for (std::uint64_t at = 0; entries && at + sizeof(Elf64_Rela) <= entries->size();
         at += sizeof(Elf64_Rela)) {
      const Elf64_Rela entry = *read<Elf64_Rela>(*entries, at);
      if (entry.r_offset != variable->address) continue;
      const auto addend = static_cast<std::uint64_t>(entry.r_addend);
      if (ELF64_R_TYPE(entry.r_info) == relative) return addend;
      if (ELF64_R_TYPE(entry.r_info) != absolute || !symbols) continue;
      const std::optional<Bytes> list = part(file, symbols->sh_offset, symbols->sh_size);
      if (!list) continue;
      const auto symbol = read<Elf64_Sym>(*list, ELF64_R_SYM(entry.r_info) * sizeof(Elf64_Sym));
      if (symbol) return symbol->st_value + addend;
    }
  }
  return std::nullopt;
}

}  // namespace rondo::rtc
