// Layouts out of code objects: what the compilers make, containers made by hand, and what damage does to
// them.
#include "code_objects.h"

#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "compiler.h"
#include "cubin.h"
#include "fat_binary.h"
#include "gpu_code_section.h"
#include "rondo/error.h"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, const void* data, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), from, from + size);
}
template <class T>
void append(Bytes& bytes, const T& value) {
  append(bytes, &value, sizeof value);
}
void pad(Bytes& bytes, std::size_t alignment) {
  while (bytes.size() % alignment != 0) bytes.push_back(std::byte{0});
}

struct NamedSection {
  std::string name;
  Bytes content;
};

// An ELF file of sections alone.
Bytes elf_of(std::uint16_t machine, const std::vector<NamedSection>& sections) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = machine;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections.size() + 2);
  header.e_shstrndx = 1;
  Bytes file(sizeof header);
  std::string names("\0.shstrtab\0", 11);
  std::vector<Elf64_Shdr> headers(2);
  for (const NamedSection& section : sections) {
    Elf64_Shdr made{};
    made.sh_type = SHT_PROGBITS;
    made.sh_name = static_cast<Elf64_Word>(names.size());
    made.sh_offset = file.size();
    made.sh_size = section.content.size();
    headers.push_back(made);
    names += section.name + '\0';
    append(file, section.content.data(), section.content.size());
    pad(file, 8);
  }
  headers[1].sh_name = 1;
  headers[1].sh_type = SHT_STRTAB;
  headers[1].sh_offset = file.size();
  headers[1].sh_size = names.size();
  append(file, names.data(), names.size());
  pad(file, 8);
  header.e_shoff = file.size();
  append(file, headers.data(), headers.size() * sizeof headers[0]);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

// A record of section .nv.info.<kernel>.
void append_parameter(Bytes& info, unsigned ordinal, unsigned offset, unsigned size,
                      bool in_large_list = false) {
  append(info, std::array<std::uint8_t, 4>{4, static_cast<std::uint8_t>(in_large_list ? 0x45 : 0x17), 12, 0});
  append(info, std::array<std::uint32_t, 3>{0, ordinal | offset << 16,
                                            in_large_list ? size : size << 18 | 0x1f000});
}
Bytes cubin_of(const std::string& kernel, const std::vector<ParameterLayout>& layout) {
  Bytes info;
  append(info, std::array<std::uint8_t, 4>{3, 0x1b, 0xff, 0});  // something else, with its value inside
  for (std::size_t i = layout.size(); i-- > 0;) {
    append_parameter(info, static_cast<unsigned>(i), static_cast<unsigned>(layout[i].offset),
                     static_cast<unsigned>(layout[i].size));
  }
  return elf_of(190, {{".nv.info", {}}, {".nv.info." + kernel, info}});
}

Bytes fat_binary_of(const std::vector<Bytes>& cubins, std::uint64_t flags = 0x11) {
  Bytes entries;
  for (const Bytes& cubin : cubins) {
    append(entries, std::array<std::uint16_t, 2>{2, 0x101});
    append(entries, std::uint32_t{64});
    append(entries, std::uint64_t{cubin.size()});
    append(entries, std::array<std::uint32_t, 6>{});
    append(entries, flags);
    append(entries, std::array<std::uint64_t, 2>{});
    append(entries, cubin.data(), cubin.size());
  }
  Bytes file;
  append(file, std::uint32_t{0xba55ed50});
  append(file, std::array<std::uint16_t, 2>{1, 16});
  append(file, std::uint64_t{entries.size()});
  append(file, entries.data(), entries.size());
  return file;
}

Bytes bundle_of(const Bytes& code) {
  const std::string magic = "__CLANG_OFFLOAD_BUNDLE__", host = "host-x86_64-unknown-linux",
                    device = "hipv4-amdgcn-amd-amdhsa--gfx90a";
  const std::size_t header = magic.size() + 8 + 24 + host.size() + 24 + device.size();
  Bytes file;
  append(file, magic.data(), magic.size());
  append(file, std::uint64_t{2});
  append(file, std::array<std::uint64_t, 3>{header, 0, host.size()});
  append(file, host.data(), host.size());
  append(file, std::array<std::uint64_t, 3>{header, code.size(), device.size()});
  append(file, device.data(), device.size());
  append(file, code.data(), code.size());
  return file;
}

