// What a session promises, on every device there is: "host" always, "cuda" and "hip" where one is found.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "driver.h"
#include "gate.h"
#include "handles.h"
#include "must_be_there.h"
#include "rondo/device.h"
#include "rondo/session.h"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionConformance : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    open_or_skip(GetParam(), device_);
  }

  Session make(const std::string& text, SessionOptions options = {}) {
    return Session::parse(text, std::filesystem::path(RONDO_SOURCE_DIR) / "configs" / "test.json", device_,
                          options);
  }

  template <typename T>
  static std::vector<T> read(Session& session, const char* name) {
    const BufferHandle buffer = session.buffer(name);
    std::vector<T> values(session.buffers()[buffer.index].bytes / sizeof(T));
    check(session.read(buffer, std::as_writable_bytes(std::span(values))), "reading");
    return values;
  }

  template <typename T>
  static void write(Session& session, const char* name, const std::vector<T>& values) {
    check(session.write(session.buffer(name), std::as_bytes(std::span(values))), "writing");
  }

  static void launch(Session& session) {
    const Status status = session.launch();
    if (!status.ok()) throw session.error(status);
  }

  std::shared_ptr<Device> device_;
};

INSTANTIATE_TEST_SUITE_P(Devices, SessionConformance, ::testing::Values("host", "cuda", "hip"),
                         [](const auto& instance) { return std::string(instance.param); });

// A stream of its own that is blocked until it is opened.
class BlockedStream {
 public:
  explicit BlockedStream(Device& device) : driver_(device.driver()), stream_(driver_.create_stream()) {
    check(gate_.close(driver_, stream_), "blocking a stream");
  }
  ~BlockedStream() { driver_.destroy_stream(stream_); }
  void open() { gate_.open(); }
  bool opened_by_itself() const { return gate_.opened_by_itself(); }
  Stream get() const { return {stream_}; }

 private:
  Driver& driver_;
  StreamHandle stream_;
  Gate gate_;
};

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

double relative_error(const std::vector<float>& out, const std::vector<double>& reference) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    error += (out[i] - reference[i]) * (out[i] - reference[i]);
    norm += reference[i] * reference[i];
  }
  return std::sqrt(error / norm);
}

constexpr const char* scale_schedule = R"j({
  "rondo": 1, "name": "scale",
  "params": {"n": {"type": "i32", "constant": 10000}, "a": {"type": "f32", "step": 2.0}},
  "buffers": {"x": {"type": "f32", "shape": ["n"], "role": "input"}, "y": {"type": "f32", "shape": ["n"], "role": "output"}},
  "kernels": {"scale": {"entry": "scale",
    "code": "extern \"C\" __global__ void scale(int n, float a, const float* x, float* y) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + 1; }"}},
  "ops": [{"kernel": "scale", "grid": ["ceil_div(n, 128)"], "block": [128], "args": ["n", "a", "x", {"write": "y"}]}]
})j";

TEST_P(SessionConformance, EachLaunchHasTheValueThatWasSet) {
  Session session = make(scale_schedule);
  const std::vector<float> x = random_floats(10000, 1);
  write(session, "x", x);
  const ParamHandle a = session.param("a");
  EXPECT_THAT(session.error(session.set(a, 1e39)).what(), HasSubstr("beyond what its type holds"));
  for (const double value : {2.0, -0.5, 3.25}) {
    ASSERT_TRUE(session.fill_bytes(session.buffer("y"), 0xff).ok());
    ASSERT_TRUE(session.set(a, value).ok());
    launch(session);
    std::vector<double> reference;
    for (const float element : x) reference.push_back(value * element + 1);
    EXPECT_LT(relative_error(read<float>(session, "y"), reference), 1e-6);
  }
  EXPECT_EQ(session.counters().node_updates, 2u);  // the first value was the initial one
  EXPECT_EQ(session.counters().instantiations, 1u);
}

// The promise that everything rests on: updates affect future launches only.
class QueuedLaunches : public SessionConformance {
 protected:
  static constexpr int steps = 1000;

