// The same kernels, read back from what each compiler makes of them.
#include "signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler.h"
#include "elf_symbols.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

const char* const source = R"(
#include <cuda_fp16.h>
#include <cuda_bf16.h>
struct rondo_block { __half scale; signed char quants[32]; };
struct declared_only;
enum colour : unsigned char { red };
enum class level : long long { low };
struct pair { float x; double y; };
template <class T> struct accumulator { using type = double; };
namespace deep { namespace er {
template <class T, int n> __global__ void vary(typename accumulator<T>::type a, const T* p, T* __restrict__ q) {}
} }
extern "C" __global__ void scalars(bool b, char c, signed char sc, unsigned char uc, short s, unsigned short us, int i, unsigned u,
                                   long l, unsigned long ul, long long ll, unsigned long long ull, __half h, __nv_bfloat16 bf,
                                   float f, double d, colour e, level v, const int ci) {}
__global__ void pointers(void* a, const void* b, const float* c, float** d, const rondo_block* e, declared_only* f, const colour* g,
                         const volatile long long* h, __half* i, float* const j, int (*k)(int)) {}
__global__ void structures(pair p, float4 v) {}
__global__ void nothing() {}
)";

// hipRTC has neither of the headers, and no type of CUDA's name for bfloat16.
std::string source_for_amd() {
  std::string text = source;
  const std::string from = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n", type = "__nv_bfloat16";
  text.replace(text.find(from), from.size(), "#include \"portable.cuh\"\n");
  return text.replace(text.find(type), type.size(), "rondo_bf16");
}

CompileRequest request(const std::string& architecture) {
  CompileRequest result;
  result.file = "signature.cu";
  result.source = architecture.starts_with("gfx") ? source_for_amd() : source;
  result.headers = collect_headers(result.file, result.source);
  result.entries = {"deep::er::vary<rondo_block, 3>",
                    "deep::er::vary<float, (4 > 2)>",
                    "scalars",
                    "pointers",
                    "structures",
                    "nothing"};
  result.architecture = architecture;
  return result;
}

Parameter scalar(std::optional<DataType> type, std::uint32_t size) {
  return {ParameterKind::scalar, false, type, 0, size, size};
}
Parameter pointer(bool is_const, std::optional<DataType> type, std::uint32_t element_size) {
  return {ParameterKind::pointer, is_const, type, element_size, 8, 8};
}

void expect_signatures(const Binary& binary) {
  using enum DataType;
  using ::testing::ElementsAre;
  ASSERT_EQ(binary.entries.size(), 6u);
  EXPECT_EQ(binary.entries[0].expression, "deep::er::vary<rondo_block, 3>");
  EXPECT_THAT(binary.entries[0].parameters,
              ElementsAre(scalar(f64, 8), pointer(true, std::nullopt, 34), pointer(false, std::nullopt, 34)));
  EXPECT_THAT(binary.entries[1].parameters,
              ElementsAre(scalar(f64, 8), pointer(true, f32, 4), pointer(false, f32, 4)));
  const std::vector<Parameter> scalars = {scalar(boolean, 1), scalar(i8, 1),   scalar(i8, 1),  scalar(u8, 1),
                                          scalar(i16, 2),     scalar(u16, 2),  scalar(i32, 4), scalar(u32, 4),
                                          scalar(i64, 8),     scalar(u64, 8),  scalar(i64, 8), scalar(u64, 8),
                                          scalar(f16, 2),     scalar(bf16, 2), scalar(f32, 4), scalar(f64, 8),
                                          scalar(u8, 1),      scalar(i64, 8),  scalar(i32, 4)};
  EXPECT_EQ(binary.entries[2].parameters, scalars);
  const std::vector<Parameter> pointers = {pointer(false, std::nullopt, 0),
                                           pointer(true, std::nullopt, 0),
                                           pointer(true, f32, 4),
                                           pointer(false, std::nullopt, 8),
                                           pointer(true, std::nullopt, 34),
                                           pointer(false, std::nullopt, 0),
                                           pointer(true, u8, 1),
                                           pointer(true, i64, 8),
                                           pointer(false, f16, 2),
                                           pointer(false, f32, 4),
                                           pointer(false, std::nullopt, 0)};
  EXPECT_EQ(binary.entries[3].parameters, pointers);
  EXPECT_THAT(binary.entries[4].parameters,
              ElementsAre(Parameter{ParameterKind::structure, false, std::nullopt, 0, 16, 8},
                          Parameter{ParameterKind::structure, false, std::nullopt, 0, 16, 16}));
  EXPECT_TRUE(binary.entries[5].parameters.empty());
}

TEST(Signature, IsReadFromASharedObject) {
  expect_signatures(make_host_compiler()->compile(request("test")));
}

TEST(Signature, IsReadFromACubin) {
  std::shared_ptr<Compiler> compiler;
  try {
    compiler = make_nvrtc_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  for (const char* architecture : {"sm_75", "sm_90"})
    expect_signatures(compiler->compile(request(architecture)));
}

TEST(Signature, IsReadFromACodeObject) {
  std::shared_ptr<Compiler> compiler;
  try {
    compiler = make_hiprtc_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  for (const char* architecture : {"gfx90a", "gfx1030"})
    expect_signatures(compiler->compile(request(architecture)));
}

TEST(Signature, NeverReadsOutsideADamagedFile) {
  const Binary binary = make_host_compiler()->compile(request("test"));
  ASSERT_TRUE(find_elf_symbol(binary.code, "rondo_signature_0"));
  EXPECT_FALSE(find_elf_symbol(binary.code, "rondo_signature_99"));
  EXPECT_THROW(read_signature(binary.code, 99, "x"), Error);
  // Copies of their own, so that the sanitizers see every byte that is read too far.
  for (std::size_t size = 0; size < binary.code.size(); size += 1 + size / 50) {
    const std::vector<std::byte> cut(binary.code.begin(),
                                     binary.code.begin() + static_cast<std::ptrdiff_t>(size));
    const auto symbol = find_elf_symbol(cut, "rondo_signature_0");
    EXPECT_FALSE(symbol && !symbol->content.empty() &&
                 symbol->content.data() + symbol->content.size() > cut.data() + cut.size());
  }
  for (std::size_t at = 0; at < 64; ++at) {  // every byte of the file's header
    std::vector<std::byte> damaged = binary.code;
    damaged[at] ^= std::byte{0xff};
    try {
      read_signature(damaged, 0, "x");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::run_time);
    }
  }
}

TEST(Signature, LaysParametersOutAsAStruct) {
  Entry entry;
  EXPECT_EQ(entry.argument_bytes(), 0u);
  entry.parameters = {scalar(DataType::i8, 1), scalar(DataType::f64, 8), scalar(DataType::boolean, 1),
                      scalar(DataType::i16, 2)};
  EXPECT_THAT(entry.offsets(), ::testing::ElementsAre(0, 8, 16, 18));
  EXPECT_EQ(entry.argument_bytes(), 20u);
}

}  // namespace
}  // namespace rondo::rtc
