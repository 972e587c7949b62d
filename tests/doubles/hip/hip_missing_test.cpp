// What a machine without HIP, or with a HIP that Rondo cannot use, is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "hip/driver.h"
#include "rondo/error.h"

namespace rondo::hip {
namespace {

std::string problem_with(const char* library) {
  setenv("RONDO_HIP_LIBRARY", library, 1);
  std::string problem;
  try {
    list_devices();
    make_driver(0);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing_backend);
    EXPECT_EQ(error.exit_code(), 3);
    problem = error.what();
  }
  unsetenv("RONDO_HIP_LIBRARY");
  return problem;
}

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(HipMissing, NamesTheLibraryThatIsNotThere) {
  EXPECT_THAT(problem_with("/no/such/libamdhip64.so.6"),
              AllOf(HasSubstr("no HIP runtime"), HasSubstr("/no/such/libamdhip64.so.6"),
                    HasSubstr("RONDO_HIP_LIBRARY")));
}

TEST(HipMissing, NamesTheFirstFunctionThatALibraryLacksAndTheVersionThatHasIt) {
  EXPECT_THAT(problem_with(HIPRTC_DOUBLE), AllOf(HasSubstr("has no hipInit"), HasSubstr("ROCm 4.2")));
}

TEST(HipMissing, NamesTheFunctionThatIsMissingAndBothVersions) {
  EXPECT_THAT(problem_with(LACKING_LIBRARY),
              AllOf(HasSubstr("has no hipGraphInstantiateWithFlags"), HasSubstr("ROCm 4.5 or later"),
                    HasSubstr("this one is of ROCm 5.3")));
}

TEST(HipMissing, NamesBothVersionsOfARuntimeThatIsTooOld) {
  EXPECT_THAT(problem_with(OLD_LIBRARY), AllOf(HasSubstr("too old"), HasSubstr("ROCm 5.1"),
                                               HasSubstr("needs 5.2"), HasSubstr("install")));
}

TEST(HipMissing, SaysThatThereIsARuntimeWithoutADevice) {
  EXPECT_THAT(problem_with(LACKING_DEVICE), AllOf(HasSubstr("no HIP device"), HasSubstr("hipErrorNoDevice")));
}

}  // namespace
}  // namespace rondo::hip
