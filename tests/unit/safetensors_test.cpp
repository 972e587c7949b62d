#include "safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>

#include "rondo/error.h"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> bytes(8 + header.size() + data_bytes);
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  for (std::size_t i = 0; i < data_bytes; ++i) bytes[8 + header.size() + i] = static_cast<std::byte>(i);
  return bytes;
}

std::string message_of(const std::vector<std::byte>& bytes) {
  try {
    (void)read_safetensors(bytes, "m.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_argument);
    EXPECT_THAT(error.what(), HasSubstr("m.safetensors"));
    return error.what();
  }
  return "read without complaint";
}

// Of one tensor "w", with 16 bytes of data.
std::string message_of_tensor(const std::string& dtype, const std::string& shape,
                              const std::string& offsets) {
  return message_of(file_of(
      fmt::format(R"j({{"w": {{"dtype": {}, "shape": {}, "data_offsets": {}}}}})j", dtype, shape, offsets),
      16));
}

TEST(Safetensors, ReadsTensorsInTheHeadersOrder) {
  const auto bytes = file_of(R"j({"__metadata__": {"format": "pt"},
      "b": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [4, 16]},
      "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
      "none": {"dtype": "I64", "shape": [0, 5], "data_offsets": [16, 16]},
      "new": {"dtype": "F6_E9", "shape": [7], "data_offsets": [16, 19]}}    )j",
                             19);
  const std::vector<Tensor> tensors = read_safetensors(bytes, "m.safetensors");
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[0].name, "b");
  EXPECT_EQ(tensors[0].type, DataType::bf16);
  EXPECT_THAT(tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(tensors[0].data.data(), bytes.data() + bytes.size() - 19 + 4);
  EXPECT_EQ(tensors[0].data.size(), 12u);
  EXPECT_EQ(tensors[1].type, DataType::f32);
  EXPECT_TRUE(tensors[1].shape.empty());
  EXPECT_EQ(tensors[1].data.size(), 4u);
  EXPECT_TRUE(tensors[2].data.empty());
  EXPECT_EQ(tensors[3].type, std::nullopt);
  EXPECT_EQ(tensors[3].type_name, "F6_E9");
  EXPECT_TRUE(tensors[3].data.empty());
}

TEST(Safetensors, KnowsEveryTypesSize) {
  for (const auto& [dtype, type, size] : {std::tuple{"BOOL", DataType::boolean, 1},
                                          {"U8", DataType::u8, 1},
                                          {"I8", DataType::i8, 1},
                                          {"U16", DataType::u16, 2},
                                          {"I16", DataType::i16, 2},
                                          {"F16", DataType::f16, 2},
                                          {"BF16", DataType::bf16, 2},
                                          {"U32", DataType::u32, 4},
                                          {"I32", DataType::i32, 4},
                                          {"F32", DataType::f32, 4},
                                          {"U64", DataType::u64, 8},
                                          {"I64", DataType::i64, 8},
                                          {"F64", DataType::f64, 8}}) {
    const std::size_t bytes = static_cast<std::size_t>(size) * 3;
    const auto file = file_of(
        fmt::format(R"j({{"w": {{"dtype": "{}", "shape": [3], "data_offsets": [0, {}]}}}})j", dtype, bytes),
        bytes);
    EXPECT_EQ(read_safetensors(file, "f").at(0).type, type) << dtype;
  }
}

TEST(Safetensors, RefusesALengthThatTheFileDoesNotHave) {
  EXPECT_THAT(message_of({}), HasSubstr("the header's length needs 8 bytes, and the file has 0"));
  EXPECT_THAT(message_of(std::vector<std::byte>(7)), HasSubstr("the file has 7"));
  auto bytes = file_of("{}", 0);
  bytes[0] = std::byte{3};
  EXPECT_THAT(message_of(bytes), HasSubstr("expected a header of up to 2 bytes, got a length of 3"));
  std::fill_n(bytes.begin(), 8, std::byte{0xff});
  EXPECT_THAT(message_of(bytes), HasSubstr("got a length of 18446744073709551615"));
  EXPECT_THAT(message_of(std::vector<std::byte>(8)), HasSubstr("at byte 8"));  // an empty header is no JSON
}

