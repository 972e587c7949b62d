#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "compiler.h"
#include "dynamic_library.h"
#include "host_kernel_abi.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CompileRequest request(std::string source, std::vector<std::string> entries) {
  CompileRequest result;
  result.file = "kernels/test.cu";
  result.source = std::move(source);
  result.entries = std::move(entries);
  result.architecture = "test";
  return result;
}

// A compiled binary, opened; blocks without barriers are run on the caller's stack.
class Loaded {
 public:
  explicit Loaded(const Binary& binary) : binary_(binary) {
    std::string name = (std::filesystem::temp_directory_path() / "rondo-test-XXXXXX").string();
    const int file = mkstemp(name.data());
    EXPECT_EQ(write(file, binary.code.data(), binary.code.size()), static_cast<ssize_t>(binary.code.size()));
    close(file);
    std::string problem;
    library_ = DynamicLibrary::open(name, problem);
    EXPECT_EQ(problem, "");
    unlink(name.c_str());
  }

  rondo_host_entry entry(std::size_t i) const {
    return library_.function<void(rondo_host_block*, const unsigned char*)>(
        binary_.entries.at(i).lowered.c_str());
  }
  const rondo_host_layout& layout(std::size_t i) const {
    return *static_cast<const rondo_host_layout*>(
        library_.symbol((binary_.entries.at(i).lowered + "_layout").c_str()));
  }

  template <class... Arguments>
  void run(std::size_t i, rondo_host_dim3 grid, rondo_host_dim3 block, Arguments... arguments) const {
    std::vector<unsigned char> packed(binary_.entries.at(i).argument_bytes());
    const std::vector<std::size_t> offsets = binary_.entries.at(i).offsets();
    ASSERT_EQ(offsets.size(), sizeof...(arguments));
    std::size_t at = 0;
    (std::memcpy(packed.data() + offsets[at++], &arguments, sizeof arguments), ...);
    alignas(128) static unsigned char shared[1024];
    for (unsigned z = 0; z < grid.z; ++z) {
      for (unsigned y = 0; y < grid.y; ++y) {
        for (unsigned x = 0; x < grid.x; ++x) {
          rondo_host_block state{{0, 0, 0}, {x, y, z}, block, grid, 0, block.x * block.y * block.z,
                                 shared,    nullptr};
          entry(i)(&state, packed.data());
          EXPECT_EQ(state.next_thread, state.thread_count);
        }
      }
    }
  }

 private:
  Binary binary_;
  DynamicLibrary library_;
};

std::string failure(const CompileRequest& bad, ErrorCode code = ErrorCode::bad_schedule) {
  try {
    make_host_compiler()->compile(bad);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "compiled";
  return "";
}

const char* const saxpy = R"(
template <class T>
__global__ void saxpy(int n, T a, const T* __restrict__ x, T* __restrict__ y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += a * x[i];
}
)";

TEST(HostCompiler, RunsATemplateEntryInBlocksOfOneAndOfMany) {
  const Binary binary = make_host_compiler()->compile(request(saxpy, {"saxpy<float>", "saxpy<double>"}));
  EXPECT_EQ(binary.log, "");
  EXPECT_FALSE(binary.from_cache);
  const Loaded loaded(binary);
  std::mt19937 random(std::random_device{}());
  std::normal_distribution<float> normal;
  std::vector<float> x(1000), start(1000);
  for (float& value : x) value = normal(random);
  for (float& value : start) value = normal(random);
  for (const rondo_host_dim3 block : {rondo_host_dim3{1, 1, 1}, rondo_host_dim3{256, 1, 1}}) {
    std::vector<float> y = start;
    loaded.run(0, {3, 1, 1}, block, 1000, 2.5f, x.data(), y.data());
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double reference = double{start[i]} + 2.5 * double{x[i]};
      difference += (y[i] - reference) * (y[i] - reference);
      norm += reference * reference;
    }
    EXPECT_LT(std::sqrt(difference / norm), 1e-6);
  }
}

