// Code objects as hipRTC makes them, and what damage does to them.
#include "amd_code_object.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "compiler.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, const void* data, std::size_t size, std::size_t alignment = 1) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), from, from + size);
  while (bytes.size() % alignment != 0) bytes.push_back(std::byte{0});
}

Bytes note_of(const char* owner, std::uint32_t type, const std::vector<std::uint8_t>& content) {
  const Elf64_Nhdr header = {static_cast<Elf64_Word>(std::strlen(owner) + 1),
                             static_cast<Elf64_Word>(content.size()), type};
  Bytes note;
  append(note, &header, sizeof header);
  append(note, owner, header.n_namesz, 4);
  append(note, content.data(), content.size(), 4);
  return note;
}

// The smallest ELF file with notes: in a segment, or in a section.
Bytes file_of(const Bytes& notes, bool in_segment = true) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  Elf64_Phdr segment{};
  Elf64_Shdr section{};
  segment.p_type = PT_NOTE;
  section.sh_type = SHT_NOTE;
  segment.p_align = section.sh_addralign = 4;
  segment.p_filesz = section.sh_size = notes.size();
  segment.p_offset = section.sh_offset = sizeof header + (in_segment ? sizeof segment : sizeof section);
  header.e_phoff = header.e_shoff = sizeof header;
  header.e_phentsize = sizeof segment;
  header.e_shentsize = sizeof section;
  (in_segment ? header.e_phnum : header.e_shnum) = 1;
  Bytes file;
  append(file, &header, sizeof header);
  if (in_segment) append(file, &segment, sizeof segment);
  if (!in_segment) append(file, &section, sizeof section);
  append(file, notes.data(), notes.size());
  return file;
}

Json kernel_metadata() {
  return {{".name", "k"},
          {".group_segment_fixed_size", 32},
          {".kernarg_segment_size", 80},
          {".max_flat_workgroup_size", 1024},
          {".wavefront_size", 64},
          {".args",
           {{{".offset", 0}, {".size", 4}, {".value_kind", "by_value"}},
            {{".offset", 8}, {".size", 8}, {".value_kind", "global_buffer"}},
            {{".offset", 16}, {".size", 8}, {".value_kind", "hidden_global_offset_x"}}}}};
}

Bytes file_with(const Json& metadata) { return file_of(note_of("AMDGPU", 32, Json::to_msgpack(metadata))); }
Bytes file_with_kernel(const Json& kernel) {
  return file_with({{"amdhsa.target", "amdgcn-amd-amdhsa--gfx90a:xnack-"}, {"amdhsa.kernels", {kernel}}});
}

std::string failure(const Bytes& file) {
  try {
    read_amd_code_object(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::run_time);
    return error.what();
  }
  ADD_FAILURE() << "was read";
  return "";
}

TEST(AmdCodeObject, IsReadWithoutItsHiddenArguments) {
  const AmdCodeObject object = read_amd_code_object(file_with_kernel(kernel_metadata()));
  EXPECT_EQ(object.target, "gfx90a:xnack-");
  const AmdKernel* kernel = object.find("k");
  ASSERT_TRUE(kernel);
  EXPECT_THAT(kernel->arguments, ElementsAre(AmdArgument{0, 4}, AmdArgument{8, 8}));
  EXPECT_EQ(kernel->static_shared_bytes, 32u);
  EXPECT_EQ(kernel->max_threads_per_block, 1024u);
  EXPECT_EQ(kernel->wavefront_size, 64);
  EXPECT_FALSE(object.find("other"));
}

TEST(AmdCodeObject, MayHaveItsNoteInASectionBehindOthers) {
  Bytes notes = note_of("GNU", 32, {1, 2, 3});
  const Bytes ours = note_of("AMDGPU", 32, Json::to_msgpack({{"amdhsa.kernels", Json::array()}}));
  notes.insert(notes.end(), ours.begin(), ours.end());
  const AmdCodeObject object = read_amd_code_object(file_of(notes, false));
  EXPECT_TRUE(object.kernels.empty());
  EXPECT_EQ(object.target, "");
}

TEST(AmdCodeObject, MayHaveAKernelWithoutArguments) {
  Json kernel = kernel_metadata();
  kernel.erase(".args");
  EXPECT_TRUE(read_amd_code_object(file_with_kernel(kernel)).find("k")->arguments.empty());
}

TEST(AmdCodeObject, SaysWhatIsWrong) {
  EXPECT_THAT(failure({}), HasSubstr("ELF file was expected"));
  EXPECT_THAT(failure(Bytes(200, std::byte{7})), HasSubstr("ELF file was expected"));
  EXPECT_THAT(failure(file_of(note_of("GNU", 32, {}))), HasSubstr("no AMDGPU metadata note"));
  EXPECT_THAT(failure(file_of(note_of("AMD", 10, {}))), HasSubstr("code object version 2"));
  EXPECT_THAT(failure(file_of(note_of("AMDGPU", 32, {}))), HasSubstr("MessagePack"));
  EXPECT_THAT(failure(file_with(Json::array())), HasSubstr("no map"));
  EXPECT_THAT(failure(file_with({{"amdhsa.kernels", 3}})), HasSubstr("no list of kernels"));
  EXPECT_THAT(failure(file_with_kernel("k")), HasSubstr("without a name"));
  Bytes cut = file_with_kernel(kernel_metadata());
  cut.resize(cut.size() - 20);
  EXPECT_THAT(failure(cut), HasSubstr("beyond the end of the file"));

  Json kernel = kernel_metadata();
  kernel[".args"][1][".offset"] = 76;
  EXPECT_THAT(failure(file_with_kernel(kernel)), HasSubstr("beyond its 80 bytes"));
  for (const Json& wrong : std::vector<Json>{"8", -1, 1.5, std::uint64_t{1} << 63, nullptr}) {
    kernel[".args"][1][".offset"] = wrong;
    EXPECT_THAT(failure(file_with_kernel(kernel)), HasSubstr(".offset")) << wrong;
  }
  kernel[".args"] = 5;
  EXPECT_THAT(failure(file_with_kernel(kernel)), HasSubstr("no list"));
}