  // Eagerly, each op of a step is a launch of its own, and a CUDA stream takes 1,024 before it makes the
  // caller wait (seen on an H200, driver 580).
  void run(const std::string& op) {
    for (const Mode mode : {Mode::graph, Mode::eager}) {
      const int queued = mode == Mode::graph ? steps : 400;
      SessionOptions options;
      options.mode = mode;
      Session session = make(R"j({
        "rondo": 1, "name": "record",
        "params": {"steps": {"type": "i32", "constant": 1000}, "pos": {"type": "i32", "step": 0, "min": 0, "max": "steps - 1"}},
        "buffers": {"out": {"type": "i32", "shape": ["steps"], "role": "state", "fill": -1},
                    "sum": {"type": "i32", "shape": ["steps"], "role": "state", "fill": 0}},
        "kernels": {
          "record": {"code": "extern \"C\" __global__ void record(int* out, int* sum, int value, int pos) { out[0] = value; sum[pos] += value; }", "entry": "record"},
          "record_at": {"code": "extern \"C\" __global__ void record_at(int* out, int* sum, const int* pos) { out[*pos] = *pos * 3 + 1; sum[*pos] += *pos * 3 + 1; }", "entry": "record_at"}},
        "ops": [)j" + op + "]}",
                             options);
      const ParamHandle pos = session.param("pos");
      BlockedStream stream(*device_);
      for (int i = 0; i < queued; ++i) {
        ASSERT_TRUE(session.set(pos, (i * 7) % queued).ok());
        ASSERT_TRUE(session.launch(stream.get()).ok());
      }
      stream.open();
      ASSERT_TRUE(session.synchronize(stream.get()).ok());
      ASSERT_FALSE(stream.opened_by_itself()) << "the driver made the caller wait";
      const std::vector<int> out = read<int>(session, "out"), sum = read<int>(session, "sum");
      for (int i = 0; i < queued; ++i) {
        ASSERT_EQ(out[i], i * 3 + 1) << "step " << i;
        ASSERT_EQ(sum[i], i * 3 + 1) << "step " << i;
      }
      if (mode == Mode::graph) {
        EXPECT_EQ(session.counters().node_updates, 999u);
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, QueuedLaunches, ::testing::Values("host", "cuda", "hip"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(QueuedLaunches, KeepTheirOwnPointers) {
  run(R"j({"kernel": "record", "grid": [1], "block": [1], "args": [{"write": "out[pos : 1]"}, "sum", "pos * 3 + 1", "pos"]})j");
}

TEST_P(QueuedLaunches, KeepTheirOwnSlots) {
  run(R"j({"kernel": "record_at", "grid": [1], "block": [1], "args": ["out", "sum", {"slot": "pos"}]})j");
}

// Where the kernel takes a pointer, the param's name alone means its slot.
TEST_P(QueuedLaunches, KeepTheirOwnSlotsThatTheKernelAsksFor) {
  run(R"j({"kernel": "record_at", "grid": [1], "block": [1], "args": ["out", "sum", "pos"]})j");
}

// By node updates and by slots, of every type that a kernel reads: the same results.
TEST_P(SessionConformance, BothWaysOfUpdatingGiveTheSame) {
  const auto text = [](const char* update, const char* star) {
    std::string code =
        "extern \\\"C\\\" __global__ void mix(double* out, const signed char@ a, const unsigned short@ b, "
        "const int@ c, const long "
        "long@ d, const float@ e, const double@ f, const bool@ g) { *out = *out * 0.5 + #a + 2.0 * #b + 3.0 "
        "* #c + "
        "4.0 * #d + 5.0 * #e + 6.0 * #f + 7.0 * #g; }";
    for (std::size_t at; (at = code.find('@')) != std::string::npos;) code.replace(at, 1, star);
    for (std::size_t at; (at = code.find('#')) != std::string::npos;) code.replace(at, 1, star);
    std::string params, args;
    const char* const types[] = {"i8", "u16", "i32", "i64", "f32", "f64", "bool"};
    for (std::size_t i = 0; i < std::size(types); ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      params += (i == 0 ? "\"" : ", \"") + name + R"(": {"type": ")" + types[i] +
                R"(", "step": 1, "update": ")" + update + "\"}";
      args += ", \"" + name + "\"";
    }
    return R"({"rondo": 1, "name": "mix", "params": {)" + params +
           R"(}, "buffers": {"out": {"type": "f64", "shape": [1], "role": "state", "fill": 0}}, "kernels": {"mix": {"entry": "mix", "code": ")" +
           code + R"("}}, "ops": [)" + R"({"kernel": "mix", "grid": [1], "block": [1], "args": ["out")" +
           args + R"(]}, {"kernel": "mix", "grid": [1], "block": [1], "args": ["out")" + args + "]}]}";
  };
  Session by_node = make(text("node", "")), by_slot = make(text("slot", "*"));
  std::mt19937 random(3);
  for (int step = 0; step < 20; ++step) {
    for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) {
      if (random() % 2 == 0) continue;
      const auto value = static_cast<std::int64_t>(*name == 'g' ? random() % 2 : random() % 100);
      ASSERT_TRUE(by_node.set(by_node.param(name), value).ok());
      ASSERT_TRUE(by_slot.set(by_slot.param(name), value).ok());
    }
    launch(by_node);
    launch(by_slot);
    ASSERT_EQ(read<double>(by_node, "out"), read<double>(by_slot, "out")) << "step " << step;
  }
  if (by_slot.mode() == Mode::graph) {
    EXPECT_EQ(by_slot.summary().nodes, 3u);
    EXPECT_LE(by_slot.counters().node_updates, 20u);
  }
}

// What a step leaves depends on all steps before it, so that one that is lost, doubled, out of order or run
// with another's arguments shows in the end. `rounds` may be 0, which disables its op.
constexpr const char* chain_schedule = R"j({
  "rondo": 1, "name": "chain",
  "params": {"value": {"type": "i32", "step": 0}, "other": {"type": "i32", "step": 0}, "rounds": {"type": "i32", "step": 1, "min": 0, "max": 3}},
  "buffers": {"state": {"type": "u64", "shape": [1], "role": "state", "fill": 1}},
  "kernels": {"step": {"entry": "step", "code": "extern \"C\" __global__ void step(unsigned long long* state, int value) { *state = *state * 31 + value; }"},
              "rounds": {"entry": "rounds", "code": "extern \"C\" __global__ void rounds(unsigned long long* state, int value) { if (blockIdx.x == 0) *state = *state * 17 + value + gridDim.x; }"}},
  "ops": [{"kernel": "step", "grid": [1], "block": [1], "args": ["state", "value"]},
          {"kernel": "rounds", "grid": ["rounds"], "block": [1], "args": ["state", "other"]},
          {"kernel": "step", "grid": [1], "block": [1], "args": ["state", "other"]}]
})j";

// However many of its ops run side by side, a graph does the same.
TEST_P(SessionConformance, LanesChangeNothingButTheLayout) {
  for (const int lanes : {0, 1, 3}) {
    Session session =
        make(R"j({"rondo": 1, "name": "lanes", "graph": {"lanes": )j" + std::to_string(lanes) + R"j(},
        "params": {"a": {"type": "i32", "step": 0}},
        "buffers": {"part.{i}": {"for": {"i": 20}, "type": "i64", "shape": [1], "role": "temporary"},
                    "sum": {"type": "i64", "shape": [1], "role": "state", "fill": 0}},
        "kernels": {
          "part": {"entry": "part", "code": "extern \"C\" __global__ void part(long long* to, int i, int a) { *to = i * 1000 + a; }"},
          "add": {"entry": "add", "code": "extern \"C\" __global__ void add(long long* sum, const long long* from) { *sum = *sum * 3 + *from; }"}},
        "ops": [{"repeat": "i", "count": 20, "ops": [{"kernel": "part", "grid": [1], "block": [1], "args": [{"write": "part.{i}"}, "i", "a"]}]},
                {"repeat": "i", "count": 20, "ops": [{"kernel": "add", "grid": [1], "block": [1], "args": ["sum", "part.{i}"]}]}]})j");
    if (lanes == 1) {
      EXPECT_EQ(session.summary().edges, 39u);  // a chain
    }
    std::uint64_t expected = 0;
    for (std::uint64_t a = 0; a < 5; ++a) {
      ASSERT_TRUE(session.set(session.param("a"), static_cast<std::int64_t>(a)).ok());
      launch(session);
      for (std::uint64_t i = 0; i < 20; ++i) expected = expected * 3 + i * 1000 + a;
    }
    EXPECT_THAT(read<std::uint64_t>(session, "sum"), ElementsAre(expected)) << lanes << " lanes";
  }
}

