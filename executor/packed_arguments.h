// The bytes of every node's arguments, in the layout that the compiled kernels declare, and what has changed
// in them.
//
// All memory is taken when a session is built. A step stages: it computes the next state of the nodes that
// depend on what was set, beside the state that the driver has. Only when all of that has succeeded is
// anything applied, so a value that makes some op impossible changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "driver.h"
#include "plan.h"

namespace rondo {

// One node as a launch would have it: the one type that eager replay and graph updates work from.
struct NodeUpdate {
  std::uint32_t node;
  std::span<const std::byte> arguments;
  LaunchShape shape;
  bool enabled;  // false: a grid dimension is zero for these values
};

// Why staging refused, for the story that Session::error tells.
struct StagingFault {
  std::uint32_t node = 0;
  std::optional<std::uint32_t> argument;
  bool has_value = false;
  std::int64_t value = 0,
               limit = 0;  // what came out, and the largest that is allowed; where there is a value at all
};

class PackedArguments {
 public:
  // `functions` by kernel; `buffers`, by buffer, is where pointers point when they are staged: it outlives
  // this object, and may change.
  PackedArguments(const Plan& plan, const DeviceProperties& device, std::span<const FunctionInfo> functions,
                  std::span<const DevicePointer> buffers, DevicePointer slots);

  // Computes `node`'s next state from the params' values (by param index). Never allocates. On a failure the
  // next state is undefined, the current one untouched, and fault() says why.
  Status stage(std::uint32_t node, std::span<const ParamInfo> params,
               std::span<const std::int64_t> integers) noexcept;
  const StagingFault& fault() const noexcept { return fault_; }
  // All of `node` is staged anew the next time, not only what depends on step params: a buffer of its has
  // moved.
  void touch(std::uint32_t node) noexcept { nodes_[node].stage_all = true; }

  // The node as it was staged last, and as it was when it was accepted last.
  NodeUpdate next(std::uint32_t node) const noexcept;
  NodeUpdate current(std::uint32_t node) const noexcept;
  bool arguments_or_shape_changed(std::uint32_t node) const noexcept;
  bool enabled_changed(std::uint32_t node) const noexcept;
  void accept(std::uint32_t node) noexcept;  // next becomes current

 private:
  struct Node {
    std::size_t begin, bytes;  // in both buffers
    LaunchShape shape, next_shape;
    bool enabled = false, next_enabled = false;
    bool stage_all = true;  // what does not depend on step params has not been accepted yet
    bool shape_is_fixed = true;
    std::size_t first_dynamic, end_dynamic;  // in dynamic_
  };
  // An argument that depends on step params, with all that a step needs of it: the plan is not looked at.
  struct Dynamic {
    enum class Form : std::uint8_t {
      general,  // as the plan says
      integer,  // scale * param + addend, within smallest and largest
      pointer,  // to that element of a buffer
      real,     // the float param as it is
    };
    Form form = Form::general;
    DataType type = DataType::u64;
    std::uint32_t position = 0, param = 0, buffer = 0;
    std::size_t to = 0;  // in next_
    std::int64_t scale = 0, addend = 0, smallest = 0, largest = 0;
    std::uint64_t element_bytes = 0;
  };

  Dynamic make_dynamic(std::uint32_t node, std::uint32_t position) const;
  // False: nothing was staged, and stage_argument is to be asked, which may have a refusal.
  bool stage_dynamic(const Dynamic& argument, std::span<const ParamInfo> params,
                     std::span<const std::int64_t> integers) noexcept;
  Status stage_argument(std::uint32_t index, std::uint32_t position, std::span<const ParamInfo> params,
                        std::span<const std::int64_t> integers) noexcept;
  Status stage_pointer(std::uint32_t index, std::uint32_t position,
                       std::span<const std::int64_t> integers) noexcept;
  Status stage_shape(std::uint32_t index, std::span<const std::int64_t> integers) noexcept;
  Status refuse(ExpressionFault fault, std::uint32_t node,
                std::optional<std::uint32_t> argument = {}) noexcept;
  Status refuse(const char* why, std::uint32_t node, std::optional<std::uint32_t> argument,
                std::int64_t value, std::int64_t limit) noexcept;

  const Plan& plan_;
  const DeviceProperties& device_;
  std::span<const FunctionInfo> functions_;
  std::vector<Node> nodes_;
  std::vector<Dynamic> dynamic_;  // node by node
  std::vector<std::byte> current_, next_;
  std::span<const DevicePointer> buffers_;
  DevicePointer slots_;
  StagingFault fault_;
};

}  // namespace rondo
