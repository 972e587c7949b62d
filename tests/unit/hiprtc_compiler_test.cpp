#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <type_traits>

#include "amd_code_object.h"
#include "compiler.h"
#include "hiprtc_api.h"
#include "rondo/error.h"

#if __has_include(<hip/hiprtc.h>)
#define __HIP_PLATFORM_AMD__
#include <hip/hiprtc.h>

namespace rondo::rtc::hiprtc {

// Our declarations name neither the vendor's enum nor its opaque struct: both count as what they are in the
// ABI, as a list of strings does however much of it is const.
template <class T>
struct Shape {
  using type = T;
};
template <class T>
requires std::is_enum_v<T>
struct Shape<T> {
  using type = int;
};
template <>
struct Shape<hiprtcProgram> {
  using type = Program;
};
template <>
struct Shape<hiprtcProgram*> {
  using type = Program*;
};
template <>
struct Shape<const char* const*> {
  using type = const char**;
};
template <class R, class... A>
struct Shape<R (*)(A...)> {
  using type = typename Shape<R>::type (*)(typename Shape<A>::type...);
};
template <class Ours, class Vendors>
constexpr bool same = std::is_same_v<typename Shape<Ours>::type, typename Shape<Vendors>::type>;

static_assert(same<decltype(Api::version), decltype(&hiprtcVersion)>);
static_assert(same<decltype(Api::get_error_string), decltype(&hiprtcGetErrorString)>);
static_assert(same<decltype(Api::create_program), decltype(&hiprtcCreateProgram)>);
static_assert(same<decltype(Api::destroy_program), decltype(&hiprtcDestroyProgram)>);
static_assert(same<decltype(Api::compile_program), decltype(&hiprtcCompileProgram)>);
static_assert(same<decltype(Api::get_code_size), decltype(&hiprtcGetCodeSize)>);
static_assert(same<decltype(Api::get_code), decltype(&hiprtcGetCode)>);
static_assert(same<decltype(Api::get_program_log_size), decltype(&hiprtcGetProgramLogSize)>);
static_assert(same<decltype(Api::get_program_log), decltype(&hiprtcGetProgramLog)>);
static_assert(same<decltype(Api::add_name_expression), decltype(&hiprtcAddNameExpression)>);
static_assert(same<decltype(Api::get_lowered_name), decltype(&hiprtcGetLoweredName)>);
static_assert(static_cast<int>(success) == HIPRTC_SUCCESS);
static_assert(static_cast<int>(error_invalid_option) == HIPRTC_ERROR_INVALID_OPTION);
static_assert(static_cast<int>(error_compilation) == HIPRTC_ERROR_COMPILATION);
static_assert(static_cast<int>(error_builtin_operation_failure) == HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE);
static_assert(static_cast<int>(error_name_expression_not_valid) == HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID);

}  // namespace rondo::rtc::hiprtc
#endif

namespace rondo::rtc {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Hiprtc : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      compiler_ = make_hiprtc_compiler();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  CompileRequest request(std::string source, std::vector<std::string> entries,
                         std::string architecture = "gfx90a") const {
    CompileRequest result;
    result.file = "kernels/test.cu";
    result.source = std::move(source);
    result.entries = std::move(entries);
    result.architecture = std::move(architecture);
    return result;
  }

  std::string failure(const CompileRequest& bad, ErrorCode code = ErrorCode::bad_schedule) const {
    try {
      compiler_->compile(bad);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "compiled";
    return "";
  }

  std::shared_ptr<Compiler> compiler_;
};

TEST_F(Hiprtc, MakesACodeObjectWithTheLoweredNames) {
  CompileRequest scale = request(R"(
#include "part.h"
template <class T> __global__ void scale(T* p) { *p *= FACTOR * part(); }
extern "C" __global__ void plain() {})",
                                 {"scale<float>", "plain"});
  scale.headers = {{"part.h", "#pragma once\n__device__ inline int part() { return 2; }\n"}};
  scale.defines = {{"FACTOR", "3"}};
  const Binary binary = compiler_->compile(scale);
  EXPECT_EQ(binary.log, "");
  EXPECT_EQ(binary.entries[0].lowered, "_Z5scaleIfEvPT_");
  EXPECT_EQ(binary.entries[1].lowered, "plain");
  const AmdCodeObject object = read_amd_code_object(binary.code);
  EXPECT_TRUE(object.target.starts_with("gfx90a")) << object.target;
  EXPECT_EQ(object.kernels.size(), 2u);
  ASSERT_TRUE(object.find("_Z5scaleIfEvPT_"));
  EXPECT_EQ(object.find("_Z5scaleIfEvPT_")->wavefront_size, 64);
}

