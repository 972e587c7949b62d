// The rules of libhiprtc's double.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "code_object.h"

namespace rondo::doubles::hip {
namespace {

using ::testing::HasSubstr;

using Program = void*;

// hiprtcResult.
constexpr int invalid_option = 5, compilation = 6, no_names_after = 8, no_names_before = 9, not_valid = 10;

template <class... Arguments>
int call(const char* name, Arguments... arguments) {
  static void* library = dlopen(HIPRTC_DOUBLE, RTLD_NOW | RTLD_LOCAL);
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  if (function == nullptr) ADD_FAILURE() << name;
  return function == nullptr ? -1 : function(arguments...);
}

class HiprtcDouble : public ::testing::Test {
 protected:
  void create(const char* source, std::vector<std::pair<const char*, const char*>> headers = {}) {
    std::vector<const char*> texts, names;
    for (const auto& [name, text] : headers) texts.push_back(text), names.push_back(name);
    ASSERT_EQ(
        call("hiprtcCreateProgram", &program_, source, "kernel.cu", static_cast<int>(texts.size()),
             static_cast<const char* const*>(texts.data()), static_cast<const char* const*>(names.data())),
        0);
  }
  void TearDown() override {
    if (program_ == nullptr) return;
    EXPECT_EQ(call("hiprtcDestroyProgram", &program_), 0);
  }
  int compile(const std::vector<const char*>& options) {
    return call("hiprtcCompileProgram", program_, static_cast<int>(options.size()),
                static_cast<const char* const*>(options.data()));
  }
  std::string log() {
    std::size_t size = 0;
    EXPECT_EQ(call("hiprtcGetProgramLogSize", program_, &size), 0);
    std::string text(size, '?');
    EXPECT_EQ(call("hiprtcGetProgramLog", program_, text.data()), 0);
    EXPECT_EQ(text.back(), '\0');
    return text;
  }
  std::vector<std::byte> code() {
    std::size_t size = 0;
    EXPECT_EQ(call("hiprtcGetCodeSize", program_, &size), 0);
    std::vector<std::byte> bytes(size);
    EXPECT_EQ(call("hiprtcGetCode", program_, reinterpret_cast<char*>(bytes.data())), 0);
    return bytes;
  }

  Program program_ = nullptr;
};

constexpr const char* source =
    "#include \"factor.h\"\n"
    "template <class T> __global__ void scale(T* x, int n) {\n"
    "  for (int i = 0; i < n; ++i) x[i] *= FACTOR * SIGN;\n"
    "}\n";

TEST_F(HiprtcDouble, CompilesWithHeadersDefinesAndNames) {
  create(source, {{"factor.h", "#define FACTOR 2"}});
  const char* lowered = nullptr;
  ASSERT_EQ(call("hiprtcAddNameExpression", program_, "scale<float>"), 0);
  EXPECT_EQ(call("hiprtcGetLoweredName", program_, "scale<float>", &lowered), no_names_before);
  ASSERT_EQ(
      compile({"--offload-arch=gfx90a:xnack-", "-DSIGN=-1", "-std=c++17", "-O0", "-ffast-math", "-I/tmp"}), 0)
      << log();
  EXPECT_GT(log().size(), 1u);
  ASSERT_EQ(call("hiprtcGetLoweredName", program_, "scale<float>", &lowered), 0);
  EXPECT_STRNE(lowered, "");
  EXPECT_EQ(call("hiprtcGetLoweredName", program_, "scale<double>", &lowered), not_valid);
  EXPECT_EQ(call("hiprtcAddNameExpression", program_, "scale<double>"), no_names_after);
  const std::vector<std::byte> made = code();
  EXPECT_EQ(architecture_of(made), "gfx90a:xnack-");
  EXPECT_EQ(whole_file(made.data()).size(), made.size());
}

TEST_F(HiprtcDouble, SaysWhyItDoesNotCompile) {
  create("__global__ void broken() { nonsense; }");
  ASSERT_EQ(call("hiprtcAddNameExpression", program_, "broken"), 0);
  EXPECT_EQ(compile({"--offload-arch=gfx906"}), compilation);
  EXPECT_THAT(log(), HasSubstr("nonsense"));
}

TEST_F(HiprtcDouble, RefusesWhatHiprtcRefuses) {
  create("__global__ void nothing() {}");
  for (const char* option : {"--use_fast_math", "--fmad=false", "-G"}) {
    EXPECT_EQ(compile({option}), invalid_option);
    EXPECT_THAT(log(), HasSubstr(option));
  }
  EXPECT_EQ(compile({"--offload-arch=gfx90a", "--gpu-architecture=gfx90a"}), invalid_option);
}

TEST_F(HiprtcDouble, AnUnknownOptionIsAWarning) {
  create("__global__ void nothing() {}");
  ASSERT_EQ(call("hiprtcAddNameExpression", program_, "nothing"), 0);
  EXPECT_EQ(compile({"--no-such-option"}), 0);
  EXPECT_THAT(log(), HasSubstr("--no-such-option"));
}

TEST_F(HiprtcDouble, AnUnknownArchitectureEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  create("__global__ void nothing() {}");
  for (const char* option :
       {"--offload-arch=gfx9999", "--gpu-architecture=sm_90", "--offload-arch=gfx1030:xnack+"}) {
    EXPECT_DEATH(compile({option}), "ends the process");
  }
}

TEST_F(HiprtcDouble, ComgrListsTheArchitectures) {
  std::size_t count = 0;
  ASSERT_EQ(call("amd_comgr_get_isa_count", &count), 0);
  std::set<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    ASSERT_EQ(call("amd_comgr_get_isa_name", i, &name), 0);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), count);
  for (const char* architecture : {"gfx906", "gfx90a", "gfx942", "gfx1030", "gfx1100"}) {
    EXPECT_EQ(names.count(std::string("amdgcn-amd-amdhsa--") + architecture), 1u) << architecture;
  }
  const char* name = nullptr;
  EXPECT_NE(call("amd_comgr_get_isa_name", count, &name), 0);
}

TEST_F(HiprtcDouble, StaleProgramsAreRefused) {
  create("__global__ void nothing() {}");
  const Program stale = program_;
  ASSERT_EQ(call("hiprtcDestroyProgram", &program_), 0);
  program_ = nullptr;
  EXPECT_EQ(call("hiprtcAddNameExpression", stale, "nothing"), 4);
}

}  // namespace
}  // namespace rondo::doubles::hip
