// The kernels' arithmetic, on the host device, against float64: with one thread a block (what the schedules
// use there) and with several (what they do on a GPU, with warps of one thread).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "kernel_file.h"
#include "rondo/data_type.h"

namespace rondo {
namespace {

constexpr float poison = std::numeric_limits<float>::quiet_NaN();

class Random {
 public:
  explicit Random(std::uint32_t seed) : generator_(seed) {}
  float value(float low = -1.0f, float high = 1.0f) {
    return std::uniform_real_distribution<float>(low, high)(generator_);
  }
  std::vector<float> values(std::size_t count, float low = -1.0f, float high = 1.0f) {
    std::vector<float> result(count);
    for (float& item : result) item = value(low, high);
    return result;
  }
  std::vector<std::byte> bytes(std::size_t count) {
    std::vector<std::byte> result(count);
    for (std::byte& item : result) item = static_cast<std::byte>(generator_() & 255u);
    return result;
  }

 private:
  std::mt19937 generator_;
};

double relative_error(const std::vector<float>& out, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (out[i] - expected[i]) * (out[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

// A matrix of a GGUF type, as bytes, and what it stands for.
struct Matrix {
  std::vector<std::byte> bytes;
  std::vector<double> values;
};

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// Rounded to a half; returns the value that it then has.
double append_half(std::vector<std::byte>& bytes, float value) {
  std::uint16_t half = 0;
  store_float(DataType::f16, value, &half);
  append(bytes, half);
  return load_as_double(DataType::f16, &half);
}

// Bit by bit from 256 quants, so that packing here and unpacking there have nothing in common.
void append_q6_k(Matrix& matrix, Random& random) {
  std::vector<std::byte> packed(192), scales = random.bytes(16);
  std::vector<int> quants;
  for (const std::byte quant : random.bytes(256))
    quants.push_back(std::to_integer<int>(quant & std::byte{63}));
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
    packed[64 * half + 32 * (quarter % 2) + at] |=
        static_cast<std::byte>((quants[i] & 15) << (quarter / 2 * 4));
    packed[128 + 32 * half + at] |= static_cast<std::byte>((quants[i] >> 4) << (2 * quarter));
  }
  matrix.bytes.insert(matrix.bytes.end(), packed.begin(), packed.end());
  matrix.bytes.insert(matrix.bytes.end(), scales.begin(), scales.end());
  const double scale = append_half(matrix.bytes, random.value(0.0f, 0.01f));
  for (int i = 0; i < 256; ++i)
    matrix.values.push_back(scale * static_cast<std::int8_t>(scales[i / 16]) * (quants[i] - 32));
}

Matrix make_matrix(DataType type, std::size_t count, Random& random) {
  Matrix matrix;
  const std::size_t block = info(type).block_elements;
  for (std::size_t start = 0; start < count; start += block) {
    if (type == DataType::f32) {
      append(matrix.bytes, random.value());
      matrix.values.push_back(load_as_double(type, matrix.bytes.data() + matrix.bytes.size() - 4));
    } else if (type == DataType::f16) {
      // Every fourth is subnormal.
      matrix.values.push_back(append_half(matrix.bytes, random.value() * (start % 4 == 3 ? 6e-5f : 1.0f)));
    } else if (type == DataType::q8_0) {
      const double scale = append_half(matrix.bytes, random.value(0.0f, 0.1f));
      for (const std::byte quant : random.bytes(32)) {
        append(matrix.bytes, quant);
        matrix.values.push_back(scale * static_cast<std::int8_t>(quant));
      }
    } else if (type == DataType::bf16) {
      append(matrix.bytes, std::uint16_t{0});
      std::byte* const to = matrix.bytes.data() + matrix.bytes.size() - 2;
      store_float(type, random.value(), to);
      matrix.values.push_back(load_as_double(type, to));
    } else if (type == DataType::q4_0) {
      const double scale = append_half(matrix.bytes, random.value(0.0f, 0.1f));
      const std::vector<std::byte> quants = random.bytes(16);
      for (const std::byte quant : quants)
        matrix.values.push_back(scale * (std::to_integer<int>(quant & std::byte{15}) - 8));
      for (const std::byte quant : quants)
        matrix.values.push_back(scale * (std::to_integer<int>(quant >> 4) - 8));
      matrix.bytes.insert(matrix.bytes.end(), quants.begin(), quants.end());
    } else if (type == DataType::q6_k) {
      append_q6_k(matrix, random);
    } else {
      const double scale = append_half(matrix.bytes, random.value(0.0f, 0.1f));
      const double minimum = append_half(matrix.bytes, random.value(-1.0f, 0.0f));
      const std::vector<std::byte> quants = random.bytes(16);
      for (const std::byte quant : quants)
        matrix.values.push_back(scale * std::to_integer<int>(quant & std::byte{15}) + minimum);
      for (const std::byte quant : quants)
        matrix.values.push_back(scale * std::to_integer<int>(quant >> 4) + minimum);
      matrix.bytes.insert(matrix.bytes.end(), quants.begin(), quants.end());
    }
  }
  return matrix;
}

TEST(SoftmaxKernel, AgreesWithFloat64ForBlocksOfAnySize) {
  KernelFile file("softmax.cu", {"softmax"});
  Random random(11);
  const int rows = 3, columns = 333;
  const float temperature = 0.7f;
  const std::vector<float> in = random.values(rows * columns, -9.0f, 9.0f);
  std::vector<double> expected;
  for (int row = 0; row < rows; ++row) {
    double sum = 0;
    for (int i = 0; i < columns; ++i)
      sum += std::exp(in[row * columns + i] / static_cast<double>(temperature));
    for (int i = 0; i < columns; ++i) {
      expected.push_back(std::exp(in[row * columns + i] / static_cast<double>(temperature)) / sum);
    }
  }
  for (const std::uint32_t block : {1u, 7u, 64u, 512u}) {
    std::vector<float> out(in.size(), poison);
    file.launch("softmax", rows, block, columns * sizeof(float), columns, &temperature, in.data(),
                out.data());
    EXPECT_LT(relative_error(out, expected), 2e-6) << block;
  }
}

class Weights : public ::testing::TestWithParam<DataType> {
 protected:
  std::string type() const { return std::string("rondo_") + name(GetParam()); }
};

TEST_P(Weights, EmbeddingRowsAreExactAndTokensOutsideTheVocabularyAreClamped) {
  const std::string entry = "embed<" + type() + ">";
  KernelFile file("llama.cu", {entry});
  Random random(12);
  const int d = 3 * static_cast<int>(std::max<std::size_t>(info(GetParam()).block_elements, 32)), vocab = 5;
  const Matrix table = make_matrix(GetParam(), d * vocab, random);
  for (const auto& [token, row] : {std::pair{3, 3}, {-1, 0}, {vocab, vocab - 1}}) {
    std::vector<float> out(d, poison);
    file.launch(entry, 2, 7, 0, d, vocab, &token, table.bytes.data(), out.data());
    const std::vector<double> expected(table.values.begin() + row * d, table.values.begin() + (row + 1) * d);
    EXPECT_LT(relative_error(out, expected), 1e-7);
  }
}

TEST_P(Weights, ProductsAgreeWithFloat64) {
  const std::string entry = "project_add<" + type() + ">";
  KernelFile file("llama.cu", {entry});
  Random random(13);
  // Rows that are no multiple of any vector's length, for the types that have such rows.
  for (int n : {32, 96, 576, is_plain(GetParam()) ? 37 : 1536}) {
    const int rows = 19, block = static_cast<int>(info(GetParam()).block_elements);
    n = (n + block - 1) / block * block;
    const Matrix weights = make_matrix(GetParam(), static_cast<std::size_t>(n) * rows, random);
    const std::vector<float> x = random.values(n), before = random.values(rows);
    std::vector<double> expected;
    for (int row = 0; row < rows; ++row) {
      double sum = before[row];
      for (int i = 0; i < n; ++i) sum += weights.values[row * n + i] * x[i];
      expected.push_back(sum);
    }
    for (const auto& [grid, threads] : {std::pair{1u, 1u}, {4u, 1u}, {2u, 3u}, {40u, 1u}}) {
      std::vector<float> out = before;
      file.launch(entry, grid, threads, 0, n, rows, weights.bytes.data(), x.data(), out.data());
      EXPECT_LT(relative_error(out, expected), 1e-6)
          << n << " elements, grid " << grid << ", block " << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Weights,
                         ::testing::Values(DataType::f32, DataType::f16, DataType::bf16, DataType::q8_0,
                                           DataType::q6_k, DataType::q4_1, DataType::q4_0),
                         [](const auto& test) { return std::string(name(test.param)); });

class AppendKernel : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Orders, AppendKernel, ::testing::Bool(),
                         [](const auto& test) { return std::string(test.param ? "halves" : "neighbours"); });

TEST_P(AppendKernel, BothFormsWriteTheSameBitsAtTheStepsPositionAlone) {
  const std::string pointer_form = "append_kv<rondo_q4_1, rondo_q8_0>",
                    slot_form = "append_kv_at<rondo_q4_1, rondo_q8_0>";
  KernelFile file("llama.cu", {pointer_form, slot_form, "rope_rotation", "rope_rotation_at"});
  Random random(14);
  const int d = 64, head_dim = 64, kv_dim = 128, rope_dim = 48, position = 2, context = 4;
  const float base = 10000.0f, epsilon = 1e-5f;
  const Matrix wk = make_matrix(DataType::q4_1, d * kv_dim, random),
               wv = make_matrix(DataType::q8_0, d * kv_dim, random);
  const std::vector<float> h = random.values(d), norm = random.values(d);
  std::vector<float> rotation(rope_dim, poison), rotation_at(rope_dim, poison);
  const std::vector<float> ones(rope_dim / 2, 1.0f);
  file.launch("rope_rotation", 1, 1, 0, rope_dim, base, 0, 1.0f, 1.0f, 1.0f, 1.0f, ones.data(), position,
              rotation.data());
  file.launch("rope_rotation_at", 1, 5, 0, rope_dim, base, 0, 1.0f, 1.0f, 1.0f, 1.0f, ones.data(), &position,
              rotation_at.data());
  EXPECT_EQ(rotation, rotation_at);

  std::vector<float> keys(context * kv_dim, -7.0f), values(keys), keys_at(keys), values_at(keys);
  file.launch(pointer_form, 2, 1, d * sizeof(float), d, kv_dim, head_dim, rope_dim, GetParam(), epsilon,
              h.data(), norm.data(), wk.bytes.data(), wv.bytes.data(), rotation.data(),
              keys.data() + position * kv_dim, values.data() + position * kv_dim);
  file.launch(slot_form, 2, 1, d * sizeof(float), d, kv_dim, head_dim, rope_dim, GetParam(), epsilon,
              h.data(), norm.data(), wk.bytes.data(), wv.bytes.data(), rotation.data(), keys_at.data(),
              values_at.data(), &position);
  EXPECT_EQ(keys, keys_at);
  EXPECT_EQ(values, values_at);

  double squares = 0;
  for (const float item : h) squares += static_cast<double>(item) * item;
  std::vector<double> expected(context * kv_dim, -7.0), expected_values(expected), x;
  for (int i = 0; i < d; ++i) x.push_back(h[i] * norm[i] / std::sqrt(squares / d + epsilon));
  for (int row = 0; row < kv_dim; ++row) {
    double key = 0, value = 0;
    for (int i = 0; i < d; ++i) key += wk.values[row * d + i] * x[i], value += wv.values[row * d + i] * x[i];
    expected[position * kv_dim + row] = key;
    expected_values[position * kv_dim + row] = value;
  }
  for (int head = 0; head < kv_dim; head += head_dim) {
    for (int pair = 0; pair < rope_dim / 2; ++pair) {
      const double angle = position * std::pow(static_cast<double>(base), -2.0 * pair / rope_dim);
      const int at = position * kv_dim + head + (GetParam() ? pair : 2 * pair);
      double &first = expected[at], &second = expected[at + (GetParam() ? rope_dim / 2 : 1)];
      const double rotated = first * std::cos(angle) - second * std::sin(angle);
      second = first * std::sin(angle) + second * std::cos(angle);
      first = rotated;
    }
  }
  EXPECT_LT(relative_error(keys, expected), 1e-6);
  EXPECT_LT(relative_error(values, expected_values), 1e-6);
}

struct Scaling {
  const char* name;
  int kind;
  float factor, low, high, original;
};

class RopeKernel : public ::testing::TestWithParam<Scaling> {};

INSTANTIATE_TEST_SUITE_P(Scalings, RopeKernel,
                         ::testing::Values(Scaling{"none", 0, 0.0f, 0.0f, 0.0f, 0.0f},
                                           Scaling{"linear", 1, 4.0f, 1.0f, 4.0f, 8192.0f},
                                           Scaling{"llama3", 2, 32.0f, 1.0f, 4.0f, 8192.0f}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(RopeKernel, IsAccurateAtLatePositions) {
  KernelFile file("llama.cu", {"rope_rotation"});
  Random random(17);
  const Scaling& scaling = GetParam();
  const int rope_dim = 128, position = 130000;
  const float base = 500000.0f;
  const std::vector<float> factors = random.values(rope_dim / 2, 1.0f, 3.0f);
  std::vector<float> rotation(rope_dim, poison);
  file.launch("rope_rotation", 1, 1, 0, rope_dim, base, scaling.kind, scaling.factor, scaling.low,
              scaling.high, scaling.original, factors.data(), position, rotation.data());
  std::vector<double> expected;
  int blended = 0;
  for (int pair = 0; pair < rope_dim / 2; ++pair) {
    long double frequency = std::pow(static_cast<long double>(base), -2.0L * pair / rope_dim) / factors[pair];
    const long double wavelength = 2 * std::acos(-1.0L) / frequency;
    if (scaling.kind == 1) frequency /= scaling.factor;
    // As the model's own code has it (Transformers' modeling_rope_utils.py).
    if (scaling.kind == 2 && wavelength > scaling.original / scaling.low) {
      frequency /= scaling.factor;
    } else if (scaling.kind == 2 && wavelength >= scaling.original / scaling.high) {
      const long double smooth = (scaling.original / wavelength - scaling.low) / (scaling.high - scaling.low);
      frequency = (1 - smooth) * frequency / scaling.factor + smooth * frequency;
      ++blended;
    }
    expected.push_back(static_cast<double>(std::cos(position * frequency)));
    expected.push_back(static_cast<double>(std::sin(position * frequency)));
  }
  EXPECT_EQ(blended > 0, scaling.kind == 2);
  EXPECT_LT(relative_error(rotation, expected), 1e-7);
}

class Attention : public ::testing::TestWithParam<int> {};

TEST_P(Attention, AgreesWithFloat64AtEveryFillOfTheCache) {
  const int head_dim = GetParam(), n_heads = 6, heads_per_kv = 3, kv_dim = 2 * head_dim, context = 8192;
  const std::string pointer_form = "attention<" + std::to_string(head_dim) + ">";
  const std::string slot_form = "attention_at<" + std::to_string(head_dim) + ">";
  KernelFile file("llama.cu", {pointer_form, slot_form});
  Random random(15);
  const std::vector<float> q = random.values(n_heads * head_dim, -3.0f, 3.0f);
  std::vector<float> keys = random.values(context * kv_dim), values = random.values(context * kv_dim);
  for (const int last : {0, 1, 6, 130, 8191}) {
    std::vector<double> expected;
    for (int head = 0; head < n_heads; ++head) {
      const int start = head / heads_per_kv * head_dim;
      std::vector<double> weights;
      double total = 0;
      for (int position = 0; position <= last; ++position) {
        double score = 0;
        for (int i = 0; i < head_dim; ++i) {
          score += static_cast<double>(q[head * head_dim + i]) * keys[position * kv_dim + start + i];
        }
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(head_dim))));
        total += weights.back();
      }
      for (int i = 0; i < head_dim; ++i) {
        double sum = 0;
        for (int position = 0; position <= last; ++position) {
          sum += weights[position] * values[position * kv_dim + start + i];
        }
        expected.push_back(sum / total);
      }
    }
    // What lies behind the filled part must not be read.
    std::vector<float> poisoned_keys(keys), poisoned_values(values);
    std::fill(poisoned_keys.begin() + (last + 1) * kv_dim, poisoned_keys.end(), poison);
    std::fill(poisoned_values.begin() + (last + 1) * kv_dim, poisoned_values.end(), poison);
    for (const std::uint32_t block : {1u, 5u}) {
      std::vector<float> out(expected.size(), poison), out_at(expected.size(), poison);
      const std::size_t shared = sizeof(float) * (head_dim + 2) * block;
      file.launch(pointer_form, n_heads, block, shared, kv_dim, heads_per_kv, last, q.data(),
                  poisoned_keys.data(), poisoned_values.data(), out.data());
      file.launch(slot_form, n_heads, block, shared, kv_dim, heads_per_kv, &last, q.data(),
                  poisoned_keys.data(), poisoned_values.data(), out_at.data());
      EXPECT_LT(relative_error(out, expected), last < 1000 ? 2e-6 : 1e-5)
          << "last " << last << ", block " << block;
      EXPECT_EQ(out, out_at);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HeadDimensions, Attention, ::testing::Values(64, 80, 128));

TEST(ArgmaxKernels, GiveTheFirstOfTheLargest) {
  KernelFile file("llama.cu", {"argmax_blocks", "argmax"});
  Random random(16);
  const auto argmax = [&file](const std::vector<float>& logits, std::uint32_t blocks, std::uint32_t block) {
    std::vector<int> tokens(blocks, -1);
    std::vector<float> values(blocks, poison);
    int token = -1;
    file.launch("argmax_blocks", blocks, block, 0, static_cast<int>(logits.size()), logits.data(),
                tokens.data(), values.data());
    file.launch("argmax", 1, block, 0, static_cast<int>(blocks), tokens.data(), values.data(), &token);
    return token;
  };
  for (const auto& [blocks, block] : {std::pair{1u, 1u}, {32u, 1u}, {8u, 7u}, {1500u, 2u}}) {
    std::vector<float> logits = random.values(1000);
    logits[777] = logits[334] = logits[333] = 2.0f;
    EXPECT_EQ(argmax(logits, blocks, block), 333);
    logits.assign(1000, -5.0f);
    EXPECT_EQ(argmax(logits, blocks, block), 0);
    logits[5] = -0.0f, logits[900] = 0.0f;
    EXPECT_EQ(argmax(logits, blocks, block), 5);
    logits.assign(1000, -std::numeric_limits<float>::infinity());
    logits[999] = -1e30f;
    EXPECT_EQ(argmax(logits, blocks, block), 999);
    logits.assign(1000, poison);
    EXPECT_EQ(argmax(logits, blocks, block),
              0);  // nothing is largest, and the result is a token all the same
  }
}

}  // namespace
}  // namespace rondo
