#include "foreign_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "rondo/error.h"

namespace rondo {

const char* kind_name(ForeignNodeKind kind) noexcept {
  switch (kind) {
    case ForeignNodeKind::kernel:
      return "kernel";
    case ForeignNodeKind::memcpy:
      return "memcpy";
    case ForeignNodeKind::memset:
      return "memset";
    case ForeignNodeKind::child_graph:
      return "child graph";
    case ForeignNodeKind::empty:
      return "empty";
    case ForeignNodeKind::host:
      return "host";
    case ForeignNodeKind::event:
      return "event";
    case ForeignNodeKind::memory:
      return "memory allocation";
    case ForeignNodeKind::conditional:
      return "conditional";
    case ForeignNodeKind::other:
      break;
  }
  return "other";
}

std::vector<std::byte> copy_arguments(const ForeignKernel& kernel, void* const* pointers,
                                      std::span<const std::byte> packed) {
  std::size_t end = 0;
  for (const ParameterLayout& parameter : kernel.layout)
    end = std::max(end, parameter.offset + parameter.size);
  std::vector<std::byte> arguments(end);
  if (pointers != nullptr) {
    for (std::size_t i = 0; i < kernel.layout.size(); ++i) {
      const ParameterLayout& parameter = kernel.layout[i];
      std::memcpy(arguments.data() + parameter.offset, pointers[i], parameter.size);
    }
    return arguments;
  }
  if (packed.size() < end) {
    throw Error(ErrorCode::run_time,
                fmt::format("a node of kernel \"{}\" has {} bytes of arguments; its parameters take {}",
                            kernel.name, packed.size(), end));
  }
  std::copy_n(packed.begin(), end, arguments.begin());
  return arguments;
}

}  // namespace rondo
