#include "objects.h"

#include <cstdlib>
#include <cstring>
#include <limits>

#include "launch_limits.h"
#include "rondo/error.h"

namespace rondo::doubles::hip {
namespace {

thread_local int device_of_thread = 0;

// What the packed form's list holds in front of its values (HIP_LAUNCH_PARAM_…).
void* const buffer_pointer = reinterpret_cast<void*>(1);
void* const buffer_size = reinterpret_cast<void*>(2);
void* const end_of_list = reinterpret_cast<void*>(3);

bool fits_32_bits(const Dimensions& grid, const Dimensions& block) noexcept {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  return std::uint64_t{grid.x} * block.x <= most && std::uint64_t{grid.y} * block.y <= most &&
         std::uint64_t{grid.z} * block.z <= most;
}

bool is_zero(const Dimensions& d) noexcept { return d.x == 0 || d.y == 0 || d.z == 0; }

}  // namespace

int current_device() noexcept { return device_of_thread; }

void make_current(int device) noexcept { device_of_thread = device; }

int device_count() noexcept {
  const char* text = std::getenv("RONDO_DOUBLE_HIP_DEVICES");
  return text != nullptr ? std::atoi(text) : 1;
}

// Never destroyed: calls may come as late as the process's end.
Objects& objects() {
  static Objects& objects = *new Objects;
  return objects;
}

bool is_device_memory(const void* address, std::size_t bytes) {
  Objects& all = objects();
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(all.memory_mutex);
  auto piece = all.memory.upper_bound(begin);
  if (piece == all.memory.begin()) return false;
  --piece;
  const std::size_t offset = begin - piece->first;
  return offset <= piece->second && bytes <= piece->second - offset;
}

Result check_launch(const FunctionObject* function, const KernelNodeParameters& parameters) noexcept {
  if (function == nullptr || function->module->unloaded || !function->module->is_current()) {
    return Result::invalid_device_function;
  }
  if (parameters.kernel_parameters != nullptr && parameters.extra != nullptr) return Result::invalid_value;
  if (is_zero(parameters.grid) || is_zero(parameters.block)) return Result::invalid_value;
  if (!fits_32_bits(parameters.grid, parameters.block)) return invalid_configuration;
  if (parameters.kernel_parameters == nullptr && parameters.extra == nullptr &&
      !function->parameters.empty()) {
    return Result::invalid_value;
  }
  if (void** const extra = parameters.extra; extra != nullptr) {
    if (extra[0] != buffer_pointer || extra[2] != buffer_size || extra[4] != end_of_list) {
      return Result::invalid_value;
    }
  }
  KernelLaunch launch = host_launch(*function, parameters, {});
  launch.argument_bytes = 0;
  return check_launch_limits(launch, host().properties()).ok() ? Result::success : invalid_configuration;
}

std::vector<std::byte> pack(const FunctionObject& function, const KernelNodeParameters& parameters) {
  std::vector<std::byte> arguments(function.argument_end);
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    const ParameterLayout& layout = function.parameters[i];
    const void* value = parameters.kernel_parameters != nullptr
                            ? parameters.kernel_parameters[i]
                            : static_cast<const std::byte*>(parameters.extra[1]) + layout.offset;
    std::memcpy(arguments.data() + layout.offset, value, layout.size);
  }
  return arguments;
}

KernelLaunch host_launch(const FunctionObject& function, const KernelNodeParameters& parameters,
                         const std::vector<std::byte>& arguments) noexcept {
  KernelLaunch launch;
  launch.function = function.host;
  launch.shape.grid = {parameters.grid.x, parameters.grid.y, parameters.grid.z};
  launch.shape.block = {parameters.block.x, parameters.block.y, parameters.block.z};
  launch.shape.shared_bytes = parameters.shared_bytes;
  launch.arguments = arguments.data();
  launch.argument_bytes = arguments.size();
  return launch;
}

Result to_result(const Status& status) noexcept {
  if (status.ok()) return Result::success;
  return status.code == ErrorCode::bad_argument ? Result::invalid_value : Result::launch_failure;
}

Result to_result(const std::exception& error) noexcept {
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (ours == nullptr) return unknown_error;
  return ours->code() == ErrorCode::bad_argument ? Result::invalid_value : unknown_error;
}

}  // namespace rondo::doubles::hip

std::size_t rondo_double_live_handles() {
  rondo::doubles::hip::Objects& objects = rondo::doubles::hip::objects();
  const std::lock_guard lock(objects.memory_mutex);
  return objects.streams.size() + objects.events.size() + objects.modules.size() + objects.graphs.size() +
         objects.execs.size() + objects.memory.size();
}