// By recursion, this would end the process.
TEST(AmdCodeObject, DoesNotFollowDepthWithoutEnd) {
  EXPECT_THAT(failure(file_of(note_of("AMDGPU", 32, std::vector<std::uint8_t>(4'000'000, 0x91)))),
              HasSubstr("MessagePack"));
  // An array of four billion.
  EXPECT_THAT(failure(file_of(note_of("AMDGPU", 32, {0xdd, 0xff, 0xff, 0xff, 0xff, 0x01}))),
              HasSubstr("MessagePack"));
}

Bytes real_code_object() {
  std::shared_ptr<Compiler> compiler;
  try {
    compiler = make_hiprtc_compiler();
  } catch (const Error&) {
    return {};
  }
  CompileRequest request;
  request.file = "k.cu";
  request.source = R"(
struct mixed { short a; double b; char c[3]; };
__global__ __launch_bounds__(256) void k(char a, const float* b, short c, mixed d, double e, float* f, unsigned g) {
  __shared__ float values[64];
  values[threadIdx.x % 64] = *b + a + c + d.b + e + g;
  __syncthreads();
  *f = values[blockIdx.x % 64];
})";
  request.entries = {"k"};
  request.architecture = "gfx1030";
  return compiler->compile(request).code;
}

TEST(AmdCodeObject, IsWhatHiprtcMakes) {
  const Bytes file = real_code_object();
  if (file.empty()) GTEST_SKIP() << "hipRTC is not on this machine";
  const AmdCodeObject object = read_amd_code_object(file);
  EXPECT_EQ(object.target, "gfx1030");
  ASSERT_EQ(object.kernels.size(), 1u);
  EXPECT_THAT(object.kernels[0].arguments,
              ElementsAre(AmdArgument{0, 1}, AmdArgument{8, 8}, AmdArgument{16, 2}, AmdArgument{24, 24},
                          AmdArgument{48, 8}, AmdArgument{56, 8}, AmdArgument{64, 4}));
  EXPECT_EQ(object.kernels[0].static_shared_bytes, 256u);
  EXPECT_EQ(object.kernels[0].max_threads_per_block, 256u);
  EXPECT_EQ(object.kernels[0].wavefront_size, 32);
}

// Each either is read or throws; the sanitizers see every byte that is read too far.
TEST(AmdCodeObject, IsSafeToReadHoweverItIsDamaged) {
  Bytes file = real_code_object();
  if (file.empty()) file = file_with_kernel(kernel_metadata());
  std::size_t refused = 0;
  const auto try_to_read = [&](const Bytes& damaged) {
    try {
      read_amd_code_object(damaged);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::run_time);
      ++refused;
    }
  };
  for (std::size_t size = 0; size < file.size(); size += 1 + size / 200)
    try_to_read({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)});
  EXPECT_GT(refused, 100u);
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < 20'000; ++i) {
    Bytes damaged = file;
    // What is of interest, the headers and the note, lies at the front.
    const std::size_t range = i % 4 == 0 ? file.size() : std::min<std::size_t>(file.size(), 1600);
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      damaged[random() % range] ^= static_cast<std::byte>(1u << random() % 8);
    try_to_read(damaged);
  }
}

Bytes bundle_of(const std::vector<std::pair<std::string, Bytes>>& parts) {
  Bytes bundle;
  append(bundle, "__CLANG_OFFLOAD_BUNDLE__", 24);
  const std::uint64_t count = parts.size();
  append(bundle, &count, 8);
  std::uint64_t offset = 32;
  for (const auto& [triple, code] : parts) offset += 24 + triple.size();
  for (const auto& [triple, code] : parts) {
    const std::uint64_t numbers[] = {offset, code.size(), triple.size()};
    append(bundle, numbers, sizeof numbers);
    append(bundle, triple.data(), triple.size());
    offset += code.size();
  }
  for (const auto& [triple, code] : parts) append(bundle, code.data(), code.size());
  return bundle;
}

TEST(AmdCodeObject, IsFoundInABundle) {
  const Bytes file = file_with_kernel(kernel_metadata());
  const Bytes bundle = bundle_of({{"host-x86_64-unknown-linux--", {}},
                                  {"hipv4-amdgcn-amd-amdhsa--gfx906", Bytes(5)},
                                  {"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", file}});
  const std::span<const std::byte> found = unbundle(bundle, "gfx90a:xnack-");
  EXPECT_EQ(Bytes(found.begin(), found.end()), file);
  EXPECT_EQ(unbundle(file, "gfx90a").data(), file.data());
  try {
    unbundle(bundle, "gfx1030");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("without gfx1030; it has host-x86_64-unknown-linux--, hipv4"));
  }
  EXPECT_THROW(unbundle(Bytes{std::byte{'C'}, std::byte{'C'}, std::byte{'O'}, std::byte{'B'}}, "gfx90a"),
               Error);
  for (std::size_t size = 24; size < bundle.size(); ++size) {
    const Bytes cut(bundle.begin(), bundle.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(unbundle(cut, "gfx90a:xnack-"), Error) << size;
  }
}

}  // namespace
}  // namespace rondo::rtc
