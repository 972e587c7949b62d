// The bytes of every node's arguments, in the layout that the compiled kernels declare, and what has changed
// in them.
//
// All memory is taken when a session is built. A step has two ways. Most nodes are plain: their shape is
// fixed, and for which values of the step params they are right has been worked out when the session was
// built; such a node is refreshed in one go. All others are staged: their next state is computed beside the
// state that the driver has, and only when all of that has succeeded is anything applied, so that a value
// that makes some op impossible changes nothing.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "driver.h"
#include "plan.h"
#include "slots.h"

namespace rondo {

// One node as a launch would have it: the one type that eager replay and graph updates work from.
struct NodeUpdate {
  std::uint32_t node = 0;
  bool enabled = false;  // false: a grid dimension is zero for these values
  KernelLaunch launch;
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
  // What nodes' states are made of, the values being those of now; it outlives this object.
  struct Source {
    std::span<const std::int64_t> values;    // by param, those of float params as the bits of a double
    std::span<const DevicePointer> buffers;  // by buffer: where it lies
    DevicePointer slots = 0;
  };
  // `functions` and `infos` by kernel; the infos outlive this object.
  PackedArguments(const Plan& plan, const DeviceProperties& device, std::span<const FunctionHandle> functions,
                  std::span<const FunctionInfo> infos, const Source& source);

  // Whether the node can be refreshed, once it has been accepted and as long as it is not touched: no step
  // param can make it impossible while all are within their safe ranges.
  bool is_plain(std::uint32_t node) const noexcept { return staged_[node].is_plain; }
  // The values of an integer param for which nothing of a plain node can be refused.
  IntegerRange safe_range(std::uint32_t param) const noexcept { return safe_[param]; }
  // Computes a plain node's state from the params' values, and says whether it differs from before. At most
  // once a `step`, a number that grows; later calls say no. Never allocates.
  bool refresh(std::uint32_t node, std::uint64_t step) noexcept {
    if (std::exchange(refreshed_in_[node], step) == step) return false;
    const Node& at = nodes_[node];
    // They lie in current_.
    std::byte* const arguments = const_cast<std::byte*>(at.current.launch.arguments);
    bool has_changed = false;
    for (std::uint32_t i = at.first_dynamic; i < at.end_dynamic; ++i)
      has_changed |= put(dynamic_[i], arguments);
    return has_changed;
  }
  // The slots' values, slot_bytes each, of which a kernel reads as many as the param's type has. They are the
  // caller's to write, and are no part of the node that publishes them until it is refreshed.
  std::byte* slots() noexcept { return slots_; }
  // Says whether they differ from before.
  bool refresh_slots() noexcept {
    const KernelLaunch& now = nodes_[publish_node].current.launch;
    if (std::memcmp(now.arguments, slots_, now.argument_bytes) == 0) return false;
    std::memcpy(const_cast<std::byte*>(now.arguments), slots_, now.argument_bytes);  // they lie in current_
    return true;
  }
  // Into the caches, for a refresh that comes soon.
  void fetch(std::uint32_t node) const noexcept {
    const Node& at = nodes_[node];
    __builtin_prefetch(&at);
    __builtin_prefetch(dynamic_.data() + at.first_dynamic);
    __builtin_prefetch(at.current.launch.arguments, 1);
  }

  // Computes `node`'s next state from the params' values. Never allocates. On a failure the next state is
  // undefined, the current one untouched, and fault() says why.
  Status stage(std::uint32_t node) noexcept;
  const StagingFault& fault() const noexcept { return fault_; }
  // All of `node` is staged anew the next time, not only what depends on step params: a buffer of its has
  // moved.
  void touch(std::uint32_t node) noexcept { staged_[node].stage_all = true; }

  // The node as it was staged last, and as it was when it was accepted or refreshed last.
  const NodeUpdate& next(std::uint32_t node) const noexcept { return staged_[node].next; }
  const NodeUpdate& current(std::uint32_t node) const noexcept { return nodes_[node].current; }
  bool arguments_or_shape_changed(std::uint32_t node) const noexcept;
  bool enabled_changed(std::uint32_t node) const noexcept;
  void accept(std::uint32_t node) noexcept;  // next becomes current

 private:
  // What a refresh looks at lies together.
  struct Node {
    NodeUpdate current;
    std::uint32_t first_dynamic, end_dynamic;
  };
  struct Staged {
    NodeUpdate next;
    bool stage_all = true;  // what does not depend on step params has not been accepted yet
    bool shape_is_fixed = true;
    bool is_plain = false;
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
    std::uint32_t to = 0;                 // in the node's arguments
    std::uint32_t param = 0, buffer = 0;
    std::uint32_t position = 0;  // among the node's arguments
    Form form = Form::general;
    DataType type = DataType::u64;
    std::uint8_t bytes = 8;
  };

  Dynamic make_dynamic(const PlanArgument& argument, std::uint32_t position);
  void make_safe(std::uint32_t param, const Value::Affine& form, std::int64_t smallest, std::int64_t largest);
  // Writes an argument that is not of the general form, and says whether that changed anything.
  bool put(const Dynamic& argument, std::byte* arguments) const noexcept {
    if (argument.form == Dynamic::Form::real) return put_float(argument, arguments);
    std::uint64_t value =
        argument.scale * static_cast<std::uint64_t>(source_.values[argument.param]) + argument.addend;
    if (argument.form == Dynamic::Form::pointer) value += source_.buffers[argument.buffer];
    return replace(arguments + argument.to, value, argument.bytes);
  }
  bool put_float(const Dynamic& argument, std::byte* arguments) const noexcept;
  double real(std::uint32_t param) const noexcept { return std::bit_cast<double>(source_.values[param]); }
  template <class T>
  static bool replace(std::byte* at, T value) noexcept {
    T before;
    std::memcpy(&before, at, sizeof value);
    std::memcpy(at, &value, sizeof value);
    return before != value;
  }
  static_assert(std::endian::native == std::endian::little, "an argument is the low bytes of its 64 bits");
  static bool replace(std::byte* at, std::uint64_t bits, std::uint8_t bytes) noexcept {
    if (bytes == 8) return replace(at, bits);
    if (bytes == 4) return replace(at, static_cast<std::uint32_t>(bits));
    return bytes == 2 ? replace(at, static_cast<std::uint16_t>(bits))
                      : replace(at, static_cast<std::uint8_t>(bits));
  }
  Status stage_argument(std::uint32_t index, std::uint32_t position) noexcept;
  Status stage_pointer(std::uint32_t index, std::uint32_t position) noexcept;
  Status stage_shape(std::uint32_t index) noexcept;
  Status refuse(ExpressionFault fault, std::uint32_t node,
                std::optional<std::uint32_t> argument = {}) noexcept;
  Status refuse(const char* why, std::uint32_t node, std::optional<std::uint32_t> argument,
                std::int64_t value, std::int64_t limit) noexcept;

  const Plan& plan_;
  const DeviceProperties& device_;
  std::span<const FunctionInfo> infos_;
  std::vector<Node> nodes_;
  std::vector<Staged> staged_;               // as nodes_
  std::vector<std::uint64_t> refreshed_in_;  // by node: the step
  std::vector<Dynamic> dynamic_;             // node by node
  std::vector<IntegerRange> safe_;           // by param
  std::vector<std::byte> current_, next_;
  std::byte* slots_ = nullptr;               // in next_; null: there are none
  std::deque<LaunchAttributes> attributes_;  // of the nodes that have any; launches point to them
  const Source source_;
  StagingFault fault_;
};

}  // namespace rondo
