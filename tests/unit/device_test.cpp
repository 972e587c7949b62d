#include "rondo/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "compiler.h"
#include "driver.h"
#include "rondo/error.h"

namespace rondo {
namespace {

using ::testing::HasSubstr;

// A machine on which no vendor's library is found, whatever it has.
class WithoutGpu : public ::testing::Test {
 protected:
  WithoutGpu() {
    setenv("RONDO_CUDA_LIBRARY", "/no/such/libcuda.so.1", 1);
    setenv("RONDO_HIP_LIBRARY", "/no/such/libamdhip64.so.6", 1);
  }
  ~WithoutGpu() override {
    unsetenv("RONDO_CUDA_LIBRARY");
    unsetenv("RONDO_HIP_LIBRARY");
  }
};

Diagnostic refusal(const char* spec, ErrorCode code) {
  try {
    open_device(spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << spec;
    return error.diagnostics().front();
  }
  ADD_FAILURE() << spec << " was opened";
  return {};
}

TEST_F(WithoutGpu, AnUnknownSpecIsToldTheForms) {
  for (const char* spec :
       {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:99999999999", "hip:", "hip:-1", "hips", "cudahip", "HOST", "host:2"}) {
    EXPECT_THAT(refusal(spec, ErrorCode::bad_argument).hint, HasSubstr("\"cuda:i\""));
  }
}

TEST_F(WithoutGpu, ADeviceThatIsNotThereSaysWhy) {
  EXPECT_THAT(refusal("cuda", ErrorCode::missing_backend).message, HasSubstr("/no/such/libcuda.so.1"));
  EXPECT_THAT(refusal("cuda:3", ErrorCode::missing_backend).message, HasSubstr("/no/such/libcuda.so.1"));
  EXPECT_THAT(refusal("hip", ErrorCode::missing_backend).message, HasSubstr("/no/such/libamdhip64.so.6"));
}

TEST_F(WithoutGpu, AutoIsTheHost) {
  const auto device = open_device("auto");
  EXPECT_EQ(device->spec(), "host");
  EXPECT_EQ(device->properties().backend, "host");
  EXPECT_EQ(&device->compiler(), &device->compiler());
}

TEST_F(WithoutGpu, TheListSaysWhatIsMissingAndWhy) {
  const std::vector<DeviceReport> reports = list_devices();
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[0].spec, "cuda");
  EXPECT_FALSE(reports[0].available);
  EXPECT_THAT(reports[0].problem, HasSubstr("/no/such/libcuda.so.1"));
  EXPECT_EQ(reports[1].spec, "hip");
  EXPECT_FALSE(reports[1].available);
  EXPECT_THAT(reports[1].problem, HasSubstr("/no/such/libamdhip64.so.6"));
  EXPECT_EQ(reports[2].spec, "host");
  EXPECT_TRUE(reports[2].available) << reports[2].problem;
  EXPECT_FALSE(reports[2].compiler.empty());
}

TEST_F(WithoutGpu, TheListHoldsOutWithABadEnvironment) {
  setenv("RONDO_HOST_THREADS", "many", 1);
  const std::vector<DeviceReport> reports = list_devices();
  unsetenv("RONDO_HOST_THREADS");
  EXPECT_FALSE(reports.back().available);
  EXPECT_THAT(reports.back().problem, HasSubstr("RONDO_HOST_THREADS"));
}

}  // namespace
}  // namespace rondo
