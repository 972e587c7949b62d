// Every kernel that a schedule under configs/ can ask for compiles (of pairs of weights' types, a selection),
// with NVRTC for an old and a newer architecture, with hipRTC for warps of 32 and of 64, and with the host's
// compiler, to the same signature.
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

#include "amd_code_object.h"
#include "builtin.h"
#include "compiler.h"
#include "random_weights.h"
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

// Of the instances with two types of weights there are too many to compile all: those with two different
// ones, of which none is q4_1.
bool is_one_of_too_many(const std::string& entry) {
  const std::size_t first = entry.find("<rondo_"), comma = entry.find(", rondo_");
  if (first == std::string::npos || comma == std::string::npos) return false;
  const std::string one = entry.substr(first + 1, comma - first - 1);
  const std::string other = entry.substr(comma + 2, entry.find_first_of(",>", comma + 2) - comma - 2);
  return one != other && one != "rondo_q4_1" && other != "rondo_q4_1";
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
      if (source.filename() == "llama_persistent.cu") continue;  // for some devices only, see below
      std::set<std::string> entries = entries_of(kernel);
      std::erase_if(entries, is_one_of_too_many);
      found[source.lexically_normal()].merge(entries);
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

// NVRTC for "sm_90", hipRTC for "gfx90a"; null with the reason where this machine does not have it.
std::shared_ptr<Compiler> compiler_for(const std::string& architecture, std::string& reason) {
  try {
    return architecture.starts_with("gfx") ? make_hiprtc_compiler() : make_nvrtc_compiler();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::missing_backend) throw;
    reason = "no compiler for " + architecture + " on this machine: " + error.what();
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

// All of them, by NVRTC, where it is on this machine; the same wherever it is asked.
const std::map<fs::path, std::vector<Entry>>& nvidia_entries() {
  static const std::map<fs::path, std::vector<Entry>> compiled = [] {
    std::map<fs::path, std::vector<Entry>> result;
    std::string reason;
    const std::shared_ptr<Compiler> nvrtc = compiler_for("sm_75", reason);
    for (const auto& [source, entries] : entries_by_source()) {
      CompileRequest request = request_of(source, entries);
      request.architecture = "sm_75";
      if (nvrtc) result[source] = nvrtc->compile(request).entries;
    }
    return result;
  }();
  return compiled;
}

void expect_the_same(const std::vector<Entry>& entries, const std::vector<Entry>& expected) {
  for (const Entry& one : expected) {
    const auto same = std::find_if(entries.begin(), entries.end(),
                                   [&](const Entry& entry) { return entry.expression == one.expression; });
    ASSERT_NE(same, entries.end()) << one.expression;
    EXPECT_EQ(describe(same->parameters), describe(one.parameters)) << one.expression;
  }
}

// The binary's own word on where the arguments lie, against the layout that the packed buffer is filled by.
void expect_layout(const Binary& binary, int wavefront_size) {
  const AmdCodeObject object = read_amd_code_object(binary.code);
  for (const Entry& entry : binary.entries) {
    const AmdKernel* kernel = object.find(entry.lowered);
    ASSERT_NE(kernel, nullptr) << entry.lowered;
    EXPECT_EQ(kernel->wavefront_size, wavefront_size);
    const std::vector<std::size_t> offsets = entry.offsets();
    ASSERT_EQ(kernel->arguments.size(), offsets.size()) << entry.expression;
    for (std::size_t i = 0; i < offsets.size(); ++i)
      EXPECT_EQ(kernel->arguments[i], (AmdArgument{offsets[i], entry.parameters[i].size}))
          << entry.expression;
  }
}

int wavefront_size_of(const std::string& architecture) { return architecture == "gfx1030" ? 32 : 64; }

struct Vendor {
  const char* name;
  std::vector<const char*> architectures;
};

// One test for all architectures of a vendor: the host's compiler takes longer than all of them.
class Kernels : public ::testing::TestWithParam<Vendor> {};

void compile_all_kernels(Compiler& compiler, const char* architecture) {
  for (const auto& [source, entries] : entries_by_source()) {
    SCOPED_TRACE(source.string());
    CompileRequest request = request_of(source, entries);
    request.architecture = architecture;
    const Binary binary = compiler.compile(request);
    EXPECT_EQ(binary.log, "");
    ASSERT_EQ(binary.entries.size(), entries.size());
    for (const Entry& entry : binary.entries) EXPECT_FALSE(entry.parameters.empty()) << entry.expression;
    expect_the_same(binary.entries, host_entries().at(source));
    if (!request.architecture.starts_with("gfx")) continue;
    expect_layout(binary, wavefront_size_of(request.architecture));
    if (!nvidia_entries().empty()) expect_the_same(binary.entries, nvidia_entries().at(source));
  }
}

TEST_P(Kernels, CompileToTheSignaturesOfTheHost) {
  std::string reason;
  const std::shared_ptr<Compiler> compiler = compiler_for(GetParam().architectures[0], reason);
  if (!compiler) GTEST_SKIP() << reason;
  ASSERT_THAT(entries_by_source(), ::testing::SizeIs(::testing::Ge(3u)));
  for (const char* architecture : GetParam().architectures) {
    SCOPED_TRACE(architecture);
    compile_all_kernels(*compiler, architecture);
  }
}

// The schedule asks for it on CUDA devices of compute capability 9.0 and later only.
TEST(PersistentKernel, CompilesForTheDevicesThatItIsFor) {
  std::string reason;
  const std::shared_ptr<Compiler> nvrtc = compiler_for("sm_90", reason);
  if (!nvrtc) GTEST_SKIP() << reason;
  CompileRequest request = request_of(fs::path(RONDO_SOURCE_DIR) / "kernels/llama_persistent.cu",
                                      {"llama_persistent<rondo_f16, 0 != 0, 2048, 32, 8, 64, 8192, 16>",
                                       "llama_persistent<rondo_bf16, 1 != 0, 3072, 24, 8, 128, 8192, 28>",
                                       "llama_persistent<rondo_q8_0, 0 != 0, 4096, 32, 8, 128, 14336, 32>",
                                       "llama_persistent<rondo_q4_0, 1 != 0, 512, 8, 1, 64, 1280, 2>"});
  for (const char* architecture : {"sm_90", "sm_100", "sm_120"}) {
    SCOPED_TRACE(architecture);
    request.architecture = architecture;
    const Binary binary = nvrtc->compile(request);
    EXPECT_EQ(binary.log, "");
    ASSERT_EQ(binary.entries.size(), 4u);
    const std::size_t table = 12;
    ASSERT_GT(binary.entries[0].parameters.size(), table);
    for (const Entry& entry : binary.entries) {
      const auto layers = entry.expression.substr(entry.expression.rfind(' ') + 1);  // "16>"
      EXPECT_EQ(entry.parameters[table - 1].size, 88u * std::stoul(layers)) << entry.expression;
    }
  }
}

// Rondo's own: copies, fills, slots and random weights.
std::vector<CompileRequest> builtin_requests() {
  CompileRequest builtin = builtin_unit(), random = random_weights_unit();
  for (const int bytes : {1, 2, 4, 8, 16})
    builtin.entries.push_back("rondo_builtin::copy<" + std::to_string(bytes) + ">");
  for (const int bytes : {1, 2, 4, 8})
    builtin.entries.push_back("rondo_builtin::fill<" + std::to_string(bytes) + ">");
  for (const int slots : {1, 3, 500})
    builtin.entries.push_back("rondo_builtin::publish<" + std::to_string(slots) + ">");
  for (std::size_t i = 0; i < data_type_count; ++i) {
    if (const auto type = static_cast<DataType>(i); !info(type).is_integer)
      random.entries.push_back(random_weights_entry(type));
  }
  return {builtin, random};
}

TEST_P(Kernels, BuiltinsCompileToTheSignaturesOfTheHost) {
  std::string reason;
  const std::shared_ptr<Compiler> compiler = compiler_for(GetParam().architectures[0], reason);
  if (!compiler) GTEST_SKIP() << reason;

  for (CompileRequest& request : builtin_requests()) {
    request.architecture = "host";
    const std::vector<Entry> host = make_host_compiler()->compile(request).entries;
    for (const char* architecture : GetParam().architectures) {
      SCOPED_TRACE(architecture);
      request.architecture = architecture;
      const Binary binary = compiler->compile(request);
      EXPECT_EQ(binary.log, "");
      expect_the_same(binary.entries, host);
      if (request.architecture.starts_with("gfx"))
        expect_layout(binary, wavefront_size_of(request.architecture));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vendors, Kernels,
                         ::testing::Values(Vendor{"Nvidia", {"sm_75", "sm_90"}},
                                           Vendor{"Amd", {"gfx906", "gfx90a", "gfx1030"}}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace rondo::rtc
