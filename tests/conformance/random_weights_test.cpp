// Weights without a file: the same on every device, of the size that the schedule's kernels want.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "must_be_there.h"
#include "rondo/device.h"
#include "rondo/session.h"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int rows = 37, columns = 768;

// Weights with and without a declared type, a vector, and two that are one tensor.
constexpr const char* schedule = R"j({"rondo": 1, "name": "weights",
"params": {"rows": {"type": "i32", "constant": 37}, "there": {"type": "i32", "constant": {"tensor": "matrix"}},
           "layers": {"type": "i32", "constant": {"metadata": "layers", "default": 3}},
           "are_halves": {"type": "bool", "constant": {"types": ["matrix", "other"], "are": ["f16"]}}},
"buffers": {
  "matrix": {"role": "weight", "tensor": "matrix", "shape": ["rows", 768]},
  "again": {"role": "weight", "tensor": ["other", "matrix"], "shape": ["rows", 768]},
  "other": {"role": "weight", "tensor": "other", "shape": ["rows", 768]},
  "wide": {"role": "weight", "type": "f64", "tensor": "wide", "shape": [64, "rows"]},
  "norm": {"role": "weight", "type": "f32", "tensor": "norm", "shape": [1000]},
  "vector": {"role": "weight", "tensor": "vector", "shape": [256]}},
"kernels": {"k": {"code": "extern \"C\" __global__ void k(const void*, const void*, const void*, const void*, const void*, const void*) {}",
                  "entry": "k"}},
"ops": [{"kernel": "k", "grid": [1], "block": [1], "args": ["matrix", "again", "other", "wide", "norm", "vector"]}]})j";

SessionOptions random_options(const std::string& spelling,
                              const std::vector<std::pair<std::string, std::string>>& constants = {}) {
  SessionOptions options;
  options.constants = constants;
  options.random_weights = parse_random_weights(spelling);
  options.cache_directory = std::filesystem::path(RONDO_BINARY_DIR) / "test_cache";
  return options;
}

std::vector<std::byte> bytes_of(Session& session, const char* name) {
  const BufferHandle handle = session.buffer(name);
  std::vector<std::byte> bytes(session.buffers()[handle.index].bytes, std::byte{0xff});
  check(session.read(handle, bytes), "reading a weight");
  return bytes;
}

double half_at(const std::byte* from) { return load_as_double(DataType::f16, from); }

// What the bytes stand for, by the layouts of ggml-common.h.
std::vector<double> values_of(DataType type, const std::vector<std::byte>& bytes) {
  std::vector<double> values;
  const std::size_t size = info(type).block_bytes;
  const auto byte = [&](std::size_t at) { return std::to_integer<int>(bytes[at]); };
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    if (is_plain(type)) {
      values.push_back(load_as_double(type, bytes.data() + at));
    } else if (type == DataType::q8_0) {
      for (std::size_t i = 0; i < 32; ++i)
        values.push_back(half_at(&bytes[at]) * static_cast<std::int8_t>(byte(at + 2 + i)));
    } else if (type == DataType::q6_k) {
      for (std::size_t i = 0; i < 256; ++i) {
        const std::size_t half = i / 128, quarter = i % 128 / 32, column = i % 32;
        const int low = byte(at + 64 * half + 32 * (quarter % 2) + column) >> (quarter / 2 * 4) & 15;
        const int high = byte(at + 128 + 32 * half + column) >> (2 * quarter) & 3;
        values.push_back(half_at(&bytes[at + 208]) * static_cast<std::int8_t>(byte(at + 192 + i / 16)) *
                         ((low | high << 4) - 32));
      }
    } else {
      const bool has_minimum = type == DataType::q4_1;
      const double minimum = has_minimum ? half_at(&bytes[at + 2]) : -8 * half_at(&bytes[at]);
      for (std::size_t i = 0; i < 32; ++i) {
        const int quant = byte(at + (has_minimum ? 4 : 2) + i % 16) >> (i < 16 ? 0 : 4) & 15;
        values.push_back(half_at(&bytes[at]) * quant + minimum);
      }
    }
  }
  return values;
}

