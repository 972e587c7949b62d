#include "fat_binary.h"

#include <algorithm>
#include <cstring>

#include "amd_code_object.h"
#include "cubin.h"
#include "elf_file.h"
#include "elf_sections.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

using elf::Bytes;

constexpr std::uint32_t fat_magic = 0xba55ed50;
constexpr std::string_view bundle_magic = "__CLANG_OFFLOAD_BUNDLE__", compressed_bundle_magic = "CCOB";

bool begins_with(Bytes bytes, std::string_view text) noexcept {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

bool is_fat_binary(Bytes bytes) noexcept {
  const auto magic = elf::read<std::uint32_t>(bytes, 0);
  return magic && *magic == fat_magic;
}

bool is_bundle(Bytes bytes) noexcept {
  return begins_with(bytes, bundle_magic) || begins_with(bytes, compressed_bundle_magic);
}

// NVIDIA's containers, which are not documented (looked at in what nvcc 13.0 makes): a header, then entries
// with headers of their own.
struct FatHeader {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // behind the header
};
struct FatEntry {
  std::uint16_t kind, unknown;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  // behind the header
  std::uint32_t compressed_bytes;
  std::uint32_t more[5];
  std::uint64_t flags;
};
constexpr unsigned kind_elf = 2;
constexpr std::uint64_t lz4 = 0x2000, zstd = 0x8000;  // among the flags

void visit_entries(Bytes entries, const CodeVisitor& visitor) {
  while (!entries.empty()) {
    const auto entry = elf::read<FatEntry>(entries, 0);
    const auto content = entry ? elf::part(entries, entry->header_bytes, entry->bytes) : std::nullopt;
    if (!content || entry->header_bytes < sizeof(FatEntry))
      return visitor.left_out("a fat binary that is cut short or damaged");
    if (entry->kind == kind_elf) {
      if (is_cubin(*content)) {
        visitor.code(CodeKind::cubin, *content);
      } else if ((entry->flags & (lz4 | zstd)) != 0 || entry->compressed_bytes != 0) {
        visitor.left_out("a compressed cubin");
      } else {
        visitor.left_out("an entry of a fat binary that is no cubin");
      }
    }
    entries = entries.subspan(static_cast<std::size_t>(content->data() - entries.data()) + content->size());
  }
}

// Bytes that were taken; 0: damaged.
std::size_t visit_fat_binary(Bytes bytes, const CodeVisitor& visitor) {
  const auto header = elf::read<FatHeader>(bytes, 0);
  const auto entries = header ? elf::part(bytes, header->header_bytes, header->bytes) : std::nullopt;
  if (!entries || header->header_bytes < sizeof(FatHeader)) {
    visitor.left_out("a fat binary that is cut short or damaged");
    return 0;
  }
  visit_entries(*entries, visitor);
  return header->header_bytes + entries->size();
}

// LLVM, "Clang Offload Bundler": the magic, a number of entries, each with offset, size and a triple.
std::size_t visit_bundle(Bytes bytes, const CodeVisitor& visitor) {
  if (begins_with(bytes, compressed_bundle_magic)) {
    visitor.left_out("a compressed offload bundle");
    return 0;
  }
  const auto damaged = [&] {
    visitor.left_out("an offload bundle that is cut short or damaged");
    return std::size_t{0};
  };
  std::uint64_t at = bundle_magic.size();
  const auto count = elf::read<std::uint64_t>(bytes, at);
  if (!count) return damaged();
  at += sizeof *count;
  std::size_t end = at;
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto offset = elf::read<std::uint64_t>(bytes, at), size = elf::read<std::uint64_t>(bytes, at + 8),
               name_size = elf::read<std::uint64_t>(bytes, at + 16);
    const auto name = name_size ? elf::part(bytes, at + 24, *name_size) : std::nullopt;
    const auto code = name ? elf::part(bytes, *offset, *size) : std::nullopt;
    if (!code) return damaged();
    const std::string_view triple(reinterpret_cast<const char*>(name->data()), name->size());
    if (triple.find("amdgcn") != std::string_view::npos) visitor.code(CodeKind::amd_code_object, *code);
    at += 24 + name->size();
    end = std::max<std::size_t>(end, *offset + *size);
  }
  return std::max<std::size_t>(end, at);
}

// Linkers put one behind the other, aligned to 8 bytes at least.
template <class Is, class Visit>
void visit_all(Bytes section, Is is, Visit visit) {
  constexpr std::size_t step = 8;
  for (std::size_t at = 0; at < section.size();) {
    const Bytes rest = section.subspan(at);
    const std::size_t taken = is(rest) ? visit(rest) : 0;
    at += (std::max(taken, step) + step - 1) / step * step;
  }
}

void visit_elf(Bytes file, const CodeVisitor& visitor) {
  const auto fat = [&](Bytes bytes) { return visit_fat_binary(bytes, visitor); };
  const auto bundle = [&](Bytes bytes) { return visit_bundle(bytes, visitor); };
  for (const ElfSection& section : elf_sections(file)) {
    if (section.name == ".nv_fatbin" || section.name == "__nv_relfatbin")
      visit_all(section.content, is_fat_binary, fat);
    if (section.name == ".hip_fatbin") visit_all(section.content, is_bundle, bundle);
  }
}

bool has_amd_note(Bytes file) {
  try {
    return !read_amd_code_object(file).kernels.empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void visit_code(Bytes file, const CodeVisitor& visitor) {
  const auto header = elf::header_of(file);
  if (is_cubin(file)) {
    visitor.code(CodeKind::cubin, file);
  } else if (is_fat_binary(file)) {
    visit_all(file, is_fat_binary, [&](Bytes bytes) { return visit_fat_binary(bytes, visitor); });
  } else if (is_bundle(file)) {
    visit_bundle(file, visitor);
  } else if (header && (header->e_machine == EM_AMDGPU || has_amd_note(file))) {
    visitor.code(CodeKind::amd_code_object, file);
  } else if (header) {
    visit_elf(file, visitor);
  }
}

}  // namespace rondo::rtc
