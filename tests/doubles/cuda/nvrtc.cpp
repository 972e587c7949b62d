// libnvrtc as Rondo uses it: the host's compiler behind NVRTC's names. What it calls a cubin is the host's
// shared object, in which the kernels' symbols have a cubin's mark.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "control.h"
#include "nvrtc_api.h"
#include "program.h"
#include "registry.h"

namespace rondo::doubles {
namespace {

using rtc::nvrtc::Result;
using Handle = rtc::nvrtc::Program;

// nvrtc.h (CUDA 13.0), nvrtcResult, beyond what Rondo tells apart.
constexpr auto out_of_memory = static_cast<Result>(1);
constexpr auto invalid_input = static_cast<Result>(3);
constexpr auto invalid_program = static_cast<Result>(4);
constexpr auto names_not_allowed_after_compilation = static_cast<Result>(8);
constexpr auto lowered_names_not_before_compilation = static_cast<Result>(9);
constexpr auto internal_error = static_cast<Result>(11);

constexpr int architectures[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};  // NVRTC 13.0
constexpr unsigned char kernel_mark = 0x10;                                             // STO_CUDA_ENTRY

struct NvrtcProgram {
  NvrtcProgram(std::string source, std::string name, std::vector<rtc::Header> headers)
      : program(std::move(source), std::move(name), std::move(headers)) {}
  Program program;
  std::string option_log;
  bool tried = false, compiled = false;
};

Registry<Handle, NvrtcProgram>& programs() {
  static auto& programs = *new Registry<Handle, NvrtcProgram>;
  return programs;
}

// Counts the call, and keeps what is thrown on this side of the C interface.
template <class Body>
Result guarded(const char* name, Body body) noexcept {
  if (const int fault = enter(name); fault != 0) return static_cast<Result>(fault);
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  } catch (const std::exception&) {
    return internal_error;
  }
}

template <class Body>
Result with_program(const char* name, Handle handle, Body body) noexcept {
  return guarded(name, [&]() -> Result {
    const std::shared_ptr<NvrtcProgram> program = programs().find(handle);
    return program == nullptr ? invalid_program : body(*program);
  });
}

// What NVRTC is told to compile.
struct Options {
  std::vector<std::pair<std::string, std::string>> defines;
  std::string wrong;  // why they are refused; empty: they are not
};

std::optional<std::string_view> value_of(std::string_view option, std::string_view name) {
  if (!option.starts_with(name)) return std::nullopt;
  return option.substr(name.size());
}

bool is_architecture(std::string_view text) {
  return std::any_of(std::begin(architectures), std::end(architectures), [&](int architecture) {
    const std::string number = std::to_string(architecture);
    return text == "sm_" + number || text == "compute_" + number;
  });
}

void parse_define(std::string_view text, Options& options) {
  const std::size_t equals = text.find('=');
  options.defines.emplace_back(text.substr(0, equals),
                               equals == std::string_view::npos ? "1" : text.substr(equals + 1));
}

Options parse_options(int count, const char* const* texts) {
  Options options;
  for (int i = 0; i < count; ++i) {
    const std::string_view option = texts[i];
    if (const auto define = value_of(option, "-D")) {
      parse_define(*define, options);
    } else if (const auto architecture = value_of(option, "--gpu-architecture=")) {
      if (!is_architecture(*architecture)) options.wrong = "invalid value for --gpu-architecture (-arch)\n";
    } else if (const auto standard = value_of(option, "--std=")) {
      if (*standard != "c++17" && *standard != "c++20") options.wrong = "invalid value for --std\n";
    } else if (!option.starts_with("-I")) {  // angle includes come with the host's compiler
      options.wrong = "unrecognized option " + std::string(option) + " found\n";
    }
  }
  return options;
}

// Gives the symbols of the program's entries the mark that a __global__ function's has in a cubin.
void mark_kernels(Program& program) {
  std::vector<std::byte>& code = program.code();
  Elf64_Ehdr header;
  std::memcpy(&header, code.data(), sizeof header);
  const auto section = [&](std::size_t index) {
    Elf64_Shdr result;
    std::memcpy(&result, code.data() + header.e_shoff + index * sizeof result, sizeof result);
    return result;
  };
  std::set<std::string_view> kernels;
  for (const rtc::Entry& entry : program.entries()) kernels.insert(entry.lowered);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr table = section(i);
    if (table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) continue;
    const char* names = reinterpret_cast<const char*>(code.data() + section(table.sh_link).sh_offset);
    for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::byte* place = code.data() + table.sh_offset + at;
      std::memcpy(&symbol, place, sizeof symbol);
      if (kernels.count(names + symbol.st_name) == 0) continue;
      symbol.st_other = static_cast<unsigned char>(symbol.st_other | kernel_mark);
      std::memcpy(place, &symbol, sizeof symbol);
    }
  }
}