TEST(HostCompiler, GivesThreadsAndBlocksTheirIndices) {
  const Loaded loaded(make_host_compiler()->compile(request(R"(
namespace space {
extern "C" __global__ void __launch_bounds__(24) where(unsigned* out) {
  const dim3 t = threadIdx, b = blockIdx;
  const unsigned thread = (t.z * blockDim.y + t.y) * blockDim.x + t.x;
  const unsigned block = (b.z * gridDim.y + b.y) * gridDim.x + b.x;
  unsigned* mine = out + (block * blockDim.x * blockDim.y * blockDim.z + thread) * 6;
  mine[0] = t.x, mine[1] = t.y, mine[2] = t.z, mine[3] = b.x, mine[4] = b.y, mine[5] = b.z;
}
})",
                                                            {"space::where"})));
  const unsigned bx = 2, by = 3, bz = 4, gx = 2, gy = 2, gz = 3;
  std::vector<unsigned> out(bx * by * bz * gx * gy * gz * 6, 77);
  loaded.run(0, {gx, gy, gz}, {bx, by, bz}, out.data());
  std::vector<unsigned> expected;
  for (unsigned k = 0; k < gz; ++k)
    for (unsigned j = 0; j < gy; ++j)
      for (unsigned i = 0; i < gx; ++i)
        for (unsigned z = 0; z < bz; ++z)
          for (unsigned y = 0; y < by; ++y)
            for (unsigned x = 0; x < bx; ++x) expected.insert(expected.end(), {x, y, z, i, j, k});
  EXPECT_EQ(out, expected);
}

TEST(HostCompiler, ConvertsHalfTypesAsTheHardwareDoes) {
  const Loaded loaded(make_host_compiler()->compile(request(R"(
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void widen(const __half* h, const __nv_bfloat16* b, float* from_half, float* from_bfloat16) {
  for (int i = 0; i < 65536; ++i) from_half[i] = __half2float(h[i]), from_bfloat16[i] = __bfloat162float(b[i]);
}
__global__ void narrow(int n, const float* from, __half* h, __nv_bfloat16* b) {
  for (int i = 0; i < n; ++i) h[i] = __float2half(from[i]), b[i] = __float2bfloat16(from[i]);
})",
                                                            {"widen", "narrow"})));
  std::vector<std::uint16_t> all(65536), half(65536), bfloat16(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> from_half(65536, 1e30f), from_bfloat16(65536, 1e30f);
  loaded.run(0, {1, 1, 1}, {1, 1, 1}, all.data(), all.data(), from_half.data(), from_bfloat16.data());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31), mantissa = static_cast<int>(i & 1023);
    double expected = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) expected = mantissa ? NAN : INFINITY;
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(from_half[i])) << i;
    } else {
      EXPECT_EQ(from_half[i], static_cast<float>(i & 0x8000 ? -expected : expected)) << i;
      EXPECT_EQ(std::signbit(from_half[i]), (i & 0x8000) != 0) << i;
    }
    const std::uint32_t bits = static_cast<std::uint32_t>(i) << 16;
    EXPECT_EQ(std::memcmp(&from_bfloat16[i], &bits, 4), 0) << i;
  }
  loaded.run(1, {1, 1, 1}, {1, 1, 1}, 65536, from_half.data(), half.data(), bfloat16.data());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(from_half[i]))
      EXPECT_GT(half[i] & 0x7fff, 0x7c00) << i;
    else
      EXPECT_EQ(half[i], i);
  }
  // Halfway values go to the even neighbour; what exceeds the largest half by half a step becomes infinite.
  const std::vector<float> edges = {
      1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, 0x1p-25f, 3 * 0x1p-25f, 65519.0f, 65520.0f, -0.0f, 1e30f};
  const std::vector<std::uint16_t> rounded = {0x3c00, 0x3c02, 0x0000, 0x0002, 0x7bff, 0x7c00, 0x8000, 0x7c00};
  loaded.run(1, {1, 1, 1}, {1, 1, 1}, 8, edges.data(), half.data(), bfloat16.data());
  EXPECT_EQ(std::vector<std::uint16_t>(half.begin(), half.begin() + 8), rounded);
  const std::vector<float> bedges = {1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, 3.4e38f};
  loaded.run(1, {1, 1, 1}, {1, 1, 1}, 3, bedges.data(), half.data(), bfloat16.data());
  EXPECT_EQ(bfloat16[0], 0x3f80);
  EXPECT_EQ(bfloat16[1], 0x3f82);
  EXPECT_EQ(bfloat16[2], 0x7f80);
}

