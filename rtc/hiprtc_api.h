// The parts of hipRTC's interface and of AMD's code object manager (comgr, the compiler inside hipRTC) that
// Rondo uses, so that building needs no ROCm. Tests hold the first against <hip/hiprtc.h> where that is
// installed. hipRTC has been the same since ROCm 4.2, comgr's functions since 3.0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program_api.h"

namespace rondo::rtc::hiprtc {

using Program = ProgramHandle;
using Result = ProgramResult;
using enum ProgramResult;

struct Api : ProgramApi {
  Result (*get_code_size)(Program program, std::size_t* size) = nullptr;
  Result (*get_code)(Program program, char* code) = nullptr;
};

// Calls visit(symbol, function pointer) for each. All are required.
template <class Visit>
void for_each_symbol(Api& api, Visit visit) {
  for_each_program_symbol("hiprtc", api, visit);
  visit("hiprtcGetCodeSize", api.get_code_size);
  visit("hiprtcGetCode", api.get_code);
}

enum class ComgrStatus : int { success = 0 };  // amd_comgr_status_t
struct ActionInfo {                            // amd_comgr_action_info_t
  std::uint64_t handle;
};

struct Comgr {
  ComgrStatus (*get_isa_count)(std::size_t* count) = nullptr;
  ComgrStatus (*get_isa_name)(std::size_t index, const char** name) = nullptr;  // lives forever
  // Setting the name of an action checks it, features included, as hipRTC does before it compiles.
  ComgrStatus (*create_action_info)(ActionInfo* info) = nullptr;
  ComgrStatus (*destroy_action_info)(ActionInfo info) = nullptr;
  ComgrStatus (*set_isa_name)(ActionInfo info, const char* name) = nullptr;
};

// Calls visit(symbol, function pointer) for each; the first two are required.
template <class Visit>
void for_each_symbol(Comgr& comgr, Visit visit) {
  visit("amd_comgr_get_isa_count", comgr.get_isa_count);
  visit("amd_comgr_get_isa_name", comgr.get_isa_name);
  visit("amd_comgr_create_action_info", comgr.create_action_info);
  visit("amd_comgr_destroy_action_info", comgr.destroy_action_info);
  visit("amd_comgr_action_info_set_isa_name", comgr.set_isa_name);
}

}  // namespace rondo::rtc::hiprtc
