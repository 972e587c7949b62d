// Steps with random changes, each of them verified on the device: a schedule whose nodes depend on step
// params in every way there is (values as they are and scaled, expressions, pointers, slots, grids that
// become empty), and whose last kernel folds all that the others have written and compares it with what a
// model on the processor expects of this very step. Launches run ahead of the device.
//
//     million_steps DEVICE STEPS SEED
//
// Memory must not grow: that of the process, of the device, and a double's handles.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <stdexcept>

#include "conformance/double_control.h"
#include "driver.h"
#include "handles.h"
#include "rondo/device.h"
#include "rondo/session.h"

namespace rondo {
namespace {

constexpr std::size_t out_count = 16, data_count = 128, copied = 4;

constexpr const char* schedule = R"j({
  "rondo": 1, "name": "million_steps",
  "params": {
    "a": {"type": "i32", "step": 0}, "b": {"type": "i32", "step": 0}, "c": {"type": "i64", "step": 0},
    "at": {"type": "i32", "step": 0, "min": 0, "max": 99}, "on": {"type": "bool", "step": true},
    "width": {"type": "i32", "step": 2, "min": 0, "max": 3}, "f": {"type": "f32", "step": 0.0},
    "g": {"type": "f64", "step": 0.0}, "s": {"type": "i64", "step": 0}, "t": {"type": "f32", "step": 0.0},
    "expected": {"type": "i64", "step": 0}},
  "buffers": {
    "data": {"type": "i32", "shape": [128], "role": "input"}, "moved": {"type": "i32", "shape": [128], "role": "input"},
    "out": {"type": "i64", "shape": [16], "role": "state", "fill": 0}, "copied": {"type": "i32", "shape": [4], "role": "state", "fill": 0},
    "filled": {"type": "i32", "shape": [4], "role": "state", "fill": 0}, "between": {"type": "i64", "shape": [1], "role": "temporary"},
    "tally": {"type": "i64", "shape": [3], "role": "state", "fill": 0}},
  "kernels": {
    "number": {"entry": "number", "code": "extern \"C\" __global__ void number(long long* out, long long value) { *out = value; }"},
    "look": {"entry": "look", "code": "extern \"C\" __global__ void look(long long* out, const int* at, long long value) { *out = *at + value; }"},
    "small": {"entry": "small", "code": "extern \"C\" __global__ void small(long long* out, unsigned char value, bool on, short wide) { *out = value + 1000 * on + wide; }"},
    "real": {"entry": "real", "code": "extern \"C\" __global__ void real(long long* out, float f, double g) { *out = static_cast<long long>(f * 16) + static_cast<long long>(g * 4096); }"},
    "row": {"entry": "row", "code": "extern \"C\" __global__ void row(long long* out, long long value) { out[blockIdx.x] = value + blockIdx.x; }"},
    "read": {"entry": "read", "code": "extern \"C\" __global__ void read(long long* out, const long long* s, const float* t, int a) { *out = *s + static_cast<long long>(*t * 16) + a; }"},
    "twice": {"entry": "twice", "code": "extern \"C\" __global__ void twice(long long* out, const long long* from) { *out = 2 * *from; }"},
    "verify": {"entry": "verify", "code": "extern \"C\" __global__ void verify(long long* tally, const long long* out, const int* copied, const int* filled, long long expected) { unsigned long long hash = 0; for (int i = 0; i < 16; ++i) hash = (hash ^ static_cast<unsigned long long>(out[i])) * 0x9e3779b97f4a7c15ull; for (int i = 0; i < 4; ++i) { hash = (hash ^ static_cast<unsigned long long>(copied[i])) * 0x9e3779b97f4a7c15ull; hash = (hash ^ static_cast<unsigned long long>(filled[i])) * 0x9e3779b97f4a7c15ull; } if (static_cast<long long>(hash) != expected) { if (tally[1] == 0) tally[2] = tally[0]; ++tally[1]; } ++tally[0]; }"}},
  "ops": [
    {"kernel": "number", "grid": [1], "block": [1], "args": [{"write": "out[0 : 1]"}, "a"]},
    {"kernel": "number", "grid": [1], "block": [1], "args": [{"write": "out[1 : 1]"}, "40 - 3 * b"]},
    {"kernel": "number", "grid": [1], "block": [1], "args": [{"write": "out[2 : 1]"}, "c"]},
    {"kernel": "number", "grid": [1], "block": [1], "args": [{"write": "out[3 : 1]"}, "a * b"]},
    {"kernel": "look", "grid": [1], "block": [1], "args": [{"write": "out[4 : 1]"}, "data[at : 1]", "a"]},
    {"kernel": "look", "grid": [1], "block": [1], "args": [{"write": "out[5 : 1]"}, "moved[99 - at : 1]", 7]},
    {"kernel": "look", "grid": [1], "block": [1], "args": [{"write": "out[6 : 1]"}, "moved[at / 2 : 1]", "b"]},
    {"kernel": "small", "grid": [1], "block": [1], "args": [{"write": "out[7 : 1]"}, "at + 100", "on", "width - 2"]},
    {"kernel": "real", "grid": [1], "block": [1], "args": [{"write": "out[8 : 1]"}, "f", "g"]},
    {"kernel": "number", "grid": ["on"], "block": [1], "args": [{"write": "out[9 : 1]"}, "c"]},
    {"kernel": "row", "grid": ["width"], "block": [1], "args": [{"write": "out[10 : 3]"}, "a"]},
    {"kernel": "read", "grid": [1], "block": [1], "args": [{"write": "out[13 : 1]"}, {"slot": "s"}, {"slot": "t"}, "a"]},
    {"kernel": "read", "grid": [1], "block": [1], "args": [{"write": "out[14 : 1]"}, {"slot": "s"}, {"slot": "t"}, 5]},
    {"kernel": "number", "grid": [1], "block": [1], "args": [{"write": "between"}, "c"]},
    {"kernel": "twice", "grid": [1], "block": [1], "args": [{"write": "out[15 : 1]"}, "between"]},
    {"copy": "data[at : 4]", "to": "copied"},
    {"fill": "filled", "value": "b"},
    {"kernel": "verify", "grid": [1], "block": [1], "args": ["tally", "out", "copied", "filled", "expected"]}]
})j";

