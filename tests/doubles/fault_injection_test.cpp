// A driver that fails: each call that a session makes, once, at every place where it is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <tuple>

#include "cache.h"
#include "cuda/api.h"
#include "doubles/control.h"
#include "dynamic_library.h"
#include "hip/api.h"
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

// A vendor's double, and what Rondo calls of it for what.
struct Vendor {
  const char *device, *library, *variable, *compiler, *compiler_variable;
  std::vector<const char*> functions;    // all that Rondo calls
  std::vector<const char*> tolerated;    // what it can do without
  std::vector<const char*> destructors;  // where there is nobody to tell
  const char *launch, *graph_launch, *update, *out_of_memory, *launch_failed;
};

// In the names of the tests, in place of an address.
void PrintTo(const Vendor* vendor, std::ostream* out) { *out << vendor->device; }

#define RONDO_FAULT_NAME(name, version, need, parameters) #name,
// cuPointerGetAttributes: an answer that it does not get is the careful one; a context that cannot be popped
// stays.
const Vendor cuda_vendor = {"cuda",
                            RONDO_DOUBLE_CUDA,
                            "RONDO_CUDA_LIBRARY",
                            RONDO_DOUBLE_NVRTC,
                            "RONDO_NVRTC_LIBRARY",
                            {RONDO_CUDA_FUNCTIONS(RONDO_FAULT_NAME)},
                            {"cuPointerGetAttributes", "cuCtxPopCurrent_v2"},
                            {"cuMemFree_v2", "cuModuleUnload", "cuStreamSynchronize", "cuStreamDestroy_v2",
                             "cuGraphExecDestroy", "cuGraphDestroy", "cuCtxPushCurrent_v2"},
                            "cuLaunchKernel",
                            "cuGraphLaunch",
                            "cuGraphExecKernelNodeSetParams_v2",
                            "CUDA_ERROR_OUT_OF_MEMORY",
                            "CUDA_ERROR_LAUNCH_FAILED"};
const Vendor hip_vendor = {"hip",
                           RONDO_DOUBLE_HIP,
                           "RONDO_HIP_LIBRARY",
                           RONDO_DOUBLE_HIPRTC,
                           "RONDO_HIPRTC_LIBRARY",
                           {RONDO_HIP_FUNCTIONS(RONDO_FAULT_NAME)},
                           {},
                           {"hipFree", "hipModuleUnload", "hipStreamSynchronize", "hipStreamDestroy",
                            "hipGraphExecDestroy", "hipGraphDestroy", "hipEventDestroy", "hipGetDevice"},
                           "hipModuleLaunchKernel",
                           "hipGraphLaunch",
                           "hipGraphExecKernelNodeSetParams",
                           "hipErrorOutOfMemory",
                           "hipErrorLaunchFailure"};
#undef RONDO_FAULT_NAME

// A vendor's double, loaded as Rondo loads it; never closed, as it runs threads of its own.
struct Double {
  explicit Double(const Vendor& vendor) {
    std::string problem;
    library = DynamicLibrary::open(vendor.library, problem);
    find("rondo_double_reset", reset);
    find("rondo_double_fail", fail);
    find("rondo_double_calls", calls);
    find("rondo_double_live_handles", live_handles);
    setenv(vendor.variable, vendor.library, 1);
    setenv(vendor.compiler_variable, vendor.compiler, 1);
  }
  static Double& of(const Vendor& vendor) {
    static auto& doubles = *new std::map<std::string, Double>;
    return doubles.try_emplace(vendor.device, vendor).first->second;
  }

  DynamicLibrary library;
  decltype(&rondo_double_reset) reset = nullptr;
  decltype(&rondo_double_fail) fail = nullptr;
  decltype(&rondo_double_calls) calls = nullptr;
  decltype(&rondo_double_live_handles) live_handles = nullptr;

 private:
  template <class Function>
  void find(const char* name, Function& function) const {
    function = library.function<std::remove_pointer_t<Function>>(name);
  }
};

