#include "rondo/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "gguf_bytes.h"
#include "rondo/error.h"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Weights : public ::testing::Test {
 protected:
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("rondo_weights_test_" + std::to_string(::getpid()));
  Weights() { std::filesystem::create_directories(folder_); }
  ~Weights() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, std::span<const std::byte> bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return folder_ / name;
  }

  static std::string message_of(const std::filesystem::path& path) {
    try {
      (void)WeightFile::open(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_argument);
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      return error.what();
    }
    return "opened without complaint";
  }
};

TEST_F(Weights, OpensGgufByItsContentWhateverItsName) {
  test::GgufBytes bytes;
  bytes.header(3, 2, 1).key("llama.block_count", 4).value<std::uint32_t>(30);
  bytes.tensor("a", {2}, 0, 0)
      .tensor("b", {1}, 0, 32)
      .align(32)
      .value<float>(1)
      .value<float>(2)
      .align(32)
      .value<float>(3);
  const auto file = WeightFile::open(write("model.bin", bytes.bytes()));
  EXPECT_EQ(file->path(), folder_ / "model.bin");
  EXPECT_THAT(file->tensor_names(), ElementsAre("a", "b"));
  EXPECT_THAT(file->metadata_keys(), ElementsAre("llama.block_count"));
  EXPECT_EQ(std::get<std::uint64_t>(*file->metadata("llama.block_count")), 30);
  EXPECT_EQ(file->metadata("llama.block"), nullptr);
  EXPECT_EQ(file->find("c"), nullptr);
  EXPECT_EQ(load_as_double(DataType::f32, file->find("b")->data.data()), 3.0);
}

TEST_F(Weights, OpensAFolderOfNpyInTheOrderOfTheirNames) {
  const std::vector<float> values = {1, 2, 3};
  for (const char* name : {"c.npy", "a.npy", "b.npy"}) {
    write_npy(folder_ / name, DataType::f32, std::vector<std::size_t>{3}, std::as_bytes(std::span(values)));
  }
  write("readme.txt", {});
  const auto file = WeightFile::open(folder_);
  EXPECT_THAT(file->tensor_names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(load_as_double(DataType::f32, file->find("c")->data.data() + 8), 3.0);
  write("b.npy", {});
  EXPECT_THAT(message_of(folder_), HasSubstr("b.npy: at byte 0"));
}

TEST_F(Weights, SaysWhatIsWrongWithAPath) {
  EXPECT_THAT(message_of(folder_ / "missing.gguf"),
              HasSubstr("missing.gguf: cannot be opened: No such file"));
  EXPECT_THAT(message_of(folder_), HasSubstr("a folder with no .safetensors and no .npy file in it"));
  EXPECT_THAT(message_of(write("empty.gguf", {})),
              HasSubstr("neither a GGUF nor an .npy nor a safetensors file"));
  const std::string text = "hello, world";
  EXPECT_THAT(message_of(write("text.gguf", std::as_bytes(std::span(text)))),
              HasSubstr("neither a GGUF nor an .npy nor a safetensors file"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of(folder_ / "pipe"), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace rondo
