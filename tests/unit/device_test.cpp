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

// A machine on which libcuda is not found, whatever it has.
class WithoutCuda : public ::testing::Test {
 protected:
  WithoutCuda() { setenv("RONDO_CUDA_LIBRARY", "/no/such/libcuda.so.1", 1); }
  ~WithoutCuda() override { unsetenv("RONDO_CUDA_LIBRARY"); }
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

TEST_F(WithoutCuda, AnUnknownSpecIsToldTheForms) {
  for (const char* spec :
       {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:99999999999", "HOST", "host:2"}) {
    EXPECT_THAT(refusal(spec, ErrorCode::bad_argument).hint, HasSubstr("\"cuda:i\""));
  }
}

TEST_F(WithoutCuda, ADeviceThatIsNotThereSaysWhy) {
  EXPECT_THAT(refusal("cuda", ErrorCode::missing_backend).message, HasSubstr("/no/such/libcuda.so.1"));
  EXPECT_THAT(refusal("cuda:3", ErrorCode::missing_backend).message, HasSubstr("/no/such/libcuda.so.1"));
}

TEST_F(WithoutCuda, AutoIsTheHost) {
  const auto device = open_device("auto");
  EXPECT_EQ(device->spec(), "host");
  EXPECT_EQ(device->properties().backend, "host");
  EXPECT_EQ(&device->compiler(), &device->compiler());
}

TEST_F(WithoutCuda, TheListSaysWhatIsMissingAndWhy) {
  const std::vector<DeviceReport> reports = list_devices();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].spec, "cuda");
  EXPECT_FALSE(reports[0].available);
  EXPECT_THAT(reports[0].problem, HasSubstr("/no/such/libcuda.so.1"));
  EXPECT_EQ(reports[1].spec, "host");
  EXPECT_TRUE(reports[1].available) << reports[1].problem;
  EXPECT_FALSE(reports[1].compiler.empty());
}

TEST_F(WithoutCuda, TheListHoldsOutWithABadEnvironment) {
  setenv("RONDO_HOST_THREADS", "many", 1);
  const std::vector<DeviceReport> reports = list_devices();
  unsetenv("RONDO_HOST_THREADS");
  EXPECT_FALSE(reports.back().available);
  EXPECT_THAT(reports.back().problem, HasSubstr("RONDO_HOST_THREADS"));
}

}  // namespace
}  // namespace rondo
