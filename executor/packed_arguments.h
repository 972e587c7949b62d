// The bytes of every node's arguments, in the layout that the compiled kernels declare, and what has changed
// in them.
//
// All memory is taken when a session is built. A step has two ways. Most nodes are plain: their shape is
// fixed, and for which values of the step params they are right has been worked out when the session was
// built; such a node is refreshed in one go. All others are staged: their next state is computed beside the
// state that the driver has, and only when all of that has succeeded is anything applied, so that a value
// that makes some op impossible changes nothing.
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

  // Whether the node can be refreshed, once it has been accepted and as long as it is not touched: no step
  // param can make it impossible while all are within their safe ranges.
  bool is_plain(std::uint32_t node) const noexcept { return nodes_[node].is_plain; }
  // The values of an integer param for which nothing of a plain node can be refused.
  IntegerRange safe_range(std::uint32_t param) const noexcept { return safe_[param]; }
  // Computes a plain node's state from the params' values, and says whether it differs from before. At most
  // once a `step`, a number that grows; later calls say no. Never allocates.
  bool refresh(std::uint32_t node, std::uint64_t step, std::span<const ParamInfo> params,
               std::span<const std::int64_t> integers) noexcept;
  // Into the caches, for a refresh that comes soon.
  void fetch(std::uint32_t node) const noexcept;

  // Computes `node`'s next state from the params' values (by param index). Never allocates. On a failure the
  // next state is undefined, the current one untouched, and fault() says why.
  Status stage(std::uint32_t node, std::span<const ParamInfo> params,
               std::span<const std::int64_t> integers) noexcept;
  const StagingFault& fault() const noexcept { return fault_; }
  // All of `node` is staged anew the next time, not only what depends on step params: a buffer of its has
  // moved.
  void touch(std::uint32_t node) noexcept { staged_[node].stage_all = true; }

  // The node as it was staged last, and as it was when it was accepted or refreshed last.
  NodeUpdate next(std::uint32_t node) const noexcept;
  NodeUpdate current(std::uint32_t node) const noexcept {
    const Node& at = nodes_[node];
    return {.node = node,
            .arguments = {current_.data() + at.begin, at.bytes},
            .shape = at.shape,
            .enabled = at.is_enabled};
  }
  bool arguments_or_shape_changed(std::uint32_t node) const noexcept;
  bool enabled_changed(std::uint32_t node) const noexcept;
  void accept(std::uint32_t node) noexcept;  // next becomes current

 private:
  // What a refresh looks at: one cache line, and its dynamic arguments.
  struct alignas(64) Node {
    std::uint32_t begin, bytes;  // in current_ and next_
    std::uint32_t first_dynamic, end_dynamic;
    std::uint64_t refreshed_in = 0;  // the step
    LaunchShape shape;
    bool is_enabled = false;
    bool is_plain = false;
  };
  // What staging needs beside it.
  struct Staged {
    LaunchShape shape;
    bool is_enabled = false;
    bool stage_all = true;  // what does not depend on step params has not been accepted yet
    bool shape_is_fixed = true;
  };
  // An argument that depends on step params. All forms but `general` are all that a step needs to know of it.
  struct Dynamic {
    enum class Form : std::uint8_t {
      general,  // as the plan says
      integer,  // scale * param + addend
      pointer,  // that many bytes into a buffer
      real,     // the float param as it is
    };
    std::uint64_t scale = 0, addend = 0;  // modulo 2^64
    std::uint32_t to = 0;                 // in current_ and next_
    std::uint32_t param = 0, buffer = 0;
    std::uint32_t position = 0;  // among the node's arguments
    Form form = Form::general;
    DataType type = DataType::u64;
    std::uint8_t bytes = 8;
  };

  Dynamic make_dynamic(std::uint32_t node, std::uint32_t position);
  void make_safe(std::uint32_t param, const Value::Affine& form, std::int64_t smallest, std::int64_t largest);
  // An argument's value, in the low bytes; not of the general form.
  std::uint64_t bits(const Dynamic& argument, std::span<const ParamInfo> params,
                     std::span<const std::int64_t> integers) const noexcept;
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
  std::vector<Staged> staged_;      // as nodes_
  std::vector<Dynamic> dynamic_;    // node by node
  std::vector<IntegerRange> safe_;  // by param
  std::vector<std::byte> current_, next_;
  std::span<const DevicePointer> buffers_;
  DevicePointer slots_;
  StagingFault fault_;
};

}  // namespace rondo