using Data = std::array<std::int32_t, data_count>;

// What the params are, and what the ops make of them.
struct Model {
  std::int64_t a = 0, b = 0, c = 0, at = 0, on = 1, width = 2, s = 0;
  double f = 0, g = 0, t = 0;
  Data data{};
  const Data* moved = nullptr;

  std::array<std::int64_t, out_count> out{};
  std::array<std::int32_t, copied> copied_data{}, filled{};

  void step() {
    const auto of = [](const Data& from, std::int64_t index) {
      return from[static_cast<std::size_t>(index)];
    };
    out[0] = a;
    out[1] = 40 - 3 * b;
    out[2] = c;
    out[3] = a * b;
    out[4] = of(data, at) + a;
    out[5] = of(*moved, 99 - at) + 7;
    out[6] = of(*moved, at / 2) + b;
    out[7] = at + 100 + 1000 * on + width - 2;
    out[8] = static_cast<std::int64_t>(f * 16) + static_cast<std::int64_t>(g * 4096);
    if (on != 0) out[9] = c;
    for (std::int64_t i = 0; i < width; ++i) out[static_cast<std::size_t>(10 + i)] = a + i;
    out[13] = s + static_cast<std::int64_t>(t * 16) + a;
    out[14] = s + static_cast<std::int64_t>(t * 16) + 5;
    out[15] = 2 * c;
    for (std::size_t i = 0; i < copied; ++i) copied_data[i] = of(data, at + static_cast<std::int64_t>(i));
    filled.fill(static_cast<std::int32_t>(b));
  }

  std::int64_t hash() const {
    std::uint64_t hash = 0;
    const auto fold = [&](std::int64_t value) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;
    };
    for (const std::int64_t value : out) fold(value);
    for (std::size_t i = 0; i < copied; ++i) {
      fold(copied_data[i]);
      fold(filled[i]);
    }
    return static_cast<std::int64_t>(hash);
  }
};

std::size_t resident_bytes() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

class Steps {
 public:
  Steps(const std::string& backend, unsigned seed)
      : backend_(backend),
        random_(seed),
        device_(open_device(backend)),
        session_(Session::parse(schedule, "million_steps.json", device_, {})) {
    for (Data* data : {&model_.data, &own_, &bound_}) {
      for (std::int32_t& value : *data) value = static_cast<std::int32_t>(random_());
    }
    model_.moved = &own_;
    memory_ = {device_->driver(), device_->driver().allocate(sizeof bound_)};
    const BufferHandle moved = session_.buffer("moved");
    succeed(session_.write(session_.buffer("data"), std::as_bytes(std::span(model_.data))));
    succeed(session_.bind(moved, memory_.get(), sizeof bound_));
    succeed(session_.write(moved, std::as_bytes(std::span(bound_))));
    succeed(session_.unbind(moved));
    succeed(session_.write(moved, std::as_bytes(std::span(own_))));
  }

  void run(std::int64_t steps) {
    constexpr std::int64_t ahead = 64, looks = 20;
    std::size_t resident = 0, handles = 0;
    std::optional<std::size_t> device_memory;
    for (std::int64_t step = 1; step <= steps; ++step) {
      change();
      model_.step();
      succeed(session_.set(expected_, model_.hash()));
      succeed(session_.launch());
      if (step % ahead == 0) succeed(session_.synchronize());
      if (step % std::max<std::int64_t>(1, steps / looks) == 0 || step == steps) verify(step);
      if (step == std::max<std::int64_t>(1, steps / 10)) {
        resident = resident_bytes();
        device_memory = free_device_memory();
        handles = live_handles();
      }
    }
    const Counters& counters = session_.counters();
    std::printf("%lld steps verified; %llu nodes updated, %llu switched on or off, %llu graphs\n",
                static_cast<long long>(steps), static_cast<unsigned long long>(counters.node_updates),
                static_cast<unsigned long long>(counters.node_toggles),
                static_cast<unsigned long long>(counters.instantiations));
    compare("resident bytes of the process", resident, resident_bytes(), 4 << 20);
    if (device_memory) {
      constexpr std::size_t all = 1ULL << 60;
      compare("bytes of the device in use", all - *device_memory, all - *free_device_memory(), 4 << 20);
    }
    // A graph may be about to be replaced by another one: a handle for each node and a few more.
    compare("handles of the double", handles, live_handles(), 64);
  }

