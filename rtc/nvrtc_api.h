// The part of NVRTC's interface that Rondo uses, so that building needs no CUDA. A test holds it against
// <nvrtc.h> where that is installed. Source: "NVRTC", CUDA Toolkit documentation; everything here is there
// since 11.2.
#pragma once

#include <cstddef>

#include "program_api.h"

namespace rondo::rtc::nvrtc {

using Program = ProgramHandle;
using Result = ProgramResult;
using enum ProgramResult;

struct Api : ProgramApi {
  Result (*get_num_supported_archs)(int* count) = nullptr;
  Result (*get_supported_archs)(int* architectures) = nullptr;  // ascending
  Result (*get_ptx_size)(Program program, std::size_t* size) = nullptr;
  Result (*get_ptx)(Program program, char* ptx) = nullptr;
  Result (*get_cubin_size)(Program program, std::size_t* size) = nullptr;  // 0 for a virtual architecture
  Result (*get_cubin)(Program program, char* cubin) = nullptr;
};

// Calls visit(symbol, function pointer) for each. All are required.
template <class Visit>
void for_each_symbol(Api& api, Visit visit) {
  for_each_program_symbol("nvrtc", api, visit);
  visit("nvrtcGetNumSupportedArchs", api.get_num_supported_archs);
  visit("nvrtcGetSupportedArchs", api.get_supported_archs);
  visit("nvrtcGetPTXSize", api.get_ptx_size);
  visit("nvrtcGetPTX", api.get_ptx);
  visit("nvrtcGetCUBINSize", api.get_cubin_size);
  visit("nvrtcGetCUBIN", api.get_cubin);
}

}  // namespace rondo::rtc::nvrtc