TEST_P(SessionConformance, AGraphThatIsRenewedInTheBackgroundLosesNothing) {
  SessionOptions options;
  options.updates_before_renewal = 7;
  Session session = make(chain_schedule, options);
  if (session.mode() == Mode::eager) GTEST_SKIP() << "graphs are off on this device";
  const ParamHandle value = session.param("value"), other = session.param("other"),
                    rounds = session.param("rounds");
  Driver& driver = device_->driver();
  const OwnedStream streams[] = {{driver, driver.create_stream()}, {driver, driver.create_stream()}};
  const OwnedEvent done(driver, driver.create_event());
  std::mt19937 random(5);
  std::uint64_t expected = 1;
  std::int64_t now[] = {0, 0, 1};
  for (int i = 0; i < 3000; ++i) {
    if (random() % 3 != 0) now[0] = random() % 1000;
    if (random() % 3 == 0) now[1] = random() % 1000;
    if (random() % 5 == 0) now[2] = random() % 4;
    ASSERT_TRUE(session.set(value, now[0]).ok());
    ASSERT_TRUE(session.set(other, now[1]).ok());
    ASSERT_TRUE(session.set(rounds, now[2]).ok());
    const StreamHandle stream = streams[i / 10 % 2].get();
    ASSERT_TRUE(driver.wait(stream, done.get()).ok());
    ASSERT_TRUE(session.launch({stream}).ok());
    ASSERT_TRUE(driver.record(done.get(), stream).ok());
    expected = expected * 31 + now[0];
    if (now[2] != 0) expected = expected * 17 + now[1] + now[2];
    expected = expected * 31 + now[1];
    if (i % 100 != 99) continue;
    ASSERT_TRUE(session.synchronize({stream}).ok());
    ASSERT_THAT(read<std::uint64_t>(session, "state"), ElementsAre(expected)) << "after step " << i;
  }
  EXPECT_GE(session.counters().renewals, 2u);
  EXPECT_EQ(session.counters().failed_renewals, 0u);
}

TEST_P(SessionConformance, GridBlockAndSharedMemoryFollowStepParams) {
  for (const Mode mode : {Mode::graph, Mode::eager}) {
    SessionOptions options;
    options.mode = mode;
    Session session = make(R"j({
      "rondo": 1, "name": "shape",
      "params": {"blocks": {"type": "i32", "step": 3, "min": 0, "max": 64}, "threads": {"type": "i32", "step": 4, "min": 1, "max": 64}},
      "buffers": {"out": {"type": "i32", "shape": [4096], "role": "state", "fill": 0}},
      "kernels": {"mark": {"entry": "mark", "code": "#include \"portable.cuh\"\nextern \"C\" __global__ void mark(int* out) { int* shared = rondo_dynamic_shared<int>(); shared[threadIdx.x] = 1 + threadIdx.x; __syncthreads(); out[blockIdx.x * blockDim.x + threadIdx.x] += shared[blockDim.x - 1 - threadIdx.x]; }"}},
      "ops": [{"kernel": "mark", "grid": ["blocks"], "block": ["threads"], "shared": "4 * threads", "args": ["out"]}]
    })j",
                           options);
    std::vector<int> expected(4096);
    const auto step = [&](int blocks, int threads) {
      ASSERT_TRUE(session.set(session.param("blocks"), blocks).ok());
      ASSERT_TRUE(session.set(session.param("threads"), threads).ok());
      launch(session);
      for (int i = 0; i < blocks * threads; ++i)
        expected[static_cast<std::size_t>(i)] += threads - i % threads;
      ASSERT_EQ(read<int>(session, "out"), expected) << blocks << " blocks of " << threads;
    };
    step(3, 4);
    step(64, 64);
    step(0, 64);  // an empty grid: nothing happens
    step(1, 1);
    step(0, 7);
    step(0, 9);
    step(2, 9);
  }
}