std::vector<std::pair<std::size_t, std::size_t>> pairs_of(
    const std::optional<std::vector<ParameterLayout>>& layout) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  if (!layout) return {{999, 999}};
  for (const ParameterLayout& parameter : *layout) pairs.emplace_back(parameter.offset, parameter.size);
  return pairs;
}
using Pair = std::pair<std::size_t, std::size_t>;

constexpr const char* source = R"(
struct Job { int pad; int* out; int value; char tail[3]; };
struct Large { long long x[600]; };
__global__ void nothing() {}
__global__ void store_job(int*, short more, Job job) { *job.out = job.value + more; }
__global__ void mixed(char a, const float* b, short c, double d, float* e, unsigned f) { *e = a + *b + c + (float)d + f; }
__global__ void large(char c, Large b, long long* o) { *o = b.x[o[1]] + c; }
)";

void expect_layouts(const rtc::Binary& binary) {
  SearchedCodeObjects objects;
  objects.add(binary.code, "compiled");
  for (const rtc::Entry& entry : binary.entries) {
    std::vector<Pair> expected;
    const auto offsets = entry.offsets();
    for (std::size_t i = 0; i < offsets.size(); ++i)
      expected.emplace_back(offsets[i], entry.parameters[i].size);
    EXPECT_EQ(pairs_of(objects.layout(entry.lowered)), expected) << entry.expression;
  }
}

TEST(CodeObjects, OfNvrtcHaveTheLayoutsOfTheirKernels) {
  std::shared_ptr<rtc::Compiler> compiler;
  try {
    compiler = rtc::make_nvrtc_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  for (const char* architecture : {"sm_75", "sm_80", "sm_90", "sm_100", "sm_120"}) {
    SCOPED_TRACE(architecture);
    rtc::CompileRequest request;
    request.file = "layouts.cu";
    request.source = source;
    request.entries = {"nothing", "store_job", "mixed", "large"};
    request.architecture = architecture;
    const rtc::Binary binary = compiler->compile(request);
    ASSERT_TRUE(rtc::is_cubin(binary.code));
    expect_layouts(binary);
  }
}

TEST(CodeObjects, OfHiprtcHaveTheLayoutsOfTheirKernels) {
  std::shared_ptr<rtc::Compiler> compiler;
  try {
    compiler = rtc::make_hiprtc_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  rtc::CompileRequest request;
  request.file = "layouts.cu";
  request.source = source;
  request.entries = {"nothing", "store_job", "mixed"};
  request.architecture = "gfx90a";
  const rtc::Binary binary = compiler->compile(request);
  expect_layouts(binary);
  SearchedCodeObjects objects;
  objects.add(bundle_of(binary.code), "bundle");
  EXPECT_EQ(objects.layout(binary.entries[1].lowered)->size(), 3U);
  const std::string library = "library";
  SearchedCodeObjects in_library;
  in_library.add(elf_of(EM_X86_64, {{".hip_fatbin", bundle_of(binary.code)}}), library);
  EXPECT_EQ(in_library.layout(binary.entries[1].lowered)->size(), 3U);
}

TEST(CodeObjects, AreFoundInContainers) {
  const Bytes first = cubin_of("first", {{0, 8}, {8, 4}}), second = cubin_of("second", {{0, 1}});
  Bytes two = fat_binary_of({first});
  pad(two, 16);
  const Bytes other = fat_binary_of({first, second});
  append(two, other.data(), other.size());
  for (const Bytes& file : {two, elf_of(EM_X86_64, {{".text", {}}, {".nv_fatbin", two}})}) {
    SearchedCodeObjects objects;
    objects.add(file, "file");
    EXPECT_THAT(pairs_of(objects.layout("first")), ElementsAre(Pair(0, 8), Pair(8, 4)));
    EXPECT_THAT(pairs_of(objects.layout("second")), ElementsAre(Pair(0, 1)));
    EXPECT_EQ(objects.layout("third"), std::nullopt);
    EXPECT_EQ(objects.left_out(), "");
  }
}

TEST(CodeObjects, AreReadFromFilesAndProblemsNameThem) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string good = folder / "rondo_code_objects_test.cubin",
                    bad = folder / "rondo_code_objects_test.txt";
  const Bytes cubin = cubin_of("kernel", {{0, 8}});
  std::ofstream(good, std::ios::binary)
      .write(reinterpret_cast<const char*>(cubin.data()), static_cast<std::streamsize>(cubin.size()));
  std::ofstream(bad) << "a text";
  const std::array files{good};
  EXPECT_THAT(pairs_of(SearchedCodeObjects(files).layout("kernel")), ElementsAre(Pair(0, 8)));
  for (const std::string& file : {bad, std::string("/no/such/file")}) {
    try {
      SearchedCodeObjects objects(std::span(&file, 1));
      ADD_FAILURE() << file;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_argument);
      EXPECT_THAT(error.what(), HasSubstr(file));
    }
  }
  std::filesystem::remove(good);
  std::filesystem::remove(bad);
}