TEST(Safetensors, RefusesHeadersThatAreNotOfTheForm) {
  const auto header = [](const std::string& text) { return message_of(file_of(text, 16)); };
  EXPECT_THAT(header("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(header("{"), HasSubstr("at byte 9"));
  EXPECT_THAT(header("{\"w\": \xff}"), HasSubstr("at byte 14"));
  EXPECT_THAT(header(R"j({"w": 3})j"), HasSubstr("tensor \"w\": expected an object, got the number 3"));
  EXPECT_THAT(header(R"j({"w": {"shape": [], "data_offsets": [0, 4]}})j"),
              HasSubstr("tensor \"w\" has no \"dtype\""));
  EXPECT_THAT(header(R"j({"w": {"dtype": "F32", "data_offsets": [0, 4]}})j"),
              HasSubstr("tensor \"w\" has no \"shape\""));
  EXPECT_THAT(header(R"j({"w": {"dtype": "F32", "shape": []}})j"), HasSubstr("has no \"data_offsets\""));
  const std::string one = R"j("w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]})j";
  EXPECT_EQ(header("{" + one + "}"), "read without complaint");
  EXPECT_THAT(header("{" + one + ", " + one + "}"), AllOf(HasSubstr("\"w\""), HasSubstr("duplicate key")));
  EXPECT_THAT(header(std::string(100000, '{')), HasSubstr("at byte"));
  EXPECT_THAT(header("{\"w\": " + std::string(100000, '[') + std::string(100000, ']') + "}"),
              HasSubstr("deep"));
}

TEST(Safetensors, RefusesShapesAndOffsetsThatDoNotFit) {
  const std::string f32 = "\"F32\"";
  EXPECT_EQ(message_of_tensor(f32, "[4]", "[0, 16]"), "read without complaint");
  EXPECT_THAT(message_of_tensor("32", "[4]", "[0, 16]"),
              HasSubstr("expected a type's name, got the number 32"));
  EXPECT_THAT(message_of_tensor(f32, "[2]", "[0, 16]"),
              HasSubstr("tensor \"w\" of type F32 and shape [2] has data of 16 bytes, and 8 were expected"));
  EXPECT_THAT(message_of_tensor("\"F64\"", "[4]", "[0, 16]"), HasSubstr("and 32 were expected"));
  EXPECT_THAT(message_of_tensor(f32, "[9223372036854775807]", "[0, 16]"),
              HasSubstr("more than 64 bits count were expected"));
  EXPECT_THAT(message_of_tensor(f32, "[4294967296, 4294967296]", "[0, 16]"),
              HasSubstr("more elements than 64 bits can count"));
  EXPECT_THAT(message_of_tensor(f32, "[-4]", "[0, 16]"),
              HasSubstr("expected a dimension, 0 or more, got the number -4"));
  EXPECT_THAT(message_of_tensor(f32, "[4.0]", "[0, 16]"), HasSubstr("expected a dimension"));
  EXPECT_THAT(message_of_tensor(f32, "[99999999999999999999]", "[0, 16]"), HasSubstr("expected a dimension"));
  EXPECT_THAT(message_of_tensor(f32, "4", "[0, 16]"), HasSubstr("expected a shape"));
  EXPECT_THAT(message_of_tensor(f32, "[1,1,1,1,1,1,1,1,4]", "[0, 16]"), HasSubstr("got 9 dimensions"));
  EXPECT_THAT(message_of_tensor(f32, "[4]", "[0, 17]"),
              HasSubstr("offsets from 0 to 16, the end of the file's data, got the number 0"));
  EXPECT_THAT(message_of_tensor(f32, "[4]", "[16, 0]"), HasSubstr("got the number 16 and the number 0"));
  EXPECT_THAT(message_of_tensor(f32, "[4]", "[-16, 0]"), HasSubstr("got the number -16"));
  EXPECT_THAT(message_of_tensor(f32, "[4]", "[18446744073709551600, 18446744073709551615]"),
              HasSubstr("expected offsets"));
  EXPECT_THAT(message_of_tensor(f32, "[4]", "[0]"),
              HasSubstr("expected two offsets, [begin, end], got 1 of them"));
  EXPECT_THAT(message_of_tensor(f32, "[4]", "\"all\""), HasSubstr("got the string \"all\""));
  EXPECT_THAT(message_of_tensor("\"F6\"", "[4]", "[0, 17]"), HasSubstr("expected offsets"));
}

