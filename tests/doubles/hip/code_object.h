// The HIP double's code objects: shared objects of the host with the note that AMD's have. Source: LLVM,
// "User Guide for AMDGPU Backend", code object V3 and later.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "compiler.h"

namespace rondo::doubles::hip {

// Puts the note NT_AMDGPU_METADATA into a shared object: a section behind what is there, and a section header
// table with one line more. `architecture` is what hipRTC was asked for: "gfx90a", "gfx90a:sramecc+:xnack-".
void add_metadata(std::vector<std::byte>& shared_object, const std::string& architecture,
                  const std::vector<rtc::Entry>& kernels);

// hipModuleLoadData is told no size: what the headers of the ELF file at `image` reach to. Throws
// std::invalid_argument for what does not begin as an ELF file of this machine's byte order and width.
std::span<const std::byte> whole_file(const void* image);

// The architecture that the note names, "" where there is no note.
std::string architecture_of(std::span<const std::byte> file);

}  // namespace rondo::doubles::hip