TEST(CodeObjects, ThatDisagreeAreRefusedAndTheCallersComeFirst) {
  SearchedCodeObjects objects;
  objects.add(cubin_of("kernel", {{0, 8}}), "one");
  objects.add(cubin_of("kernel", {{0, 8}}), "the same");
  EXPECT_THAT(pairs_of(objects.layout("kernel")), ElementsAre(Pair(0, 8)));
  objects.add(cubin_of("kernel", {{0, 4}}), "another");
  try {
    static_cast<void>(objects.layout("kernel"));
    ADD_FAILURE() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_argument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("\"kernel\""), HasSubstr("one and another")));
  }
  SearchedCodeObjects before;
  before.add(cubin_of("kernel_in_this_process", {{0, 2}}), "the caller's");
  EXPECT_THAT(pairs_of(before.layout("kernel_in_this_process")), ElementsAre(Pair(0, 2)));
}

TEST(CodeObjects, ThatAreCompressedAreSaidToBeLeftOut) {
  SearchedCodeObjects objects;
  objects.add(fat_binary_of({Bytes(40), Bytes(40)}, 0x8011), "libkernels.so");
  EXPECT_EQ(objects.layout("kernel"), std::nullopt);
  EXPECT_EQ(objects.left_out(), " Not searched: a compressed cubin in libkernels.so (and 1 more there).");
  Bytes bundle;
  append(bundle, "CCOB0123456789abcdef", 20);
  objects.add(elf_of(EM_X86_64, {{".hip_fatbin", bundle}}), "libhip.so");
  EXPECT_THAT(objects.left_out(), AllOf(HasSubstr("a compressed offload bundle in libhip.so"),
                                        HasSubstr("a compressed cubin in libkernels.so")));
}

[[gnu::section(".nv_fatbin"), gnu::used]] constinit const GpuCodeSection in_this_process =
    gpu_code_section("kernel_in_this_process");

TEST(CodeObjects, OfTheProcessAreSearched) {
  const SearchedCodeObjects objects;
  EXPECT_THAT(pairs_of(objects.layout("kernel_in_this_process")), ElementsAre(Pair(0, 8), Pair(8, 4)));
  EXPECT_EQ(objects.layout("no such kernel"), std::nullopt);
}

