// What a user holds: a schedule made ready for one device, launched again and again.
//
//     auto device = rondo::open_device("auto");
//     auto session = rondo::Session::load("configs/saxpy.json", device, {});
//     const auto a = session.param("a");
//     for (double value : {1.0, 2.0, 3.0}) {
//       if (auto status = session.set(a, value); !status.ok()) throw session.error(status);
//       if (auto status = session.launch(); !status.ok()) throw session.error(status);
//     }
//
// Building throws rondo::Error. set, bind and launch return a Status; on our side of the driver they allocate
// nothing, take no lock and look up no name. A session is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rondo/data_type.h"
#include "rondo/error.h"
#include "rondo/role.h"
#include "rondo/status.h"
#include "rondo/weights.h"

namespace rondo {

class Device;

// graph: one executable graph, updated where something changed. eager: the same plan, one plain launch an op.
enum class Mode : std::uint8_t { graph, eager };

struct SessionOptions {
  Mode mode = Mode::graph;  // eager instead where the device's graphs do not work, with a notice
  // Constants' values in place of the schedule's, as text: {"kv_by_slot", "1"}. An unknown or step param:
  // bad_argument.
  std::vector<std::pair<std::string, std::string>> constants;
  std::shared_ptr<const WeightFile> weights;  // may be null where the schedule needs none
  std::optional<RandomWeights> random_weights = std::nullopt;  // instead of `weights`; both: bad_argument
  // Every buffer gets an allocation of its own, temporaries too: memory checkers then see overruns, and
  // `read` works on all.
  bool separate_buffers = false;
  bool use_cache = true;  // false: every kernel is compiled anew, and none is kept
  std::optional<std::filesystem::path> cache_directory;  // nullopt: the default, see rtc/cache.h
  // After how many node updates the executable graph is replaced, in the background, by a new one: ROCm keeps some memory of each
  // update as long as the executable graph lives. 0: never. nullopt: 16,384 on hip, never elsewhere. Where twice as many come before the launches queued up to then are done,
  // `launch` waits for those: queue fewer behind work that only the launching thread can let go on.
  std::optional<std::size_t> updates_before_renewal = std::nullopt;
  unsigned compile_threads = 0;                          // 0: as many as there are processors
  // Long steps report here: what is being done, how much of how much. Called from the building thread or,
  // during compilation, from one compiling thread at a time.
  std::function<void(std::string_view what, std::size_t done, std::size_t total)> progress;
  // One line for what the user should know and is no error (a cache that cannot be written).
  std::function<void(const std::string& line)> notice;
};

struct ParamHandle {
  std::uint32_t index;
};
struct BufferHandle {
  std::uint32_t index;
};

struct ParamInfo {
  std::string name;
  DataType type = DataType::i32;
  bool is_step = false;
  std::int64_t integer = 0;                // the value now, of a bool or integer param
  double real = 0;                         // of a float param
  std::int64_t smallest = 0, largest = 0;  // what `set` accepts, inclusive; integer params only
};

struct BufferInfo {
  std::string name;
  DataType type = DataType::u8;
  std::vector<std::size_t> shape;  // elements, slowest dimension first
  std::size_t bytes = 0;
  Role role = Role::temporary;
  bool readable = true;  // false for a temporary that shares the arena
};

// How often the driver was called since the session was built.
struct Counters {
  std::uint64_t launches = 0;         // of this session
  std::uint64_t graph_launches = 0;   // cuGraphLaunch
  std::uint64_t kernel_launches = 0;  // cuLaunchKernel (eager mode)
  std::uint64_t node_updates = 0;     // cuGraphExecKernelNodeSetParams
  std::uint64_t node_toggles = 0;     // cuGraphNodeSetEnabled
  std::uint64_t instantiations = 0;   // cuGraphInstantiate
  std::uint64_t captures = 0;         // stream captures: always 0, Rondo has none
  std::uint64_t renewals = 0;         // the executable graph was replaced by a new one
  std::uint64_t failed_renewals = 0;  // it was to be, and the old one stayed
};

struct BuildSummary {
  std::size_t nodes = 0, edges = 0, kernels = 0;
  std::size_t compiled = 0, from_cache = 0;  // translation units
  std::size_t arena_bytes = 0;               // temporaries
  std::size_t buffer_bytes = 0;              // everything else
  // Milliseconds: names resolved and ops unrolled; kernels compiled or found in the cache; modules, memory,
  // weights and graph.
  double plan_ms = 0, compile_ms = 0, load_ms = 0;
};

// A stream of the caller's: a CUstream on cuda. Null: the session's own stream.
struct Stream {
  void* native = nullptr;
};

class Session {
 public:
  // `file` is a schedule; throws Error(bad_schedule, bad_argument, missing_backend, run_time) and leaves
  // nothing behind.
  static Session load(const std::filesystem::path& file, std::shared_ptr<Device> device,
                      const SessionOptions& options);
  // The same from text; `file` names it in messages and is where relative paths start.
  static Session parse(std::string text, const std::filesystem::path& file, std::shared_ptr<Device> device,
                       const SessionOptions& options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();  // waits for the session's own stream

  const std::string& name() const noexcept;
  // Index = ParamHandle::index. The values are those of now; call again after `set`.
  std::span<const ParamInfo> params() const noexcept;
  std::span<const BufferInfo> buffers() const noexcept;  // index = BufferHandle::index
  ParamHandle param(std::string_view name) const;        // throws bad_argument, the nearest name suggested
  BufferHandle buffer(std::string_view name) const;
  const Counters& counters() const noexcept;
  const BuildSummary& summary() const noexcept;
  Mode mode() const noexcept;  // as it is, which may not be what was asked for

  // A step param's value for all launches from now on. Out of its range, a constant, or the wrong kind:
  // bad_argument, and nothing has changed. An integer given for a float param is converted.
  Status set(ParamHandle param, std::int64_t value) noexcept { return refused(put(param, value)); }
  Status set(ParamHandle param, double value) noexcept { return refused(put(param, value)); }
  Status set(ParamHandle param, int value) noexcept { return set(param, static_cast<std::int64_t>(value)); }
  // Text, for tools: "17", "0.5", "true". Throws bad_argument.
  void set(std::string_view name, std::string_view text);

  // Queues one replay. Values that make an op impossible (a grid above the device's limit, an offset outside
  // its buffer, an expression that overflows): bad_argument, nothing was changed or launched. A driver
  // failure: run_time; the session has failed if the driver may be left with half of an update, and then
  // refuses every launch until it is rebuilt.
  Status launch(Stream stream = {}) noexcept;
  Status synchronize(Stream stream = {}) noexcept;
  bool failed() const noexcept;
  // A new executable graph with the params and bindings as they are now: what a failed session needs to launch
  // again. Buffers keep what is in them (an eager launch that failed may have run some of its ops); `reset` and
  // `write` are for those. Launches in streams of the caller's must be done. Throws bad_argument where a value
  // makes an op impossible, and nothing has changed; run_time where the driver fails, and the session has
  // failed.
  void rebuild();
  // The whole story of a status that this session returned last: op, kernel, argument, values.
  Error error(const Status& status) const;

  // Memory of the caller's in place of the session's, from the next launch on; it must outlive all launches
  // queued with it. Too small, misaligned, overlapping a buffer where one of the two is written, or a
  // temporary in the arena: bad_argument.
  Status bind(BufferHandle buffer, std::uint64_t address, std::size_t bytes) noexcept;
  Status unbind(BufferHandle buffer) noexcept;                // back to the session's own memory
  std::uint64_t address(BufferHandle buffer) const noexcept;  // 0 for a temporary in the arena

  // Stream-ordered. `read` returns when the bytes are there; `write` when `from` may be reused. `offset` in
  // bytes.
  Status read(BufferHandle buffer, std::span<std::byte> to, std::size_t offset = 0,
              Stream stream = {}) noexcept;
  Status write(BufferHandle buffer, std::span<const std::byte> from, std::size_t offset = 0,
               Stream stream = {}) noexcept;
  // Every byte of a buffer; for poisoning outputs.
  Status fill_bytes(BufferHandle buffer, std::uint8_t value, Stream stream = {}) noexcept;
  // Reapplies the initial fills and the step params' initial values.
  Status reset(Stream stream = {}) noexcept;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state) noexcept;
  // Why the value is refused; null: it is taken.
  [[nodiscard]] const char* put(ParamHandle param, std::int64_t value) noexcept;
  [[nodiscard]] const char* put(ParamHandle param, double value) noexcept;
  static Status refused(const char* why) noexcept {
    return why == nullptr ? Status{} : Status{ErrorCode::bad_argument, 0, "", why};
  }
  std::unique_ptr<State> state_;
};

// Every complaint about a schedule that can be found: by parsing alone where `device` is null, else planned,
// compiled and compared with the kernels' signatures as well (nothing is allocated or launched). Empty: it is
// good.
std::vector<Diagnostic> check_schedule(const std::filesystem::path& file, Device* device,
                                       const SessionOptions& options);

}  // namespace rondo
