// Sessions on a ROCm that misbehaves: what it does wrong is noticed and told, and the results are right all
// the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include "compiler.h"
#include "conformance/gate.h"
#include "driver.h"
#include "handles.h"
#include "loaded.h"
#include "rondo/device.h"
#include "rondo/error.h"
#include "rondo/session.h"

namespace rondo::doubles::hip {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Ten nodes of one kernel, all of which depend on `value`, in a chain: a launch that runs any of them with
// other arguments than its own leaves another state.
constexpr const char* schedule = R"j({
  "rondo": 1, "name": "modes",
  "params": {"value": {"type": "i32", "step": 0}},
  "buffers": {"state": {"type": "u64", "shape": [1], "role": "state", "fill": 1}},
  "kernels": {"step": {"entry": "step", "code": "extern \"C\" __global__ void step(unsigned long long* state, int value) { *state = *state * 31 + value; }"}},
  "ops": [{"repeat": "i", "count": 10, "ops": [{"kernel": "step", "grid": [1], "block": [1], "args": ["state", "value * 10 + i"]}]}]
})j";

class HipModes : public ::testing::Test {
 protected:
  static LoadedDouble& hip() {
    static LoadedDouble loaded(HIP_DOUBLE);
    return loaded;
  }

  void SetUp() override {
    use(HIP_DOUBLE);
    hip().reset();
  }
  void TearDown() override {
    hip().reset();
    unsetenv("RONDO_DOUBLE_HIP_ARCHITECTURE");
    unsetenv("RONDO_DOUBLE_HIP_DEVICES");
  }

  static void use(const char* library) {
    setenv("RONDO_HIP_LIBRARY", library, 1);
    setenv("RONDO_HIPRTC_LIBRARY", HIPRTC_DOUBLE, 1);
  }

  void build(const char* device = "hip", SessionOptions options = {}) {
    options.cache_directory = std::filesystem::path(RONDO_BINARY_DIR) / "test_cache";
    options.notice = [this](const std::string& line) { notices_.push_back(line); };
    device_ = open_device(device);
    session_.emplace(Session::parse(schedule, "modes.json", device_, options));
  }
  void launch(int value) {
    ASSERT_TRUE(session_->set(session_->param("value"), value).ok());
    ASSERT_TRUE(session_->launch().ok());
    for (int i = 0; i < 10; ++i) expected_ = expected_ * 31 + static_cast<std::uint64_t>(value * 10 + i);
  }
  void expect_state() {
    std::uint64_t state = 0;
    const Status status =
        session_->read(session_->buffer("state"), std::as_writable_bytes(std::span(&state, 1)));
    ASSERT_TRUE(status.ok()) << session_->error(status).what();
    EXPECT_EQ(state, expected_);
  }
  void expect_fallback(const char* why) {
    build();
    EXPECT_EQ(session_->mode(), Mode::eager);
    EXPECT_THAT(device_->graph_problem(), HasSubstr(why));
    EXPECT_THAT(notices_, ElementsAre(AllOf(HasSubstr("hip:0"), HasSubstr("ROCm"), HasSubstr(why))));
    for (int value = 1; value < 50; ++value) launch(value);
    expect_state();
    EXPECT_EQ(session_->counters().graph_launches, 0u);
  }

  std::vector<std::string> notices_;
  std::shared_ptr<Device> device_;
  std::optional<Session> session_;
  std::uint64_t expected_ = 1;
};

TEST_F(HipModes, AGoodRocmUsesGraphs) {
  build();
  EXPECT_EQ(session_->mode(), Mode::graph);
  EXPECT_THAT(notices_, IsEmpty());
  for (int value = 1; value < 50; ++value) launch(value);
  expect_state();
  EXPECT_EQ(session_->counters().node_updates, 490u);
}

TEST_F(HipModes, UpdatesThatAreIgnoredAreNoticed) {
  hip().set_mode("ignore_updates");
  expect_fallback("old arguments");
}

TEST_F(HipModes, ArgumentsThatAreSharedAreNoticed) {
  hip().set_mode("share_arguments");
  expect_fallback("do not keep their own arguments");
}

TEST_F(HipModes, Rocm54RefusesModuleFunctions) {
  hip().set_mode("rocm_5.4");
  expect_fallback("hipErrorInvalidDeviceFunction");
}

TEST_F(HipModes, Rocm54WithoutTheLaterFunctions) {
  use(HIP_5_4_DOUBLE);
  expect_fallback("hipErrorInvalidDeviceFunction");
  EXPECT_EQ(device_->properties().architecture, "gfx90a:sramecc+:xnack-");
  EXPECT_THAT(device_->properties().driver, HasSubstr("ROCm 5.4"));
}