// These hipRTC 5.2 cannot name by itself.
TEST_F(Hiprtc, NamesEntriesHoweverTheyAreSpelt) {
  const Binary binary =
      compiler_->compile(request(R"(
constexpr int eight = 8;
template <class T, int n> __global__ void k(T* p) { *p = n; }
namespace { __global__ void hidden(int* p) { *p = 1; } }
)",
                                 {"k<float, eight>", "k<int, (4 > 2)>", "k<int , 3>", "hidden"}));
  EXPECT_EQ(binary.entries[0].lowered, "_Z1kIfLi8EEvPT_");
  EXPECT_EQ(binary.entries[1].lowered, "_Z1kIiLi1EEvPT_");
  EXPECT_EQ(binary.entries[2].lowered, "_Z1kIiLi3EEvPT_");
  EXPECT_EQ(binary.entries[3].lowered, "_ZN12_GLOBAL__N_16hiddenEPi");
  for (const Entry& entry : binary.entries) EXPECT_EQ(entry.parameters.size(), 1u);
}

// hipRTC itself ends the process for each of these.
TEST_F(Hiprtc, RefusesArchitecturesThatItDoesNotKnow) {
  for (const char* architecture : {"gfx9999", "gfx90a:bogus+", "gfx1030:xnack+"}) {
    const std::string text =
        failure(request("__global__ void k() {}", {"k"}, architecture), ErrorCode::missing_backend);
    EXPECT_THAT(text, HasSubstr(architecture));
    EXPECT_THAT(text, HasSubstr("hipRTC 9"));
  }
  EXPECT_THAT(failure(request("__global__ void k() {}", {"k"}, "gfx9999"), ErrorCode::missing_backend),
              HasSubstr("it knows gfx"));
  for (const char* architecture : {"sm_90", "", "gfx90a:", "gfx90a:xnack", "gfx90a:+", "GFX90A", "gfx90a -v"})
    failure(request("__global__ void k() {}", {"k"}, architecture), ErrorCode::missing_backend);
}

TEST_F(Hiprtc, TakesAnArchitectureAsADeviceNamesIt) {
  const Binary binary =
      compiler_->compile(request("__global__ void k(const int* p) {}", {"k"}, "gfx90a:sramecc+:xnack-"));
  EXPECT_EQ(read_amd_code_object(binary.code).target, "gfx90a:sramecc+:xnack-");
  ASSERT_EQ(binary.entries[0].parameters.size(), 1u);
  EXPECT_TRUE(binary.entries[0].parameters[0].is_const);
}

TEST_F(Hiprtc, DefinesAreTheSourcesAlone) {
  CompileRequest named = request("__global__ void k(int* p) { *p = B(T) + sizeof(N); }", {"k"});
  // Each of these is a name in hipRTC's own header.
  named.defines = {{"B(x)", "(x + 1)"}, {"T", "4"}, {"N", "\"text\""}, {"type", "5"}};
  EXPECT_EQ(compiler_->compile(named).log, "");
  named = request("__global__ void k() {}", {"k"});
  named.defines = {{"1x", "4"}};
  EXPECT_TRUE(failure(named).starts_with("kernels/test.cu: ")) << failure(named);
}

TEST_F(Hiprtc, FindsHeadersUnderAnyNameAndOnceOnly) {
  CompileRequest twice = request(R"(
#include "../../../deep/a.h"
 #  include "/absolute/a.h" // again
#include "b.h"
__global__ void k(int* p) { *p = a() + b(); })",
                                 {"k"});
  const std::string once = "#pragma once\n__device__ inline int a() { return 2; }\n";
  twice.headers = {{"../../../deep/a.h", once},
                   {"/absolute/a.h", once},
                   {"b.h", "#include \"../../../deep/a.h\"\n__device__ inline int b() { return a(); }\n"}};
  EXPECT_EQ(compiler_->compile(twice).log, "");
  twice.headers[2].text += "int = 0;\n";
  EXPECT_TRUE(failure(twice).starts_with("b.h:3:")) << failure(twice);
}

// What the system has installed is in no cache key.
TEST_F(Hiprtc, SeesNoHeadersOfTheSystem) {
  EXPECT_THAT(failure(request("#include <cstdlib>\n__global__ void k() {}", {"k"})),
              HasSubstr("kernels/test.cu:1:"));
}

