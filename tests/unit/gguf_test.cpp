#include "gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "gguf_bytes.h"
#include "rondo/error.h"

namespace rondo {
namespace {

using test::GgufBytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string message_of(const GgufBytes& file) {
  try {
    (void)read_gguf(file.bytes(), "m.gguf");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_argument);
    return error.what();
  }
  return "read without complaint";
}

// One tensor of the given type, dimensions (fastest first) and offset, then `data` bytes of data.
GgufBytes one_tensor(std::uint32_t type, const std::vector<std::uint64_t>& dimensions, std::uint64_t offset,
                     std::size_t data) {
  GgufBytes file;
  file.header(3, 1, 0).tensor("w", dimensions, type, offset).align(32).zeros(data);
  return file;
}

GgufBytes small_model() {
  GgufBytes file;
  file.header(3, 4, 9);
  file.key("u8", 0).value<std::uint8_t>(200);
  file.key("i16", 3).value<std::int16_t>(-5);
  file.key("f32", 6).value<float>(0.5f);
  file.key("flag", 7).value<std::uint8_t>(1);
  file.key("text", 8).string("héllo");
  file.key("strings", 9).value<std::uint32_t>(8).value<std::uint64_t>(2).string("a").string("");
  file.key("numbers", 9)
      .value<std::uint32_t>(5)
      .value<std::uint64_t>(2)
      .value<std::int32_t>(-1)
      .value<std::int32_t>(2);
  file.key("flags", 9)
      .value<std::uint32_t>(7)
      .value<std::uint64_t>(2)
      .value<std::uint8_t>(0)
      .value<std::uint8_t>(1);
  file.key("empty", 9).value<std::uint32_t>(12).value<std::uint64_t>(0);
  file.tensor("f", {3, 2}, 0, 0)
      .tensor("q", {64, 2}, 3, 32)
      .tensor("k", {256}, 12, 128)
      .tensor("b", {4}, 30, 128);
  file.align(32).zeros(24).align(32).zeros(80).align(32).zeros(8);
  return file;
}

TEST(Gguf, ReadsMetadataOfEveryKind) {
  const GgufBytes file = small_model();
  const GgufContents contents = read_gguf(file.bytes(), "m.gguf");
  ASSERT_EQ(contents.metadata.size(), 9);
  EXPECT_EQ(contents.metadata[0].first, "u8");
  EXPECT_EQ(std::get<std::uint64_t>(contents.metadata[0].second), 200);
  EXPECT_EQ(std::get<std::int64_t>(contents.metadata[1].second), -5);
  EXPECT_EQ(std::get<double>(contents.metadata[2].second), 0.5);
  EXPECT_EQ(std::get<bool>(contents.metadata[3].second), true);
  EXPECT_EQ(std::get<std::string>(contents.metadata[4].second), "héllo");
  EXPECT_THAT(std::get<std::vector<std::string>>(contents.metadata[5].second), ElementsAre("a", ""));
  EXPECT_THAT(std::get<std::vector<std::int64_t>>(contents.metadata[6].second), ElementsAre(-1, 2));
  EXPECT_THAT(std::get<std::vector<bool>>(contents.metadata[7].second), ElementsAre(false, true));
  EXPECT_THAT(std::get<std::vector<double>>(contents.metadata[8].second), ElementsAre());
}

TEST(Gguf, ReadsTensorsInNumPysOrder) {
  const GgufBytes file = small_model();
  const GgufContents contents = read_gguf(file.bytes(), "m.gguf");
  ASSERT_EQ(contents.tensors.size(), 4);
  const std::byte* end = file.bytes().data() + file.bytes().size();
  EXPECT_EQ(contents.tensors[0].type, DataType::f32);
  EXPECT_THAT(contents.tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(contents.tensors[0].data.size(), 24);
  EXPECT_EQ(contents.tensors[1].type, DataType::q4_1);
  EXPECT_THAT(contents.tensors[1].shape, ElementsAre(2, 64));
  EXPECT_EQ(contents.tensors[1].data.size(), 80);
  EXPECT_EQ(contents.tensors[1].data.data(), end - 8 - 96);
  EXPECT_EQ(contents.tensors[3].type, DataType::bf16);
  EXPECT_EQ(contents.tensors[3].data.data(), end - 8);
}

TEST(Gguf, ListsTypesItDoesNotKnowWithoutData) {
  const GgufBytes file = small_model();
  const GgufContents contents = read_gguf(file.bytes(), "m.gguf");
  EXPECT_EQ(contents.tensors[2].type, std::nullopt);
  EXPECT_EQ(contents.tensors[2].type_name, "Q4_K");
  EXPECT_TRUE(contents.tensors[2].data.empty());
  EXPECT_EQ(read_gguf(one_tensor(9999, {7}, 0, 0).bytes(), "m.gguf").tensors[0].type_name, "ggml type 9999");
}

TEST(Gguf, ReadsVersionTwoAndRefusesTheOthers) {
  EXPECT_EQ(read_gguf(GgufBytes().header(2, 0, 0).bytes(), "m.gguf").tensors.size(), 0);
  EXPECT_THAT(message_of(GgufBytes().header(1, 0, 0)),
              HasSubstr("m.gguf: at byte 4: GGUF version 1; versions 2 and 3 are read"));
  EXPECT_THAT(message_of(GgufBytes().header(4, 0, 0)), HasSubstr("GGUF version 4"));
  EXPECT_THAT(message_of(GgufBytes().header(0x03000000, 0, 0)), HasSubstr("big-endian"));
  EXPECT_THAT(message_of(GgufBytes().value<std::uint32_t>(0x12345678)),
              HasSubstr("m.gguf: at byte 0: expected \"GGUF\""));
}

TEST(Gguf, HonoursTheFilesAlignment) {
  GgufBytes file;
  file.header(3, 1, 1)
      .key("general.alignment", 4)
      .value<std::uint32_t>(8)
      .tensor("w", {2}, 0, 8)
      .align(8)
      .zeros(8);
  file.value<float>(1).value<float>(2);
  EXPECT_EQ(read_gguf(file.bytes(), "m.gguf").tensors[0].data.data(),
            file.bytes().data() + file.bytes().size() - 8);
  for (const std::uint32_t alignment : {0u, 3u, 33u}) {
    GgufBytes bad;
    bad.header(3, 0, 1).key("general.alignment", 4).value(alignment);
    EXPECT_THAT(message_of(bad),
                HasSubstr("at byte 49: general.alignment is not an unsigned 32-bit power of two"));
  }
  GgufBytes wide;
  wide.header(3, 0, 1).key("general.alignment", 10).value(std::uint64_t{1} << 63);
  EXPECT_THAT(message_of(wide), HasSubstr("power of two"));
  EXPECT_THAT(message_of(GgufBytes().header(3, 0, 1).key("general.alignment", 8).string("32")),
              HasSubstr("power of two"));
}

TEST(Gguf, RefusesCountsAndLengthsBeyondTheFile) {
  constexpr std::uint64_t huge = ~std::uint64_t{0};
  EXPECT_THAT(message_of(GgufBytes().header(3, huge, 0)),
              HasSubstr("at byte 8: the tensor count is 18446744073709551615"));
  EXPECT_THAT(message_of(GgufBytes().header(3, 0, huge)), HasSubstr("at byte 16: the metadata count"));
  EXPECT_THAT(message_of(GgufBytes().header(3, 0, 1).value(huge).zeros(40)),
              HasSubstr("a metadata key needs 18446744073709551615 bytes"));
  EXPECT_THAT(message_of(GgufBytes().header(3, 0, 1).key("k", 8).value(huge - 7).zeros(40)),
              HasSubstr("a metadata value needs"));
  for (const std::uint32_t type : {0u, 4u, 7u, 8u, 12u}) {
    GgufBytes file;
    file.header(3, 0, 1).key("k", 9).value(type).value<std::uint64_t>(huge / 8).zeros(40);
    EXPECT_THAT(message_of(file), HasSubstr("an array's length is 2305843009213693951")) << type;
  }
}

TEST(Gguf, RefusesMetadataThatIsNone) {
  EXPECT_THAT(message_of(GgufBytes().header(3, 0, 1).key("k", 13).zeros(8)),
              HasSubstr("at byte 33: expected a value's type, 0 to 12, got 13"));
  EXPECT_THAT(message_of(GgufBytes().header(3, 0, 1).key("k", 7).value<std::uint8_t>(2)),
              HasSubstr("expected a bool, 0 or 1, got 2"));
  EXPECT_THAT(message_of(GgufBytes().header(3, 0, 1).key("k", 9).value<std::uint32_t>(13).zeros(8)),
              HasSubstr("0 to 12, got 13"));
  GgufBytes nested;
  nested.header(3, 0, 1).key("k", 9);
  for (int i = 0; i < 10000; ++i) nested.value<std::uint32_t>(9).value<std::uint64_t>(1);
  EXPECT_THAT(message_of(nested), HasSubstr("an array of arrays"));
  GgufBytes twice;
  twice.header(3, 0, 2).key("k", 0).value<std::uint8_t>(1).key("k", 0).value<std::uint8_t>(1);
  EXPECT_THAT(message_of(twice), HasSubstr("at byte 38: metadata key \"k\" occurs twice"));
}

TEST(Gguf, RefusesShapesThatAreNone) {
  EXPECT_THAT(message_of(one_tensor(0, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 4)),
              HasSubstr("\"w\" has 9 dimensions; at most 8"));
  EXPECT_THAT(message_of(one_tensor(0, {4, 0}, 0, 4)), HasSubstr("\"w\" has a dimension of 0"));
  EXPECT_THAT(message_of(one_tensor(0, {1ull << 32, 1ull << 32}, 0, 4)),
              HasSubstr("more elements than 64 bits"));
  EXPECT_THAT(message_of(one_tensor(0, {1ull << 62}, 0, 4)), HasSubstr("more bytes than 64 bits"));
  EXPECT_THAT(message_of(one_tensor(3, {48}, 0, 40)),
              HasSubstr("rows of 48 elements are not a whole number of blocks of 32"));
  EXPECT_THAT(message_of(one_tensor(8, {}, 0, 40)), HasSubstr("rows of 1 elements"));
  EXPECT_EQ(read_gguf(one_tensor(0, {}, 0, 4).bytes(), "m.gguf").tensors[0].data.size(), 4);
}

TEST(Gguf, RefusesDataOutsideTheFile) {
  EXPECT_THAT(message_of(one_tensor(0, {4}, 0, 15)),
              AllOf(HasSubstr("at byte 49: "), HasSubstr("tensor \"w\" has 16 bytes at offset 0")));
  EXPECT_THAT(message_of(one_tensor(0, {4}, 32, 16)), HasSubstr("16 bytes at offset 32"));
  EXPECT_THAT(message_of(one_tensor(0, {4}, ~std::uint64_t{31}, 64)),
              HasSubstr("at offset 18446744073709551584"));
  EXPECT_THAT(message_of(one_tensor(12, {256}, 1ull << 40, 64)), HasSubstr("at offset 1099511627776"));
  EXPECT_THAT(message_of(one_tensor(0, {4}, 4, 64)),
              HasSubstr("which is not a multiple of the alignment, 32"));
  GgufBytes twice;
  twice.header(3, 2, 0).tensor("w", {1}, 0, 0).tensor("w", {1}, 0, 0).align(32).zeros(4);
  EXPECT_THAT(message_of(twice), HasSubstr("tensor \"w\" occurs twice"));
}

TEST(Gguf, IsSafeWhereverTheFileIsCut) {
  const GgufBytes file = small_model();
  const auto whole = file.bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // A copy of exactly that length, so that a sanitizer sees a read past its end.
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW((void)read_gguf(cut, "m.gguf"), Error) << length;
  }
}

TEST(Gguf, IsSafeWhateverBytesAreDamaged) {
  const GgufBytes file = small_model();
  const auto whole = file.bytes();
  std::mt19937 random(5);
  int opened = 0;
  constexpr int rounds = 20000;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::byte> damaged(whole.begin(), whole.end());
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
      damaged[random() % damaged.size()] = static_cast<std::byte>(random() % 3 == 0 ? 0xff : random() & 0xff);
    }
    try {
      const GgufContents contents = read_gguf(damaged, "m.gguf");
      for (const Tensor& tensor : contents.tensors) {
        if (tensor.data.empty()) continue;
        ASSERT_GE(tensor.data.data(), damaged.data());
        ASSERT_LE(tensor.data.data() + tensor.data.size(), damaged.data() + damaged.size());
      }
      ++opened;
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("m.gguf: at byte "));
    }
  }
  EXPECT_GT(opened, 0);
  EXPECT_LT(opened, rounds);
}

}  // namespace
}  // namespace rondo
