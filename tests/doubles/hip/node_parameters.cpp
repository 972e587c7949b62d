#include "node_parameters.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "modes.h"

namespace rondo::doubles::hip {
namespace {

// malloc, because a caller's mistakes with it are to be what a memory checker sees.
void* take_memory(std::size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* copy_of(const void* value, std::size_t bytes) {
  void* memory = take_memory(bytes);
  std::memcpy(memory, value, bytes);
  return memory;
}

constexpr std::size_t extra_count = 5;  // POINTER, buffer, SIZE, &size, END

}  // namespace

NodeParameters::NodeParameters(const KernelNodeParameters& parameters, const FunctionObject& function) {
  copy(parameters, function);
}

void NodeParameters::copy(const KernelNodeParameters& parameters, const FunctionObject& function) {
  value_ = parameters;
  count_ = function.parameters.size();
  if (parameters.kernel_parameters != nullptr) {
    value_.kernel_parameters = static_cast<void**>(take_memory((count_ + 1) * sizeof(void*)));
    for (std::size_t i = 0; i < count_; ++i) {
      value_.kernel_parameters[i] = copy_of(parameters.kernel_parameters[i], function.parameters[i].size);
    }
  } else if (parameters.extra != nullptr) {
    value_.extra = static_cast<void**>(copy_of(parameters.extra, extra_count * sizeof(void*)));
    // The caller's word for the size, never compared with the kernel's: a short buffer is read beyond its end
    // when the node runs.
    const std::size_t bytes = *static_cast<const std::size_t*>(parameters.extra[3]);
    value_.extra[1] = copy_of(parameters.extra[1], bytes);
    value_.extra[3] = copy_of(&bytes, sizeof bytes);
  }
}

void NodeParameters::release() noexcept {
  if (value_.kernel_parameters != nullptr) {
    for (std::size_t i = 0; i < count_; ++i) std::free(value_.kernel_parameters[i]);
    std::free(value_.kernel_parameters);
  } else if (value_.extra != nullptr) {
    std::free(value_.extra[1]);
    std::free(value_.extra[3]);
    std::free(value_.extra);
  }
}

void NodeParameters::set(const KernelNodeParameters& parameters, const FunctionObject& function) {
  const bool is_own =
      (value_.kernel_parameters != nullptr && value_.kernel_parameters == parameters.kernel_parameters) ||
      (value_.extra != nullptr && value_.extra == parameters.extra);
  if (is_own && !is_rocm_5_4()) {
    value_ = parameters;
    return;
  }
  release();
  copy(parameters, function);
}

}  // namespace rondo::doubles::hip
