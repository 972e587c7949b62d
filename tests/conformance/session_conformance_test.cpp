// What a session promises of building, running and rebuilding, of memory and of results.
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "driver.h"
#include "handles.h"
#include "session_conformance.h"

namespace rondo::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Devices, SessionConformance, ::testing::Values("host", "cuda", "hip"),
                         [](const auto& instance) { return std::string(instance.param); });

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

// A diamond through temporaries that share memory, against the same with every buffer apart, and eager.
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
}  // namespace rondo::conformance
