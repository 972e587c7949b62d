#include "amd_code_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "elf_file.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

using elf::Bytes;
using Json = nlohmann::json;

constexpr std::uint32_t metadata_note = 32;      // NT_AMDGPU_METADATA, owner "AMDGPU"
constexpr std::uint32_t old_metadata_note = 10;  // NT_AMD_HSA_METADATA, owner "AMD": code object V2, YAML
constexpr std::string_view target_prefix = "amdgcn-amd-amdhsa--";
constexpr std::size_t largest = std::size_t{1} << 31;  // no offset or size in a kernel's segments is as large

Error damaged(const std::string& what) {
  return Error(ErrorCode::run_time, "not a code object that can be read: " + what,
               "compile it anew; a newer ROCm may have changed the format");
}

std::uint64_t rounded_up(std::uint64_t size, std::uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

// The content of the metadata note among `notes`.
std::optional<Bytes> find_note(Bytes notes, std::uint64_t alignment) {
  for (std::uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    const Elf64_Nhdr note = *elf::read<Elf64_Nhdr>(notes, at);
    const std::uint64_t name_at = at + sizeof note;
    const std::uint64_t content_at = rounded_up(name_at + note.n_namesz, alignment);
    const std::optional<Bytes> name = elf::part(notes, name_at, note.n_namesz);
    const std::optional<Bytes> content = elf::part(notes, content_at, note.n_descsz);
    if (!name || !content) throw damaged("a note reaches beyond its section");
    const auto is_of = [&](std::string_view owner) {  // which ends in a zero
      return name->size() == owner.size() + 1 && std::memcmp(name->data(), owner.data(), owner.size()) == 0;
    };
    if (note.n_type == metadata_note && is_of("AMDGPU")) return content;
    if (note.n_type == old_metadata_note && is_of("AMD"))
      throw damaged("its metadata is of code object version 2; version 3 or later was expected");
    at = rounded_up(content_at + note.n_descsz, alignment);
  }
  return std::nullopt;
}

// Segments are what a loader reads; a file without them has sections.
Bytes metadata_of(Bytes file) {
  const std::optional<Elf64_Ehdr> header = elf::header_of(file);
  if (!header) throw damaged("a 64-bit little-endian ELF file was expected");
  const auto look_at = [&](std::uint64_t offset, std::uint64_t size,
                           std::uint64_t alignment) -> std::optional<Bytes> {
    const std::optional<Bytes> notes = elf::part(file, offset, size);
    if (!notes) throw damaged("its notes lie beyond the end of the file, which may have been cut short");
    return find_note(*notes, alignment == 8 ? 8 : 4);
  };
  for (std::uint32_t i = 0; i < header->e_phnum; ++i) {
    const std::optional<Elf64_Phdr> segment = elf::segment(file, *header, i);
    if (!segment) throw damaged("its program headers lie beyond the end of the file");
    if (segment->p_type != PT_NOTE) continue;
    if (const auto note = look_at(segment->p_offset, segment->p_filesz, segment->p_align)) return *note;
  }
  for (std::uint32_t i = 0; i < header->e_shnum; ++i) {
    const std::optional<Elf64_Shdr> section = elf::section(file, *header, i);
    if (!section) throw damaged("its section headers lie beyond the end of the file");
    if (section->sh_type != SHT_NOTE) continue;
    if (const auto note = look_at(section->sh_offset, section->sh_size, section->sh_addralign)) return *note;
  }
  throw damaged("it has no AMDGPU metadata note");
}

// Walks MessagePack without keeping anything. nlohmann::json reads nested values by recursion: hostile bytes
// must not decide how deep.
class DepthCheck final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= deepest; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return --depth_, true; }
  bool start_array(std::size_t) override { return ++depth_ <= deepest; }
  bool end_array() override { return --depth_, true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  static constexpr int deepest = 16;  // the format needs 6
  int depth_ = 0;
};

Json parse(Bytes content) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(content.data());
  DepthCheck check;
  if (!Json::sax_parse(begin, begin + content.size(), &check, Json::input_format_t::msgpack))
    throw damaged("its metadata is not sound MessagePack");
  Json metadata = Json::from_msgpack(begin, begin + content.size(), true, false);
  if (!metadata.is_object()) throw damaged("its metadata is no map");
  return metadata;
}

