// Code objects inside other files: NVIDIA's fat binaries (nvcc -fatbin, section .nv_fatbin), clang's offload
// bundles (section .hip_fatbin), and programs and libraries that have such sections.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace rondo::rtc {

enum class CodeKind { cubin, amd_code_object };

struct CodeVisitor {
  std::function<void(CodeKind kind, std::span<const std::byte> code)> code;
  std::function<void(const std::string& why)>
      left_out;  // "a compressed cubin": what is there and cannot be read
};

// Calls the visitor for all code in `file`: a cubin, an AMD code object, a fat binary, an offload bundle, or
// an ELF file with sections of the latter two; for nothing in what is none of these. PTX and code for the
// host are passed over. Every offset is checked against the file. What is damaged is left out, but for the
// headers of an ELF file, for which it throws Error(run_time).
void visit_code(std::span<const std::byte> file, const CodeVisitor& visitor);

}  // namespace rondo::rtc
