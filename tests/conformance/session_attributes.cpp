// What a session promises of kernels that start early, cooperative ops and clusters.
#include "session_conformance.h"

namespace rondo::conformance {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace rondo::conformance
