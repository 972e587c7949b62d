// What a session promises of set and launch: each launch has what was set before it, whichever way it gets
// there, or is refused and changes nothing.
#include <map>
#include <random>

#include "driver.h"
#include "gate.h"
#include "session_conformance.h"

namespace rondo::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

// Slots of every kind of param, and one whose value is an offset beside that.
constexpr const char* slots_schedule = R"j({
  "rondo": 1, "name": "slots",
  "params": {"pos": {"type": "i32", "step": 1, "min": -100, "max": 100}, "small": {"type": "i16", "step": -3}, "real": {"type": "f32", "step": 0.5}},
  "buffers": {"x": {"type": "f64", "shape": [10], "role": "state", "fill": 7}, "out": {"type": "f64", "shape": [4], "role": "state", "fill": 0}},
  "kernels": {"show": {"entry": "show", "code": "extern \"C\" __global__ void show(double* out, const int* pos, const short* small, const float* real, const double* x) { out[0] = *pos; out[1] = *small; out[2] = *real; out[3] = *x; }"}},
  "ops": [{"kernel": "show", "grid": [1], "block": [1], "args": ["out", {"slot": "pos"}, {"slot": "small"}, {"slot": "real"}, "x[pos]"]}]
})j";

TEST_P(SessionConformance, SlotsThatAreAsTheyWereAreNoUpdate) {
  Session session = make(slots_schedule);
  const ParamHandle small = session.param("small"), real = session.param("real");
  const std::uint64_t in_graph = session.mode() == Mode::graph ? 1 : 0;
  const auto expect = [&](double small_now, double real_now, std::uint64_t updates) {
    launch(session);
    EXPECT_THAT(read<double>(session, "out"), ElementsAre(1, small_now, real_now, 7));
    EXPECT_EQ(session.params()[small.index].integer, small_now);
    EXPECT_EQ(session.params()[real.index].real, real_now);
    EXPECT_EQ(session.counters().node_updates, updates * in_graph);
  };
  expect(-3, 0.5, 0);
  for (const int value : {-32768, 32767, -3}) ASSERT_TRUE(session.set(small, value).ok());
  for (const double value : {-0.0, 1e30, 0.5}) ASSERT_TRUE(session.set(real, value).ok());
  expect(-3, 0.5, 0);
  ASSERT_TRUE(session.set(small, -32768).ok());
  ASSERT_TRUE(session.set(real, 3).ok());
  expect(-32768, 3, 1);
  EXPECT_FALSE(session.set(small, 32768).ok());
  EXPECT_FALSE(session.set(real, 1e39).ok());
  expect(-32768, 3, 1);
  ASSERT_TRUE(session.reset().ok());
  expect(-3, 0.5, 2);
}

TEST_P(SessionConformance, ARefusedLaunchPublishesNoSlotUntilOneIsNot) {
  for (const Mode mode : {Mode::graph, Mode::eager}) {
    SessionOptions options;
    options.mode = mode;
    Session session = make(slots_schedule, options);
    const ParamHandle pos = session.param("pos"), small = session.param("small");
    launch(session);
    const std::uint64_t updates = session.counters().node_updates;
    ASSERT_TRUE(session.set(small, 12).ok());
    for (const int beyond : {10, -1}) {
      ASSERT_TRUE(session.set(pos, beyond).ok());
      EXPECT_EQ(session.launch().code, ErrorCode::bad_argument);
      EXPECT_EQ(session.launch().code, ErrorCode::bad_argument);  // nothing has been set since
    }
    EXPECT_FALSE(session.failed());
    EXPECT_EQ(session.counters().node_updates, updates);
    EXPECT_THAT(read<double>(session, "out"), ElementsAre(1, -3, 0.5, 7));
    EXPECT_THROW(session.rebuild(), Error);
    ASSERT_TRUE(session.set(pos, 9).ok());
    launch(session);
    EXPECT_THAT(read<double>(session, "out"), ElementsAre(9, 12, 0.5, 7));
    ASSERT_TRUE(session.set(small, 13).ok());
    session.rebuild();
    launch(session);
    EXPECT_THAT(read<double>(session, "out"), ElementsAre(9, 13, 0.5, 7));
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

// Params that ops use in simple ways and in others, at random: each launch is either refused, for a value
// that makes an op impossible, and changes nothing, or does what was set.
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

}  // namespace
}  // namespace rondo::conformance
