#include "npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "rondo/error.h"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string npy(const std::string& header, const std::string& data = "", int major = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return file + header + data;
}

std::string header(const std::string& descr, const std::string& shape,
                   const std::string& fortran_order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran_order + ", 'shape': " + shape + ", }\n";
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string message_of(const std::string& file) {
  try {
    (void)read_npy(bytes_of(file), "x.npy", "x");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_argument);
    return error.what();
  }
  return "read without complaint";
}

TEST(Npy, ReadsEveryVersionOfTheFormat) {
  const std::string data(24, '\x01');
  for (const int major : {1, 2, 3}) {
    const std::string file = npy(header("'<f4'", "(2, 3)"), data, major);
    const Tensor tensor = read_npy(bytes_of(file), "x.npy", "x");
    EXPECT_EQ(tensor.name, "x");
    EXPECT_EQ(tensor.type, DataType::f32);
    EXPECT_EQ(tensor.type_name, "<f4");
    EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
    EXPECT_EQ(tensor.data.size(), 24);
    EXPECT_EQ(reinterpret_cast<const char*>(tensor.data.data()), file.data() + file.size() - 24);
  }
}

TEST(Npy, ReadsHeadersHoweverTheyAreSpelt) {
  const std::string data(8, '\0');
  for (const std::string text : {"{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\"<i4\"}",
                                 "{'shape': (2,), 'descr': '<i4', 'fortran_order' : False}",
                                 "  { 'descr':'<i4' ,'fortran_order':False ,'shape':( 2 , ) , }   \n"}) {
    const std::string file = npy(text, data);
    const Tensor tensor = read_npy(bytes_of(file), "x.npy", "x");
    EXPECT_THAT(tensor.shape, ElementsAre(2));
    EXPECT_EQ(tensor.type, DataType::i32);
  }
}

TEST(Npy, ReadsScalarsAndEmptyArrays) {
  const std::string scalar = npy(header("'|b1'", "()"), "\x01");
  EXPECT_EQ(read_npy(bytes_of(scalar), "x.npy", "x").data.size(), 1);
  const std::string empty = npy(header("'<f8'", "(0, 18446744073709551615, 18446744073709551615)"));
  EXPECT_EQ(read_npy(bytes_of(empty), "x.npy", "x").data.size(), 0);
}

TEST(Npy, NamesTypesItDoesNotKnow) {
  for (const std::string descr : {"'<c8'", "'|S10'", "'|O'", "'=f4'", "''", "'<'"}) {
    const std::string file = npy(header(descr, "(2,)"), std::string(16, '\0'));
    const Tensor tensor = read_npy(bytes_of(file), "x.npy", "x");
    EXPECT_EQ(tensor.type, std::nullopt) << descr;
    EXPECT_TRUE(tensor.data.empty());
    EXPECT_FALSE(tensor.type_name.empty());
  }
  const std::string fields =
      npy(header("[('a', '<f4'), ('b]', '<i4', (2, 2))]", "(2,)"), std::string(40, '\0'));
  EXPECT_EQ(read_npy(bytes_of(fields), "x.npy", "x").type_name, "a struct");
}

TEST(Npy, RefusesWhatItDoesNotReadAndSaysWhatToDo) {
  EXPECT_THAT(message_of(npy(header("'<f4'", "(2, 2)", "True"), std::string(16, '\0'))),
              AllOf(HasSubstr("x.npy: at byte 10: Fortran order"), HasSubstr("ascontiguousarray")));
  EXPECT_THAT(message_of(npy(header("'>f4'", "(2,)"), std::string(8, '\0'))),
              AllOf(HasSubstr("big-endian data, \">f4\""), HasSubstr("newbyteorder")));
  EXPECT_THAT(message_of("GGUF"), HasSubstr("x.npy: at byte 0: expected NumPy's magic"));
  EXPECT_THAT(message_of(npy(header("'<f4'", "(2,)"), "", 4)),
              HasSubstr("format 4.0; 1.0, 2.0 and 3.0 are read"));
}

TEST(Npy, RefusesShapesThatTheFileCannotHold) {
  const auto with_shape = [](const std::string& shape) {
    return message_of(npy(header("'<f4'", shape), std::string(16, '\0')));
  };
  EXPECT_THAT(with_shape("(5,)"), HasSubstr("the shape needs 20 bytes of data, and the file has 16"));
  EXPECT_THAT(with_shape("(4611686018427387905,)"), HasSubstr("more bytes than 64 bits can count"));
  EXPECT_THAT(with_shape("(4294967296, 4294967296)"), HasSubstr("more bytes than 64 bits can count"));
  EXPECT_THAT(with_shape("(99999999999999999999,)"), HasSubstr("a dimension of more than 64 bits"));
  EXPECT_THAT(with_shape("(-1,)"), HasSubstr("expected a dimension, a whole number of 0 or more"));
  EXPECT_THAT(with_shape("(2)"), HasSubstr("expected a tuple"));
  EXPECT_THAT(with_shape("(2,,2)"), HasSubstr("expected a dimension"));
  EXPECT_THAT(with_shape("2"), HasSubstr("expected '('"));
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  EXPECT_THAT(with_shape(many + ")"), HasSubstr("more than 64 dimensions"));
}

