// What a machine without CUDA, or with too old a driver, is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda/driver.h"
#include "rondo/error.h"

namespace rondo::cuda {
namespace {

std::string problem_with(const char* library) {
  setenv("RONDO_CUDA_LIBRARY", library, 1);
  std::string problem;
  try {
    list_devices();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing_backend);
    EXPECT_EQ(error.exit_code(), 3);
    problem = error.what();
  }
  unsetenv("RONDO_CUDA_LIBRARY");
  return problem;
}

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CudaMissing, NamesTheLibraryThatIsNotThere) {
  EXPECT_THAT(problem_with("/no/such/libcuda.so.1"),
              AllOf(HasSubstr("no CUDA driver"), HasSubstr("/no/such/libcuda.so.1"),
                    HasSubstr("RONDO_CUDA_LIBRARY")));
}

TEST(CudaMissing, NamesTheFirstFunctionThatALibraryLacksAndTheVersionThatHasIt) {
  EXPECT_THAT(problem_with(EMPTY_LIBRARY), AllOf(HasSubstr("has no cuInit"), HasSubstr("CUDA 2.0")));
}

TEST(CudaMissing, NamesTheFunctionThatAnOldDriverLacksAndBothVersions) {
  EXPECT_THAT(problem_with(OLD_LIBRARY),
              AllOf(HasSubstr("has no cuGraphAddKernelNode_v2"), HasSubstr("CUDA 12.0 or later"),
                    HasSubstr("this one is for CUDA 11.8")));
}

TEST(CudaMissing, SaysThatThereIsADriverWithoutADevice) {
  setenv("RONDO_DOUBLE_FAIL", "cuInit:1:100", 1);
  EXPECT_THAT(problem_with(RONDO_DOUBLE_CUDA),
              AllOf(HasSubstr("no CUDA device"), HasSubstr("CUDA_ERROR_NO_DEVICE")));
  unsetenv("RONDO_DOUBLE_FAIL");
}

}  // namespace
}  // namespace rondo::cuda
