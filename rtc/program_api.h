// What the interfaces of NVRTC and hipRTC have in common: AMD made its own after NVIDIA's, name for name and
// number for number. Tests hold both against <nvrtc.h> and <hip/hiprtc.h>. Sources: "NVRTC", CUDA Toolkit
// documentation; "HIP RTC Programming Guide", ROCm documentation.
#pragma once

#include <cstddef>
#include <string>

namespace rondo::rtc {

using ProgramHandle = struct ProgramOpaque*;

enum class ProgramResult : int {
  success = 0,
  error_out_of_memory = 1,
  error_invalid_option = 5,
  error_compilation = 6,
  error_builtin_operation_failure = 7,  // NVRTC: libnvrtc-builtins was not found
  error_name_expression_not_valid = 10,
  error_internal_error = 11,
};

struct ProgramApi {
  ProgramResult (*version)(int* major, int* minor) = nullptr;
  const char* (*get_error_string)(ProgramResult result) = nullptr;
  ProgramResult (*create_program)(ProgramHandle* program, const char* source, const char* name,
                                  int header_count, const char* const* headers,
                                  const char* const* include_names) = nullptr;
  ProgramResult (*destroy_program)(ProgramHandle* program) = nullptr;
  ProgramResult (*compile_program)(ProgramHandle program, int option_count,
                                   const char* const* options) = nullptr;
  ProgramResult (*get_program_log_size)(ProgramHandle program,
                                        std::size_t* size) = nullptr;  // with the final zero
  ProgramResult (*get_program_log)(ProgramHandle program, char* log) = nullptr;
  ProgramResult (*add_name_expression)(ProgramHandle program, const char* expression) = nullptr;
  // The string belongs to the program.
  ProgramResult (*get_lowered_name)(ProgramHandle program, const char* expression,
                                    const char** lowered) = nullptr;
};

// Calls visit(symbol, function pointer) for each; `prefix` is "nvrtc" or "hiprtc". All are required.
template <class Visit>
void for_each_program_symbol(const std::string& prefix, ProgramApi& api, Visit visit) {
  visit(prefix + "Version", api.version);
  visit(prefix + "GetErrorString", api.get_error_string);
  visit(prefix + "CreateProgram", api.create_program);
  visit(prefix + "DestroyProgram", api.destroy_program);
  visit(prefix + "CompileProgram", api.compile_program);
  visit(prefix + "GetProgramLogSize", api.get_program_log_size);
  visit(prefix + "GetProgramLog", api.get_program_log);
  visit(prefix + "AddNameExpression", api.add_name_expression);
  visit(prefix + "GetLoweredName", api.get_lowered_name);
}

}  // namespace rondo::rtc
