// What kernels/portable.cuh offers: that it compiles without a word with every compiler, and what it does on
// the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "amd_code_object.h"
#include "compiler.h"
#include "kernel_file.h"
#include "rondo/data_type.h"
#include "rondo/error.h"

namespace rondo {
namespace {

const char* const source = R"(
#include "portable.cuh"

// Values move within a warp by any pattern.
template <typename T>
__global__ void shuffles(const T* in, T* out) {
  const int lane = rondo_lane(), i = static_cast<int>(threadIdx.x);
  T value = rondo_shuffle(in[i], (lane + 1) % rondo_warp_size);
  value = rondo_shuffle_xor(value, 1);
  if (lane + 2 < rondo_warp_size) value = rondo_shuffle_down(value, 2);
  value = rondo_shuffle_up(value, 1);
  rondo_sync_warp();
  out[i] = value;
}
__global__ void votes(const int* in, int* any, int* all, unsigned long long* ballot) {
  const int i = static_cast<int>(threadIdx.x);
  any[i] = rondo_any(in[i] > 0);
  all[i] = rondo_all(in[i] > 0);
  ballot[i] = rondo_ballot(in[i] > 0);
}
template <typename T>
__global__ void convert(int n, const float* in, T* out, float* back) {
  rondo_for_threads(n, [&](int i) {
    out[i] = rondo_from_float<T>(in[i]);
    back[i] = rondo_to_float(out[i]);
  });
}
__global__ void dot4(const int* a, const int* b, int* out) { *out = rondo_dot4(*a, *b, *out); }
__global__ void infinity(float* out) { *out = -rondo_infinity(); }
template <int size>
__global__ void warp(int* out) { *out = size; }

// Kahan's sum.
template <typename T>
__global__ void compensated(int n, const T* in, T* out) {
  T sum = 0, lost = 0;
  for (int i = 0; i < n; ++i) {
    const T term = rondo_subtract(in[i], lost);
    const T next = rondo_add(sum, term);
    lost = rondo_subtract(rondo_subtract(next, sum), term);
    sum = next;
  }
  *out = sum;
}
// TwoSum and TwoProduct: the rounding errors of a + b and a * b.
template <typename T>
__global__ void errors(int n, const T* a, const T* b, T* sum_errors, T* product_errors) {
  rondo_for_threads(n, [&](int i) {
    const T sum = rondo_add(a[i], b[i]), part = rondo_subtract(sum, a[i]);
    sum_errors[i] = rondo_add(rondo_subtract(a[i], rondo_subtract(sum, part)), rondo_subtract(b[i], part));
    product_errors[i] = fma(a[i], b[i], -rondo_multiply(a[i], b[i]));
  });
}
)";

const std::vector<std::string> entries = {"shuffles<float>",
                                          "shuffles<double>",
                                          "shuffles<__half>",
                                          "shuffles<rondo_bf16>",
                                          "shuffles<long long>",
                                          "votes",
                                          "convert<float>",
                                          "convert<__half>",
                                          "convert<rondo_bf16>",
                                          "dot4",
                                          "infinity",
                                          "warp<rondo_warp_size>",
                                          "compensated<float>",
                                          "errors<float>",
                                          "compensated<double>"};

KernelFile& file() {
  static KernelFile file("portable_test.cu", entries, source);
  return file;
}

class Portable : public ::testing::TestWithParam<const char*> {};

TEST_P(Portable, CompilesWithoutAWord) {
  rtc::CompileRequest request;
  request.file = "portable_test.cu";
  request.source = source;
  request.headers = rtc::collect_headers(request.file, request.source);
  request.entries = entries;
  request.architecture = GetParam();
  const bool is_amd = request.architecture.starts_with("gfx");
  std::shared_ptr<rtc::Compiler> compiler;
  try {
    compiler = is_amd ? rtc::make_hiprtc_compiler() : rtc::make_nvrtc_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const rtc::Binary binary = compiler->compile(request);
  EXPECT_EQ(binary.log, "");
  EXPECT_EQ(binary.entries[8].parameters[2].type, DataType::bf16);
  // What the header takes for the size of a warp is what the kernel was compiled for.
  std::string size = "32";
  if (is_amd) {
    const rtc::AmdCodeObject object = rtc::read_amd_code_object(binary.code);
    size = std::to_string(object.find(binary.entries[11].lowered)->wavefront_size);
  }
  EXPECT_EQ(binary.entries[11].lowered, "_Z4warpILi" + size + "EEvPi");
}

INSTANTIATE_TEST_SUITE_P(Architectures, Portable,
                         ::testing::Values("sm_75", "sm_90", "gfx803", "gfx906", "gfx90a", "gfx1010",
                                           "gfx1030"),
                         [](const auto& test) { return std::string(test.param); });

// With warps of one thread a value comes from the thread itself.
TEST(PortableOnHost, ShufflesKeepEveryBit) {
  std::array<double, 4> in = {1.5, -0.0, 1e300, 3.0}, out{};
  file().launch("shuffles<double>", 1, 4, 0, in.data(), out.data());
  EXPECT_EQ(std::memcmp(in.data(), out.data(), sizeof in), 0);
  std::array<std::uint16_t, 4> halves = {1, 0x7c00, 0x8000, 0xfe01}, moved{};
  file().launch("shuffles<__half>", 1, 4, 0, halves.data(), moved.data());
  EXPECT_EQ(moved, halves);
  moved = {};
  file().launch("shuffles<rondo_bf16>", 1, 4, 0, halves.data(), moved.data());
  EXPECT_EQ(moved, halves);
}

TEST(PortableOnHost, VotesAreTheThreadsOwn) {
  const std::array<int, 3> in = {1, 0, 5};
  std::array<int, 3> any{7, 7, 7}, all{7, 7, 7};
  std::array<unsigned long long, 3> ballot{7, 7, 7};
  file().launch("votes", 1, 3, 0, in.data(), any.data(), all.data(), ballot.data());
  EXPECT_THAT(any, ::testing::ElementsAre(1, 0, 1));
  EXPECT_EQ(all, any);
  EXPECT_THAT(ballot, ::testing::ElementsAre(1, 0, 1));
}

// The library's own conversions are what schedules fill buffers with.
TEST(PortableOnHost, ConversionsRoundToNearestEven) {
  std::mt19937 random(std::random_device{}());
  std::vector<float> in = {0.0f,        -0.0f,    1.0f,  1.00390625f,
                           1.01171875f, 65504.0f, 1e30f, std::numeric_limits<float>::infinity(),
                           6e-8f,       1e-40f};
  for (int i = 0; i < 5000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isnan(value)) in.push_back(value);
  }
  const int n = static_cast<int>(in.size());
  for (const auto& [entry, type] :
       {std::pair{"convert<__half>", DataType::f16}, std::pair{"convert<rondo_bf16>", DataType::bf16}}) {
    std::vector<std::uint16_t> out(in.size(), 0xffff);
    std::vector<float> back(in.size(), std::numeric_limits<float>::quiet_NaN());
    file().launch(entry, 1, 1, 0, n, in.data(), out.data(), back.data());
    for (std::size_t i = 0; i < in.size(); ++i) {
      std::uint16_t expected = 0;
      store_float(type, in[i], &expected);
      ASSERT_EQ(out[i], expected) << entry << " of " << in[i];
      ASSERT_EQ(static_cast<double>(back[i]), load_as_double(type, &out[i])) << entry << " of " << in[i];
    }
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::uint16_t out = 0;
  float back = 0;
  file().launch("convert<rondo_bf16>", 1, 1, 0, 1, &nan, &out, &back);
  EXPECT_TRUE(std::isnan(back));
}

TEST(PortableOnHost, Dot4TakesSignedBytes) {
  const int a = static_cast<int>(0x80ff7f01u), b = static_cast<int>(0x02037f05u);
  int out = 1000;
  file().launch("dot4", 1, 1, 0, &a, &b, &out);
  EXPECT_EQ(out, 1000 + 1 * 5 + 127 * 127 + -1 * 3 + -128 * 2);
}

TEST(PortableOnHost, HasAnInfinity) {
  float out = 0;
  file().launch("infinity", 1, 1, 0, &out);
  EXPECT_EQ(out, -std::numeric_limits<float>::infinity());
}

// The host's compiler may reorder sums, which undoes all of these where it is not told otherwise.
TEST(PortableOnHost, CompensatedSumsKeepWhatRoundingLoses) {
  std::mt19937 random(std::random_device{}());
  std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
  std::vector<float> in(1 << 20);
  for (float& value : in) value = uniform(random);
  double expected = 0;
  for (const float value : in) expected += static_cast<double>(value);
  float out = 0;
  file().launch("compensated<float>", 1, 1, 0, static_cast<int>(in.size()), in.data(), &out);
  EXPECT_NEAR(out, expected, expected * 1.2e-7);

  // Of which a plain sum keeps nothing.
  std::vector<double> small(1000, 1e-17);
  small[0] = 1.0;
  double sum = 0;
  file().launch("compensated<double>", 1, 1, 0, 1000, small.data(), &sum);
  EXPECT_EQ(sum, 1.0 + 999e-17);
  EXPECT_GT(sum, 1.0);
}

TEST(PortableOnHost, ErrorsOfSumsAndProductsAreExact) {
  std::mt19937 random(std::random_device{}());
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  const int n = 1000;
  std::vector<float> a(n), b(n), sums(n, 9.0f), products(n, 9.0f);
  for (int i = 0; i < n; ++i) a[i] = uniform(random), b[i] = uniform(random) * 1e-3f;
  file().launch("errors<float>", 1, 1, 0, n, a.data(), b.data(), sums.data(), products.data());
  int inexact = 0;
  for (int i = 0; i < n; ++i) {
    const double x = a[i], y = b[i];
    ASSERT_EQ(static_cast<double>(sums[i]), x + y - static_cast<double>(a[i] + b[i])) << i;
    ASSERT_EQ(static_cast<double>(products[i]), x * y - static_cast<double>(a[i] * b[i])) << i;
    inexact += sums[i] != 0.0f;
  }
  EXPECT_GT(inexact, n / 2);
}

}  // namespace
}  // namespace rondo
