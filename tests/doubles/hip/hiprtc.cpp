// libhiprtc and libamd_comgr as Rondo uses them: the host's compiler behind hipRTC's names and rules. The
// code that it makes is the host's shared object with the metadata of an AMD code object in it. Sources:
// <hip/hiprtc.h> and <amd_comgr.h> of ROCm 5.2, and what Debian's hipRTC 5.2.3 was seen to do.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string_view>

#include "architecture.h"
#include "code_object.h"
#include "control.h"
#include "program.h"
#include "registry.h"

#define RONDO_DOUBLE_EXPORT extern "C" __attribute__((visibility("default")))

namespace rondo::doubles::hip {
namespace {

using Handle = struct HiprtcProgramOpaque*;  // hiprtcProgram

enum class Result : int {  // hiprtcResult
  success = 0,
  out_of_memory = 1,
  invalid_input = 3,
  invalid_program = 4,
  invalid_option = 5,
  compilation = 6,
  no_name_expressions_after_compilation = 8,
  no_lowered_names_before_compilation = 9,
  name_expression_not_valid = 10,
  internal_error = 11,
};

struct HiprtcProgram {
  HiprtcProgram(std::string source, std::string name, std::vector<rtc::Header> headers)
      : program(std::move(source), std::move(name), std::move(headers)) {}
  Program program;
  std::string log;
  bool tried = false, compiled = false;
};

Registry<Handle, HiprtcProgram>& programs() {
  static auto& programs = *new Registry<Handle, HiprtcProgram>;
  return programs;
}

template <class Body>
Result call(const char* name, Body body) noexcept {
  if (const int fault = enter(name); fault != 0) return static_cast<Result>(fault);
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Result::out_of_memory;
  } catch (const std::exception&) {
    return Result::internal_error;
  }
}

template <class Body>
Result with_program(const char* name, Handle handle, Body body) noexcept {
  return call(name, [&]() -> Result {
    const std::shared_ptr<HiprtcProgram> program = programs().find(handle);
    return program == nullptr ? Result::invalid_program : body(*program);
  });
}

struct Options {
  std::vector<std::pair<std::string, std::string>> defines;
  std::string architecture;
  std::string log;
  bool refused = false;
};

// An architecture that comgr does not know ends the process: its error path frees something twice (hipRTC of
// ROCm 5.2 to late 2024).
void set_architecture(std::string_view architecture, Options& options) {
  if (!options.architecture.empty()) {
    options.refused = true;
    options.log += "error: more than one architecture\n";
  } else if (!is_known(architecture)) {
    std::fprintf(stderr, "the double of hipRTC ends the process, as hipRTC does: architecture \"%.*s\"\n",
                 static_cast<int>(architecture.size()), architecture.data());
    std::abort();
  }
  options.architecture = architecture;
}

void add_option(std::string_view option, Options& options) {
  const auto value_of = [&](std::string_view name) {
    return option.starts_with(name) ? option.substr(name.size()) : std::string_view();
  };
  constexpr std::string_view refused[] = {"--use_fast_math", "--fmad=false", "-G"};
  constexpr std::string_view accepted[] = {"-I", "-std=", "--std=", "-O", "-ffast-math", "-nostdinc"};
  if (const auto define = value_of("-D"); !define.empty()) {
    const std::size_t equals = define.find('=');
    const auto value = equals == std::string_view::npos ? "1" : define.substr(equals + 1);
    options.defines.emplace_back(define.substr(0, equals), value);
  } else if (const auto offload = value_of("--offload-arch="); !offload.empty()) {
    set_architecture(offload, options);
  } else if (const auto gpu = value_of("--gpu-architecture="); !gpu.empty()) {
    set_architecture(gpu, options);
  } else if (std::find(std::begin(refused), std::end(refused), option) != std::end(refused)) {
    options.refused = true;
    options.log += "error: unsupported option '" + std::string(option) + "'\n";
  } else if (std::none_of(std::begin(accepted), std::end(accepted),
                          [&](std::string_view known) { return option.starts_with(known); })) {
    options.log += "warning: argument unused during compilation: '" + std::string(option) + "'\n";
  }
}

Result compile(HiprtcProgram& self, int count, const char* const* texts) {
  Options options;
  for (int i = 0; i < count; ++i) add_option(texts[i], options);
  if (options.architecture.empty()) options.architecture = device_architecture();
  self.tried = true;
  self.log = options.log;
  if (options.refused) return Result::invalid_option;
  self.compiled = self.program.compile(options.defines);
  self.log += self.program.log();
  if (!self.compiled) return Result::compilation;
  self.log += "compiled for " + options.architecture + "\n";  // there always is a log
  add_metadata(self.program.code(), options.architecture, self.program.entries());
  return Result::success;
}

struct Name {
  Result result;
  const char* name;
};
constexpr Name names[] = {
    {Result::success, "HIPRTC_SUCCESS"},
    {Result::out_of_memory, "HIPRTC_ERROR_OUT_OF_MEMORY"},
    {Result::invalid_input, "HIPRTC_ERROR_INVALID_INPUT"},
    {Result::invalid_program, "HIPRTC_ERROR_INVALID_PROGRAM"},
    {Result::invalid_option, "HIPRTC_ERROR_INVALID_OPTION"},
    {Result::compilation, "HIPRTC_ERROR_COMPILATION"},
    {Result::no_name_expressions_after_compilation, "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION"},
    {Result::no_lowered_names_before_compilation, "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION"},
    {Result::name_expression_not_valid, "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID"},
    {Result::internal_error, "HIPRTC_ERROR_INTERNAL_ERROR"},
};

}  // namespace

