#include "cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "compiler.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Compiles to its own source text, and counts.
class Echo final : public Compiler {
 public:
  explicit Echo(std::string identity = "echo 1") : identity_(std::move(identity)) {}
  const std::string& identity() const noexcept override { return identity_; }
  const std::string& description() const noexcept override { return identity_; }
  Binary compile(const CompileRequest& request) override {
    ++compiled;
    if (request.source == "bad") throw Error(ErrorCode::bad_schedule, request.file + " does not compile");
    Binary binary;
    for (const char c : request.source) binary.code.push_back(static_cast<std::byte>(c));
    binary.log = "log";
    for (const std::string& entry : request.entries) {
      binary.entries.push_back({entry,
                                "lowered_" + entry,
                                {{ParameterKind::pointer, true, DataType::f16, 2, 8, 8},
                                 {ParameterKind::structure, false, std::nullopt, 0, 12, 4}}});
    }
    return binary;
  }
  std::atomic<int> compiled{0};

 private:
  std::string identity_;
};

CompileRequest request() {
  CompileRequest result;
  result.file = "a.cu";
  result.source = "text";
  result.headers = {{"h", "header"}};
  result.defines = {{"N", "1"}};
  result.entries = {"k", "l"};
  result.architecture = "sm_90";
  return result;
}

void expect_same(const Binary& a, const Binary& b) {
  EXPECT_EQ(a.code, b.code);
  EXPECT_EQ(a.log, b.log);
  ASSERT_EQ(a.entries.size(), b.entries.size());
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    EXPECT_EQ(a.entries[i].expression, b.entries[i].expression);
    EXPECT_EQ(a.entries[i].lowered, b.entries[i].lowered);
    EXPECT_EQ(a.entries[i].parameters, b.entries[i].parameters);
  }
}

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "rondo-cache-XXXXXX").string();
    ASSERT_TRUE(mkdtemp(name.data()));
    root_ = name;
    directory_ = root_ / "a" / "b";
  }
  void TearDown() override { fs::remove_all(root_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> result;
    if (fs::exists(directory_)) {
      for (const auto& entry : fs::directory_iterator(directory_)) result.push_back(entry.path());
    }
    return result;
  }

  fs::path root_, directory_;
};

TEST_F(Cache, HitsInThisObjectAndInTheNext) {
  Echo compiler;
  const std::string key = BinaryCache::key(compiler, request());
  EXPECT_EQ(key.size(), 32u);
  const Binary made = compiler.compile(request());
  {
    BinaryCache cache(directory_);
    EXPECT_FALSE(cache.find(key));
    cache.store(key, made);
    const auto found = cache.find(key);
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->from_cache);
    expect_same(*found, made);
    EXPECT_EQ(cache.hits(), 1u);
    EXPECT_EQ(cache.misses(), 1u);
    EXPECT_EQ(cache.problem(), "");
  }
  BinaryCache next(directory_);
  const auto found = next.find(key);
  ASSERT_TRUE(found);
  expect_same(*found, made);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(Cache, KeyDependsOnEveryField) {
  Echo compiler;
  std::vector<CompileRequest> requests(17, request());
  requests[1].source = "text2";
  requests[2].headers[0].text = "header2";
  requests[3].headers[0].name = "h2";
  requests[4].headers.push_back({"", ""});
  requests[5].headers.clear();
  requests[6].defines[0].second = "2";
  requests[7].defines[0].first = "M";
  requests[8].defines.clear();
  requests[9].entries = {"l", "k"};
  requests[10].entries = {"k"};
  requests[11].entries = {"kl"};
  requests[12].architecture = "sm_80";
  requests[13].file = "b.cu";
  requests[14].headers = {{"headerh", ""}};
  requests[15].headers.clear(), requests[15].defines = {{"h", "header"}, {"N", "1"}};
  requests[16].defines.clear(), requests[16].entries = {"N", "1", "k", "l"};
  std::set<std::string> keys;
  for (const CompileRequest& one : requests) keys.insert(BinaryCache::key(compiler, one));
  keys.insert(BinaryCache::key(Echo("echo 2"), request()));
  EXPECT_EQ(keys.size(), requests.size() + 1);
  EXPECT_EQ(BinaryCache::key(Echo(), request()), BinaryCache::key(compiler, request()));
}

