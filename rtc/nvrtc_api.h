// The part of NVRTC's interface that Rondo uses, so that building needs no CUDA. A test holds it against
// <nvrtc.h> where that is installed. Source: "NVRTC", CUDA Toolkit documentation; everything here is there
// since 11.2.
#pragma once

#include <cstddef>

namespace rondo::rtc::nvrtc {

using Program = struct ProgramOpaque*;

enum Result : int {
  success = 0,
  error_invalid_option = 5,
  error_compilation = 6,
  error_builtin_operation_failure = 7,  // libnvrtc-builtins was not found
  error_name_expression_not_valid = 10,
};

struct Api {
  Result (*version)(int* major, int* minor) = nullptr;
  const char* (*get_error_string)(Result result) = nullptr;
  Result (*get_num_supported_archs)(int* count) = nullptr;
  Result (*get_supported_archs)(int* architectures) = nullptr;  // ascending
  Result (*create_program)(Program* program, const char* source, const char* name, int header_count,
                           const char* const* headers, const char* const* include_names) = nullptr;
  Result (*destroy_program)(Program* program) = nullptr;
  Result (*compile_program)(Program program, int option_count, const char* const* options) = nullptr;
  Result (*get_ptx_size)(Program program, std::size_t* size) = nullptr;
  Result (*get_ptx)(Program program, char* ptx) = nullptr;
  Result (*get_cubin_size)(Program program, std::size_t* size) = nullptr;  // 0 for a virtual architecture
  Result (*get_cubin)(Program program, char* cubin) = nullptr;
  Result (*get_program_log_size)(Program program, std::size_t* size) = nullptr;  // with the final zero
  Result (*get_program_log)(Program program, char* log) = nullptr;
  Result (*add_name_expression)(Program program, const char* expression) = nullptr;
  // The string belongs to the program.
  Result (*get_lowered_name)(Program program, const char* expression, const char** lowered) = nullptr;
};

// Calls visit(symbol, function pointer) for each. All are required.
template <class Visit>
void for_each_symbol(Api& api, Visit visit) {
  visit("nvrtcVersion", api.version);
  visit("nvrtcGetErrorString", api.get_error_string);
  visit("nvrtcGetNumSupportedArchs", api.get_num_supported_archs);
  visit("nvrtcGetSupportedArchs", api.get_supported_archs);
  visit("nvrtcCreateProgram", api.create_program);
  visit("nvrtcDestroyProgram", api.destroy_program);
  visit("nvrtcCompileProgram", api.compile_program);
  visit("nvrtcGetPTXSize", api.get_ptx_size);
  visit("nvrtcGetPTX", api.get_ptx);
  visit("nvrtcGetCUBINSize", api.get_cubin_size);
  visit("nvrtcGetCUBIN", api.get_cubin);
  visit("nvrtcGetProgramLogSize", api.get_program_log_size);
  visit("nvrtcGetProgramLog", api.get_program_log);
  visit("nvrtcAddNameExpression", api.add_name_expression);
  visit("nvrtcGetLoweredName", api.get_lowered_name);
}

}  // namespace rondo::rtc::nvrtc
