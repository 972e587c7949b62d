#include "node_arguments.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "cuda/api.h"

namespace rondo::cuda {
namespace {

// The size of the parameters as a struct may include its padding at the end.
constexpr std::size_t largest_padding = alignof(std::max_align_t) - 1;

bool copy_kernel_parameters(std::span<const ParameterLayout> layout, void** values,
                            std::vector<std::byte>& packed) {
  packed.assign(argument_end(layout), std::byte{0});
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (values[i] == nullptr) return false;
    std::memcpy(packed.data() + layout[i].offset, values[i], layout[i].size);
  }
  return true;
}

// Pairs of a key and a value in any order, up to the end's key (cuda.h, cuLaunchKernel).
bool copy_extra(std::span<const ParameterLayout> layout, void** extra, std::vector<std::byte>& packed) {
  const std::byte* buffer = nullptr;
  const std::size_t* size = nullptr;
  for (; *extra != launch_end(); extra += 2) {
    if (*extra == launch_buffer()) {
      buffer = static_cast<const std::byte*>(extra[1]);
    } else if (*extra == launch_buffer_size()) {
      size = static_cast<const std::size_t*>(extra[1]);
    } else {
      return false;
    }
  }
  const std::size_t end = argument_end(layout);
  if (size == nullptr || *size < end || *size > end + largest_padding) return false;
  if (*size != 0 && buffer == nullptr) return false;
  packed.assign(buffer, buffer + *size);
  return true;
}

}  // namespace

std::size_t argument_end(std::span<const ParameterLayout> layout) noexcept {
  std::size_t end = 0;
  for (const ParameterLayout& parameter : layout) end = std::max(end, parameter.offset + parameter.size);
  return end;
}

std::optional<NodeArguments> NodeArguments::copy(std::span<const ParameterLayout> layout,
                                                 void** kernel_parameters, void** extra) {
  if (kernel_parameters != nullptr && extra != nullptr) return std::nullopt;
  NodeArguments result;
  result.is_extra_ = extra != nullptr;
  if (kernel_parameters == nullptr && extra == nullptr) {
    if (!layout.empty()) return std::nullopt;
  } else if (!(extra != nullptr ? copy_extra(layout, extra, result.packed_)
                                : copy_kernel_parameters(layout, kernel_parameters, result.packed_))) {
    return std::nullopt;
  }
  return result;
}

NodeArguments NodeArguments::clone() const {
  NodeArguments result;
  result.packed_ = packed_;
  result.is_extra_ = is_extra_;
  return result;
}

void NodeArguments::Unmap::operator()(std::byte* pages) const noexcept { munmap(pages, bytes); }

NodeArguments::View NodeArguments::view(std::span<const ParameterLayout> layout) {
  if (pages_ != nullptr || (layout.empty() && !is_extra_)) return view_;
  // The array, the size that an extra list points to, and the values.
  const std::size_t entries = is_extra_ ? 5 : layout.size();
  const std::size_t values_at = (entries * sizeof(void*) + sizeof(std::size_t) + 255) / 256 * 256;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = (values_at + packed_.size() + page - 1) / page * page;
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const start = static_cast<std::byte*>(mapped);
  pages_ = {start, Unmap{bytes}};
  if (!packed_.empty()) std::memcpy(start + values_at, packed_.data(), packed_.size());
  auto** const array = static_cast<void**>(mapped);
  if (is_extra_) {
    std::byte* const size_place = start + entries * sizeof(void*);
    const std::size_t size = packed_.size();
    std::memcpy(size_place, &size, sizeof size);
    void* const list[] = {launch_buffer(), start + values_at, launch_buffer_size(), size_place, launch_end()};
    std::copy(std::begin(list), std::end(list), array);
    view_.extra = array;
  } else {
    for (std::size_t i = 0; i < layout.size(); ++i) array[i] = start + values_at + layout[i].offset;
    view_.kernel_parameters = array;
  }
  mprotect(mapped, bytes, PROT_READ);
  return view_;
}

}  // namespace rondo::cuda