TEST(Safetensors, RefusesOverlapsHolesAndARest) {
  const auto with = [](const std::string& a, const std::string& b, std::size_t bytes) {
    return message_of(file_of(fmt::format(R"j({{"a": {{"dtype": "U8", "shape": [4], "data_offsets": {}}},
                                               "b": {{"dtype": "U8", "shape": [4], "data_offsets": {}}}}})j",
                                          a, b),
                              bytes));
  };
  EXPECT_EQ(with("[4, 8]", "[0, 4]", 8), "read without complaint");
  EXPECT_THAT(
      with("[0, 4]", "[3, 7]", 7),
      HasSubstr("tensor \"b\" begins at 3 of the data, and the one before it ends at 4: they overlap"));
  EXPECT_THAT(with("[0, 4]", "[0, 4]", 4), HasSubstr("they overlap"));
  EXPECT_THAT(with("[0, 4]", "[5, 9]", 9), HasSubstr("there is a hole between them"));
  EXPECT_THAT(with("[1, 5]", "[5, 9]", 9), HasSubstr("tensor \"a\" begins at 1"));
  EXPECT_THAT(with("[0, 4]", "[4, 8]", 9), HasSubstr("the tensors end at 8 of the data, which has 9 bytes"));
}

// Whatever the bytes: tensors inside the file, or one error.
TEST(Safetensors, DamagedFilesAreRefusedOrReadInsideTheirBounds) {
  const auto good = file_of(
      R"j({"a": {"dtype": "F16", "shape": [2, 4], "data_offsets": [0, 16]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [16, 20]}})j",
      20);
  std::mt19937 random(5);
  std::size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = good;
    for (auto i = random() % 3 + 1; i > 0; --i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    try {
      for (const Tensor& tensor : read_safetensors(bytes, "m.safetensors")) {
        if (tensor.data.empty()) continue;
        ASSERT_GE(tensor.data.data(), bytes.data());
        ASSERT_LE(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size());
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::bad_argument);
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000u);
}

class SafetensorsModel : public ::testing::Test {
 protected:
  SafetensorsModel() { std::filesystem::create_directories(folder_); }
  ~SafetensorsModel() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::vector<std::byte>& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  // One tensor of one byte.
  void write_shard(const std::string& file, const std::string& tensor) const {
    write(file, file_of(fmt::format(R"j({{"{}": {{"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}}})j",
                                    tensor),
                        1));
  }
  static std::string message_of(const std::filesystem::path& path) {
    try {
      (void)WeightFile::open(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_argument);
      return error.what();
    }
    return "opened without complaint";
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("rondo_safetensors_test_" + std::to_string(::getpid()));
};