// Barriers: a barrier that runs the remaining threads when the first one arrives, so a kernel with one
// barrier runs in order.
TEST(HostCompiler, KeepsAThreadsIndexAcrossABarrier) {
  const Binary binary = make_host_compiler()->compile(request(R"(
__global__ void reverse(float* data) {
  __shared__ float tile[64];
  tile[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x] + 100 * blockIdx.x;
})",
                                                              {"reverse"}));
  const Loaded loaded(binary);
  std::vector<float> data = {1, 2, 3, 4};
  float* pointer = data.data();
  static rondo_host_entry entry;
  static const unsigned char* arguments;
  entry = loaded.entry(0);
  arguments = reinterpret_cast<const unsigned char*>(&pointer);
  rondo_host_block block{{0, 0, 0}, {1, 0, 0}, {4, 1, 1}, {2, 1, 1}, 0, 4, nullptr, nullptr};
  // Nested calls: threads 1, 2, 3 start inside the barrier of the one before; all have written once the last
  // arrives.
  block.barrier = [](rondo_host_block* self) { entry(self, arguments); };
  entry(&block, arguments);
  EXPECT_THAT(data, ::testing::ElementsAre(104, 103, 102, 101));
}

TEST(HostCompiler, PacksParametersByTheRulesOfC) {
  const Binary binary = make_host_compiler()->compile(request(R"(
struct pair { char tag; double value; };
__global__ void mix(char c, double d, bool b, pair p, short s, float4 v, const void* q, double* out) {
  out[0] = c, out[1] = d, out[2] = b, out[3] = p.tag, out[4] = p.value, out[5] = s, out[6] = v.w, out[7] = q == out;
}
__global__ void nothing() {})",
                                                              {"mix", "nothing"}));
  struct Mix {
    char c;
    double d;
    bool b;
    struct {
      char tag;
      double value;
    } p;
    short s;
    struct alignas(16) {
      float x, y, z, w;
    } v;
    const void* q;
    double* out;
  };
  const std::vector<std::size_t> expected = {offsetof(Mix, c), offsetof(Mix, d),  offsetof(Mix, b),
                                             offsetof(Mix, p), offsetof(Mix, s),  offsetof(Mix, v),
                                             offsetof(Mix, q), offsetof(Mix, out)};
  EXPECT_EQ(binary.entries[0].offsets(), expected);
  EXPECT_EQ(binary.entries[0].argument_bytes(), offsetof(Mix, out) + 8);
  EXPECT_EQ(binary.entries[1].argument_bytes(), 0u);
  const Loaded loaded(binary);
  ASSERT_EQ(loaded.layout(0).count, 8u);
  EXPECT_EQ(loaded.layout(1).count, 0u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(loaded.layout(0).parameters[i].offset, expected[i]);
  std::vector<double> out(8, -1);
  const Mix mix{'a', 2.5, true, {'b', 3.5}, -7, {1, 2, 3, 4.5f}, out.data(), out.data()};
  for (const unsigned threads : {1u, 2u}) {
    rondo_host_block block{{0, 0, 0}, {0, 0, 0}, {threads, 1, 1}, {1, 1, 1}, 0, threads, nullptr, nullptr};
    loaded.entry(0)(&block, reinterpret_cast<const unsigned char*>(&mix));
    EXPECT_THAT(out, ::testing::ElementsAre('a', 2.5, 1, 'b', 3.5, -7, 4.5, 1));
    out.assign(8, -1);
  }
}

