// A driver that fails: each call that a session makes, once, at every place where it is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>

#include "cuda_double.h"
#include "rondo/device.h"
#include "rondo/session.h"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* schedule = R"j({
  "rondo": 1, "name": "faults",
  "params": {"n": {"type": "i32", "constant": 100}, "a": {"type": "f32", "step": 2.0},
             "blocks": {"type": "i32", "step": 1, "min": 0, "max": 1}, "k": {"type": "i32", "step": 1}},
  "buffers": {"x": {"type": "f32", "shape": ["n"], "role": "state", "fill": 1.0},
              "t": {"type": "f32", "shape": ["n"], "role": "temporary"},
              "y": {"type": "f32", "shape": ["n"], "role": "output"}},
  "kernels": {
    "scale": {"entry": "scale", "code": "extern \"C\" __global__ void scale(int n, float a, const float* x, float* y) { for (int i = 0; i < n; ++i) y[i] = a * x[i]; }"},
    "shift": {"entry": "shift", "code": "#include \"portable.cuh\"\nextern \"C\" __global__ void shift(int n, const int* k, const float* x, float* y) { float* copy = rondo_dynamic_shared<float>(); copy[0] = 0; for (int i = 0; i < n; ++i) y[i] = x[i] + *k + copy[0]; }"},
    "add": {"entry": "add", "code": "extern \"C\" __global__ void add(int n, float* x) { for (int i = 0; i < n; ++i) x[i] += 1; }"}},
  "ops": [{"kernel": "scale", "grid": [1], "block": [1], "args": ["n", "a", "x", {"write": "t"}]},
          {"kernel": "shift", "grid": [1], "block": [1], "shared": 65536, "args": ["n", {"slot": "k"}, "t", {"write": "y"}]},
          {"kernel": "add", "grid": ["blocks"], "block": [1], "args": ["n", "x"]}]
})j";

const char* const functions[] = {
#define NAME(name, version, need, parameters) #name,
    RONDO_CUDA_FUNCTIONS(NAME)
#undef NAME
};

class FaultInjection : public ::testing::TestWithParam<Mode> {
 protected:
  void SetUp() override { double_.reset(); }
  void TearDown() override {
    // What a pop that was made to fail has left.
    cuda::Context context = nullptr;
    double_.reset();
    while (double_.api->cuCtxPopCurrent_v2(&context) == cuda::Result::success) {
    }
  }

  // A device and a session on it, which outlive the work; and what is read into, which outlives the session:
  // a read whose wait was made to fail is still under way.
  struct Held {
    std::vector<float> y = std::vector<float>(100);
    std::shared_ptr<Device> device;
    std::optional<Session> session;
  };

  static void check_ok(const Session& session, const Status& status) {
    if (!status.ok()) throw session.error(status);
  }
  static void launch_and_compare(Held& held, double a, int blocks, int k, float x) {
    Session& session = *held.session;
    check_ok(session, session.set(session.param("a"), a));
    check_ok(session, session.set(session.param("blocks"), blocks));
    check_ok(session, session.set(session.param("k"), k));
    check_ok(session, session.fill_bytes(session.buffer("y"), 0xff));
    check_ok(session, session.launch());
    check_ok(session, session.read(session.buffer("y"), std::as_writable_bytes(std::span(held.y))));
    ASSERT_EQ(held.y, std::vector<float>(100, static_cast<float>(a) * x + static_cast<float>(k)));
  }
  // Builds, sets, launches, reads; each step depends on what was set.
  static void work(Held& held) {
    SessionOptions options;
    options.mode = GetParam();
    options.cache_directory = std::filesystem::path(RONDO_BINARY_DIR) / "test_cache";
    held.device = open_device("cuda");
    held.session = Session::parse(schedule, "faults.json", held.device, options);
    launch_and_compare(held, 2, 1, 1, 1);
    launch_and_compare(held, 3, 0, 5, 2);
    launch_and_compare(held, 0.5, 1, 7, 2);
    const std::vector<float> x(100, 4);
    check_ok(*held.session, held.session->write(held.session->buffer("x"), std::as_bytes(std::span(x))));
    launch_and_compare(held, 0.5, 1, 7, 4);
  }