TEST_P(SessionConformance, ARefusedSetOrLaunchChangesNothing) {
  Session session = make(R"j({
    "rondo": 1, "name": "refuse",
    "params": {"pos": {"type": "i32", "step": 2, "min": 0, "max": 100}, "d": {"type": "i32", "step": 1}, "c": {"type": "i32", "constant": 1}},
    "buffers": {"out": {"type": "i32", "shape": [10], "role": "state", "fill": 0}, "other": {"type": "i32", "shape": [10], "role": "state", "fill": 0}},
    "kernels": {"put": {"entry": "put", "code": "extern \"C\" __global__ void put(int* out, int value) { out[0] = value; }"}},
    "ops": [{"kernel": "put", "grid": [1], "block": [1], "args": ["other[pos / 50]", "pos + 1"]},
            {"kernel": "put", "name": "the second", "grid": [1], "block": [1], "args": ["out[pos : 1]", "100 / d"]}]
  })j");
  const ParamHandle pos = session.param("pos"), d = session.param("d");
  EXPECT_THAT(
      session.error(session.set(pos, 101)).what(),
      HasSubstr(
          "the param \"pos\" (i32, 0 to 100) was not set to 101: the value is outside the param's range"));
  EXPECT_EQ(session.set(session.param("c"), 2).code, ErrorCode::bad_argument);
  EXPECT_EQ(session.set(pos, 1.5).code, ErrorCode::bad_argument);
  EXPECT_EQ(session.params()[pos.index].integer, 2);

  ASSERT_TRUE(session.set(pos, 60).ok());  // in range, and outside the buffer "out"
  Status status = session.launch();
  EXPECT_EQ(status.code, ErrorCode::bad_argument);
  EXPECT_THAT(
      session.error(status).what(),
      HasSubstr(
          "op \"the second\", kernel \"put\", argument 0: an offset is outside its buffer (60, at most 9)"));
  ASSERT_TRUE(session.set(pos, 2).ok());
  ASSERT_TRUE(session.set(d, 0).ok());
  status = session.launch();
  EXPECT_EQ(status.code, ErrorCode::bad_argument);
  EXPECT_THAT(session.error(status).what(), HasSubstr("divides by zero"));
  EXPECT_FALSE(session.failed());
  EXPECT_EQ(read<int>(session, "other"), std::vector<int>(10, 0));

  ASSERT_TRUE(session.set(d, 4).ok());
  launch(session);
  EXPECT_THAT(read<int>(session, "other"), ElementsAre(3, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(read<int>(session, "out"), ElementsAre(0, 0, 25, 0, 0, 0, 0, 0, 0, 0));
}

TEST_P(SessionConformance, CopiesAndFillsOfEveryWidthAndPlace) {
  Session session = make(R"j({
    "rondo": 1, "name": "copies",
    "params": {"at": {"type": "i32", "step": 1, "min": 0, "max": 7}, "value": {"type": "f32", "step": 0.5}},
    "buffers": {
      "a8": {"type": "u8", "shape": [16], "role": "input"}, "b8": {"type": "u8", "shape": [16], "role": "state", "fill": 9},
      "a16": {"type": "f16", "shape": [16], "role": "input"}, "b16": {"type": "f16", "shape": [16], "role": "state", "fill": 1},
      "a64": {"type": "f64", "shape": [16], "role": "input"}, "b64": {"type": "f64", "shape": [16], "role": "state", "fill": 0},
      "f": {"type": "f32", "shape": [8], "role": "state", "fill": 0}, "i": {"type": "i16", "shape": [8], "role": "state", "fill": 0}},
    "kernels": {},
    "ops": [{"copy": "a8[3 : 5]", "to": "b8[at]"}, {"copy": "a16", "to": "b16"}, {"copy": "a64[at : 2]", "to": "b64[8 : 2]"},
            {"fill": "f[at : 2 - at / 7]", "value": "value"}, {"fill": "i", "value": "at - 3"}, {"fill": "i[2 : 3]", "value": 7}]
  })j");
  std::vector<std::uint8_t> a8(16);
  std::vector<std::uint16_t> a16(16);
  std::vector<double> a64(16);
  for (std::uint8_t i = 0; i < 16; ++i) {
    a8[i] = static_cast<std::uint8_t>(100 + i);
    a16[i] = static_cast<std::uint16_t>(0x3c00 + i);
    a64[i] = 1.0 / (i + 1);
  }
  write(session, "a8", a8);
  write(session, "a16", a16);
  write(session, "a64", a64);
  for (const int at : {1, 6, 0}) {
    ASSERT_TRUE(session.reset().ok());
    ASSERT_TRUE(session.set(session.param("at"), at).ok());
    ASSERT_TRUE(session.set(session.param("value"), at + 0.25).ok());
    launch(session);
    std::vector<std::uint8_t> b8(16, 9);
    for (int i = 0; i < 5; ++i) b8[static_cast<std::size_t>(at + i)] = a8[static_cast<std::size_t>(3 + i)];
    EXPECT_EQ(read<std::uint8_t>(session, "b8"), b8);
    EXPECT_EQ(read<std::uint16_t>(session, "b16"), a16);
    EXPECT_EQ(read<double>(session, "b64")[9], a64[static_cast<std::size_t>(at + 1)]);
    std::vector<float> f(8);
    f[static_cast<std::size_t>(at)] = f[static_cast<std::size_t>(at + 1)] = static_cast<float>(at) + 0.25f;
    EXPECT_EQ(read<float>(session, "f"), f);
    const auto filled = static_cast<std::int16_t>(at - 3);
    EXPECT_THAT(read<std::int16_t>(session, "i"),
                ElementsAre(filled, filled, 7, 7, 7, filled, filled, filled));
  }
}

TEST_P(SessionConformance, EveryScalarTypeArrivesExactly) {
  Session session = make(R"j({
    "rondo": 1, "name": "types",
    "params": {"b": {"type": "bool", "step": false}, "i": {"type": "i64", "step": 0}, "f": {"type": "f32", "step": 0}, "d": {"type": "f64", "step": 0}},
    "buffers": {"out": {"type": "f64", "shape": [8], "role": "state", "fill": 0}},
    "kernels": {"take": {"entry": "take", "code": "extern \"C\" __global__ void take(bool b, signed char c, double* out, unsigned short s, float f, long long l, unsigned u, double d) { out[0] = b; out[1] = c; out[2] = s; out[3] = f; out[4] = l; out[5] = u; out[6] = d; out[7] = 1; }"}},
    "ops": [{"kernel": "take", "grid": [1], "block": [1], "args": ["b", "-(i % 100)", {"write": "out"}, "i % 65536", "f", "i", "i % 4294967296", "d"]}]
  })j");
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    const auto i = static_cast<std::int64_t>(random() >> 12);
    const double d = std::ldexp(static_cast<double>(random()), -70);
    const bool b = random() % 2 == 0;
    ASSERT_TRUE(session.set(session.param("b"), std::int64_t{b}).ok());
    ASSERT_TRUE(session.set(session.param("i"), i).ok());
    ASSERT_TRUE(session.set(session.param("f"), d).ok());
    ASSERT_TRUE(session.set(session.param("d"), d).ok());
    launch(session);
    EXPECT_THAT(read<double>(session, "out"),
                ElementsAre(b ? 1 : 0, static_cast<double>(-(i % 100)), static_cast<double>(i % 65536),
                            static_cast<double>(static_cast<float>(d)), static_cast<double>(i),
                            static_cast<double>(i % 4294967296), d, 1));
  }
}