TEST(HostCompiler, HasCudasVocabulary) {
  const Binary binary = make_host_compiler()->compile(request(R"(
__constant__ float table[4] = {1, 2, 3, 4};
struct __align__(16) aligned { int x; };
static __device__ __forceinline__ float helper(float v) { return rsqrtf(v) + __expf(0.0f) + __fdividef(v, 2) + fmaxf(v, 1) + sqrt(v); }
__global__ void words(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
  __shared__ unsigned count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1u);
  f[0] = helper(4.0f) + table[1] + __ldg(f + 1) + warpSize;
  f[2] = __shfl_xor_sync(0xffffffffu, 5.0f, 1) + __shfl_down_sync(1u, 2.0f, 16);
  atomicAdd(f + 3, 1.5f), atomicAdd(d, 2.5), atomicExch(f + 4, 9.0f);
  i[0] = atomicMax(i + 1, 7) + atomicMin(i + 2, -7) + atomicCAS(i + 3, 1, 2) + atomicExch(i + 4, 3);
  u[0] = atomicOr(u + 1, 6u) + atomicAnd(u + 2, 6u) + __popc(255u) + __clz(1) + __ffs(8) + count;
  l[0] = atomicAdd(l + 1, 1ull) + min(3, 4) + max(5u, 2u) + static_cast<unsigned>(min(2.5f, 1.0f));
  const dim3 one(2);
  const float4 v = make_float4(1, 2, 3, 4);
  u[3] = one.x + one.y + static_cast<unsigned>(v.w) + __syncthreads_or(1) + __syncthreads_and(0) + __syncthreads_count(5);
  __half h = 2.0f; h += __half(0.5f);
  f[5] = __half2float(h) + __dp4a(0x01020304, 0x01010101, 0);
  __threadfence(); __syncwarp();
})",
                                                              {"words"}));
  EXPECT_EQ(binary.log, "");
  std::vector<int> i = {0, 1, 1, 1, 1};
  std::vector<unsigned> u = {0, 1, 7, 0};
  std::vector<unsigned long long> l = {0, 41};
  std::vector<float> f = {0, 10, 0, 1, 1, 0};
  double d = 1;
  Loaded(binary).run(0, {1, 1, 1}, {1, 1, 1}, i.data(), u.data(), l.data(), f.data(), &d);
  EXPECT_THAT(i, ::testing::ElementsAre(4, 7, -7, 2, 3));
  EXPECT_THAT(u, ::testing::ElementsAre(1 + 7 + 8 + 31 + 4 + 1, 7, 6, 2 + 1 + 4 + 1 + 0 + 1));
  EXPECT_THAT(l, ::testing::ElementsAre(41 + 3 + 5 + 1, 42));
  EXPECT_THAT(f, ::testing::ElementsAre(0.5f + 1 + 2 + 4 + 2 + 2 + 10 + 1, 10, 7, 2.5f, 9, 12.5f));
  EXPECT_EQ(d, 3.5);
}

TEST(HostCompiler, PutsErrorsIntoTheUsersFile) {
  CompileRequest bad =
      request("#include \"lib/part.h\"\n__global__ void k(int* p) {\n  *p = nothing_like_this;\n}\n", {"k"});
  bad.headers = {{"lib/part.h", "#pragma once\n#include \"../up.h\"\n"},
                 {"../up.h", "inline int f() { return 1; }\n"}};
  const std::string text = failure(bad);
  EXPECT_TRUE(text.starts_with("kernels/test.cu:3:")) << text;
  EXPECT_THAT(text, HasSubstr("nothing_like_this"));
  bad.source = "#include \"lib/part.h\"\n__global__ void k(int* p) {}\n";
  bad.headers[1].text = "\n\nint f( { }\n";
  EXPECT_TRUE(failure(bad).starts_with("../up.h:3:")) << failure(bad);
  EXPECT_THAT(failure(bad), Not(HasSubstr("/rondo-")));
  bad.headers.pop_back();
  EXPECT_THAT(failure(bad), HasSubstr("up.h"));
}

TEST(HostCompiler, KeepsWarningsInTheLog) {
  const Binary binary = make_host_compiler()->compile(
      request("__global__ void k(int* p) {\n#warning careful\n *p = 1; }", {"k"}));
  EXPECT_THAT(binary.log, HasSubstr("kernels/test.cu:2:"));
}

TEST(HostCompiler, GivesOneErrorForEachWrongEntry) {
  const char* source = R"(
template <class T> __global__ void one(T* p) { *p = 1; }
__global__ void two(int* p) {}
__global__ void two(float* p) {}
void plain(int* p) {}
__global__ int three(int* p) { return 0; }
__global__ void four(int& p) { p = 1; }
struct owner { ~owner() {} };
__global__ void five(owner p) {}
int value = 5;
)";
  for (const char* entry :
       {"nosuch<float>", "one<nosuch>", "one", "two", "plain", "three", "four", "five", "value"}) {
    const std::string text = failure(request(source, {"one<int>", entry}));
    EXPECT_TRUE(text.starts_with(std::string("kernels/test.cu: entry \"") + entry + "\"")) << text;
    EXPECT_THAT(text, Not(HasSubstr("\n"))) << text;
  }
  EXPECT_THAT(failure(request(source, {"nosuch", "three"})), HasSubstr("\nkernels/test.cu: entry \"three\""));
  for (const char* entry : {"", "one<int>); int x(", "one<int>;", "a\nb", "a//", "{}", "<int>"}) {
    EXPECT_THAT(failure(request(source, {entry})), HasSubstr("expected an entry that names a kernel"))
        << entry;
  }
}