class FaultInjection : public ::testing::TestWithParam<std::tuple<const Vendor*, Mode>> {
 protected:
  void SetUp() override { double_.reset(); }
  void TearDown() override {
    double_.reset();
    pop_contexts();
  }

  void pop_contexts() {
    if (std::string(vendor_.device) != "cuda") return;
    // What a pop that was made to fail has left.
    const auto pop = double_.library.function<cuda::Result(cuda::Context*)>("cuCtxPopCurrent_v2");
    cuda::Context context = nullptr;
    while (pop(&context) == cuda::Result::success) {
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
  void work(Held& held) {
    SessionOptions options;
    options.mode = mode_;
    options.cache_directory = cache_directory();
    held.device = open_device(vendor_.device);
    if (mode_ == Mode::graph) held.device->graph_problem(&cache_);
    held.session = Session::parse(schedule, "faults.json", held.device, options);
    launch_and_compare(held, 2, 1, 1, 1);
    launch_and_compare(held, 3, 0, 5, 2);
    launch_and_compare(held, 0.5, 1, 7, 2);
    const std::vector<float> x(100, 4);
    check_ok(*held.session, held.session->write(held.session->buffer("x"), std::as_bytes(std::span(x))));
    launch_and_compare(held, 0.5, 1, 7, 4);
  }

  // How often each function is called, before and after the device tries out its graphs, and in all.
  struct Count {
    std::size_t before_trial, after_trial, all;
  };
  std::map<std::string, Count> count_calls() {
    std::map<std::string, Count> calls;
    {
      Held held;
      work(held);  // so that the compiler's results are cached
    }
    double_.reset();
    {
      const auto device = open_device(vendor_.device);
      for (const char* function : vendor_.functions) calls[function].before_trial = double_.calls(function);
      if (mode_ == Mode::graph) device->graph_problem(&cache_);
      for (const char* function : vendor_.functions) calls[function].after_trial = double_.calls(function);
    }
    double_.reset();
    Held held;
    work(held);
    for (const char* function : vendor_.functions) calls[function].all = double_.calls(function);
    return calls;
  }

  void fail_one(const std::string& function, std::size_t nth, const Count& count) {
    SCOPED_TRACE(function + ", call " + std::to_string(nth));
    std::string problem;
    bool fell_back = false;
    {
      Held held;
      double_.reset();
      double_.fail(function.c_str(), nth, 2);
      try {
        work(held);
        fell_back = held.session->mode() != mode_;
      } catch (const Error& error) {
        problem = error.what();
        EXPECT_EQ(error.code(), ErrorCode::run_time) << problem;
      }
      double_.reset();
      if (held.session) recover(held);
      if (fell_back) {
        EXPECT_THAT(held.device->graph_problem(), HasSubstr(function));
      }
    }
    const bool in_trial = nth > count.before_trial && nth <= count.after_trial;
    const auto& tolerated = vendor_.tolerated;
    if (std::count(tolerated.begin(), tolerated.end(), function) != 0) {
      EXPECT_EQ(problem, "");
    } else if (!in_trial) {
      EXPECT_THAT(problem, AllOf(HasSubstr(function), HasSubstr(vendor_.out_of_memory)));
    } else if (!problem.empty()) {
      EXPECT_THAT(problem, HasSubstr(function));
    }
    // What the trial could not give back stays.
    const bool is_destroyed = in_trial && problem.empty() && !fell_back;
    EXPECT_LE(double_.live_handles(), leaked_ + (is_destroyed ? 1 : 0));
    leaked_ = double_.live_handles();
    pop_contexts();
  }

  // A session either works on, or says that it has failed, launches nothing, and works on once it is rebuilt.
  static void recover(Held& held) {
    Session& session = *held.session;
    if (session.failed()) {
      EXPECT_FALSE(session.launch().ok());
      // The graph with half of an update in it has never been launched: the poison is still there.
      std::vector<std::uint32_t> y(100);
      check_ok(session, session.read(session.buffer("y"), std::as_writable_bytes(std::span(y))));
      if (session.mode() == Mode::graph) {
        EXPECT_EQ(y, std::vector<std::uint32_t>(100, 0xffffffff));
      }
      session.rebuild();
      EXPECT_FALSE(session.failed());
    }
    const std::vector<float> x(100, 8);
    check_ok(session, session.write(session.buffer("x"), std::as_bytes(std::span(x))));
    launch_and_compare(held, 0.25, 0, 3, 8);
  }

  static std::filesystem::path cache_directory() {
    return std::filesystem::path(RONDO_BINARY_DIR) / "test_cache";
  }

  const Vendor& vendor_ = *std::get<0>(GetParam());
  const Mode mode_ = std::get<1>(GetParam());
  Double& double_ = Double::of(vendor_);
  rtc::BinaryCache cache_{cache_directory()};
  std::size_t leaked_ = double_.live_handles();  // by tests of this process that came before
};

TEST_P(FaultInjection, EveryCallThatFailsIsNamedAndLeavesNothingBehind) {
  const std::map<std::string, Count> calls = count_calls();
  ASSERT_EQ(double_.live_handles(), leaked_);
  EXPECT_GT(calls.at(mode_ == Mode::graph ? vendor_.update : vendor_.launch).all, 3U);
  for (const auto& [function, count] : calls) {
    for (std::size_t nth = 1; nth <= count.all; ++nth) fail_one(function, nth, count);
  }
  Held held;
  work(held);
}

// Once more, while a session that has failed is rebuilt: what throws leaves it failed, to be rebuilt again.
TEST_P(FaultInjection, ARebuildThatFailsMayBeTriedAgain) {
  int failures = 0;
  for (const char* function : vendor_.functions) {
    SCOPED_TRACE(function);
    for (std::size_t nth = 1;; ++nth) {
      Held held;
      work(held);
      check_ok(*held.session, held.session->fill_bytes(held.session->buffer("y"), 0xff));
      double_.reset();
      double_.fail(function, nth, 2);
      try {
        held.session->rebuild();
        EXPECT_FALSE(held.session->failed());  // what failed was a destructor's, or can be done without
      } catch (const Error& error) {
        EXPECT_TRUE(held.session->failed());
        EXPECT_THAT(error.what(), HasSubstr(function));
        ++failures;
      }
      const bool is_called = double_.calls(function) >= nth;
      double_.reset();
      recover(held);
      pop_contexts();
      if (!is_called) break;
    }
  }
  EXPECT_GT(failures, mode_ == Mode::graph ? 5 : 0);
  leaked_ = double_.live_handles();  // by destructors that were made to fail
}

// There is nobody to tell; what could not be given back stays, and nothing else does.
TEST_P(FaultInjection, AHandleThatCannotBeDestroyedIsTheOnlyOneThatStays) {
  for (const char* function : vendor_.destructors) {
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
    EXPECT_LE(double_.live_handles(), leaked_ + 1);
    leaked_ = double_.live_handles();
  }
  Held held;
  work(held);
}

TEST_P(FaultInjection, AnEarlierKernelsFaultIsNotTheCallsOwn) {
  Held held;
  work(held);
  double_.fail(mode_ == Mode::graph ? vendor_.graph_launch : vendor_.launch, 1, 719);
  const Status status = held.session->launch();
  EXPECT_THAT(held.session->error(status).what(),
              AllOf(HasSubstr("an earlier kernel"), HasSubstr(vendor_.launch_failed)));
}

INSTANTIATE_TEST_SUITE_P(Vendors, FaultInjection,
                         ::testing::Combine(::testing::Values(&cuda_vendor, &hip_vendor),
                                            ::testing::Values(Mode::graph, Mode::eager)),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param)->device) +
                                  (std::get<1>(instance.param) == Mode::graph ? "_graph" : "_eager");
                         });

}  // namespace
}  // namespace rondo