// A diamond through temporaries that share memory, against the same with every buffer apart, and eager.
// Params that ops use in simple ways and in others, at random: each launch is either refused, for a value
// that makes an op impossible, and changes nothing, or does what was set.
// Two layers and three pointers a layer, between two numbers that would be hit by a table in the wrong place.
constexpr const char* table_schedule = R"j({
  "rondo": 1, "name": "table",
  "params": {"layers": {"type": "i32", "constant": 2}, "n": {"type": "i32", "constant": 64}, "together": {"type": "bool", "constant": false},
             "pos": {"type": "i32", "step": 0, "min": 0, "max": 7}, "a": {"type": "f64", "step": 1}},
  "buffers": {"x.{i}": {"for": {"i": "layers"}, "type": "f32", "shape": ["n"], "role": "input"},
              "h.{i}": {"for": {"i": "layers"}, "type": "f64", "shape": ["n"], "role": "temporary"},
              "out.{i}": {"for": {"i": "layers"}, "type": "f32", "shape": [8, "n"], "role": "state", "fill": -1}},
  "kernels": {
    "start": {"entry": "start", "code": "__global__ void start(int n, int layer, double* h) { for (int i = threadIdx.x; i < n; i += blockDim.x) h[i] = 100 * layer + i; }"},
    "all": {"entry": "all<{layers}>", "code": "template <int n> struct rows { struct { const float* x; double* h; float* out; } layer[n]; };\ntemplate <int layers> __global__ void all(char mark, rows<layers> t, int n, double a) { for (int l = 0; l < layers; ++l) for (int i = threadIdx.x; i < n; i += blockDim.x) { t.layer[l].out[i] = (float)(a * t.layer[l].x[i] + t.layer[l].h[i] + mark); t.layer[l].h[i] = 2 * i; } }"},
    "end": {"entry": "end", "code": "__global__ void end(int n, const double* h, float* x) { for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = x[i] + (float)h[i]; }"}},
  "ops": [
    {"repeat": "i", "count": "layers", "ops": [{"kernel": "start", "grid": [1], "block": [32], "args": ["n", "i", {"write": "h.{i}"}]}]},
    {"kernel": "all", "cooperative": "together", "grid": [1], "block": [32], "args": [5, {"table": [{"read": "x.{i}"}, "h.{i}", {"write": "out.{i}[pos * n : n]"}], "for": {"i": "layers"}}, "n", "a"]},
    {"repeat": "i", "count": "layers", "ops": [{"kernel": "end", "grid": [1], "block": [32], "args": ["n", "h.{i}", "x.{i}"]}]}]
})j";

TEST_P(SessionConformance, KernelsFollowTheirTablesPointers) {
  for (const int way : {0, 1, 2, 3}) {
    const Mode mode = way % 2 == 0 ? Mode::graph : Mode::eager;
    SessionOptions options;
    options.mode = mode;
    // Cooperative launches take their arguments in another way.
    if (way >= 2) options.constants = {{"together", "device.has_cooperative_launches"}};
    Session session = make(table_schedule, options);
    std::vector<std::vector<float>> x{random_floats(64, 5), random_floats(64, 6)};
    write(session, "x.0", x[0]);
    write(session, "x.1", x[1]);
    std::vector<std::vector<double>> expected(2, std::vector<double>(8 * 64, -1));
    for (const int pos : {0, 3, 7, 3}) {
      ASSERT_TRUE(session.set(session.param("pos"), pos).ok());
      ASSERT_TRUE(session.set(session.param("a"), 0.5 * pos).ok());
      const std::uint64_t before = session.counters().node_updates;
      launch(session);
      if (session.mode() == Mode::graph) {
        EXPECT_EQ(session.counters().node_updates - before, 1u);
      }
      for (std::size_t layer = 0; layer < 2; ++layer) {
        for (std::size_t i = 0; i < 64; ++i) {
          expected[layer][static_cast<std::size_t>(pos) * 64 + i] =
              0.5 * pos * x[layer][i] + 100 * static_cast<double>(layer) + static_cast<double>(i) + 5;
          x[layer][i] += static_cast<float>(2 * i);
        }
      }
    }
    EXPECT_LT(relative_error(read<float>(session, "out.0"), expected[0]), 1e-6);
    EXPECT_LT(relative_error(read<float>(session, "out.1"), expected[1]), 1e-6);
    if (session.mode() == Mode::graph) {
      EXPECT_EQ(session.summary().edges, 4u);
    }
  }
}

// A bound buffer's address gets into the table, and nothing else of it changes.
TEST_P(SessionConformance, MemoryIsBoundIntoTables) {
  Session session = make(table_schedule);
  const std::vector<float> x = random_floats(64, 7), zeros(64);
  write(session, "x.0", zeros);
  write(session, "x.1", zeros);
  launch(session);
  Driver& driver = device_->driver();
  const DevicePointer mine = driver.allocate(256);
  ASSERT_TRUE(session.bind(session.buffer("x.1"), mine, 256).ok());
  write(session, "x.1", x);
  launch(session);
  std::vector<double> first(8 * 64, -1), second(8 * 64, -1);
  for (std::size_t i = 0; i < 64; ++i) {
    first[i] = 3.0 * static_cast<double>(i) + 5;
    second[i] = double{x[i]} + 100 + static_cast<double>(i) + 5;
  }
  EXPECT_LT(relative_error(read<float>(session, "out.0"), first), 1e-6);
  EXPECT_LT(relative_error(read<float>(session, "out.1"), second), 1e-6);
  ASSERT_TRUE(session.synchronize().ok());
  driver.release(mine);
}

TEST_P(SessionConformance, AStructThatIsNotTheTablesIsRefused) {
  std::string text = table_schedule;
  text.insert(text.find("const float* x; double* h;"), "const float* y; ");
  EXPECT_THAT([&] { make(text); }, ::testing::ThrowsMessage<Error>(
                                       HasSubstr("argument 1: the table has 6 pointers (2 × 3), 48 bytes; "
                                                 "parameter 1 of kernel \"all\" is a struct of 64 bytes")));
}