TEST(Npy, RefusesHeadersThatAreNotTheDict) {
  EXPECT_THAT(message_of(npy("")), HasSubstr("expected '{'"));
  EXPECT_THAT(message_of(npy("{'descr': '<f4'}")), HasSubstr("the header lacks one of"));
  EXPECT_THAT(message_of(npy("{'descr': '<f4', 'descr': '<f4'}")), HasSubstr("each once, got \"descr\""));
  EXPECT_THAT(message_of(npy("{'other': 1}")), HasSubstr("got \"other\""));
  EXPECT_THAT(message_of(npy("{'descr: 1}")), HasSubstr("has no end"));
  EXPECT_THAT(message_of(npy("{'descr': [[[[")), HasSubstr("has no end"));
  EXPECT_THAT(message_of(npy("{'fortran_order': Maybe}")), HasSubstr("expected True or False"));
  EXPECT_THAT(message_of(npy(header("'<f4'", "(1,)") + "x", "abcd")),
              HasSubstr("after the header's closing brace"));
}

TEST(Npy, IsSafeWhereverTheFileIsCutOrDamaged) {
  const std::string whole = npy(header("'<f4'", "(2, 3)"), std::string(24, '\x01'));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // A copy of exactly that length, so that a sanitizer sees a read past its end.
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW((void)read_npy(std::as_bytes(std::span(cut)), "x.npy", "x"), Error) << length;
  }
  std::mt19937 random(11);
  int opened = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<char> damaged(whole.begin(), whole.end());
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      damaged[random() % damaged.size()] = static_cast<char>(random() & 0xff);
    try {
      const Tensor tensor = read_npy(std::as_bytes(std::span(damaged)), "x.npy", "x");
      ASSERT_LE(tensor.data.size(), damaged.size());
      ++opened;
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("x.npy: at byte "));
    }
  }
  EXPECT_GT(opened, 0);
  EXPECT_LT(opened, 5000);
}

class WriteNpy : public ::testing::Test {
 protected:
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("rondo_npy_test_" + std::to_string(::getpid()) + ".npy");
  ~WriteNpy() override { std::filesystem::remove(path_); }
};

TEST_F(WriteNpy, WritesWhatTheReaderReads) {
  const std::vector<std::vector<std::size_t>> shapes = {{}, {6}, {2, 3}, {0}, {3, 1, 2}};
  for (std::size_t i = 0; i < data_type_count; ++i) {
    const auto type = static_cast<DataType>(i);
    if (!is_plain(type)) continue;
    for (const std::vector<std::size_t>& shape : shapes) {
      std::size_t count = info(type).block_bytes;
      for (const std::size_t extent : shape) count *= extent;
      const std::vector<std::byte> data(count, std::byte{1});
      write_npy(path_, type, shape, data);
      const auto file = WeightFile::open(path_);
      const Tensor* tensor = file->find(path_.stem().string());
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->type, type) << name(type);
      EXPECT_EQ(tensor->shape, shape);
      EXPECT_TRUE(std::equal(data.begin(), data.end(), tensor->data.begin(), tensor->data.end()));
    }
  }
}

TEST_F(WriteNpy, WritesTheHeaderThatNumPyWrites) {
  const std::vector<float> values = {1, 2};
  write_npy(path_, DataType::f32, std::vector<std::size_t>{2}, std::as_bytes(std::span(values)));
  std::ifstream stream(path_, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(stream)), {});
  std::string expected = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  expected.resize(117, ' ');
  EXPECT_EQ(file.substr(0, 128), npy(expected + '\n'));
  EXPECT_EQ(file.size(), 136);
}

TEST_F(WriteNpy, RefusesWhatIsNotAnArray) {
  const std::vector<std::byte> data(20);
  EXPECT_THROW(write_npy(path_, DataType::q4_1, std::vector<std::size_t>{32}, data), Error);
  EXPECT_THROW(write_npy(path_, DataType::f32, std::vector<std::size_t>{4}, data), Error);
  EXPECT_THROW(write_npy(path_, DataType::f32,
                         std::vector<std::size_t>{std::numeric_limits<std::size_t>::max(), 5}, data),
               Error);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST(WriteNpyTo, SaysWhyAFileCannotBeWritten) {
  const std::vector<std::byte> data(4);
  for (const char* path : {"/nowhere/x.npy", "/dev/full"}) {
    if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
    try {
      write_npy(path, DataType::f32, std::vector<std::size_t>{1}, data);
      ADD_FAILURE() << path << " was written";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::run_time);
      EXPECT_THAT(error.what(), HasSubstr(path));
    }
  }
}

}  // namespace
}  // namespace rondo
