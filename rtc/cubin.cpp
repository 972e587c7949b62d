#include "cubin.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "elf_file.h"
#include "elf_sections.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

using elf::Bytes;

constexpr std::uint16_t machine_cuda = 190;  // EM_CUDA
constexpr std::string_view info_prefix = ".nv.info.";
constexpr std::size_t most_argument_bytes = 32764;  // CUDA 12.1 and later

// How a record's value is stored, by its first byte; the second one is the attribute.
constexpr unsigned sized_value = 4;   // 16 bits of size, then as many bytes; all others have 16 bits of value
constexpr unsigned parameter = 0x17;  // EIATTR_KPARAM_INFO
constexpr unsigned parameter_of_large_list = 0x45;  // the same for more than 4 KB of parameters
constexpr unsigned parameter_bytes = 0x19;          // EIATTR_CBANK_PARAM_SIZE

[[noreturn]] void damaged(std::string_view kernel, const char* what) {
  throw Error(ErrorCode::run_time,
              fmt::format("not a cubin that can be read: its description of kernel \"{}\" {}", kernel, what));
}

struct Record {
  std::uint32_t index;
  std::uint16_t ordinal, offset;
  std::uint32_t last;  // size << 18 and more; in large lists the size in the lower half
};

std::vector<CubinParameter> read_parameters(std::string_view kernel, Bytes info) {
  std::map<unsigned, CubinParameter> by_ordinal;
  std::size_t end = most_argument_bytes;
  for (std::size_t at = 0; at < info.size();) {
    const auto head = elf::read<std::uint32_t>(info, at);
    if (!head) damaged(kernel, "is cut short");
    const unsigned format = *head & 0xff, attribute = *head >> 8 & 0xff;
    const std::size_t value = *head >> 16;
    at += sizeof *head;
    if (attribute == parameter_bytes && format != sized_value) end = value;
    if (format != sized_value) continue;
    const auto content = elf::part(info, at, value);
    if (!content) damaged(kernel, "is cut short");
    at += value;
    if (attribute != parameter && attribute != parameter_of_large_list) continue;
    const auto record = elf::read<Record>(*content, 0);
    if (!record) damaged(kernel, "has a parameter that is cut short");
    const std::size_t size = attribute == parameter ? record->last >> 18 : record->last & 0xffff;
    if (!by_ordinal.emplace(record->ordinal, CubinParameter{record->offset, size}).second)
      damaged(kernel, "has a parameter twice");
  }
  std::vector<CubinParameter> parameters;
  for (const auto& [ordinal, one] : by_ordinal) {
    if (ordinal != parameters.size()) damaged(kernel, "lacks a parameter");
    const std::size_t begin = parameters.empty() ? 0 : parameters.back().offset + parameters.back().size;
    if (one.offset < begin || one.offset + one.size > end)
      damaged(kernel, "has parameters that overlap or lie outside their list");
    parameters.push_back(one);
  }
  return parameters;
}

}  // namespace

bool is_cubin(Bytes file) noexcept {
  const auto header = elf::header_of(file);
  return header && header->e_machine == machine_cuda;
}

std::vector<CubinKernel> read_cubin(Bytes file) {
  if (!is_cubin(file))
    throw Error(ErrorCode::run_time, "not a cubin: an ELF file for NVIDIA GPUs was expected");
  std::vector<CubinKernel> kernels;
  for (const ElfSection& section : elf_sections(file)) {
    if (!section.name.starts_with(info_prefix)) continue;
    const std::string_view kernel = section.name.substr(info_prefix.size());
    kernels.push_back({std::string(kernel), read_parameters(kernel, section.content)});
  }
  return kernels;
}

}  // namespace rondo::rtc