TEST_P(SessionConformance, EachStepIsRefusedOrDoesWhatWasSet) {
  constexpr const char* schedule = R"j({
    "rondo": 1, "name": "steps",
    "params": {"i": {"type": "i64", "step": 0}, "j": {"type": "i32", "step": 0}, "k": {"type": "i32", "step": 20}, "on": {"type": "i32", "step": 1},
               "f": {"type": "f32", "step": 1.5}},
    "buffers": {"data": {"type": "i32", "shape": [100], "role": "input"}, "out": {"type": "f64", "shape": [5], "role": "state", "fill": 0}},
    "kernels": {
      "put": {"entry": "put", "code": "extern \"C\" __global__ void put(double* out, long long value, const int* data, float f) { *out = static_cast<double>(value) + *data + f; }"},
      "byte": {"entry": "byte", "code": "extern \"C\" __global__ void byte(double* out, unsigned char value, float f) { *out = value + f; }"}},
    "ops": [
      {"kernel": "put", "grid": [1], "block": [1], "args": ["out[0]", "3 * i + 5", "data[i]", "f"]},
      {"kernel": "put", "grid": [1], "block": [1], "args": ["out[1]", "40 - 2 * j", "data[99 - j]", 0.5]},
      {"kernel": "put", "grid": [1], "block": [1], "args": ["out[2]", "i * j", "data[(i + j) / 2]", "f"]},
      {"kernel": "byte", "grid": [1], "block": [1], "args": ["out[3]", "k - 10", "f"]},
      {"kernel": "put", "grid": ["on"], "block": [1], "args": ["out[4]", "k", "data[i]", 0.0]}]
  })j";
  std::mt19937 random(17);
  std::vector<int> data(100);
  for (int& value : data) value = static_cast<int>(random() % 1000);
  for (const Mode mode : {Mode::graph, Mode::eager}) {
    SessionOptions options;
    options.mode = mode;
    Session session = make(schedule, options);
    write(session, "data", data);
    std::map<std::string, std::int64_t> now = {{"i", 0}, {"j", 0}, {"k", 20}, {"on", 1}};
    float f = 1.5F;
    std::vector<double> expected(5);
    int refused = 0;
    for (int step = 0; step < 2000; ++step) {
      for (auto& [name, value] : now) {
        if (random() % 3 != 0) continue;
        // Now and then a value that some op refuses.
        value = name == "on"
                    ? static_cast<std::int64_t>(random() % 2)
                    : static_cast<std::int64_t>(random() % 100) + (random() % 20 == 0 ? 220 : 10) - 10;
        ASSERT_TRUE(session.set(session.param(name), value).ok());
      }
      if (random() % 3 == 0) {
        f = static_cast<float>(random() % 64) / 4;
        ASSERT_TRUE(session.set(session.param("f"), f).ok());
      }
      const std::int64_t i = now["i"], j = now["j"], k = now["k"];
      const bool is_possible = i <= 99 && j <= 99 && (i + j) / 2 <= 99 && k >= 10 && k - 10 <= 255;
      const Status status = session.launch();
      ASSERT_EQ(status.ok(), is_possible) << i << " " << j << " " << k;
      if (is_possible) {
        const auto at = [&](std::int64_t index) { return data[static_cast<std::size_t>(index)]; };
        expected[0] = static_cast<double>(3 * i + 5) + at(i) + f;
        expected[1] = static_cast<double>(40 - 2 * j) + at(99 - j) + 0.5;
        expected[2] = static_cast<double>(i * j) + at((i + j) / 2) + f;
        expected[3] = static_cast<double>(k - 10) + f;
        if (now["on"] != 0) expected[4] = static_cast<double>(k) + at(i);
      } else {
        EXPECT_EQ(status.code, ErrorCode::bad_argument);
        EXPECT_FALSE(session.failed());
        ++refused;
      }
      ASSERT_EQ(read<double>(session, "out"), expected) << "step " << step;
    }
    EXPECT_GT(refused, 200);
    EXPECT_LT(refused, 1800);
  }
}

// A slow producer, and kernels that start before it is done: what the last one reads of it, it waits for
// through the one between, which a step param may skip.
TEST_P(SessionConformance, KernelsThatStartEarlySeeWhatASlowProducerWrites) {
  constexpr const char* schedule = R"j({
    "rondo": 1, "name": "early",
    "params": {"step": {"type": "i32", "step": 0}, "between": {"type": "i32", "step": 1}, "spin": {"type": "i32", "constant": "select(device.is_host, 0, 20000)"}},
    "buffers": {"a": {"type": "i32", "shape": [64], "role": "state", "fill": 0}, "b": {"type": "i32", "shape": [64], "role": "state", "fill": 0},
                "c": {"type": "i32", "shape": [64], "role": "state", "fill": 0}, "wrong": {"type": "i32", "shape": [1], "role": "state", "fill": 0}},
    "kernels": {
      "produce": {"entry": "produce", "pdl": true, "code": "#include \"portable.cuh\"\n__global__ void produce(int step, int spin, int* a) { rondo_let_dependents_start(); rondo_wait_for_inputs(); for (int i = 0; i < spin; ++i) a[64 - 1 - threadIdx.x] = -i; a[threadIdx.x] = step; }"},
      "pass": {"entry": "pass", "pdl": true, "code": "#include \"portable.cuh\"\n__global__ void pass(const int* a, int* b) { rondo_let_dependents_start(); rondo_wait_for_inputs(); b[threadIdx.x] = a[0]; }"},
      "check": {"entry": "check", "pdl": true, "code": "#include \"portable.cuh\"\n__global__ void check(int step, int passed, const int* a, const int* b, int* c, int* wrong) { rondo_let_dependents_start(); rondo_wait_for_inputs(); c[threadIdx.x] = a[threadIdx.x]; if (a[threadIdx.x] != step || (passed != 0 && b[threadIdx.x] != step)) atomicAdd(wrong, 1); }"}},
    "ops": [
      {"kernel": "produce", "grid": [1], "block": [1], "args": ["step", "spin", "a"]},
      {"kernel": "pass", "grid": [1], "block": [1], "args": ["a", "b"]},
      {"kernel": "check", "grid": [1], "block": [1], "args": ["step", 1, "a", "b", "c", "wrong"]},
      {"kernel": "pass", "grid": ["between"], "block": [1], "args": ["c", "b"]},
      {"kernel": "check", "grid": [1], "block": [1], "args": ["step", "between", "c", "b", "a", "wrong"]}]
  })j";
  Session session = make(schedule);
  const ParamHandle step = session.param("step"), between = session.param("between");
  for (int i = 1; i <= 1000; ++i) {
    ASSERT_TRUE(session.set(step, i).ok());
    ASSERT_TRUE(session.set(between, i % 3 == 0 ? 0 : 1).ok());
    launch(session);
    if (i % 100 == 0) {
      ASSERT_TRUE(session.synchronize().ok());
    }
  }
  EXPECT_EQ(read<int>(session, "wrong")[0], 0);
  EXPECT_EQ(read<int>(session, "c")[0], 1000);
}

