// What a cubin (the ELF file with an NVIDIA GPU's code) says of its kernels' parameters: section
// ".nv.info.<kernel>". NVIDIA does not document it; what is read here is what cubins of nvcc and NVRTC 12 and
// 13 have, and tests hold it to what the compilers make.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rondo::rtc {

struct CubinParameter {
  std::size_t offset = 0, size = 0;  // in the packed arguments
  bool operator==(const CubinParameter&) const = default;
};

struct CubinKernel {
  std::string name;  // mangled
  std::vector<CubinParameter> parameters;
};

bool is_cubin(std::span<const std::byte> file) noexcept;

// Every offset is checked against the file. Throws Error(run_time) that says what is wrong for a file that is
// no cubin, is cut short or damaged.
std::vector<CubinKernel> read_cubin(std::span<const std::byte> file);

}  // namespace rondo::rtc