// A library that goes, and comes again with other code under the same name.
TEST(CodeObjects, OfTheProcessAreReadOnceUntilTheyChange) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("rondo_code_objects_" + std::to_string(getpid()) + ".so");
  Bytes content(std::filesystem::file_size(GPU_CODE_PLUGIN));
  std::ifstream(GPU_CODE_PLUGIN, std::ios::binary)
      .read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(content.size()));
  const auto load = [&] {
    std::filesystem::remove(file);  // what is loaded keeps its own
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    void* const handle = dlopen(file.c_str(), RTLD_NOW);
    EXPECT_NE(handle, nullptr) << dlerror();
    return handle;
  };
  const auto loaded = std::make_shared<LoadedCodeObjects>();
  const auto layout = [&] { return SearchedCodeObjects({}, loaded).layout("kernel_in_a_plugin"); };
  EXPECT_EQ(layout(), std::nullopt);
  void* const first = load();
  EXPECT_THAT(pairs_of(layout()), ElementsAre(Pair(0, 8), Pair(8, 4)));
  std::filesystem::remove(file);
  EXPECT_THAT(pairs_of(layout()), ElementsAre(Pair(0, 8), Pair(8, 4)));  // from memory
  EXPECT_EQ(SearchedCodeObjects().layout("kernel_in_a_plugin"), std::nullopt);
  dlclose(first);
  EXPECT_EQ(layout(), std::nullopt);

  constexpr std::uint32_t four_bytes = 4 << 18, two_bytes = 2 << 18;
  const GpuCodeSection section = gpu_code_section("kernel_in_a_plugin");
  const auto* const bytes = reinterpret_cast<const std::byte*>(&section);
  const auto at = std::search(content.begin(), content.end(), bytes, bytes + sizeof section);
  ASSERT_NE(at, content.end());
  ASSERT_EQ(section.info[3], four_bytes);
  std::memcpy(&*at + offsetof(GpuCodeSection, info) + 3 * sizeof two_bytes, &two_bytes, sizeof two_bytes);
  void* const second = load();
  EXPECT_THAT(pairs_of(layout()), ElementsAre(Pair(0, 8), Pair(8, 2)));
  dlclose(second);
  std::filesystem::remove(file);
}

TEST(CodeObjects, ThatContradictThemselvesAreDamaged) {
  const auto problem_with = [](const Bytes& info) -> std::string {
    try {
      static_cast<void>(rtc::read_cubin(elf_of(190, {{".nv.info.kernel", info}})));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  Bytes twice, missing, overlapping, beyond, small, large;
  append_parameter(twice, 0, 0, 8);
  append_parameter(twice, 0, 8, 8);
  EXPECT_THAT(problem_with(twice), HasSubstr("\"kernel\" has a parameter twice"));
  append_parameter(missing, 1, 8, 8);
  EXPECT_THAT(problem_with(missing), HasSubstr("lacks a parameter"));
  append_parameter(overlapping, 0, 0, 8);
  append_parameter(overlapping, 1, 4, 8);
  EXPECT_THAT(problem_with(overlapping), HasSubstr("overlap"));
  append(beyond, std::array<std::uint8_t, 4>{3, 0x19, 8, 0});
  append_parameter(beyond, 0, 4, 8);
  EXPECT_THAT(problem_with(beyond), HasSubstr("lie outside"));
  append(small, std::array<std::uint8_t, 8>{4, 0x17, 4, 0, 0, 0, 0, 0});
  EXPECT_THAT(problem_with(small), HasSubstr("cut short"));
  append_parameter(large, 0, 0, 20000, true);
  append_parameter(large, 1, 20000, 8, true);
  EXPECT_EQ(problem_with(large), "");
}

TEST(CodeObjects, DamagedFilesAreRefusedOrLeftOutAndNeverReadBeyondTheirEnd) {
  const Bytes cubin = cubin_of("kernel", {{0, 8}, {8, 4}});
  const Bytes files[] = {cubin, fat_binary_of({cubin, cubin}), bundle_of(cubin),
                         elf_of(EM_X86_64, {{".nv_fatbin", fat_binary_of({cubin})}}),
                         elf_of(EM_X86_64, {{".hip_fatbin", bundle_of(cubin)}})};
  const auto try_it = [](const Bytes& file) {
    SearchedCodeObjects objects;
    try {
      objects.add(file, "damaged");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_argument);
    }
  };
  std::mt19937 random(7);
  for (const Bytes& file : files) {
    // In memory of its own, so that a sanitizer sees what reads beyond it.
    for (std::size_t size = 0; size < file.size(); ++size)
      try_it(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)));
    for (int i = 0; i < 5000; ++i) {
      Bytes changed = file;
      for (int n = 0; n < 3; ++n)
        changed[random() % changed.size()] = static_cast<std::byte>(random() % 4 == 0 ? 0xff : random());
      try_it(changed);
    }
  }
}

}  // namespace
}  // namespace rondo
