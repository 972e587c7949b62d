// A range of device memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo {

struct AddressRange {
  std::uint64_t begin = 0;
  std::size_t bytes = 0;

  bool contains(std::uint64_t address) const noexcept { return address >= begin && address - begin < bytes; }
  bool operator==(const AddressRange&) const = default;
};

}  // namespace rondo