std::size_t size_of(const Json& map, const char* key, const std::string& kernel) {
  const auto found = map.find(key);
  if (found == map.end() || !found->is_number_integer())
    throw damaged(fmt::format("its metadata of kernel {} has no number {}", kernel, key));
  const bool negative = !found->is_number_unsigned() && found->get<std::int64_t>() < 0;
  const std::uint64_t value = found->get<std::uint64_t>();
  if (negative || value > largest)
    throw damaged(fmt::format("its metadata of kernel {} has {} out of range", kernel, key));
  return static_cast<std::size_t>(value);
}

std::string text_of(const Json& map, const char* key) {
  const auto found = map.find(key);
  return found != map.end() && found->is_string() ? found->get<std::string>() : "";
}

AmdKernel read_kernel(const Json& from) {
  AmdKernel kernel;
  if (from.is_object()) kernel.name = text_of(from, ".name");
  if (kernel.name.empty()) throw damaged("its metadata has a kernel without a name");
  kernel.static_shared_bytes = size_of(from, ".group_segment_fixed_size", kernel.name);
  kernel.max_threads_per_block = size_of(from, ".max_flat_workgroup_size", kernel.name);
  kernel.wavefront_size = static_cast<int>(size_of(from, ".wavefront_size", kernel.name));
  const std::size_t segment = size_of(from, ".kernarg_segment_size", kernel.name);
  const auto arguments = from.find(".args");
  if (arguments == from.end()) return kernel;  // it takes none
  if (!arguments->is_array()) throw damaged(fmt::format("kernel {} has .args that are no list", kernel.name));
  for (const Json& argument : *arguments) {
    if (!argument.is_object())
      throw damaged(fmt::format("kernel {} has an argument that is no map", kernel.name));
    if (text_of(argument, ".value_kind").starts_with("hidden_")) continue;
    const AmdArgument read = {size_of(argument, ".offset", kernel.name),
                              size_of(argument, ".size", kernel.name)};
    if (read.offset + read.size > segment)
      throw damaged(fmt::format("kernel {} has an argument beyond its {} bytes", kernel.name, segment));
    kernel.arguments.push_back(read);
  }
  return kernel;
}

}  // namespace

const AmdKernel* AmdCodeObject::find(std::string_view name) const noexcept {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const AmdKernel& kernel) { return kernel.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

AmdCodeObject read_amd_code_object(Bytes file) {
  try {
    const Json metadata = parse(metadata_of(file));
    AmdCodeObject object;
    object.target = text_of(metadata, "amdhsa.target");
    if (object.target.starts_with(target_prefix)) object.target.erase(0, target_prefix.size());
    const auto kernels = metadata.find("amdhsa.kernels");
    if (kernels == metadata.end() || !kernels->is_array())
      throw damaged("its metadata has no list of kernels");
    for (const Json& kernel : *kernels) object.kernels.push_back(read_kernel(kernel));
    return object;
  } catch (const Json::exception& error) {
    throw damaged(fmt::format("its metadata is damaged: {}", error.what()));
  }
}

Bytes unbundle(Bytes file, std::string_view architecture) {
  constexpr std::string_view magic = "__CLANG_OFFLOAD_BUNDLE__", compressed = "CCOB";
  const auto begins_with = [&](std::string_view text) {
    return file.size() >= text.size() && std::memcmp(file.data(), text.data(), text.size()) == 0;
  };
  if (begins_with(compressed)) throw damaged("a compressed offload bundle, where an ELF file was expected");
  if (!begins_with(magic)) return file;
  const auto number = [&](std::uint64_t at) {
    const auto value = elf::read<std::uint64_t>(file, at);
    if (!value) throw damaged("an offload bundle that is cut short");
    return *value;
  };
  std::uint64_t at = magic.size();
  std::string found;
  const std::uint64_t count = number(at);
  at += sizeof count;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t offset = number(at), size = number(at + 8), name_size = number(at + 16);
    const std::optional<Bytes> name = elf::part(file, at + 24, name_size),
                               code = elf::part(file, offset, size);
    if (!name || !code) throw damaged("an offload bundle that is cut short");
    const std::string_view triple(reinterpret_cast<const char*>(name->data()), name->size());
    const std::size_t target = triple.find(target_prefix);
    if (target != std::string_view::npos && triple.substr(target + target_prefix.size()) == architecture)
      return *code;
    found += fmt::format("{}{}", found.empty() ? "" : ", ", triple);
    at += 24 + name_size;
  }
  throw damaged(fmt::format("an offload bundle without {}; it has {}", architecture, found));
}

}  // namespace rondo::rtc