TEST_F(Hiprtc, PutsErrorsIntoTheUsersFile) {
  CompileRequest bad =
      request("#include \"part.h\"\n__global__ void k(int* p) {\n  *p = nothing_like_this;\n}\n", {"k"});
  bad.headers = {{"part.h", "#pragma once\n"}};
  std::string text = failure(bad);
  EXPECT_TRUE(text.starts_with("kernels/test.cu:3:")) << text;
  EXPECT_THAT(text, HasSubstr("nothing_like_this"));
  EXPECT_THAT(text, HasSubstr(compiler_->description()));
  bad.source = "#include \"part.h\"\n__global__ void k(int* p) {}\n";
  bad.headers[0].text = "\n\nint = 5;\n";
  EXPECT_TRUE(failure(bad).starts_with("part.h:3:")) << failure(bad);
  bad.file = "kernels/error/error.cu";
  bad.headers[0].text = "";
  bad.source = "\n#error on purpose\n__global__ void k(int* p) {}\n";
  EXPECT_TRUE(failure(bad).starts_with("kernels/error/error.cu:2:")) << failure(bad);
  bad.headers.clear();
  bad.file = "kernels/test.cu";
  bad.source = "#include \"part.h\"\n__global__ void k(int* p) {}\n";
  EXPECT_TRUE(failure(bad).starts_with("kernels/test.cu:1:")) << failure(bad);
}

TEST_F(Hiprtc, GivesOneErrorForEachWrongEntry) {
  const char* source = R"(
template <class T> __global__ void one(T* p) { *p = 1; }
__global__ void two(int* p) {}
__global__ void two(float* p) {}
__device__ void plain(int* p) {}
struct owner { __device__ ~owner() {} };
__device__ int three(int* p) { return 0; }
__device__ int value = 5;
)";
  for (const char* entry :
       {"nosuch<float>", "error_sum<float>", "one<nosuch>", "one", "two", "plain", "three", "value"}) {
    const std::string text = failure(request(source, {"one<int>", entry}));
    EXPECT_TRUE(text.starts_with(std::string("kernels/test.cu: entry \"") + entry + "\"")) << text;
    EXPECT_THAT(text, Not(HasSubstr("\n"))) << text;
  }
  EXPECT_THAT(failure(request(source, {"nosuch", "three"})), HasSubstr("\nkernels/test.cu: entry \"three\""));
  EXPECT_THAT(
      failure(request("struct owner { __device__ ~owner() {} }; __global__ void k(owner o) {}", {"k"})),
      HasSubstr("passed by value"));
  std::string parameters = "int p0";
  for (int i = 1; i < 65; ++i) parameters += ", int p" + std::to_string(i);
  EXPECT_THAT(failure(request("__global__ void k(" + parameters + ") {}", {"k"})),
              HasSubstr("at most 64 parameters"));
}

TEST_F(Hiprtc, SaysWhereItLooked) {
  setenv("RONDO_HIPRTC_LIBRARY", "/nonexistent/libhiprtc.so", 1);
  try {
    make_hiprtc_compiler();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing_backend);
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/libhiprtc.so"));
  }
  unsetenv("RONDO_HIPRTC_LIBRARY");
}

TEST_F(Hiprtc, SaysThatALibraryIsAnothers) {
  setenv("RONDO_COMGR_LIBRARY", "libm.so.6", 1);
  try {
    make_hiprtc_compiler();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing_backend);
    EXPECT_THAT(error.what(), HasSubstr("RONDO_COMGR_LIBRARY is \"libm.so.6\""));
  }
  unsetenv("RONDO_COMGR_LIBRARY");
  setenv("RONDO_HIPRTC_LIBRARY", "libm.so.6", 1);
  try {
    make_hiprtc_compiler();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing_backend);
    EXPECT_THAT(error.what(), HasSubstr("it has no hiprtcCreateProgram"));
  }
  unsetenv("RONDO_HIPRTC_LIBRARY");
}

TEST_F(Hiprtc, KnowsWhatChangesTheCode) {
  // Of its own, or inside hipRTC's library (Ubuntu's 5.7).
  EXPECT_THAT(compiler_->identity(), AnyOf(HasSubstr("libamd_comgr"), HasSubstr("libamdhip64")));
  setenv("GPU_ENABLE_WAVE32_MODE", "0", 1);
  EXPECT_NE(make_hiprtc_compiler()->identity(), compiler_->identity());
  unsetenv("GPU_ENABLE_WAVE32_MODE");
  EXPECT_EQ(make_hiprtc_compiler()->identity(), compiler_->identity());
}

TEST_F(Hiprtc, CompilesSeveralProgramsAtOnce) {
  std::vector<CompileRequest> requests;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(
        request("__global__ void k" + std::to_string(i) + "(int* p) { *p = 1; }", {"k" + std::to_string(i)}));
  }
  const std::vector<Binary> binaries = compile_all(*compiler_, nullptr, requests, 3);
  for (std::size_t i = 0; i < binaries.size(); ++i) {
    EXPECT_EQ(binaries[i].entries[0].lowered, "_Z2k" + std::to_string(i) + "Pi");
  }
}

}  // namespace
}  // namespace rondo::rtc
