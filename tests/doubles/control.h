// How a test steers a double, and how a double counts and fails its own calls. Every double exports these
// functions; a test that has loaded one finds them by dlsym, a test of the command line sets the environment
// variables.
#pragma once

#include <cstddef>

extern "C" {

// No faults, counts at zero, modes as the environment has them.
void rondo_double_reset(void);

// The nth call of `function` from now on (1: the next) does nothing and returns `result`; "*" is any
// function. Also, when the double is loaded: RONDO_DOUBLE_FAIL="cuGraphLaunch:3:719,cuMemAlloc_v2:1:2".
void rondo_double_fail(const char* function, std::size_t nth, int result);

// Calls of `function` since the last reset; of all functions for "*".
std::size_t rondo_double_calls(const char* function);

// The HIP double alone: how ROCm misbehaves. A list with commas of
//
// - leak: kernarg memory of exec updates is given back when the exec is destroyed, not before
//   (ROCm/rocm-systems#10713)
// - ignore_updates: hipGraphExecKernelNodeSetParams succeeds, and later launches run the old arguments
//   (ROCm/clr#42)
// - share_arguments: the nodes of one kernel share the arguments of the one added last (ROCm/hip#2550)
// - rocm_5.4: hipGraphAddKernelNode refuses module functions (98). The library libamdhip64.so.5.4 is always
//   so, and lacks the functions that came later.
//
// Also, when the double is loaded: RONDO_DOUBLE_HIP. RONDO_DOUBLE_HIP_ARCHITECTURE: the device's gcnArchName,
// "gfx90a:sramecc+:xnack-" by default. RONDO_DOUBLE_HIP_DEVICES: how many devices there are, 1 by default.
void rondo_double_set_mode(const char* modes);

// Handles that have been made and not destroyed: streams, events, memory, modules, graphs, execs, programs.
std::size_t rondo_double_live_handles(void);

// With mode leak: bytes that are leaked now, and the most there ever were since the last reset.
std::size_t rondo_double_leaked_bytes(void);
std::size_t rondo_double_most_leaked_bytes(void);
}

namespace rondo::doubles {

// Counts a call of `function`, and gives the result it is to fail with; 0: it goes on.
int enter(const char* function) noexcept;

// What rondo_double_reset is to do besides; the double that has modes sets it, before main.
void at_reset(void (*function)() noexcept) noexcept;

}  // namespace rondo::doubles
