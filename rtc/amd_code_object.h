// What an AMD code object (the ELF file that hipRTC makes) says of itself in its metadata note. Source: LLVM,
// "User Guide for AMDGPU Backend", code object V3 and later: note NT_AMDGPU_METADATA of owner "AMDGPU", whose
// content is MessagePack.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::rtc {

struct AmdArgument {
  std::size_t offset = 0, size = 0;  // in the kernel's argument segment
  bool operator==(const AmdArgument&) const = default;
};

struct AmdKernel {
  std::string name;                       // as hipModuleGetFunction takes it
  std::vector<AmdArgument> arguments;     // those the source declares; hidden_* ones are left out
  std::size_t static_shared_bytes = 0;    // .group_segment_fixed_size
  std::size_t max_threads_per_block = 0;  // .max_flat_workgroup_size
  int wavefront_size = 0;
};

struct AmdCodeObject {
  std::string
      target;  // "gfx90a:sramecc+:xnack-", without "amdgcn-amd-amdhsa--"; empty where the note is silent
  std::vector<AmdKernel> kernels;

  const AmdKernel* find(std::string_view name) const noexcept;  // null where there is none
};

// Every offset is checked against the file. Throws Error(run_time) that says what is wrong for a file that is
// no ELF file, is cut short or damaged, or has no such note.
AmdCodeObject read_amd_code_object(std::span<const std::byte> file);

// The code object for `architecture` in what a compiler gave: all of it where it is an ELF file, the one part
// that fits where it is clang's offload bundle (LLVM, "Clang Offload Bundler"). Throws Error(run_time) for a
// bundle that is damaged, compressed or without that architecture.
std::span<const std::byte> unbundle(std::span<const std::byte> file, std::string_view architecture);

}  // namespace rondo::rtc