TEST_F(HipModes, TheListOfDevicesTells) {
  hip().set_mode("ignore_updates");
  const std::vector<DeviceReport> reports = list_devices();
  const auto found = std::find_if(reports.begin(), reports.end(),
                                  [](const DeviceReport& report) { return report.spec == "hip:0"; });
  ASSERT_NE(found, reports.end());
  EXPECT_TRUE(found->available);
  EXPECT_THAT(found->graph_problem, HasSubstr("old arguments"));
}

TEST_F(HipModes, AHundredThousandUpdatesLeakNoMoreThanTwoGraphsMay) {
  hip().set_mode("leak");
  SessionOptions options;
  options.updates_before_renewal = 2'000;
  build("hip", options);
  ASSERT_EQ(session_->mode(), Mode::graph);
  for (int value = 1; value <= 10'000; ++value) launch(value);
  expect_state();
  EXPECT_GE(session_->counters().node_updates, 100'000u);
  EXPECT_GE(session_->counters().renewals, 100'000u / (2 * 2'000 + 20));
  // The graph in use has had at most twice its updates when it waits for the next one, and while it is
  // replaced there are two.
  EXPECT_LT(hip().most_leaked_bytes(), 4u * 2'000 * 6'000);
  session_.reset();
  EXPECT_EQ(hip().leaked_bytes(), 0u);
}

// Nothing of a graph that is still to run may go, also where a launch has failed just when a new graph was
// due.
TEST_F(HipModes, TheOldGraphGoesWhenItsLastLaunchIsDone) {
  SessionOptions options;
  options.updates_before_renewal = 100;
  build("hip", options);
  Driver& driver = device_->driver();
  Gate gate;
  const OwnedStream stream(driver, driver.create_stream());
  ASSERT_TRUE(gate.close(driver, stream.get()).ok());
  hip().reset();  // the execs of the device's trial are gone already
  for (int value = 1; value <= 11; ++value) {
    if (value == 11) hip().fail("hipGraphLaunch", 1, static_cast<int>(rondo::hip::Result::out_of_memory));
    ASSERT_TRUE(session_->set(session_->param("value"), value).ok());
    ASSERT_EQ(session_->launch({stream.get()}).ok(), value != 11);
  }
  while (session_->counters().renewals + session_->counters().failed_renewals == 0) {
    ASSERT_TRUE(session_->launch({stream.get()}).ok());
    std::this_thread::yield();
  }
  EXPECT_EQ(session_->counters().failed_renewals, 0u);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // time for a mistake to be made
  EXPECT_EQ(hip().calls("hipGraphExecDestroy"), 0u);
  gate.open();
  ASSERT_TRUE(session_->synchronize({stream.get()}).ok());
  EXPECT_FALSE(gate.opened_by_itself());
  session_.reset();
  EXPECT_EQ(hip().calls("hipGraphExecDestroy"), 2u);
}

TEST_F(HipModes, ByDefaultAGraphIsRenewedToo) {
  hip().set_mode("leak");
  build();
  for (int value = 1; value <= 4'000; ++value) launch(value);
  expect_state();
  EXPECT_GE(session_->counters().renewals, 1u);
}

TEST_F(HipModes, EveryCallIsMadeUnderItsOwnDeviceAndLeavesTheCallersOwn) {
  setenv("RONDO_DOUBLE_HIP_DEVICES", "2", 1);
  std::thread([&] {
    ASSERT_EQ(hip().hipSetDevice(1), rondo::hip::Result::success);
    build("hip:0");
    EXPECT_EQ(session_->mode(), Mode::graph) << device_->graph_problem();
    for (int value = 1; value < 50; ++value) launch(value);
    expect_state();
    session_.reset();
    device_.reset();
    int device = -1;
    ASSERT_EQ(hip().hipGetDevice(&device), rondo::hip::Result::success);
    EXPECT_EQ(device, 1);
  }).join();
  EXPECT_EQ(hip().live_handles(), 0u);
  EXPECT_THROW(open_device("hip:2"), Error);
}

std::string error_of_building(const std::function<void()>& build) {
  try {
    build();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(HipModes, AnArchitectureThatTheCompilerDoesNotKnowIsALineAndNotTheEnd) {
  setenv("RONDO_DOUBLE_HIP_ARCHITECTURE", "gfx1399", 1);
  EXPECT_THAT(error_of_building([&] { build(); }),
              AllOf(HasSubstr("gfx1399"), HasSubstr("does not compile for")));
}

TEST_F(HipModes, ACodeObjectForAnotherArchitectureIsRefusedWithBothNames) {
  rtc::CompileRequest request;
  request.file = "other.cu";
  request.source = "extern \"C\" __global__ void nothing() {}";
  request.entries = {"nothing"};
  request.architecture = "gfx1030";
  const auto device = open_device("hip");
  const rtc::Binary binary = device->compiler().compile(request);
  EXPECT_THAT(error_of_building([&] { device->driver().load_module(binary.code); }),
              AllOf(HasSubstr("gfx1030"), HasSubstr("gfx90a:sramecc+:xnack-")));
}

}  // namespace
}  // namespace rondo::doubles::hip