Result compile(NvrtcProgram& self, int count, const char* const* texts) {
  const Options options = parse_options(count, texts);
  self.tried = true;
  self.option_log = options.wrong;
  if (!options.wrong.empty()) return rtc::nvrtc::error_invalid_option;
  self.compiled = self.program.compile(options.defines);
  if (!self.compiled) return rtc::nvrtc::error_compilation;
  mark_kernels(self.program);
  return rtc::nvrtc::success;
}

Result get_code_size(const NvrtcProgram& self, std::size_t* size) {
  if (size == nullptr) return invalid_input;
  if (!self.compiled) return invalid_program;
  *size = self.program.code().size();
  return rtc::nvrtc::success;
}

Result get_code(const NvrtcProgram& self, char* code) {
  if (code == nullptr) return invalid_input;
  if (!self.compiled) return invalid_program;
  std::memcpy(code, self.program.code().data(), self.program.code().size());
  return rtc::nvrtc::success;
}

const std::string& log_of(const NvrtcProgram& self) {
  return self.option_log.empty() ? self.program.log() : self.option_log;
}

}  // namespace
}  // namespace rondo::doubles

using namespace rondo::doubles;  // NOLINT: all that follows is the vendor's own interface
namespace nvrtc = rondo::rtc::nvrtc;

