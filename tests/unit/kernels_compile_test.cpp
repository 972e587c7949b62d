// Every kernel that a schedule under configs/ can ask for compiles, with NVRTC for an old and a newer
// architecture and with the host's compiler, to the same signature.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "builtin.h"
#include "compiler.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// The instances that a kernel's declaration stands for.
std::set<std::string> entries_of(const nlohmann::json& kernel) {
  std::set<std::string> entries = {kernel.at("entry")};
  const auto expand = [&entries](const std::string& variable, const std::vector<std::string>& values) {
    std::set<std::string> expanded;
    for (const std::string& entry : entries) {
      for (const std::string& value : values)
        expanded.insert(replace_all(entry, "{" + variable + "}", value));
    }
    entries = std::move(expanded);
  };
  if (kernel.contains("for")) {
    for (const auto& [variable, values] : kernel.at("for").items()) expand(variable, values);
  }
  expand("head_dim", {"64", "128"});
  return entries;
}

// By source file: what the schedules name in it.
std::map<fs::path, std::set<std::string>> entries_by_source() {
  std::map<fs::path, std::set<std::string>> found;
  for (const auto& file : fs::recursive_directory_iterator(fs::path(RONDO_SOURCE_DIR) / "configs")) {
    if (file.path().extension() != ".json" || file.path().string().ends_with(".schema.json")) continue;
    const auto schedule = nlohmann::json::parse(read_text(file.path()), nullptr, true, true);
    for (const auto& kernel : schedule.at("kernels")) {
      if (!kernel.contains("source")) continue;
      const fs::path source = file.path().parent_path() / kernel.at("source").get<std::string>();
      found[source.lexically_normal()].merge(entries_of(kernel));
    }
  }
  return found;
}

CompileRequest request_of(const fs::path& source, const std::set<std::string>& entries) {
  CompileRequest request;
  request.file = source.string();
  request.source = read_text(source);
  request.headers = collect_headers(request.file, request.source);
  request.entries.assign(entries.begin(), entries.end());
  return request;
}

std::shared_ptr<Compiler> nvrtc_or_skip_reason(std::string& reason) {
  try {
    return make_nvrtc_compiler();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::missing_backend) throw;
    reason = error.what();
    return nullptr;
  }
}

std::string describe(const std::vector<Parameter>& parameters) {
  std::ostringstream text;
  for (const Parameter& parameter : parameters) {
    text << (parameter.is_const ? "const " : "") << (parameter.type ? name(*parameter.type) : "untyped")
         << (parameter.kind == ParameterKind::pointer ? "*" : "") << " of " << parameter.element_size << "/"
         << parameter.size << "/" << parameter.alignment << ", ";
  }
  return text.str();
}

// By source file, compiled once for all tests. The host's compiler is slow: of the instances, those with
// q4_1, of which some have each of the other types too.
const std::map<fs::path, std::vector<Entry>>& host_entries() {
  static const std::map<fs::path, std::vector<Entry>> compiled = [] {
    std::map<fs::path, std::vector<Entry>> result;
    for (const auto& [source, entries] : entries_by_source()) {
      CompileRequest request = request_of(source, entries);
      std::erase_if(request.entries, [](const std::string& entry) {
        return entry.find("rondo_") != std::string::npos && entry.find("rondo_q4_1") == std::string::npos;
      });
      request.architecture = "host";
      result[source] = make_host_compiler()->compile(request).entries;
    }
    return result;
  }();
  return compiled;
}

class Kernels : public ::testing::TestWithParam<const char*> {};

TEST_P(Kernels, CompileForNvidiaWithTheSignaturesOfTheHost) {
  std::string reason;
  const std::shared_ptr<Compiler> nvrtc = nvrtc_or_skip_reason(reason);
  if (!nvrtc) GTEST_SKIP() << "NVRTC is not on this machine: " << reason;

  const auto sources = entries_by_source();
  ASSERT_THAT(sources, ::testing::SizeIs(::testing::Ge(3u)));
  for (const auto& [source, entries] : sources) {
    SCOPED_TRACE(source.string());
    CompileRequest request = request_of(source, entries);
    request.architecture = GetParam();
    const Binary binary = nvrtc->compile(request);
    EXPECT_EQ(binary.log, "");
    ASSERT_EQ(binary.entries.size(), entries.size());

    for (const Entry& expected : host_entries().at(source)) {
      const auto same = std::find_if(binary.entries.begin(), binary.entries.end(), [&](const Entry& entry) {
        return entry.expression == expected.expression;
      });
      ASSERT_NE(same, binary.entries.end());
      EXPECT_EQ(describe(same->parameters), describe(expected.parameters)) << expected.expression;
      EXPECT_FALSE(same->parameters.empty()) << expected.expression;
    }
  }
}

// Rondo's own: copies, fills and slots.
TEST_P(Kernels, BuiltinsCompileForNvidiaWithTheSignaturesOfTheHost) {
  std::string reason;
  const std::shared_ptr<Compiler> nvrtc = nvrtc_or_skip_reason(reason);
  if (!nvrtc) GTEST_SKIP() << "NVRTC is not on this machine: " << reason;

  CompileRequest request;
  request.file = "builtin.cu";
  request.source = std::string(builtin_source);
  for (const int bytes : {1, 2, 4, 8, 16})
    request.entries.push_back("rondo_builtin::copy<" + std::to_string(bytes) + ">");
  for (const int bytes : {1, 2, 4, 8})
    request.entries.push_back("rondo_builtin::fill<" + std::to_string(bytes) + ">");
  for (const int slots : {1, 3, 500})
    request.entries.push_back("rondo_builtin::publish<" + std::to_string(slots) + ">");
  request.architecture = GetParam();
  const Binary nvidia = nvrtc->compile(request);
  request.architecture = "host";
  const Binary host = make_host_compiler()->compile(request);
  for (std::size_t i = 0; i < request.entries.size(); ++i) {
    EXPECT_EQ(describe(nvidia.entries[i].parameters), describe(host.entries[i].parameters))
        << request.entries[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Kernels, ::testing::Values("sm_75", "sm_90"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace rondo::rtc
