#include "module.h"

#include <elf.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "context.h"
#include "rondo/error.h"

namespace rondo::cuda {
namespace {

bool is_elf(std::span<const std::byte> binary) noexcept {
  return binary.size() >= SELFMAG && std::memcmp(binary.data(), ELFMAG, SELFMAG) == 0;
}

// The driver is given an address and no size: it reads as far as the headers say.
void check_is_whole(std::span<const std::byte> binary) {
  const auto fail = [](const char* why) {
    throw Error(ErrorCode::run_time,
                fmt::format("loading a CUDA module: a cubin that is cut short or damaged ({})", why));
  };
  Elf64_Ehdr header;
  if (binary.size() < sizeof header) fail("no header");
  std::memcpy(&header, binary.data(), sizeof header);
  const auto table_fits = [&](std::uint64_t offset, std::uint64_t count, std::uint64_t entry) {
    return offset <= binary.size() && (entry == 0 || count <= (binary.size() - offset) / entry);
  };
  if (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr))
    fail("section headers of an unknown size");
  if (!table_fits(header.e_shoff, header.e_shnum, header.e_shentsize)) fail("section headers");
  if (!table_fits(header.e_phoff, header.e_phnum, header.e_phentsize)) fail("program headers");
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, binary.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS && !table_fits(section.sh_offset, section.sh_size, 1))
      fail("a section");
  }
}

}  // namespace

// cuda.h, cuModuleLoadDataEx (CUDA 13.0): the image is "a cubin or fatbin as output by nvcc, or a
// NULL-terminated PTX".
Module load_module(const Api& api, std::span<const std::byte> binary) {
  std::vector<std::byte> terminated;
  const void* image = binary.data();
  if (is_elf(binary)) {
    check_is_whole(binary);
  } else {
    terminated.assign(binary.begin(), binary.end());
    terminated.push_back(std::byte{0});
    // A fatbin would be read as far as its header says; PTX is text.
    if (terminated[0] != std::byte{'/'} && terminated[0] != std::byte{'.'} &&
        terminated[0] != std::byte{'\n'}) {
      throw Error(
          ErrorCode::run_time,
          fmt::format("loading a CUDA module: {} bytes that are neither a cubin nor PTX", binary.size()));
    }
    image = terminated.data();
  }
  std::array<char, 8192> log{};
  std::array<JitOption, 2> options{JitOption::error_log, JitOption::error_log_bytes};
  // The size is passed as the value itself, not as an address.
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size())};
  Module module = nullptr;
  const Status status = RONDO_CUDA(api, cuModuleLoadDataEx, &module, image,
                                   static_cast<unsigned>(options.size()), options.data(), values.data());
  if (status.ok()) return module;
  log.back() = '\0';
  throw Error(status, log[0] == '\0' ? "loading a CUDA module"
                                     : fmt::format("loading a CUDA module ({})", log.data()));
}

Function find_function(const Api& api, Module module, const std::string& name) {
  Function function = nullptr;
  const Status status = RONDO_CUDA(api, cuModuleGetFunction, &function, module, name.c_str());
  if (!status.ok()) throw Error(status, fmt::format("looking up kernel \"{}\"", name));
  // By default a kernel is loaded at its first launch, which may wait for all that runs in the context (CUDA
  // C++ programming guide 13.0, "Lazy Loading"): behind a stream that waits for its caller, for ever.
  if (api.cuFuncLoad != nullptr) check(RONDO_CUDA(api, cuFuncLoad, function), "loading a kernel");
  return function;
}

FunctionInfo function_info(const Api& api, Function function, std::size_t parameters) {
  FunctionInfo info;
  const auto get = [&](FunctionAttribute which) {
    int value = 0;
    check(RONDO_CUDA(api, cuFuncGetAttribute, &value, which, function), "asking about a kernel");
    return static_cast<std::size_t>(value);
  };
  info.max_threads_per_block = get(FunctionAttribute::max_threads_per_block);
  info.static_shared_bytes = get(FunctionAttribute::shared_bytes);
  info.registers = get(FunctionAttribute::registers);
  info.local_bytes = get(FunctionAttribute::local_bytes);
  if (api.cuFuncGetParamInfo == nullptr) return info;
  // Asking beyond the last one is the only way to learn how many there are (cuda.h 13.0), and an error that
  // tools report.
  for (std::size_t i = 0; i < parameters; ++i) {
    ParameterLayout parameter{};
    check(RONDO_CUDA(api, cuFuncGetParamInfo, function, i, &parameter.offset, &parameter.size),
          "asking about a kernel's parameters");
    info.parameters.push_back(parameter);
  }
  info.layout_known = true;
  return info;
}

void allow_dynamic_shared(const Api& api, Function function, std::size_t bytes, std::size_t device_limit) {
  const char* const doing = "allowing a kernel its dynamic shared memory";
  int fixed = 0, allowed = 0;
  check(RONDO_CUDA(api, cuFuncGetAttribute, &fixed, FunctionAttribute::shared_bytes, function), doing);
  // cuda.h, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: with the static part it must not exceed the
  // device's opt-in limit.
  if (bytes > device_limit || bytes + static_cast<std::size_t>(fixed) > device_limit) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("{} bytes of dynamic and {} of static shared memory; the device has {} a block",
                            bytes, fixed, device_limit));
  }
  check(RONDO_CUDA(api, cuFuncGetAttribute, &allowed, FunctionAttribute::max_dynamic_shared_bytes, function),
        doing);
  if (bytes <= static_cast<std::size_t>(allowed)) return;
  check(RONDO_CUDA(api, cuFuncSetAttribute, function, FunctionAttribute::max_dynamic_shared_bytes,
                   static_cast<int>(bytes)),
        doing);
}

}  // namespace rondo::cuda