  // Rondo can do without these: an answer that it does not get is the careful one, and a context that cannot
  // be popped stays.
  static bool is_tolerated(const std::string& function) {
    return function == "cuPointerGetAttributes" || function == "cuCtxPopCurrent_v2";
  }

  void fail_one(const std::string& function, std::size_t nth) {
    SCOPED_TRACE(function + ", call " + std::to_string(nth));
    std::string problem;
    {
      Held held;
      double_.reset();
      double_.fail(function.c_str(), nth, 2);
      try {
        work(held);
      } catch (const Error& error) {
        problem = error.what();
        EXPECT_EQ(error.code(), ErrorCode::run_time) << problem;
      }
      double_.reset();
      if (held.session) recover(held);
    }
    if (is_tolerated(function)) {
      EXPECT_EQ(problem, "");
    } else {
      EXPECT_THAT(problem, AllOf(HasSubstr(function), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY")));
    }
    EXPECT_EQ(double_.live_handles(), leaked_before_);
  }

  // A session either says that it has failed, or works on.
  static void recover(Held& held) {
    Session& session = *held.session;
    if (session.failed()) {
      EXPECT_FALSE(session.launch().ok());
      return;
    }
    const std::vector<float> x(100, 8);
    check_ok(session, session.write(session.buffer("x"), std::as_bytes(std::span(x))));
    launch_and_compare(held, 0.25, 0, 3, 8);
  }

  cuda::CudaDouble& double_ = cuda::CudaDouble::get();
  const std::size_t leaked_before_ = double_.live_handles();  // by tests of this process that came before
};

TEST_P(FaultInjection, EveryCallThatFailsIsNamedAndLeavesNothingBehind) {
  std::map<std::string, std::size_t> calls;
  {
    Held held;
    work(held);  // so that the compiler's results are cached
    held.session.reset();
    held.device.reset();
    double_.reset();
    work(held);
    for (const char* function : functions) calls[function] = double_.calls(function);
  }
  ASSERT_EQ(double_.live_handles(), leaked_before_);
  EXPECT_GT(calls[GetParam() == Mode::graph ? "cuGraphExecKernelNodeSetParams_v2" : "cuLaunchKernel"], 3U);
  EXPECT_GT(calls["cuFuncSetAttribute"], 0U);
  for (const auto& [function, count] : calls) {
    for (std::size_t nth = 1; nth <= count; ++nth) fail_one(function, nth);
  }
  Held held;
  work(held);
}

// There is nobody to tell; what could not be given back stays, and nothing else does.
TEST_P(FaultInjection, AHandleThatCannotBeDestroyedIsTheOnlyOneThatStays) {
  std::size_t leaked = leaked_before_;
  for (const char* function : {"cuMemFree_v2", "cuModuleUnload", "cuStreamSynchronize", "cuStreamDestroy_v2",
                               "cuGraphExecDestroy", "cuGraphDestroy", "cuCtxPushCurrent_v2"}) {
    SCOPED_TRACE(function);
    std::size_t before = 0;
    {
      Held held;
      work(held);
      before = double_.live_handles();
      double_.reset();
      double_.fail(function, 1, 2);
    }
    EXPECT_LT(double_.live_handles(), before);
    EXPECT_LE(double_.live_handles(), leaked + 1);
    leaked = double_.live_handles();
  }
  Held held;
  work(held);
}

TEST_P(FaultInjection, AnEarlierKernelsFaultIsNotTheCallsOwn) {
  Held held;
  work(held);
  double_.fail(GetParam() == Mode::graph ? "cuGraphLaunch" : "cuLaunchKernel", 1, 719);
  const Status status = held.session->launch();
  EXPECT_THAT(held.session->error(status).what(),
              AllOf(HasSubstr("an earlier kernel"), HasSubstr("CUDA_ERROR_LAUNCH_FAILED")));
}

INSTANTIATE_TEST_SUITE_P(Modes, FaultInjection, ::testing::Values(Mode::graph, Mode::eager),
                         [](const auto& mode) { return mode.param == Mode::graph ? "graph" : "eager"; });

}  // namespace
}  // namespace rondo