TEST(HostCompiler, TakesKernelsThatMacrosMake) {
  CompileRequest made =
      request("#define KERNEL(name) \\\n  __global__ void name##_kernel(int* p) { *p = 1; }\nKERNEL(one)\n",
              {"one_kernel"});
  EXPECT_EQ(make_host_compiler()->compile(made).entries.size(), 1u);
  made.source = "GLOBAL two(int* p) { *p = 1; }\n";
  made.entries = {"two"};
  made.defines = {{"GLOBAL", "__global__ void"}};
  EXPECT_EQ(make_host_compiler()->compile(made).entries.size(), 1u);
}

TEST(HostCompiler, RefusesMoreThan64Parameters) {
  std::string parameters = "int p0";
  for (int i = 1; i < 65; ++i) parameters += ", int p" + std::to_string(i);
  EXPECT_THAT(failure(request("__global__ void k(" + parameters + ") {}", {"k"})),
              HasSubstr("at most 64 parameters"));
  parameters.resize(parameters.rfind(','));
  EXPECT_EQ(make_host_compiler()
                ->compile(request("__global__ void k(" + parameters + ") {}", {"k"}))
                .entries[0]
                .parameters.size(),
            64u);
}

TEST(HostCompiler, SaysWhatToUseForExternShared) {
  EXPECT_THAT(failure(request(
                  "__global__ void k(float* p) {\n  extern __shared__ float s[];\n  *p = s[0];\n}", {"k"})),
              HasSubstr("rondo_dynamic_shared<T>()"));
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* old = std::getenv(name);
    if (old) old_ = old;
    setenv(name, value, 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(HostCompiler, ExplainsAMissingCompiler) {
  const auto missing = [] {
    try {
      make_host_compiler();
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 3);
      return std::string(error.what());
    }
    return std::string("found one");
  };
  const Variable path("PATH", "/nonexistent");
  EXPECT_THAT(missing(), HasSubstr("none of c++, g++, clang++ is on PATH\n  apt-get install g++"));
  const Variable chosen("RONDO_HOST_CXX", "/dev/null");
  EXPECT_THAT(missing(), HasSubstr("RONDO_HOST_CXX is \"/dev/null\""));
}

TEST(HostCompiler, LeavesNothingBehind) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("rondo-left-" + std::to_string(getpid()));
  std::filesystem::create_directories(directory);
  {
    const Variable temporary("TMPDIR", directory.c_str());
    make_host_compiler()->compile(request(saxpy, {"saxpy<float>"}));
    failure(request(saxpy, {"nosuch"}));
    EXPECT_TRUE(std::filesystem::is_empty(directory));
    const Variable gone("TMPDIR", "/nonexistent");
    EXPECT_THAT(failure(request(saxpy, {"saxpy<float>"}), ErrorCode::run_time), HasSubstr("TMPDIR"));
  }
  std::filesystem::remove_all(directory);
}

TEST(HostCompiler, DefinesAreTheSourcesAlone) {
  CompileRequest named = request("__global__ void k(int* p) { *p = B(T) + sizeof(N); }", {"k"});
  // Each of these is a name in what is put around the source.
  named.defines = {{"B(x)", "(x + 1)"}, {"T", "4"}, {"N", "\"text\""}, {"type", "5"}};
  EXPECT_EQ(make_host_compiler()->compile(named).log, "");
  named = request("__global__ void k() {}", {"k"});
  named.defines = {{"1x", "4"}};
  EXPECT_THAT(failure(named), ::testing::StartsWith("kernels/test.cu: "));
}

TEST(HostCompiler, WorksWithClangWhereItIsInstalled) {
  const Variable chosen("RONDO_HOST_CXX", "clang++");
  std::shared_ptr<Compiler> compiler;
  try {
    compiler = make_host_compiler();
  } catch (const Error&) {
    GTEST_SKIP() << "no clang++";
  }
  const Binary binary = compiler->compile(request(saxpy, {"saxpy<float>", "saxpy<__half>"}));
  EXPECT_EQ(binary.log, "");
  std::vector<float> x = {1, 2, 3}, y = {1, 1, 1};
  Loaded(binary).run(0, {1, 1, 1}, {2, 1, 1}, 3, 2.0f, x.data(), y.data());
  EXPECT_THAT(y, ::testing::ElementsAre(3, 5, 7));
  EXPECT_THROW(
      compiler->compile(request("__global__ void k(float* p) { extern __shared__ float s[]; }", {"k"})),
      Error);
  EXPECT_NE(compiler->identity(), "");
}

}  // namespace
}  // namespace rondo::rtc
