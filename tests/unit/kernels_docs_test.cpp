// docs/kernels.md: its kernels compile with every compiler and do what it says, its schedules parse, and it
// names what the header offers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <regex>
#include <set>

#include "compiler.h"
#include "kernel_file.h"
#include "rondo/error.h"
#include "schedule.h"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float poison = std::numeric_limits<float>::quiet_NaN();

std::string read(const std::string& path) {
  std::ifstream stream(std::string(RONDO_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(stream) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> blocks(const std::string& language) {
  const std::string text = read("docs/kernels.md"), open = "\n```" + language + "\n", close = "\n```\n";
  std::vector<std::string> found;
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    found.push_back(text.substr(at, text.find(close, at) - at + 1));
  }
  return found;
}

struct Example {
  std::vector<std::string> entries;
  std::string source;
};

// In front of each stands <!-- entries: a; b -->.
std::vector<Example> examples() {
  const std::string text = read("docs/kernels.md"), mark = "<!-- entries: ";
  std::vector<Example> found;
  std::size_t at = 0;
  for (const std::string& source : blocks("cuda")) {
    Example example;
    example.source = source;
    at = text.find(mark, at) + mark.size();
    std::istringstream names(text.substr(at, text.find(" -->", at) - at));
    for (std::string name; std::getline(names, name, ';');)
      example.entries.push_back(name.substr(name.find_first_not_of(' ')));
    EXPECT_EQ(text.find("```cuda\n" + source, at), text.find("```cuda\n", at)) << source;
    found.push_back(std::move(example));
  }
  return found;
}

KernelFile& with(const std::string& entry) {
  static std::map<std::string, std::unique_ptr<KernelFile>> files;
  if (files.empty()) {
    std::size_t count = 0;
    for (const Example& example : examples()) {
      ++count;
      auto file = std::make_unique<KernelFile>("docs_" + std::to_string(count) + ".cu", example.entries,
                                               example.source);
      files[example.entries[0]] = std::move(file);
    }
  }
  return *files.at(entry);
}

std::vector<float> random_values(std::size_t count) {
  static std::mt19937 generator(std::random_device{}());
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(generator);
  return values;
}

class KernelsDocs : public ::testing::TestWithParam<const char*> {};

TEST_P(KernelsDocs, HaveExamplesThatCompile) {
  const std::string architecture = GetParam();
  std::shared_ptr<rtc::Compiler> compiler;
  try {
    compiler = architecture.starts_with("gfx") ? rtc::make_hiprtc_compiler() : rtc::make_nvrtc_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  ASSERT_GE(examples().size(), 5u);
  for (const Example& example : examples()) {
    rtc::CompileRequest request;
    request.file = "example.cu";
    request.source = example.source;
    request.headers = rtc::collect_headers(request.file, request.source);
    request.entries = example.entries;
    request.architecture = architecture;
    EXPECT_EQ(compiler->compile(request).log, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, KernelsDocs,
                         ::testing::Values("sm_75", "sm_90", "gfx906", "gfx90a", "gfx1030"),
                         [](const auto& test) { return std::string(test.param); });

TEST(KernelsDocsText, HaveSchedulesThatParse) {
  const std::vector<std::string> schedules = blocks("json");
  ASSERT_GE(schedules.size(), 2u);
  for (const std::string& members : schedules) {
    EXPECT_NO_THROW(
        Schedule::parse("{\"rondo\": 1, \"name\": \"example\",\n" + members + "}", "docs/kernels.md"))
        << members;
  }
}

// What is meant for the header itself is named after the host, or after the one word that it moves.
TEST(KernelsDocsText, NameWhatTheHeaderOffers) {
  const std::string text = read("docs/kernels.md"), header = read("kernels/portable.cuh");
  const std::set<std::string> internal = {"rondo_shuffle_by", "rondo_warp_mask",
                                          "rondo_dynamic_shared_bytes"};
  std::set<std::string> names;
  const std::regex name("\\brondo_\\w+");
  for (std::sregex_iterator at(header.begin(), header.end(), name), end; at != end; ++at)
    names.insert(at->str());
  EXPECT_GT(names.size(), 40u);
  for (const std::string& offered : names) {
    const bool is_internal = internal.contains(offered) || offered.starts_with("rondo_host_") ||
                             offered.starts_with("rondo_shuffle_word");
    if (!is_internal) {
      EXPECT_THAT(text, HasSubstr("`" + offered)) << offered;
    }
  }
}

TEST(KernelsDocsOnHost, ScaleScales) {
  const std::vector<float> x = {1.0f, -2.5f, 3.0f};
  std::vector<float> y(4, poison);
  y[3] = 9.0f;
  with("scale<float>").launch("scale<float>", 1, 4, 0, 3, 2.0f, x.data(), y.data());
  EXPECT_THAT(y, ElementsAre(2.0f, -5.0f, 6.0f, 9.0f));
  const std::vector<std::uint16_t> ones(3, 0x3f80);
  std::vector<std::uint16_t> halves(3, 0xffff);
  with("scale<float>").launch("scale<rondo_bf16>", 3, 1, 0, 3, 0.5f, ones.data(), halves.data());
  EXPECT_THAT(halves, ElementsAre(0x3f00, 0x3f00, 0x3f00));
}

TEST(KernelsDocsOnHost, SumsAndProductsAgreeWithFloat64) {
  const int rows = 5, columns = 70;
  const std::vector<float> matrix = random_values(rows * columns), x = random_values(columns);
  for (const std::uint32_t block : {1u, 3u, 64u}) {
    std::vector<float> sums(rows, poison), y(rows, poison);
    with("row_sums").launch("row_sums", rows, block, 0, columns, matrix.data(), sums.data());
    with("row_sums").launch("matrix_vector", 2, block, 0, rows, columns, matrix.data(), x.data(), y.data());
    for (int row = 0; row < rows; ++row) {
      double sum = 0, product = 0;
      for (int i = 0; i < columns; ++i) {
        const double weight = matrix[static_cast<std::size_t>(row * columns + i)];
        sum += weight;
        product += weight * x[static_cast<std::size_t>(i)];
      }
      EXPECT_NEAR(sums[static_cast<std::size_t>(row)], sum, 1e-5) << block;
      EXPECT_NEAR(y[static_cast<std::size_t>(row)], product, 1e-5) << block;
    }
  }
}

TEST(KernelsDocsOnHost, RowsAreReversedAndPositivesCounted) {
  for (const std::uint32_t block : {1u, 2u, 5u}) {
    std::vector<float> rows = {1, 2, 3, 4, 5, 6};
    with("reverse_rows").launch("reverse_rows", 2, block, 3 * sizeof(float), 3, rows.data());
    EXPECT_THAT(rows, ElementsAre(3, 2, 1, 6, 5, 4)) << block;
    int count = 100;
    rows = {1, -2, 0, 4, 5};
    with("reverse_rows").launch("positive_share", (5 + block - 1) / block, block, 0, 5, rows.data(), &count);
    EXPECT_EQ(count, 103) << block;
  }
}

TEST(KernelsDocsOnHost, ARowIsAppended) {
  const std::vector<float> row = {1, 2};
  std::vector<float> cache(6, 0.0f);
  const int position = 1;
  with("append_row").launch("append_row", 1, 1, 0, 2, &position, row.data(), cache.data());
  EXPECT_THAT(cache, ElementsAre(0, 0, 1, 2, 0, 0));
}

TEST(KernelsDocsOnHost, CarefulSumsAreCareful) {
  const std::vector<float> in(1 << 18, 0.1f);
  float out = poison;
  with("careful_sum").launch("careful_sum", 1, 1, 0, static_cast<int>(in.size()), in.data(), &out);
  EXPECT_EQ(out, static_cast<float>(static_cast<double>(0.1f) * static_cast<double>(in.size())));
}

}  // namespace
}  // namespace rondo
