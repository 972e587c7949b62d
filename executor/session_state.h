// What a session is made of. Built by session_build.cpp, run by session.cpp.
#pragma once

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
// A param's value from text: "17", "0.5", "true". Throws Error(bad_argument) for what is none, or is outside a step param's range.
std::variant<std::int64_t, double> parse_value(const ParamInfo& info, std::string_view text);
Prepared prepare(Schedule schedule, Device& device, const SessionOptions& options);

// Members are destroyed from last to first: an exec before the graph's memory, memory before the device.
struct Session::State {
  State(Prepared prepared, std::shared_ptr<Device> on, const SessionOptions& options);
  ~State();

  std::shared_ptr<Device> device;
  Driver& driver;
  Schedule schedule;
  Plan plan;
  std::vector<ParamInfo> params;       // with the values now
  std::vector<std::int64_t> integers;  // the same, as expressions want them
  std::vector<ParamInfo> initial_params;
  std::vector<BufferInfo> buffers;
  Mode mode;
  std::size_t updates_before_renewal;
  bool has_failed = false;
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

  // Params that were set since the last launch, each once.
  std::vector<std::uint32_t> pending;
  std::vector<std::uint8_t> is_pending;  // by param
  // While all that is pending is plain and no param is unsafe, a launch refreshes nodes; else it stages them
  // (packed_arguments.h).
  std::vector<std::uint8_t> is_plain;  // by param: all of its nodes are
  std::size_t unsafe_params = 0;       // whose value now is outside the safe range
  std::uint64_t step = 0;              // of refreshing
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
  bool is_safe(std::uint32_t param) const noexcept;
  void pend(std::uint32_t param) noexcept;
  void mark(std::uint32_t node) noexcept;
  // What staging refused last, with its place. `before` begins the message, `hint` is the next step.
  Diagnostic staging_diagnostic(const Status& status, const char* before, const char* hint) const;
  Status refuse_set(std::uint32_t param, double value, const char* why) noexcept;
  // Brings everything up to date with what was set and bound. bad_argument: refused, nothing was changed.
  Status update() noexcept;
  bool can_refresh() const noexcept;
  Status refresh_pending() noexcept;
  void mark_pending() noexcept;
  Status stage_marked() noexcept;
  Status apply_marked() noexcept;
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