// Uniform in center ± scale, as far as counts, extremes, mean and variance tell.
void expect_uniform(const std::vector<double>& values, double center, double scale, double tolerance) {
  double sum = 0, squares = 0;
  for (const double value : values) {
    EXPECT_LE(std::abs(value - center), scale * (1 + tolerance));
    sum += value - center;
    squares += (value - center) * (value - center);
  }
  const double n = static_cast<double>(values.size());
  EXPECT_LT(std::abs(sum / n), scale * (4 / std::sqrt(n) + tolerance / 2));
  EXPECT_NEAR(squares / n, scale * scale / 3, scale * scale * (2 / std::sqrt(n) + tolerance / 3));
}

class RandomWeightsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { open_or_skip(GetParam(), device_); }
  Session session(const std::string& spelling, const std::shared_ptr<Device>& device) {
    return Session::parse(schedule, "weights.json", device, random_options(spelling));
  }
  std::shared_ptr<Device> device_;
};

INSTANTIATE_TEST_SUITE_P(Devices, RandomWeightsTest, ::testing::Values("host", "cuda", "hip"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(RandomWeightsTest, HaveTheDeclaredShapesAndSizesThatKeepActivations) {
  for (const char* type_name : {"f16", "bf16", "f32", "f64", "q8_0", "q6_k", "q4_1", "q4_0"}) {
    SCOPED_TRACE(type_name);
    const DataType type = *parse_data_type(type_name);
    Session made = session(std::string("random:") + type_name, device_);
    EXPECT_EQ(made.params()[made.param("there").index].integer, 0);
    EXPECT_EQ(made.params()[made.param("layers").index].integer, 3);
    EXPECT_EQ(made.params()[made.param("are_halves").index].integer, type == DataType::f16);
    const BufferInfo& matrix = made.buffers()[made.buffer("matrix").index];
    EXPECT_EQ(matrix.type, type);
    EXPECT_THAT(matrix.shape, ::testing::ElementsAre(rows, columns));
    // Quants are not symmetric, and q6_k's scales vary, up to a third above the mean.
    expect_uniform(values_of(type, bytes_of(made, "matrix")), 0, std::sqrt(3.0 / columns),
                   is_plain(type)           ? 0.01
                   : type == DataType::q6_k ? 0.34
                                            : 0.13);
    EXPECT_EQ(made.buffers()[made.buffer("wide").index].type, DataType::f64);
    expect_uniform(values_of(DataType::f64, bytes_of(made, "wide")), 0, std::sqrt(3.0 / rows), 0.01);
    expect_uniform(values_of(DataType::f32, bytes_of(made, "norm")), 1, 0.5, 0);
    const DataType vector = made.buffers()[made.buffer("vector").index].type;
    EXPECT_EQ(vector, is_plain(type) ? type : DataType::f32);
    expect_uniform(values_of(vector, bytes_of(made, "vector")), 1, 0.5, 0.01);
  }
}

TEST_P(RandomWeightsTest, AreTheHostsBitForBit) {
  const std::shared_ptr<Device> host = open_device("host");
  for (const char* spelling : {"random:f16", "random:bf16:3", "random:f32:18446744073709551615",
                               "random:q8_0", "random:q6_k:1", "random:q4_1", "random:q4_0"}) {
    SCOPED_TRACE(spelling);
    Session here = session(spelling, device_), there = session(spelling, host);
    for (const char* buffer : {"matrix", "other", "wide", "norm", "vector"})
      EXPECT_EQ(bytes_of(here, buffer), bytes_of(there, buffer)) << buffer;
  }
}

TEST_P(RandomWeightsTest, DependOnSeedAndTensorAlone) {
  Session first = session("random:f16", device_), zero = session("random:f16:0", device_),
          other = session("random:f16:1", device_);
  EXPECT_EQ(bytes_of(first, "matrix"), bytes_of(zero, "matrix"));
  EXPECT_NE(bytes_of(first, "matrix"), bytes_of(other, "matrix"));
  EXPECT_NE(bytes_of(first, "matrix"), bytes_of(first, "other"));
  EXPECT_EQ(bytes_of(first, "matrix"), bytes_of(first, "again"));
  std::size_t held = 0;  // "again" has no memory of its own
  for (const BufferInfo& buffer : first.buffers()) held += buffer.name == "again" ? 0 : buffer.bytes;
  EXPECT_EQ(first.summary().buffer_bytes, held);
}

// A model of the decode schedule's, without a file.
TEST_P(RandomWeightsTest, TheDecodeScheduleRunsOnThemAndItsLogitsAreOfOrdinarySize) {
  const std::filesystem::path decode = std::filesystem::path(RONDO_SOURCE_DIR) / "configs/llama/decode.json";
  Session made = Session::load(decode, device_,
                               random_options("random:bf16", {{"n_layers", "2"},
                                                              {"d", "256"},
                                                              {"d_ff", "512"},
                                                              {"vocab", "1000"},
                                                              {"n_heads", "4"},
                                                              {"n_kv", "2"},
                                                              {"epsilon", "1e-5"},
                                                              {"context", "16"}}));
  std::vector<float> logits(1000);
  for (std::int64_t position = 0; position < 8; ++position) {
    check(made.set(made.param("pos"), position), "setting the position");
    check(made.launch(), "launching");
  }
  check(made.read(made.buffer("logits"), std::as_writable_bytes(std::span(logits))), "reading the logits");
  double squares = 0;
  for (const float logit : logits) squares += static_cast<double>(logit) * logit;
  EXPECT_GT(std::sqrt(squares / 1000), 0.3);  // a NaN fails
  EXPECT_LT(std::sqrt(squares / 1000), 3);
}

std::string refusal_of(const std::string& text, const SessionOptions& options) {
  try {
    Session::parse(text, "weights.json", open_device("host"), options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RandomWeights, MissingConstantsAreListedTogether) {
  SessionOptions options = random_options("random:f16", {{"n_layers", "2"}, {"d_ff", "512"}});
  try {
    Session::load(std::filesystem::path(RONDO_SOURCE_DIR) / "configs/llama/decode.json", open_device("host"),
                  options);
    FAIL() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.diagnostics().size(), 1u);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("constants from: d, vocab, n_heads, epsilon ["),
                                    HasSubstr("--const d=… --const vocab=…"), HasSubstr("decode.json:")));
  }
}

TEST(RandomWeights, NeedAShapeAndATypeThatCanBeRandom) {
  const auto with = [](const char* buffer, const char* spelling = "random:q8_0") {
    return refusal_of(
        fmt::format(
            R"j({{"rondo": 1, "name": "w", "buffers": {{"w": {{"role": "weight", "tensor": "w", {}}}}}, "ops": []}})j",
            buffer),
        random_options(spelling));
  };
  EXPECT_EQ(with(R"("shape": [2, 32])"), "");
  EXPECT_THAT(with(R"("type": "f16")"),
              AllOf(HasSubstr("has no tensor"), HasSubstr("Declare its \"shape\"")));
  EXPECT_THAT(with(R"("shape": [2, 32], "type": "i8")"),
              HasSubstr("declared as i8, which is not made at random"));
  EXPECT_THAT(with(R"("shape": [32], "type": "q8_0")"), HasSubstr("declared as a vector of q8_0"));
  EXPECT_THAT(with(R"("shape": [2, 33])"), HasSubstr("a row of \"w\" has 33 elements"));
  EXPECT_THAT(with(R"("shape": [2, 32], "file": "nowhere.npy")"), HasSubstr("nowhere.npy"));
}

TEST(RandomWeights, SpellingsAreTheseAndNoOthers) {
  const auto parsed = parse_random_weights("random:q4_0:12");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->type, DataType::q4_0);
  EXPECT_EQ(parsed->seed, 12u);
  EXPECT_EQ(parse_random_weights("random:f16")->seed, 0u);
  for (const char* path : {"", "model.gguf", "randomf16", "./random:f16", "Random:f16", " random:f16"})
    EXPECT_EQ(parse_random_weights(path), std::nullopt) << path;
  for (const char* bad :
       {"random", "random:", "random::", "random:f17", "random:i8", "random:bool", "random:F16",
        "random:f16:", "random:f16:-1", "random:f16:+1", "random:f16: 1", "random:f16:1.5",
        "random:f16:18446744073709551616", "random:f16:1:2", "random:f16 "}) {
    try {
      parse_random_weights(bad);
      ADD_FAILURE() << bad << " was not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_argument);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("random:TYPE:SEED"), HasSubstr(fmt::format("\"{}\"", bad)),
                                      HasSubstr("q4_0")));
    }
  }
}

}  // namespace
}  // namespace rondo