RONDO_DOUBLE_EXPORT Result hiprtcVersion(int* major, int* minor) {
  return call("hiprtcVersion", [&] {
    if (major == nullptr || minor == nullptr) return Result::invalid_input;
    *major = 9;  // as ROCm 6 says of itself
    *minor = 0;
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT const char* hiprtcGetErrorString(Result result) {
  for (const Name& known : names) {
    if (known.result == result) return known.name;
  }
  return "Invalid HIPRTC error code";
}

RONDO_DOUBLE_EXPORT Result hiprtcCreateProgram(Handle* program, const char* source, const char* name,
                                               int header_count, const char* const* headers,
                                               const char* const* include_names) {
  return call("hiprtcCreateProgram", [&] {
    if (program == nullptr || source == nullptr || header_count < 0) return Result::invalid_input;
    if (header_count > 0 && (headers == nullptr || include_names == nullptr)) return Result::invalid_input;
    std::vector<rtc::Header> copies;
    for (int i = 0; i < header_count; ++i) copies.push_back({include_names[i], headers[i]});
    *program = programs().add(
        std::make_shared<HiprtcProgram>(source, name != nullptr ? name : "CompileSource", std::move(copies)));
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hiprtcDestroyProgram(Handle* program) {
  return call("hiprtcDestroyProgram", [&] {
    if (program == nullptr) return Result::invalid_input;
    return programs().take(*program) == nullptr ? Result::invalid_program : Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hiprtcCompileProgram(Handle program, int option_count,
                                                const char* const* options) {
  return with_program("hiprtcCompileProgram", program, [&](HiprtcProgram& self) {
    if (option_count < 0 || (option_count > 0 && options == nullptr)) return Result::invalid_input;
    return compile(self, option_count, options);
  });
}

RONDO_DOUBLE_EXPORT Result hiprtcGetProgramLogSize(Handle program, std::size_t* size) {
  return with_program("hiprtcGetProgramLogSize", program, [&](const HiprtcProgram& self) {
    if (size == nullptr) return Result::invalid_input;
    *size = self.log.size() + 1;
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hiprtcGetProgramLog(Handle program, char* log) {
  return with_program("hiprtcGetProgramLog", program, [&](const HiprtcProgram& self) {
    if (log == nullptr) return Result::invalid_input;
    std::memcpy(log, self.log.c_str(), self.log.size() + 1);
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hiprtcGetCodeSize(Handle program, std::size_t* size) {
  return with_program("hiprtcGetCodeSize", program, [&](const HiprtcProgram& self) {
    if (size == nullptr) return Result::invalid_input;
    *size = self.program.code().size();
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hiprtcGetCode(Handle program, char* code) {
  return with_program("hiprtcGetCode", program, [&](const HiprtcProgram& self) {
    if (code == nullptr) return Result::invalid_input;
    std::copy_n(reinterpret_cast<const char*>(self.program.code().data()), self.program.code().size(), code);
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hiprtcAddNameExpression(Handle program, const char* expression) {
  return with_program("hiprtcAddNameExpression", program, [&](HiprtcProgram& self) {
    if (expression == nullptr) return Result::invalid_input;
    if (self.tried) return Result::no_name_expressions_after_compilation;
    self.program.add_name_expression(expression);
    return Result::success;
  });
}

RONDO_DOUBLE_EXPORT Result hiprtcGetLoweredName(Handle program, const char* expression,
                                                const char** lowered) {
  return with_program("hiprtcGetLoweredName", program, [&](const HiprtcProgram& self) {
    if (expression == nullptr || lowered == nullptr) return Result::invalid_input;
    if (!self.compiled) return Result::no_lowered_names_before_compilation;
    const char* found = self.program.lowered(expression);
    if (found == nullptr) return Result::name_expression_not_valid;
    *lowered = found;
    return Result::success;
  });
}

// comgr.

enum class ComgrStatus : int { success = 0, error = 1, invalid_argument = 2 };  // amd_comgr_status_t
struct ActionInfo {                                                             // amd_comgr_action_info_t
  std::uint64_t handle;
};

namespace {

constexpr std::string_view isa_prefix = "amdgcn-amd-amdhsa--";

// "amdgcn-amd-amdhsa--gfx906" and so on, made once.
const std::vector<std::string>& isa_names() {
  static const auto& all = *[] {
    auto* made = new std::vector<std::string>;
    for (const std::string& processor : known_processors())
      made->push_back(std::string(isa_prefix) + processor);
    return made;
  }();
  return all;
}

template <class Body>
ComgrStatus comgr_call(const char* name, Body body) noexcept {
  if (const int fault = enter(name); fault != 0) return static_cast<ComgrStatus>(fault);
  return body();
}

}  // namespace

RONDO_DOUBLE_EXPORT ComgrStatus amd_comgr_get_isa_count(std::size_t* count) {
  return comgr_call("amd_comgr_get_isa_count", [&] {
    if (count == nullptr) return ComgrStatus::invalid_argument;
    *count = isa_names().size();
    return ComgrStatus::success;
  });
}

RONDO_DOUBLE_EXPORT ComgrStatus amd_comgr_get_isa_name(std::size_t index, const char** name) {
  return comgr_call("amd_comgr_get_isa_name", [&] {
    if (name == nullptr || index >= isa_names().size()) return ComgrStatus::invalid_argument;
    *name = isa_names()[index].c_str();
    return ComgrStatus::success;
  });
}

// An action here can do nothing but check the name of its architecture.
RONDO_DOUBLE_EXPORT ComgrStatus amd_comgr_create_action_info(ActionInfo* info) {
  return comgr_call("amd_comgr_create_action_info", [&] {
    if (info == nullptr) return ComgrStatus::invalid_argument;
    info->handle = 1;
    return ComgrStatus::success;
  });
}

RONDO_DOUBLE_EXPORT ComgrStatus amd_comgr_destroy_action_info(ActionInfo info) {
  return comgr_call("amd_comgr_destroy_action_info",
                    [&] { return info.handle == 1 ? ComgrStatus::success : ComgrStatus::invalid_argument; });
}

RONDO_DOUBLE_EXPORT ComgrStatus amd_comgr_action_info_set_isa_name(ActionInfo info, const char* name) {
  return comgr_call("amd_comgr_action_info_set_isa_name", [&] {
    if (info.handle != 1 || name == nullptr) return ComgrStatus::invalid_argument;
    const std::string_view given = name;
    const bool known = given.starts_with(isa_prefix) && is_known(given.substr(isa_prefix.size()));
    return known ? ComgrStatus::success : ComgrStatus::invalid_argument;
  });
}

}  // namespace rondo::doubles::hip

std::size_t rondo_double_live_handles() { return rondo::doubles::hip::programs().size(); }