TEST_F(Cache, MissesOnDamageAtAnyByteAndRecompiles) {
  Echo compiler;
  const std::vector<CompileRequest> requests = {request()};
  const Binary made = compiler.compile(request());
  BinaryCache cache(directory_);
  const std::string key = BinaryCache::key(compiler, request());
  cache.store(key, made);
  ASSERT_EQ(files().size(), 1u);
  const fs::path file = files()[0];
  std::string good;
  {
    std::ifstream in(file, std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }
  ASSERT_GT(good.size(), 100u);
  const auto expect_recompiled = [&](const std::string& text, const char* what, std::size_t at) {
    std::ofstream(file, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
    EXPECT_FALSE(cache.find(key)) << what << ' ' << at;
    EXPECT_FALSE(fs::exists(file)) << what << ' ' << at;
    std::ofstream(file, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
    const int before = compiler.compiled;
    const std::vector<Binary> result = compile_all(compiler, &cache, requests, 1);
    EXPECT_EQ(compiler.compiled, before + 1);
    EXPECT_FALSE(result[0].from_cache);
    expect_same(result[0], made);
    EXPECT_TRUE(compile_all(compiler, &cache, requests, 1)[0].from_cache);
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x20);
    expect_recompiled(bad, "changed", at);
    expect_recompiled(good.substr(0, at), "cut", at);
  }
  expect_recompiled(good + '\0', "longer", good.size());
}

TEST_F(Cache, RefusesAnEntryUnderAnotherKey) {
  BinaryCache cache(directory_);
  Echo compiler;
  cache.store(std::string(32, 'a'), compiler.compile(request()));
  fs::rename(files()[0], directory_ / (std::string(32, 'b') + ".rondo"));
  EXPECT_FALSE(cache.find(std::string(32, 'b')));
}

void expect_memory_only(BinaryCache& cache, const std::string& problem) {
  Echo compiler;
  const std::string key = BinaryCache::key(compiler, request());
  const Binary made = compiler.compile(request());
  EXPECT_FALSE(cache.find(key));
  cache.store(key, made);
  const auto found = cache.find(key);
  ASSERT_TRUE(found);
  expect_same(*found, made);
  EXPECT_THAT(cache.problem(), HasSubstr(problem));
  EXPECT_EQ(cache.problem().find('\n'), std::string::npos);
}

TEST_F(Cache, StaysInMemoryWhereTheDirectoryCannotBeMade) {
  const fs::path file = root_ / "file";
  std::ofstream(file) << "x";
  BinaryCache under_a_file(file / "cache");
  expect_memory_only(under_a_file, "Not a directory");
  BinaryCache a_file(file);
  expect_memory_only(a_file, "cannot be written");
  BinaryCache proc("/proc/rondo");
  expect_memory_only(proc, "/proc/rondo");
}

TEST_F(Cache, StaysInMemoryWhenTheDirectoryGoesAway) {
  BinaryCache cache(directory_);
  EXPECT_EQ(cache.problem(), "");
  fs::remove_all(directory_);
  expect_memory_only(cache, "No such file");
}

TEST_F(Cache, StaysInMemoryOnAFullDisk) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{10, 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    BinaryCache cache(directory_);
    expect_memory_only(cache, "File too large");
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(files().empty());
}

class Environment {
 public:
  Environment() {
    for (const char* name : names) {
      const char* value = std::getenv(name);
      old_.push_back(value ? std::optional<std::string>(value) : std::nullopt);
      unsetenv(name);
    }
  }
  ~Environment() {
    for (std::size_t i = 0; i < old_.size(); ++i)
      old_[i] ? setenv(names[i], old_[i]->c_str(), 1) : unsetenv(names[i]);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static constexpr const char* names[] = {"RONDO_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::optional<std::string>> old_;
};

TEST_F(Cache, FindsItsDirectoryInTheEnvironment) {
  const Environment kept;
  BinaryCache homeless;
  expect_memory_only(homeless, "none of RONDO_CACHE_DIR, XDG_CACHE_HOME and HOME");
  setenv("HOME", (root_ / "home").c_str(), 1);
  BinaryCache home;
  EXPECT_TRUE(fs::is_directory(root_ / "home" / ".cache" / "rondo"));
  setenv("XDG_CACHE_HOME", (root_ / "xdg").c_str(), 1);
  BinaryCache xdg;
  EXPECT_TRUE(fs::is_directory(root_ / "xdg" / "rondo"));
  setenv("RONDO_CACHE_DIR", (root_ / "chosen").c_str(), 1);
  BinaryCache chosen;
  EXPECT_TRUE(fs::is_directory(root_ / "chosen"));
}

// Big entries, so that a write that another process could see half-done would be seen.
bool hammer(const fs::path& directory) {
  Echo compiler;
  CompileRequest big = request();
  big.source.assign(200'000, 'x');
  const Binary made = compiler.compile(big);
  const std::string key = BinaryCache::key(compiler, big);
  BinaryCache cache(directory);
  std::atomic<bool> good{true};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          cache.store(key, made);
          const auto found = cache.find(key);
          if (!found || found->code != made.code) good = false;
        }
      });
    }
  }
  return good && cache.problem().empty() && cache.misses() == 0;
}

TEST_F(Cache, IsSharedByThreadsAndProcesses) {
  const pid_t child = fork();
  if (child == 0) _exit(hammer(directory_) ? 0 : 1);
  EXPECT_TRUE(hammer(directory_));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(Cache, IgnoresWhatADeadProcessLeft) {
  BinaryCache cache(directory_);
  Echo compiler;
  const std::string key = BinaryCache::key(compiler, request());
  std::ofstream(directory_ / ("." + key + "-1-0")) << "half";
  EXPECT_FALSE(cache.find(key));
  cache.store(key, compiler.compile(request()));
  EXPECT_TRUE(cache.find(key));
}

TEST_F(Cache, CompileAllKeepsTheOrderAndReportsProgress) {
  Echo compiler;
  BinaryCache cache(directory_);
  std::vector<CompileRequest> requests(20, request());
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].source = std::string(i + 1, 'x');
  std::vector<std::size_t> progress;
  const auto results = compile_all(compiler, &cache, requests, 4, [&](std::size_t done, std::size_t total) {
    EXPECT_EQ(total, 20u);
    progress.push_back(done);
  });
  for (std::size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i].code.size(), i + 1);
  ASSERT_EQ(progress.size(), 20u);
  for (std::size_t i = 0; i < progress.size(); ++i) EXPECT_EQ(progress[i], i + 1);
  EXPECT_TRUE(compile_all(compiler, nullptr, {}, 4).empty());
}

TEST_F(Cache, CompileAllCollectsAllFailures) {
  Echo compiler;
  std::vector<CompileRequest> requests(3, request());
  requests[0].source = requests[2].source = "bad";
  requests[2].file = "c.cu";
  try {
    compile_all(compiler, nullptr, requests, 2);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_schedule);
    EXPECT_STREQ(error.what(), "a.cu does not compile\nc.cu does not compile");
  }
  EXPECT_EQ(compiler.compiled, 3);
}

}  // namespace
}  // namespace rondo::rtc