extern "C" {

nvrtc::Result nvrtcVersion(int* major, int* minor);
const char* nvrtcGetErrorString(nvrtc::Result result);
nvrtc::Result nvrtcGetNumSupportedArchs(int* count);
nvrtc::Result nvrtcGetSupportedArchs(int* values);
nvrtc::Result nvrtcCreateProgram(nvrtc::Program* program, const char* source, const char* name,
                                 int header_count, const char* const* headers,
                                 const char* const* include_names);
nvrtc::Result nvrtcDestroyProgram(nvrtc::Program* program);
nvrtc::Result nvrtcCompileProgram(nvrtc::Program program, int option_count, const char* const* options);
nvrtc::Result nvrtcGetPTXSize(nvrtc::Program program, std::size_t* size);
nvrtc::Result nvrtcGetPTX(nvrtc::Program program, char* ptx);
nvrtc::Result nvrtcGetCUBINSize(nvrtc::Program program, std::size_t* size);
nvrtc::Result nvrtcGetCUBIN(nvrtc::Program program, char* cubin);
nvrtc::Result nvrtcGetProgramLogSize(nvrtc::Program program, std::size_t* size);
nvrtc::Result nvrtcGetProgramLog(nvrtc::Program program, char* log);
nvrtc::Result nvrtcAddNameExpression(nvrtc::Program program, const char* expression);
nvrtc::Result nvrtcGetLoweredName(nvrtc::Program program, const char* expression, const char** lowered);

nvrtc::Result nvrtcVersion(int* major, int* minor) {
  return guarded("nvrtcVersion", [&] {
    if (major == nullptr || minor == nullptr) return invalid_input;
    *major = 13;
    *minor = 0;
    return nvrtc::success;
  });
}

const char* nvrtcGetErrorString(nvrtc::Result result) {
  switch (static_cast<int>(result)) {
    case 0:
      return "NVRTC_SUCCESS";
    case 1:
      return "NVRTC_ERROR_OUT_OF_MEMORY";
    case 3:
      return "NVRTC_ERROR_INVALID_INPUT";
    case 4:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case 5:
      return "NVRTC_ERROR_INVALID_OPTION";
    case 6:
      return "NVRTC_ERROR_COMPILATION";
    case 8:
      return "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION";
    case 9:
      return "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION";
    case 10:
      return "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    case 11:
      return "NVRTC_ERROR_INTERNAL_ERROR";
    default:
      return "NVRTC_ERROR unknown";
  }
}

nvrtc::Result nvrtcGetNumSupportedArchs(int* count) {
  return guarded("nvrtcGetNumSupportedArchs", [&] {
    if (count == nullptr) return invalid_input;
    *count = static_cast<int>(std::size(architectures));
    return nvrtc::success;
  });
}

nvrtc::Result nvrtcGetSupportedArchs(int* values) {
  return guarded("nvrtcGetSupportedArchs", [&] {
    if (values == nullptr) return invalid_input;
    std::copy(std::begin(architectures), std::end(architectures), values);
    return nvrtc::success;
  });
}

nvrtc::Result nvrtcCreateProgram(nvrtc::Program* program, const char* source, const char* name,
                                 int header_count, const char* const* headers,
                                 const char* const* include_names) {
  return guarded("nvrtcCreateProgram", [&] {
    if (program == nullptr || source == nullptr || header_count < 0) return invalid_input;
    if (header_count > 0 && (headers == nullptr || include_names == nullptr)) return invalid_input;
    std::vector<rondo::rtc::Header> copies;
    for (int i = 0; i < header_count; ++i) copies.push_back({include_names[i], headers[i]});
    auto made =
        std::make_shared<NvrtcProgram>(source, name != nullptr ? name : "default_program", std::move(copies));
    *program = programs().add(std::move(made));
    return nvrtc::success;
  });
}

nvrtc::Result nvrtcDestroyProgram(nvrtc::Program* program) {
  return guarded("nvrtcDestroyProgram", [&] {
    if (program == nullptr || programs().take(*program) == nullptr) return invalid_program;
    *program = nullptr;
    return nvrtc::success;
  });
}

nvrtc::Result nvrtcCompileProgram(nvrtc::Program program, int option_count, const char* const* options) {
  return with_program("nvrtcCompileProgram", program,
                      [&](NvrtcProgram& self) { return compile(self, option_count, options); });
}

nvrtc::Result nvrtcGetPTXSize(nvrtc::Program program, std::size_t* size) {
  return with_program("nvrtcGetPTXSize", program,
                      [&](const NvrtcProgram& self) { return get_code_size(self, size); });
}

nvrtc::Result nvrtcGetPTX(nvrtc::Program program, char* ptx) {
  return with_program("nvrtcGetPTX", program, [&](const NvrtcProgram& self) { return get_code(self, ptx); });
}

nvrtc::Result nvrtcGetCUBINSize(nvrtc::Program program, std::size_t* size) {
  return with_program("nvrtcGetCUBINSize", program,
                      [&](const NvrtcProgram& self) { return get_code_size(self, size); });
}

nvrtc::Result nvrtcGetCUBIN(nvrtc::Program program, char* cubin) {
  return with_program("nvrtcGetCUBIN", program,
                      [&](const NvrtcProgram& self) { return get_code(self, cubin); });
}

nvrtc::Result nvrtcGetProgramLogSize(nvrtc::Program program, std::size_t* size) {
  return with_program("nvrtcGetProgramLogSize", program, [&](const NvrtcProgram& self) {
    if (size == nullptr) return invalid_input;
    *size = log_of(self).size() + 1;
    return nvrtc::success;
  });
}

nvrtc::Result nvrtcGetProgramLog(nvrtc::Program program, char* log) {
  return with_program("nvrtcGetProgramLog", program, [&](const NvrtcProgram& self) {
    if (log == nullptr) return invalid_input;
    std::memcpy(log, log_of(self).c_str(), log_of(self).size() + 1);
    return nvrtc::success;
  });
}

nvrtc::Result nvrtcAddNameExpression(nvrtc::Program program, const char* expression) {
  return with_program("nvrtcAddNameExpression", program, [&](NvrtcProgram& self) {
    if (expression == nullptr) return invalid_input;
    if (self.tried) return names_not_allowed_after_compilation;
    self.program.add_name_expression(expression);
    return nvrtc::success;
  });
}

nvrtc::Result nvrtcGetLoweredName(nvrtc::Program program, const char* expression, const char** lowered) {
  return with_program("nvrtcGetLoweredName", program, [&](const NvrtcProgram& self) {
    if (expression == nullptr || lowered == nullptr) return invalid_input;
    if (!self.compiled) return lowered_names_not_before_compilation;
    *lowered = self.program.lowered(expression);
    return *lowered != nullptr ? nvrtc::success : nvrtc::error_name_expression_not_valid;
  });
}

std::size_t rondo_double_live_handles() { return programs().size(); }
}