TEST_P(SessionConformance, BlocksOfACooperativeOpMayWaitForEachOther) {
  constexpr const char* schedule = R"j({
    "rondo": 1, "name": "together",
    "params": {"step": {"type": "i32", "step": 1}},
    "buffers": {"arrived": {"type": "i32", "shape": [1], "role": "state", "fill": 0}, "seen": {"type": "i32", "shape": [16], "role": "state", "fill": 0}},
    "kernels": {"meet": {"entry": "meet", "code": "__global__ void meet(int step, int* arrived, int* seen) { if (threadIdx.x == 0) { atomicAdd(arrived, 1); while (atomicAdd(arrived, 0) < step * 16) {} seen[blockIdx.x] = step; } }"}},
    "ops": [{"kernel": "meet", "cooperative": true, "priority": -1, "grid": [16], "block": [64], "args": ["step", "arrived", "seen"]}]
  })j";
  if (!device_->properties().has_cooperative_launches) {
    EXPECT_THAT([&] { make(schedule); },
                ::testing::ThrowsMessage<Error>(HasSubstr("no cooperative launches")));
    return;
  }
  for (const Mode mode : {Mode::graph, Mode::eager}) {
    SessionOptions options;
    options.mode = mode;
    Session session = make(schedule, options);
    for (int step = 1; step <= 20; ++step) {
      ASSERT_TRUE(session.set(session.param("step"), step).ok());
      launch(session);
      EXPECT_EQ(read<int>(session, "seen"), std::vector<int>(16, step));
    }
  }
  std::string larger = schedule;
  larger.replace(larger.find("[16], \"block\""), 4, "[1000000]");
  EXPECT_THAT([&] { make(larger); },
              ::testing::ThrowsMessage<Error>(HasSubstr("all its blocks on the device at once")));
}

TEST_P(SessionConformance, ClustersAreAsLargeAsTheOpSays) {
  constexpr const char* schedule = R"j({
    "rondo": 1, "name": "clusters",
    "buffers": {"size": {"type": "i32", "shape": [8], "role": "state", "fill": 0}},
    "kernels": {"ask": {"entry": "ask", "code": "__global__ void ask(int* size) { int n = 0;\n#if __CUDA_ARCH__ >= 900\nasm volatile(\"mov.u32 %0, %%cluster_nctaid.x;\" : \"=r\"(n));\n#endif\nif (threadIdx.x == 0) size[blockIdx.x] = n; }"}},
    "ops": [{"kernel": "ask", "cluster": [4], "grid": [8], "block": [32], "args": ["size"]}]
  })j";
  if (device_->properties().max_cluster_blocks == 0) {
    EXPECT_THAT([&] { make(schedule); },
                ::testing::ThrowsMessage<Error>(HasSubstr("no thread block clusters")));
    return;
  }
  for (const Mode mode : {Mode::graph, Mode::eager}) {
    SessionOptions options;
    options.mode = mode;
    Session session = make(schedule, options);
    launch(session);
    EXPECT_EQ(read<int>(session, "size"), std::vector<int>(8, 4));
  }
  std::string uneven = schedule;
  uneven.replace(uneven.find("[4]"), 3, "[3]");
  EXPECT_THAT([&] { make(uneven); },
              ::testing::ThrowsMessage<Error>(HasSubstr("no multiple of the cluster's 3")));
}

TEST_P(SessionConformance, ARebuiltSessionGoesOnWithWhatWasSetAndBound) {
  Session session = make(scale_schedule);
  const std::vector<float> x = random_floats(10000, 3);
  write(session, "x", x);
  const ParamHandle a = session.param("a");
  ASSERT_TRUE(session.set(a, 4.0).ok());
  launch(session);
  ASSERT_TRUE(session.set(a, -3.0).ok());
  session.rebuild();
  for (const double value : {-3.0, 7.0}) {
    ASSERT_TRUE(session.set(a, value).ok());
    ASSERT_TRUE(session.fill_bytes(session.buffer("y"), 0xff).ok());
    launch(session);
    std::vector<double> reference;
    for (const float element : x) reference.push_back(value * element + 1);
    EXPECT_LT(relative_error(read<float>(session, "y"), reference), 1e-6);
  }
  if (session.mode() == Mode::graph) {
    EXPECT_EQ(session.counters().instantiations, 2U);
  }
}

TEST_P(SessionConformance, TheArenaGraphAndEagerReplayGiveTheSameBits) {
  const char* text = R"j({
    "rondo": 1, "name": "diamonds",
    "params": {"n": {"type": "i32", "constant": 3000}, "s": {"type": "f32", "step": 0.5}, "k": {"type": "i32", "step": 1, "min": 0, "max": 9}},
    "buffers": {"x": {"type": "f32", "shape": ["n"], "role": "state", "fill": {"random": 5}},
                "t.{i}": {"for": {"i": 12}, "type": "f32", "shape": ["n"], "role": "temporary"}},
    "kernels": {"mix": {"entry": "mix", "code": "extern \"C\" __global__ void mix(int n, int k, float s, const float* a, const float* b, float* c) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = s * a[i] + b[(i + k) % n] * 0.5f; }"}},
    "ops": [{"kernel": "mix", "grid": ["ceil_div(n, 64)"], "block": [64], "args": ["n", "k", "s", "x", "x", {"write": "t.0"}]},
            {"kernel": "mix", "grid": ["ceil_div(n, 64)"], "block": [64], "args": ["n", 3, 0.25, "x", "t.0", {"write": "t.1"}]},
            {"repeat": "i", "count": 10, "ops": [
              {"kernel": "mix", "grid": ["ceil_div(n, 64)"], "block": [64], "args": ["n", "k + {i}", "s", "t.{i}", "t.{i + 1}", {"write": "t.{i + 2}"}]}]},
            {"copy": "t.11", "to": "x"}]
  })j";
  SessionOptions apart, eager;
  apart.separate_buffers = true;
  eager.mode = Mode::eager;
  Session sessions[] = {make(text), make(text, apart), make(text, eager)};
  EXPECT_LE(sessions[0].summary().arena_bytes, 3u * 12032u);
  std::mt19937 random(17);
  for (int step = 0; step < 20; ++step) {
    const double s = static_cast<double>(random() % 1000) / 1000;
    const auto k = static_cast<std::int64_t>(random() % 10);
    std::vector<float> results[3];
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(sessions[i].set(sessions[i].param("s"), s).ok());
      ASSERT_TRUE(sessions[i].set(sessions[i].param("k"), k).ok());
      launch(sessions[i]);
      results[i] = read<float>(sessions[i], "x");
    }
    ASSERT_EQ(results[0], results[1]) << "step " << step;
    ASSERT_EQ(results[0], results[2]) << "step " << step;
    ASSERT_TRUE(std::isfinite(results[0][0]) && results[0][0] != results[0][1]);
  }
}

