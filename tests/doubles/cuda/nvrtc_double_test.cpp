// The rules that the libnvrtc double keeps, and what its device looks like from Rondo.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "control.h"
#include "dynamic_library.h"
#include "elf_symbols.h"
#include "nvrtc_api.h"
#include "rondo/device.h"

namespace rondo::rtc::nvrtc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto invalid_program = static_cast<Result>(4);
constexpr auto no_names_after_compilation = static_cast<Result>(8);
constexpr auto no_lowered_names_before_compilation = static_cast<Result>(9);

class NvrtcDouble : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(library_) << problem_;
    for_each_symbol(api_, [&](const std::string& name, auto& function) {
      function =
          library_.function<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name.c_str());
      ASSERT_NE(function, nullptr) << name;
    });
  }
  void TearDown() override {
    EXPECT_EQ(library_.function<std::remove_pointer_t<decltype(&rondo_double_live_handles)>>(
                  "rondo_double_live_handles")(),
              0U);
  }
  Program create(const char* source) {
    const char* const header = "constexpr int two = 2;\n";
    const char* const name = "two.h";
    Program program = nullptr;
    EXPECT_EQ(api_.create_program(&program, source, "test.cu", 1, &header, &name), success);
    return program;
  }
  Result compile(Program program, std::vector<const char*> options = {"--gpu-architecture=sm_90"}) {
    return api_.compile_program(program, static_cast<int>(options.size()), options.data());
  }
  std::string log(Program program) {
    std::size_t size = 0;
    EXPECT_EQ(api_.get_program_log_size(program, &size), success);
    std::string text(size, '?');
    EXPECT_EQ(api_.get_program_log(program, text.data()), success);
    EXPECT_EQ(text.back(), '\0');
    return text;
  }

  std::string problem_;
  DynamicLibrary library_ = DynamicLibrary::open(RONDO_DOUBLE_NVRTC, problem_);
  Api api_;
};

TEST_F(NvrtcDouble, CompilesKernelsAndMarksThemInWhatItCallsACubin) {
  Program program =
      create("#include \"two.h\"\ntemplate <class T> __global__ void k(T* out) { *out = two + MORE; }\n");
  ASSERT_EQ(api_.add_name_expression(program, "k<float>"), success);
  const char* lowered = nullptr;
  EXPECT_EQ(api_.get_lowered_name(program, "k<float>", &lowered), no_lowered_names_before_compilation);
  ASSERT_EQ(compile(program, {"--gpu-architecture=sm_90", "--std=c++20", "-DMORE=3"}), success)
      << log(program);
  EXPECT_EQ(api_.add_name_expression(program, "k<int>"), no_names_after_compilation);
  EXPECT_EQ(api_.get_lowered_name(program, "k<int>", &lowered), error_name_expression_not_valid);
  ASSERT_EQ(api_.get_lowered_name(program, "k<float>", &lowered), success);
  std::size_t size = 0;
  ASSERT_EQ(api_.get_cubin_size(program, &size), success);
  std::vector<std::byte> cubin(size);
  ASSERT_EQ(api_.get_cubin(program, reinterpret_cast<char*>(cubin.data())), success);
  const auto kernel = find_elf_symbol(cubin, lowered);
  const auto table = find_elf_symbol(cubin, "rondo_signature_0");
  ASSERT_TRUE(kernel && table);
  EXPECT_EQ(kernel->other & 0x10, 0x10);
  EXPECT_EQ(table->other & 0x10, 0);
  EXPECT_EQ(api_.destroy_program(&program), success);
  EXPECT_EQ(program, nullptr);
}

TEST_F(NvrtcDouble, ReportsErrorsInTheUsersLinesAndRefusesWhatItDoesNotKnow) {
  Program program = create("\n__global__ void k() { nonsense; }\n");
  EXPECT_EQ(compile(program, {"--gpu-architecture=sm_91"}), error_invalid_option);
  EXPECT_THAT(log(program), HasSubstr("--gpu-architecture"));
  EXPECT_EQ(compile(program, {"--surprise"}), error_invalid_option);
  EXPECT_THAT(log(program), HasSubstr("--surprise"));
  EXPECT_EQ(compile(program), error_compilation);
  EXPECT_THAT(log(program), HasSubstr("test.cu:2:23: error: 'nonsense'"));
  std::size_t size = 0;
  EXPECT_NE(api_.get_cubin_size(program, &size), success);
  Program copy = program;
  EXPECT_EQ(api_.destroy_program(&program), success);
  EXPECT_EQ(api_.destroy_program(&copy), invalid_program);
  EXPECT_EQ(compile(copy), invalid_program);
}

TEST(CudaDoubleDevice, IsListedAndChosen) {
  setenv("RONDO_CUDA_LIBRARY", RONDO_DOUBLE_CUDA, 1);
  setenv("RONDO_NVRTC_LIBRARY", RONDO_DOUBLE_NVRTC, 1);
  const DeviceReport report = list_devices().front();
  EXPECT_TRUE(report.available) << report.problem;
  EXPECT_EQ(report.spec, "cuda:0");
  EXPECT_EQ(report.properties.name, "CUDA double");
  EXPECT_EQ(report.properties.architecture, "sm_90");
  EXPECT_EQ(report.properties.warp_size, 1);
  EXPECT_THAT(report.compiler, HasSubstr("NVRTC 13.0"));
  EXPECT_EQ(open_device("auto")->spec(), "cuda:0");
}

}  // namespace
}  // namespace rondo::rtc::nvrtc
