#include "elf_sections.h"

#include <fmt/format.h>

#include <cstring>

#include "elf_file.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

[[noreturn]] void damaged(const char* what) {
  throw Error(ErrorCode::run_time, fmt::format("not an ELF file that can be read: {}", what));
}

std::string_view text_at(elf::Bytes table, std::uint64_t at) {
  if (at >= table.size()) damaged("a section's name lies outside the table of names");
  const auto* const begin = reinterpret_cast<const char*>(table.data()) + at;
  const std::size_t length = strnlen(begin, table.size() - at);
  if (length == table.size() - at) damaged("a section's name has no end");
  return {begin, length};
}

}  // namespace

std::vector<ElfSection> elf_sections(elf::Bytes file) {
  const std::optional<Elf64_Ehdr> header = elf::header_of(file);
  if (!header) damaged("a 64-bit little-endian ELF file was expected");
  std::vector<ElfSection> sections;
  if (header->e_shoff == 0) return sections;
  if (header->e_shentsize < sizeof(Elf64_Shdr)) damaged("section headers of an unknown size");
  const auto read = [&](std::uint64_t index) {
    // No overflow: the index is below the number of headers that fit the file.
    const auto section = elf::read<Elf64_Shdr>(file, header->e_shoff + index * header->e_shentsize);
    if (!section) damaged("its section headers lie beyond its end");
    return *section;
  };
  if (header->e_shoff > file.size()) damaged("its section headers lie beyond its end");
  const Elf64_Shdr first = read(0);
  // System V ABI, "ELF header": what does not fit 16 bits is in the first section header.
  const std::uint64_t count = header->e_shnum != 0 ? header->e_shnum : first.sh_size;
  const std::uint64_t names_index = header->e_shstrndx != SHN_XINDEX ? header->e_shstrndx : first.sh_link;
  if (count > (file.size() - header->e_shoff) / header->e_shentsize)
    damaged("its section headers lie beyond its end");
  if (names_index >= count) damaged("its table of section names is not there");
  const Elf64_Shdr names_section = read(names_index);
  const auto names = elf::part(file, names_section.sh_offset, names_section.sh_size);
  if (!names) damaged("its table of section names lies beyond its end");
  for (std::uint64_t i = 1; i < count; ++i) {
    const Elf64_Shdr section = read(i);
    ElfSection found{text_at(*names, section.sh_name), {}};
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL) {
      const auto content = elf::part(file, section.sh_offset, section.sh_size);
      if (!content) damaged("a section lies beyond its end");
      found.content = *content;
    }
    sections.push_back(found);
  }
  return sections;
}

}  // namespace rondo::rtc