 private:
  void succeed(const Status& status) const {
    if (!status.ok()) throw session_.error(status);
  }
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  double fraction() { return static_cast<double>(below(1 << 16) - (1 << 15)) / 16; }

  // Nothing, one param, some or all of them: how many changes with each step.
  void change() {
    const std::int64_t of_ten = std::array<std::int64_t, 4>{0, 1, 3, 10}[static_cast<std::size_t>(below(4))];
    const auto maybe = [&](auto& value, ParamHandle param, auto next) {
      if (below(10) >= of_ten) return;
      value = next;
      succeed(session_.set(param, value));
    };
    maybe(model_.a, a_, below(1 << 30) - (1 << 29));
    maybe(model_.b, b_, below(1 << 20) - (1 << 19));
    maybe(model_.c, c_, static_cast<std::int64_t>(random_()));
    maybe(model_.at, at_, below(100));
    maybe(model_.on, on_, below(2));
    maybe(model_.width, width_, below(4));
    maybe(model_.f, f_, fraction());
    maybe(model_.g, g_, fraction() / 256);
    maybe(model_.s, s_, below(std::int64_t{1} << 40));
    maybe(model_.t, t_, fraction());
    if (below(50) != 0) return;
    const BufferHandle moved = session_.buffer("moved");
    const bool is_own = model_.moved == &own_;
    succeed(is_own ? session_.bind(moved, memory_.get(), sizeof bound_) : session_.unbind(moved));
    model_.moved = is_own ? &bound_ : &own_;
  }

  void verify(std::int64_t steps) {
    std::array<std::int64_t, 3> tally{};
    succeed(session_.read(session_.buffer("tally"), std::as_writable_bytes(std::span(tally))));
    if (tally[1] != 0)
      throw std::logic_error(
          fmt::format("{} of {} steps came out wrong, step {} the first", tally[1], tally[0], tally[2] + 1));
    if (tally[0] != steps)
      throw std::logic_error(fmt::format("{} steps were run in place of {}", tally[0], steps));
  }

  static void compare(const char* what, std::size_t before, std::size_t now, std::size_t allowed) {
    std::printf("%s: %lld more at the end than after a tenth\n", what, static_cast<long long>(now - before));
    if (now > before + allowed)
      throw std::logic_error(fmt::format("{} grow: {} after a tenth, {} at the end", what, before, now));
  }

  std::size_t live_handles() const {
    return conformance::DoubleControl::is_there() ? conformance::DoubleControl(backend_).live_handles() : 0;
  }
  // Nothing where it cannot be asked for: on the host and on doubles.
  std::optional<std::size_t> free_device_memory() const {
    if (conformance::DoubleControl::is_there() || backend_ == "host") return {};
    const bool is_cuda = backend_ == "cuda";
    const auto ask = reinterpret_cast<int (*)(std::size_t*, std::size_t*)>(
        is_cuda ? conformance::vendor_function("RONDO_CUDA_LIBRARY", "libcuda.so.1", "cuMemGetInfo_v2")
                : conformance::vendor_function("RONDO_HIP_LIBRARY", "libamdhip64.so.6", "hipMemGetInfo"));
    const DriverScope scope(device_->driver());
    std::size_t free = 0, total = 0;
    conformance::check_vendor(ask(&free, &total), "asking for the device's free memory");
    return free;
  }

  const std::string backend_;
  std::mt19937_64 random_;
  const std::shared_ptr<Device> device_;
  OwnedMemory memory_;  // for `moved`; outlives the session
  Session session_;
  Model model_;
  Data own_{}, bound_{};  // what lies in the two memories of `moved`
  const ParamHandle a_ = session_.param("a"), b_ = session_.param("b"), c_ = session_.param("c"),
                    at_ = session_.param("at"), on_ = session_.param("on"), width_ = session_.param("width"),
                    f_ = session_.param("f"), g_ = session_.param("g"), s_ = session_.param("s"),
                    t_ = session_.param("t"), expected_ = session_.param("expected");
};

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  const auto number = [&](int index, auto* value) {
    const std::string_view text = index < argc ? argv[index] : "";
    const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return code == std::errc() && rest == text.data() + text.size();
  };
  std::int64_t steps = 0;
  unsigned seed = 0;
  if (argc != 4 || !number(2, &steps) || !number(3, &seed) || steps < 1) {
    std::fprintf(stderr, "million_steps DEVICE STEPS SEED: cuda, hip or host\n");
    return 2;
  }
  try {
    rondo::Steps(argv[1], seed).run(steps);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "seed %u: %s\n", seed, error.what());
    return 1;
  }
}
