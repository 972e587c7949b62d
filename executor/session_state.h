// What a session is made of. Built by session_build.cpp, run by session.cpp.
#pragma once

#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dependencies.h"
#include "packed_arguments.h"
#include "plan.h"
#include "renewed_graph.h"
#include "rondo/device.h"
#include "rondo/session.h"
#include "schedule.h"

namespace rondo {

// A schedule that has been planned, compiled and checked for one device; nothing is allocated there yet.
struct Prepared {
  Schedule schedule;
  Plan plan;
  std::vector<rtc::Binary> binaries;  // by unit
  Arena arena;
  FoundDependencies found;
  std::size_t lane_edges = 0;  // added by limit_lanes
  double plan_ms = 0, compile_ms = 0;
};
// Why a session replays eagerly: a clause, empty where it has a graph.
std::string why_eager(Device& device, const SessionOptions& options);
// A param's value from text: "17", "0.5", "true". Throws Error(bad_argument) for what is none, or is outside
// a step param's range.
std::variant<std::int64_t, double> parse_value(const ParamInfo& info, std::string_view text);
Prepared prepare(Schedule schedule, Device& device, const SessionOptions& options);

// All that `set` needs to know of a param. A step may set many of them, so they are small and lie side by
// side.
struct Settable {
  // slot: an integer that is in a slot and that no node depends on but the one that publishes slots.
  enum class Form : std::uint8_t { slot, integer, real, constant };
  std::int64_t smallest = 0, largest = 0;  // of integers: what is accepted
  std::byte* slot = nullptr;               // where its value goes (PackedArguments::slots); null: nowhere
  Form form = Form::constant;
  DataType type = DataType::i32;
  // Of the nodes whose arguments or shape depend on it, but for the one that publishes slots:
  bool has_nodes = false, is_plain = false;  // there are any; all are
  bool may_be_unsafe = false;                // some accepted values are outside the safe range
};
static_assert(sizeof(Settable) == 32);

// What is written to a slot, for a value as in Session::State::values. The kernel reads as many bytes as the
// type has.
inline std::uint64_t slot_bits(DataType type, std::int64_t value) noexcept {
  auto bits = static_cast<std::uint64_t>(value);
  if (info(type).is_float) {
    bits = 0;
    store_float(type, std::bit_cast<double>(value), &bits);
  }
  return bits;
}

// Members are destroyed from last to first: an exec before the graph's memory, memory before the device.
struct Session::State {
  State(Prepared prepared, std::shared_ptr<Device> on, const SessionOptions& options);
  ~State();

  std::shared_ptr<Device> device;
  Driver& driver;
  Schedule schedule;
  Plan plan;
  std::vector<ParamInfo> params;             // with the values that Session::params was last asked for
  std::vector<std::int64_t> initial_values;  // as `values`
  std::vector<BufferInfo> buffers;
  Mode mode;
  std::size_t updates_before_renewal;
  Counters counters;
  BuildSummary summary;

  OwnedStream stream;
  std::vector<OwnedModule> modules;          // by unit
  std::vector<FunctionHandle> functions;     // by kernel
  std::vector<FunctionInfo> function_infos;  // by kernel
  OwnedMemory arena_memory, slots_memory;
  std::vector<OwnedMemory> memory;  // by buffer; empty for the arena's and for shared weights
  std::vector<DevicePointer> own_addresses, addresses;  // by buffer; own: without what the caller bound
  std::vector<bool> is_written;                         // by buffer: some node writes it

  std::optional<PackedArguments> arguments;
  std::unique_ptr<RenewedGraph> graph;  // null: eager replay
  std::vector<std::vector<std::uint32_t>> nodes_of_param, nodes_of_buffer;

  bool has_failed = false;
  bool slots_have_changed = false;   // since the last launch
  std::vector<Settable> settable;    // by param
  std::vector<std::int64_t> values;  // by param: the value now, of a float param the bits of a double
  // Params that nodes depend on and that were set since the last launch, each once.
  std::vector<std::uint32_t> pending;
  std::vector<std::uint8_t> is_pending;  // by param
  // While all that is pending is plain and no param is unsafe, a launch refreshes nodes; else it stages them
  // (packed_arguments.h).
  bool pending_is_plain = true;
  std::size_t unsafe_params = 0;  // whose value now is outside the safe range
  std::uint64_t step = 0;         // of refreshing
  // Nodes that have to be staged before the next launch, each once.
  std::vector<std::uint32_t> marked;
  std::vector<std::uint8_t> is_marked;  // by node

  // For the stories that error() tells: what was refused last, by staging and by `set`.
  const char* staging_refusal = "";
  struct RefusedSet {
    const char* call = "";
    std::uint32_t param = 0;
    double value = 0;
  } refused_set;

  StreamHandle stream_of(Stream given) const noexcept {
    return given.native != nullptr ? static_cast<StreamHandle>(given.native) : stream.get();
  }
  bool is_safe(std::uint32_t param, std::int64_t value) const noexcept;
  // `value` as in `values`: what `set` has found to be good.
  void take(std::uint32_t param, std::int64_t value) noexcept;
  void tell_nodes(std::uint32_t param, std::int64_t before) noexcept;
  void mark(std::uint32_t node) noexcept;
  // What staging refused last, with its place. `before` begins the message, `hint` is the next step.
  Diagnostic staging_diagnostic(const Status& status, const char* before, const char* hint) const;
  const char* refuse_set(std::uint32_t param, double value, const char* why) noexcept;
  // Brings all nodes but that which publishes slots up to date with what was set and bound. bad_argument:
  // refused, nothing was changed.
  Status update_nodes() noexcept;
  bool can_refresh() const noexcept;
  Status refresh_pending() noexcept;
  void mark_pending() noexcept;
  Status stage_marked() noexcept;
  Status apply_marked() noexcept;
  Status publish_slots() noexcept;
  void rebuild();
  Status launch_eagerly(StreamHandle on) noexcept;
  // The initial fills of all buffers. May throw std::bad_alloc.
  Status apply_fills(StreamHandle on);
  void point(std::uint32_t buffer, DevicePointer address) noexcept;
  Status check_access(BufferHandle buffer, std::size_t offset, std::size_t bytes) const noexcept;

 private:
  void load_modules(const std::vector<rtc::Binary>& binaries);
  void check_cooperative_nodes();
  void allocate(const Arena& arena);
  void upload_weights(const SessionOptions& options);
  Status write_widened(const PlanBuffer& buffer, DevicePointer to);
  void make_random_weights(const SessionOptions& options);
  void index_nodes();
  void index_params();
  void stage_all(ErrorCode refusal, const char* before, const char* hint);
  void make_graph();
};

}  // namespace rondo
