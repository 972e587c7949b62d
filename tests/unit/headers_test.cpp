#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "compiler.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

namespace fs = std::filesystem;

class Headers : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "rondo-headers-XXXXXX").string();
    ASSERT_TRUE(mkdtemp(name.data()));
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  std::vector<std::string> names(const std::string& source,
                                 const std::vector<std::string>& directories = {}) const {
    std::vector<std::string> result;
    for (const Header& header : collect_headers((root_ / "kernels" / "k.cu").string(), source, directories)) {
      result.push_back(header.name);
    }
    return result;
  }

  fs::path root_;
};

TEST_F(Headers, FollowsQuotedIncludesThroughCycles) {
  write("kernels/a.h", "#pragma once\n#include \"sub/b.h\"\n#include <cuda_fp16.h>\n");
  write("kernels/sub/b.h", "  #  include\t\"../a.h\" // back\n#include \"c.h\"\n");
  write("kernels/sub/c.h", "#include \"sub/b.h\"");
  EXPECT_THAT(names("#include \"a.h\"\n#include \"missing.h\"\nint x; // #include \"sub/c.h\"\n"),
              ::testing::ElementsAre("a.h", "sub/b.h", "../a.h", "c.h"));
  EXPECT_TRUE(names("").empty());
  EXPECT_TRUE(names("#include \"\"\n#include \"unfinished\n#include\n#").empty());
}

TEST_F(Headers, LooksBesideTheFileThenInTheDirectoriesThenAmongItsOwn) {
  write("other/x.h", "other");
  write("more/x.h", "more");
  const std::vector<std::string> directories = {(root_ / "other").string(), (root_ / "more").string()};
  const std::string file = (root_ / "k.cu").string();
  EXPECT_EQ(collect_headers(file, "#include \"x.h\"", directories).at(0).text, "other");
  write("x.h", "beside");
  EXPECT_EQ(collect_headers(file, "#include \"x.h\"", directories).at(0).text, "beside");
  EXPECT_THAT(collect_headers(file, "#include \"portable.cuh\"").at(0).text,
              ::testing::HasSubstr("rondo_dynamic_shared"));
  write("portable.cuh", "mine");
  EXPECT_EQ(collect_headers(file, "#include \"portable.cuh\"").at(0).text, "mine");
}

TEST_F(Headers, RefusesOneNameForTwoFiles) {
  write("kernels/a/one.h", "#include \"part.h\"");
  write("kernels/a/part.h", "a");
  write("kernels/b/two.h", "\n#include \"part.h\"");
  write("kernels/b/part.h", "b");
  try {
    names("#include \"a/one.h\"\n#include \"b/two.h\"\n");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_schedule);
    EXPECT_THAT(error.what(),
                ::testing::HasSubstr("two.h:2: two different files are included as \"part.h\""));
  }
}

TEST_F(Headers, CompileAsTheyWereFound) {
  write("kernels/a.h", "#pragma once\n#include \"../up.h\"\n#include \"sub/b.h\"\n");
  write("kernels/sub/b.h", "#pragma once\n#include \"c.h\"\n#include \"../a.h\"\n#include \"../../up.h\"\n");
  write("kernels/sub/c.h", "#pragma once\n__device__ inline int c() { return up(); }\n");
  write("up.h", "#pragma once\n__device__ inline int up() { return 7; }\n");
  CompileRequest request;
  request.file = (root_ / "kernels" / "k.cu").string();
  request.source = "#include \"portable.cuh\"\n#include \"a.h\"\n__global__ void k(int* p) { *p = c(); }\n";
  request.entries = {"k"};
  request.headers = collect_headers(request.file, request.source);
  fs::remove_all(root_ / "kernels");  // the compilers read what was collected, not the files
  request.architecture = "sm_90";
  EXPECT_EQ(make_host_compiler()->compile(request).log, "");
  std::shared_ptr<Compiler> nvrtc;
  try {
    nvrtc = make_nvrtc_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_EQ(nvrtc->compile(request).log, "");
}

}  // namespace
}  // namespace rondo::rtc
