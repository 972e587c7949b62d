// Schedule + constants + weights' metadata + device → the list of nodes, with every name resolved.
//
// Repeats are unrolled, `when` is decided, families are expanded. What is left open is what only the compiled
// kernels know: the arguments' types and offsets and which of them are slots (match_signatures.h, slots.h),
// and with the constness of the pointers the dependencies (dependencies.h) and where temporaries lie
// (arena.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler.h"
#include "launch_attributes.h"
#include "rondo/device_properties.h"
#include "rondo/session.h"
#include "schedule.h"

namespace rondo {

struct Plan;

// Where a kernel's arguments are larger than the device takes.
inline constexpr const char* argument_bytes_hint =
    "CUDA takes 32764 bytes with compute capability 7.0 and a driver of CUDA 12.1, or later; 4096 elsewhere.";

// An integer that is fixed when the plan is made, or an expression over step params.
struct Value {
  struct Operand {
    bool is_step;
    std::int64_t value;  // a step param's index, or the constant itself
  };

  std::int64_t fixed = 0;
  std::shared_ptr<const Expression> expression;  // null: fixed
  std::vector<Operand> operands;                 // in the order of expression->variables()

  static Value of(std::int64_t value) { return {.fixed = value, .expression = nullptr, .operands = {}}; }
  bool is_fixed() const noexcept { return expression == nullptr; }
  // `step_values` by param index.
  ExpressionFault evaluate(std::span<const std::int64_t> step_values, std::int64_t* value) const noexcept;
  // scale * param + addend, where the value is that for one step param and nothing in it can overflow.
  struct Affine {
    std::uint32_t param;
    std::int64_t scale, addend;
  };
  std::optional<Affine> affine(const Plan& plan) const;
};

struct PlanParam {
  ParamInfo info;                        // with the initial value in it
  UpdateWay update = UpdateWay::chosen;  // as the schedule asks
  std::optional<std::uint32_t> slot;     // its place among the slots, where an op reads it that way (slots.h)
  std::string pointer;
};

struct PlanBuffer {
  BufferInfo info;
  std::size_t elements = 0;
  const Tensor* tensor = nullptr;  // weights
  std::optional<std::uint64_t> random_seed;  // weights without a file
  std::optional<BufferFill> fill;
  double fill_value = 0;                 // of a BufferFill that is a number
  std::optional<std::uint32_t> same_as;  // an earlier weight of the same tensor, whose memory it shares
  std::string pointer;

  const DataTypeInfo& type() const noexcept { return rondo::info(info.type); }
  // Bytes from the start of the buffer to element `offset`, which is a whole number of blocks.
  std::size_t byte_offset(std::size_t offset) const noexcept {
    return offset / type().block_elements * type().block_bytes;
  }
};

struct PlanArgument {
  enum class Kind : std::uint8_t {
    integer,      // value
    literal,      // literal, a float
    float_param,  // param
    buffer,  // a pointer to element `value` of `buffer`, with `extent` elements touched where that is known
    slot,    // a pointer to the slot of `param`
  };
  Kind kind = Kind::integer;
  Access access = Access::by_signature;
  DataType type = DataType::u64;  // as it is packed; set from the signature (pointers: u64)
  std::uint32_t param = 0, buffer = 0;
  std::uint32_t parameter =
      0;  // which of the kernel's it is, or is in: a table fills one with several of these
  std::uint32_t table_columns = 0;          // in a table: the pointers of one of its rows; 0: it is in none
  std::optional<std::uint32_t> named_step;  // integer, float_param: the step param that stands here by itself
  std::size_t offset = 0;                   // in the packed buffer; set from the signature
  bool writes = true;                       // pointers: the pointee is not const; set from the signature
  Value value;
  std::optional<Value> extent;
  double literal = 0;
  std::string pointer;  // JSON pointer
};

// An earlier node that a node waits for.
struct Dependency {
  std::uint32_t node;
  EdgeKind kind = EdgeKind::full;
  bool operator==(const Dependency&) const = default;
};

struct PlanNode {
  std::string label;
  std::string pointer;       // JSON pointer of the op
  std::uint32_t kernel = 0;  // index into Plan::kernels
  bool is_builtin = false;   // copy, fill, publish: its kernel takes any type
  std::array<Value, 3> grid{Value::of(1), Value::of(1), Value::of(1)},
      block{Value::of(1), Value::of(1), Value::of(1)};
  Value shared;
  std::vector<PlanArgument> arguments;
  std::size_t argument_bytes = 0;           // of the packed buffer; set from the signature
  LaunchAttributes attributes;           // but for argument_offsets
  std::vector<Dependency> dependencies;  // transitively reduced

  // Whether some values of the step params may leave its grid empty, so that it is disabled.
  bool may_be_disabled(const Plan& plan) const;
};

// One kernel that some op launches.
struct PlanKernel {
  std::string name;     // in the schedule, families expanded
  std::uint32_t unit;   // index into Plan::units
  std::uint32_t entry;  // index into that unit's entries
  std::string pointer;  // JSON pointer of the declaration
  // Every thread waits (rondo_wait_for_inputs) before it first touches what an op of the graph writes.
  bool pdl = false;
};

struct Plan {
  std::vector<PlanParam> params;
  std::vector<PlanBuffer> buffers;
  std::vector<PlanKernel> kernels;
  std::vector<rtc::CompileRequest> units;
  std::vector<PlanNode> nodes;
  std::uint32_t slots = 0;
  std::uint32_t lanes = 0;  // the most chains that the graph is laid out in; 0: no limit
  std::vector<std::shared_ptr<const WeightFile>> files;  // keeps what PlanBuffer::tensor points into

  std::unordered_map<std::string, std::uint32_t> param_index, buffer_index;

  // For diagnostics: where node `index` (and its argument) stands in the schedule.
  Place place(const Schedule& schedule, std::size_t node,
              std::optional<std::size_t> argument = std::nullopt) const;
  // Of the dependency of node `later` on node `earlier`.
  EdgeKind edge_kind(std::uint32_t earlier, std::uint32_t later) const;
  void set_edge_kinds();  // of all dependencies, for a device that has programmatic edges
};

// Throws Error(bad_schedule or bad_argument) with everything that is wrong.
Plan make_plan(const Schedule& schedule, const DeviceProperties& device, const SessionOptions& options);

}  // namespace rondo