TEST_F(SafetensorsModel, OfOneFileTakesItsMetadataFromTheConfigBesideIt) {
  write_shard("model.safetensors", "w");
  EXPECT_TRUE(WeightFile::open(folder_)->metadata_keys().empty());
  write(
      "config.json",
      R"j({"hidden_size": 64, "rms_norm_eps": 1e-5, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}, "head_dim": null,
                            "tie_word_embeddings": true, "eos_token_id": [1, 2], "big": 18446744073709551615, "mixed": [1, "a"]})j");
  for (const std::filesystem::path& path : {folder_, folder_ / "model.safetensors"}) {
    const auto model = WeightFile::open(path);
    EXPECT_THAT(model->tensor_names(), ElementsAre("w"));
    EXPECT_EQ(std::get<std::int64_t>(*model->metadata("hidden_size")), 64);
    EXPECT_EQ(std::get<double>(*model->metadata("rms_norm_eps")), 1e-5);
    EXPECT_EQ(std::get<std::string>(*model->metadata("rope_scaling.rope_type")), "llama3");
    EXPECT_EQ(std::get<double>(*model->metadata("rope_scaling.factor")), 8.0);
    EXPECT_EQ(std::get<bool>(*model->metadata("tie_word_embeddings")), true);
    EXPECT_EQ(std::get<std::uint64_t>(*model->metadata("big")), UINT64_MAX);
    EXPECT_THAT(std::get<std::vector<std::int64_t>>(*model->metadata("eos_token_id")), ElementsAre(1, 2));
    EXPECT_EQ(model->metadata("head_dim"), nullptr);
    EXPECT_EQ(model->metadata("mixed"), nullptr);
    EXPECT_EQ(model->metadata("rope_scaling"), nullptr);
  }
  write("config.json", std::string("[1]"));
  EXPECT_THAT(message_of(folder_), AllOf(HasSubstr("config.json"), HasSubstr("expected an object")));
  write("config.json", std::string("{\"a\": }"));
  EXPECT_THAT(message_of(folder_), HasSubstr("config.json: at byte 6"));
}

TEST_F(SafetensorsModel, OfShardsIsWhatTheIndexLists) {
  write_shard("one.safetensors", "a");
  write_shard("two.safetensors", "b");
  EXPECT_THAT(message_of(folder_),
              AllOf(HasSubstr("a folder with 2 .safetensors files"), HasSubstr("index")));
  const std::string index = "model.safetensors.index.json";
  const auto with = [&](const std::string& map) {
    write(index, R"j({"metadata": {"total_size": 2}, "weight_map": )j" + map + "}");
    return message_of(folder_);
  };
  EXPECT_EQ(with(R"j({"a": "one.safetensors", "b": "two.safetensors"})j"), "opened without complaint");
  EXPECT_THAT(WeightFile::open(folder_)->tensor_names(), ElementsAre("a", "b"));
  EXPECT_THAT(WeightFile::open(folder_ / index)->tensor_names(), ElementsAre("a", "b"));
  EXPECT_EQ(WeightFile::open(folder_)->find("b")->data.size(), 1u);

  EXPECT_THAT(with(R"j({"b": "one.safetensors"})j"),
              HasSubstr("tensor \"b\" is said to be in \"one.safetensors\", which has no such tensor"));
  EXPECT_THAT(with(R"j({"a": "one.safetensors", "a": "one.safetensors"})j"), HasSubstr("duplicate key"));
  EXPECT_THAT(with(R"j({"a": "three.safetensors"})j"), HasSubstr("three.safetensors: cannot be opened"));
  for (const char* hostile : {"\"\"", "\"..\"", "\"../one.safetensors\"", "\"/etc/passwd\"", "\"a\\\\b\"",
                              "\"a\\u0000b\"", "7", "null", "[]"})
    EXPECT_THAT(with(fmt::format("{{\"a\": {}}}", hostile)),
                testing::AnyOf(HasSubstr("tensor \"a\": expected the name of a file in the same folder"),
                               HasSubstr("U+0000")))
        << hostile;
  EXPECT_THAT(with("[]"), HasSubstr("expected an object with the key \"weight_map\""));
  write(index, std::string("{}"));
  EXPECT_THAT(message_of(folder_), HasSubstr("expected an object with the key \"weight_map\""));
  write(index, std::string(""));
  EXPECT_THAT(message_of(folder_), HasSubstr(index));
}

}  // namespace
}  // namespace rondo
