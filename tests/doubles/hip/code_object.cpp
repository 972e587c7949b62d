#include "code_object.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

namespace rondo::doubles::hip {
namespace {

constexpr unsigned metadata_note = 32;  // NT_AMDGPU_METADATA
constexpr char owner[8] = "AMDGPU";     // seven bytes with its zero, padded to a multiple of four
constexpr const char* target_prefix = "amdgcn-amd-amdhsa--";

nlohmann::json arguments_of(const rtc::Entry& kernel, std::size_t& end) {
  nlohmann::json arguments = nlohmann::json::array();
  const std::vector<std::size_t> offsets = kernel.offsets();
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const rtc::Parameter& parameter = kernel.parameters[i];
    const bool is_pointer = parameter.kind == rtc::ParameterKind::pointer;
    nlohmann::json argument = {{".offset", offsets[i]},
                               {".size", parameter.size},
                               {".value_kind", is_pointer ? "global_buffer" : "by_value"}};
    if (is_pointer) argument[".address_space"] = "global";
    arguments.push_back(std::move(argument));
  }
  // The compiler puts its own behind those of the source, at the next multiple of eight.
  end = (kernel.argument_bytes() + 7) / 8 * 8;
  const auto hide = [&](const char* kind, std::size_t size) {
    arguments.push_back({{".offset", end}, {".size", size}, {".value_kind", kind}});
    end += size;
  };
  for (const char* kind : {"hidden_block_count_x", "hidden_block_count_y", "hidden_block_count_z"})
    hide(kind, 4);
  for (const char* kind : {"hidden_group_size_x", "hidden_group_size_y"}) hide(kind, 2);
  hide("hidden_global_offset_x", 8);
  return arguments;
}

nlohmann::json metadata(const std::string& architecture, const std::vector<rtc::Entry>& kernels) {
  nlohmann::json list = nlohmann::json::array();
  for (const rtc::Entry& kernel : kernels) {
    std::size_t end = 0;
    nlohmann::json arguments = arguments_of(kernel, end);
    list.push_back({{".name", kernel.lowered},
                    {".symbol", kernel.lowered + ".kd"},
                    {".args", std::move(arguments)},
                    {".group_segment_fixed_size", 0},
                    {".private_segment_fixed_size", 0},
                    {".kernarg_segment_align", 8},
                    {".kernarg_segment_size", end},
                    {".max_flat_workgroup_size", 1024},
                    {".sgpr_count", 0},
                    {".vgpr_count", 0},
                    {".wavefront_size", 1}});
  }
  return {{"amdhsa.kernels", std::move(list)},
          {"amdhsa.target", target_prefix + architecture},
          {"amdhsa.version", {1, 2}}};
}

void append(std::vector<std::byte>& to, const void* from, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}

void align(std::vector<std::byte>& bytes, std::size_t alignment) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
}

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

void add_metadata(std::vector<std::byte>& file, const std::string& architecture,
                  const std::vector<rtc::Entry>& kernels) {
  const std::vector<std::uint8_t> content = nlohmann::json::to_msgpack(metadata(architecture, kernels));
  auto header = read<Elf64_Ehdr>(file.data());

  align(file, 4);
  Elf64_Shdr section{};
  section.sh_type = SHT_NOTE;
  section.sh_offset = file.size();
  section.sh_addralign = 4;
  const Elf64_Nhdr note{sizeof "AMDGPU", static_cast<Elf64_Word>(content.size()), metadata_note};
  append(file, &note, sizeof note);
  append(file, owner, sizeof owner);
  append(file, content.data(), content.size());
  align(file, 4);
  section.sh_size = file.size() - section.sh_offset;

  align(file, 8);
  const std::size_t table_bytes = std::size_t{header.e_shnum} * sizeof(Elf64_Shdr);
  std::vector<std::byte> table(file.begin() + static_cast<std::ptrdiff_t>(header.e_shoff),
                               file.begin() + static_cast<std::ptrdiff_t>(header.e_shoff + table_bytes));
  append(table, &section, sizeof section);
  header.e_shoff = file.size();
  ++header.e_shnum;
  append(file, table.data(), table.size());
  std::memcpy(file.data(), &header, sizeof header);
}

std::span<const std::byte> whole_file(const void* image) {
  const auto* begin = static_cast<const std::byte*>(image);
  if (std::memcmp(begin, ELFMAG, SELFMAG) != 0 || read<unsigned char>(begin + EI_CLASS) != ELFCLASS64 ||
      read<unsigned char>(begin + EI_DATA) != ELFDATA2LSB) {
    throw std::invalid_argument("not an ELF file");
  }
  const auto header = read<Elf64_Ehdr>(begin);
  std::size_t end =
      std::max(sizeof header, header.e_shoff + std::size_t{header.e_shnum} * sizeof(Elf64_Shdr));
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto section = read<Elf64_Shdr>(begin + header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS) end = std::max<std::size_t>(end, section.sh_offset + section.sh_size);
  }
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = read<Elf64_Phdr>(begin + header.e_phoff + i * sizeof(Elf64_Phdr));
    end = std::max<std::size_t>(end, segment.p_offset + segment.p_filesz);
  }
  return {begin, end};
}

std::string architecture_of(std::span<const std::byte> file) {
  const auto header = read<Elf64_Ehdr>(file.data());
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto section = read<Elf64_Shdr>(file.data() + header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOTE || section.sh_size < sizeof(Elf64_Nhdr) + sizeof owner) continue;
    const std::byte* const begin = file.data() + section.sh_offset;
    const auto note = read<Elf64_Nhdr>(begin);
    if (note.n_type != metadata_note || std::memcmp(begin + sizeof note, owner, sizeof owner) != 0) continue;
    const auto* content = reinterpret_cast<const std::uint8_t*>(begin + sizeof note + sizeof owner);
    const nlohmann::json found = nlohmann::json::from_msgpack(content, content + note.n_descsz);
    return found.at("amdhsa.target").get<std::string>().substr(std::string_view(target_prefix).size());
  }
  return "";
}

}  // namespace rondo::doubles::hip