TEST_P(SessionConformance, ANullDeviceIsRefused) {
  EXPECT_THROW(Session::parse(scale_schedule, "t.json", nullptr, {}), Error);
}

TEST_P(SessionConformance, BoundMemoryIsUsedFromTheNextLaunchOn) {
  Session session = make(scale_schedule);
  const std::vector<float> x = random_floats(10000, 2);
  write(session, "x", x);
  const BufferHandle y = session.buffer("y");
  launch(session);
  const std::vector<float> own = read<float>(session, "y");
  Driver& driver = device_->driver();
  const DevicePointer mine = driver.allocate(40000);
  EXPECT_EQ(session.bind(y, mine, 39999).code, ErrorCode::bad_argument);
  EXPECT_EQ(session.bind(y, mine + 4, 40000).code, ErrorCode::bad_argument);
  EXPECT_EQ(session.bind(y, 0, 40000).code, ErrorCode::bad_argument);
  EXPECT_EQ(session.bind(y, session.address(session.buffer("x")), 40000).code, ErrorCode::bad_argument);
  ASSERT_TRUE(session.bind(y, mine, 40000).ok());
  ASSERT_TRUE(session.set(session.param("a"), 5.0).ok());
  launch(session);
  const std::vector<float> bound = read<float>(session, "y");
  EXPECT_NE(bound, own);
  ASSERT_TRUE(session.unbind(y).ok());
  EXPECT_EQ(read<float>(session, "y"), own);  // the launch did not touch it
  launch(session);
  EXPECT_EQ(read<float>(session, "y"), bound);
  driver.release(mine);
}

TEST_P(SessionConformance, MemoryBoundWhileAnOpIsDisabledIsUsedOnceItRuns) {
  Session session = make(R"j({
    "rondo": 1, "name": "later",
    "params": {"blocks": {"type": "i32", "step": 0, "min": 0, "max": 4}, "value": {"type": "i32", "step": 7}},
    "buffers": {"out": {"type": "i32", "shape": [4], "role": "output"}},
    "kernels": {"put": {"entry": "put", "code": "extern \"C\" __global__ void put(int* out, int value) { out[blockIdx.x] = value; }"}},
    "ops": [{"kernel": "put", "grid": ["blocks"], "block": [1], "args": ["out", "value"]}]
  })j");
  const BufferHandle out = session.buffer("out");
  Driver& driver = device_->driver();
  const DevicePointer mine = driver.allocate(16);
  ASSERT_TRUE(session.fill_bytes(out, 0).ok());
  launch(session);
  ASSERT_TRUE(session.bind(out, mine, 16).ok());
  ASSERT_TRUE(session.fill_bytes(out, 0).ok());
  launch(session);
  ASSERT_TRUE(session.set(session.param("value"), 9).ok());
  launch(session);
  ASSERT_TRUE(session.set(session.param("blocks"), 3).ok());
  launch(session);
  EXPECT_THAT(read<int>(session, "out"), ElementsAre(9, 9, 9, 0));
  ASSERT_TRUE(session.unbind(out).ok());
  EXPECT_THAT(read<int>(session, "out"), ElementsAre(0, 0, 0, 0));
  ASSERT_TRUE(session.synchronize().ok());
  driver.release(mine);
}

TEST_P(SessionConformance, AMissingKernelSignatureMatchIsRefusedBeforeAnythingRuns) {
  const auto refuse = [&](const std::string& from, const std::string& to) -> std::string {
    std::string text = scale_schedule;
    text.replace(text.find(from), from.size(), to);
    try {
      make(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_schedule);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refuse(R"(["n", "a", "x", {"write": "y"}])", R"(["n", "a", "x"])"),
              HasSubstr("takes 4 arguments, the op gives 3"));
  EXPECT_THAT(refuse(R"(["n", "a", "x", {"write": "y"}])", R"(["a", "a", "x", {"write": "y"}])"),
              HasSubstr("argument 0: expected i32, got the param \"a\" of type f32"));
  EXPECT_THAT(refuse(R"(["n", "a", "x", {"write": "y"}])", R"(["x", "a", "x", {"write": "y"}])"),
              HasSubstr("argument 0: expected i32, got the buffer \"x\" of type f32"));
  EXPECT_THAT(refuse(R"("y": {"type": "f32")", R"("y": {"type": "f16")"),
              HasSubstr("argument 3: expected a pointer to f32, got the buffer \"y\" of type f16"));
  EXPECT_THAT(refuse(R"j({"write": "y"}])j", R"j("y[n : 1]"])j"),
              HasSubstr("element 10000 of \"y\", which has 10000 elements"));
  EXPECT_THAT(refuse(R"(["n", "a", "x", {"write": "y"}])", R"(["n", "a", {"write": "x"}, "y"])"),
              HasSubstr("pointer to const"));
  EXPECT_THAT(refuse(R"("block": [128])", R"("block": [2000])"), HasSubstr("the block"));
  EXPECT_THAT(refuse(R"j("ceil_div(n, 128)")j", "\"n - 10000\""), HasSubstr("the grid is zero along axis 0"));
  EXPECT_THAT(refuse(R"(["n", "a", "x", {"write": "y"}])", R"(["n", 1e39, "x", {"write": "y"}])"),
              HasSubstr("argument 1: expected f32, got the float 1e+39"));
  EXPECT_THAT(refuse("y[i] = a", "y[i] = nonsense"), HasSubstr("nonsense"));
}

}  // namespace
}  // namespace rondo
