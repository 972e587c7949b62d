#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <type_traits>

#include "compiler.h"
#include "elf_symbols.h"
#include "nvrtc_api.h"
#include "rondo/error.h"

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>

namespace rondo::rtc::nvrtc {

// Our declarations name neither the vendor's enum nor its opaque struct: both count as what they are in the
// ABI.
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
struct Shape<nvrtcProgram> {
  using type = Program;
};
template <>
struct Shape<nvrtcProgram*> {
  using type = Program*;
};
template <class R, class... A>
struct Shape<R (*)(A...)> {
  using type = typename Shape<R>::type (*)(typename Shape<A>::type...);
};
template <class Ours, class Vendors>
constexpr bool same = std::is_same_v<typename Shape<Ours>::type, typename Shape<Vendors>::type>;

static_assert(same<decltype(Api::version), decltype(&nvrtcVersion)>);
static_assert(same<decltype(Api::get_error_string), decltype(&nvrtcGetErrorString)>);
static_assert(same<decltype(Api::get_num_supported_archs), decltype(&nvrtcGetNumSupportedArchs)>);
static_assert(same<decltype(Api::get_supported_archs), decltype(&nvrtcGetSupportedArchs)>);
static_assert(same<decltype(Api::create_program), decltype(&nvrtcCreateProgram)>);
static_assert(same<decltype(Api::destroy_program), decltype(&nvrtcDestroyProgram)>);
static_assert(same<decltype(Api::compile_program), decltype(&nvrtcCompileProgram)>);
static_assert(same<decltype(Api::get_ptx_size), decltype(&nvrtcGetPTXSize)>);
static_assert(same<decltype(Api::get_ptx), decltype(&nvrtcGetPTX)>);
static_assert(same<decltype(Api::get_cubin_size), decltype(&nvrtcGetCUBINSize)>);
static_assert(same<decltype(Api::get_cubin), decltype(&nvrtcGetCUBIN)>);
static_assert(same<decltype(Api::get_program_log_size), decltype(&nvrtcGetProgramLogSize)>);
static_assert(same<decltype(Api::get_program_log), decltype(&nvrtcGetProgramLog)>);
static_assert(same<decltype(Api::add_name_expression), decltype(&nvrtcAddNameExpression)>);
static_assert(same<decltype(Api::get_lowered_name), decltype(&nvrtcGetLoweredName)>);
static_assert(static_cast<int>(success) == NVRTC_SUCCESS);
static_assert(static_cast<int>(error_invalid_option) == NVRTC_ERROR_INVALID_OPTION);
static_assert(static_cast<int>(error_compilation) == NVRTC_ERROR_COMPILATION);
static_assert(static_cast<int>(error_builtin_operation_failure) == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE);
static_assert(static_cast<int>(error_name_expression_not_valid) == NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID);

}  // namespace rondo::rtc::nvrtc
#endif

namespace rondo::rtc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Nvrtc : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      compiler_ = make_nvrtc_compiler();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  CompileRequest request(std::string source, std::vector<std::string> entries,
                         std::string architecture = "sm_90") const {
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

TEST_F(Nvrtc, MakesACubinWithTheLoweredNames) {
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
  EXPECT_TRUE(find_elf_symbol(binary.code, "_Z5scaleIfEvPT_"));
}

TEST_F(Nvrtc, GivesPtxForAGpuThatIsNewer) {
  const Binary binary = compiler_->compile(request("__global__ void k(const int* p) {}", {"k"}, "sm_9990"));
  const std::string text(reinterpret_cast<const char*>(binary.code.data()), binary.code.size());
  EXPECT_THAT(text, HasSubstr(".entry " + binary.entries[0].lowered));
  EXPECT_EQ(text.back(), '\0');
  ASSERT_EQ(binary.entries[0].parameters.size(), 1u);
  EXPECT_TRUE(binary.entries[0].parameters[0].is_const);
}

TEST_F(Nvrtc, NamesBothVersionsForAGpuThatIsTooOld) {
  const std::string text =
      failure(request("__global__ void k() {}", {"k"}, "sm_20"), ErrorCode::missing_backend);
  EXPECT_THAT(text, HasSubstr("sm_20"));
  EXPECT_THAT(text, HasSubstr("NVRTC 1"));
  failure(request("__global__ void k() {}", {"k"}, "gfx90a"), ErrorCode::bad_argument);
  failure(request("__global__ void k() {}", {"k"}, ""), ErrorCode::bad_argument);
}

TEST_F(Nvrtc, PutsErrorsIntoTheUsersFile) {
  CompileRequest bad =
      request("#include \"part.h\"\n__global__ void k(int* p) {\n  *p = nothing_like_this;\n}\n", {"k"});
  bad.headers = {{"part.h", "#pragma once\n"}};
  std::string text = failure(bad);
  EXPECT_TRUE(text.starts_with("kernels/test.cu:3:")) << text;
  EXPECT_THAT(text, HasSubstr("nothing_like_this"));
  EXPECT_THAT(text, HasSubstr(compiler_->description()));
  bad.source = "#include \"part.h\"\n__global__ void k(int* p) {}\n";
  bad.headers[0].text = "\n\nint f( { }\n";
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

TEST_F(Nvrtc, GivesOneErrorForEachWrongEntry) {
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
  std::string parameters = "int p0";
  for (int i = 1; i < 65; ++i) parameters += ", int p" + std::to_string(i);
  EXPECT_THAT(failure(request("__global__ void k(" + parameters + ") {}", {"k"})),
              HasSubstr("at most 64 parameters"));
}

TEST_F(Nvrtc, DefinesAreTheSourcesAlone) {
  CompileRequest named = request("__global__ void k(int* p) { *p = B(T) + sizeof(N); }", {"k"});
  // Each of these is a name in what is put around the source.
  named.defines = {{"B(x)", "(x + 1)"}, {"T", "4"}, {"N", "\"text\""}, {"type", "5"}};
  EXPECT_EQ(compiler_->compile(named).log, "");
  named = request("__global__ void k() {}", {"k"});
  named.defines = {{"1x", "4"}};
  EXPECT_TRUE(failure(named).starts_with("kernels/test.cu: ")) << failure(named);
}

TEST_F(Nvrtc, SaysWhereItLooked) {
  setenv("RONDO_NVRTC_LIBRARY", "/nonexistent/libnvrtc.so", 1);
  try {
    make_nvrtc_compiler();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing_backend);
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/libnvrtc.so"));
  }
  unsetenv("RONDO_NVRTC_LIBRARY");
}

TEST_F(Nvrtc, CompilesSeveralProgramsAtOnce) {
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
