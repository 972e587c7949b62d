#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>

#include "compiler.h"
#include "elf_symbols.h"
#include "embedded.h"
#include "gpu_program.h"
#include "nvrtc_api.h"
#include "rondo/error.h"
#include "signature.h"
#include "text_digest.h"

namespace rondo::rtc {
namespace {

namespace fs = std::filesystem;
using nvrtc::Api;

constexpr std::uint8_t kernel_mark =
    0x10;  // STO_CUDA_ENTRY: st_other of a __global__ function's symbol in a cubin

// Directories to look in, in order; "" stands for the loader's own search.
std::vector<fs::path> library_directories() {
  std::vector<fs::path> directories;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string home = environment(name); !home.empty())
      directories.push_back(fs::path(home) / "lib64");
  }
  directories.insert(directories.end(), {"/usr/local/cuda/lib64", ""});
  if (const std::string home = environment("VIRTUAL_ENV"); !home.empty()) {  // where pip's packages put it
    std::error_code error;
    for (fs::directory_iterator entry(fs::path(home) / "lib", error), end; !error && entry != end;
         entry.increment(error)) {
      const fs::path packages = entry->path() / "site-packages" / "nvidia";
      directories.insert(directories.end(), {packages / "cu13" / "lib", packages / "cuda_nvrtc" / "lib"});
    }
  }
  return directories;
}

LibrarySearch library_search() {
  return {.what = "NVRTC (libnvrtc.so)",
          .variable = "RONDO_NVRTC_LIBRARY",
          .directories = library_directories(),
          .file_names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
          .symbol = "nvrtcVersion",
          .hint =
              "install the CUDA toolkit, or pip install nvidia-cuda-nvrtc nvidia-cuda-runtime and set "
              "RONDO_NVRTC_LIBRARY to its libnvrtc.so"};
}

// The headers of the same installation: toolkit, distribution or pip layout.
std::optional<fs::path> find_headers(const fs::path& library) {
  const fs::path directory = library.parent_path();
  std::vector<fs::path> candidates;
  if (const std::string chosen = environment("RONDO_NVRTC_INCLUDE"); !chosen.empty())
    candidates.push_back(chosen);
  for (const char* relative : {"../include", "../../include", "../../cuda_runtime/include"})
    candidates.push_back(directory / relative);
  for (const fs::path& candidate : candidates) {
    std::error_code error;
    if (fs::exists(candidate / "cuda_fp16.h", error)) return fs::canonical(candidate, error);
  }
  return std::nullopt;
}

// NVRTC tells headers apart by name. A file that is included under two ("a.h", "../a.h") becomes one that
// includes the first, so that `#pragma once` knows it again.
std::vector<Header> unique_texts(std::vector<Header> headers) {
  std::map<std::string, std::string> names;
  for (Header& header : headers) {
    const auto [first, is_new] = names.emplace(header.text, header.name);
    if (!is_new) header.text = fmt::format("#include \"{}\"\n", first->second);
  }
  return headers;
}

class NvrtcCompiler final : public Compiler {
 public:
  NvrtcCompiler()
      : library_(open_library(library_search())),
        api_(
            bind_all<Api>(library_, "NVRTC 11.2 or newer", "set RONDO_NVRTC_LIBRARY to a newer libnvrtc.so")),
        headers_(find_headers(library_.path())) {
    check(api_.version(&major_, &minor_), "nvrtcVersion");
    int count = 0;
    check(api_.get_num_supported_archs(&count), "nvrtcGetNumSupportedArchs");
    supported_.resize(static_cast<std::size_t>(std::max(count, 0)));
    check(api_.get_supported_archs(supported_.data()), "nvrtcGetSupportedArchs");
    if (supported_.empty())
      throw Error(ErrorCode::missing_backend, library_.path() + " supports no architecture at all");
    std::sort(supported_.begin(), supported_.end());
    options_ = {major_ >= 12 ? "--std=c++20" : "--std=c++17"};
    if (headers_)
      options_.insert(options_.end(), {"-I" + headers_->string(), "-I" + (*headers_ / "cccl").string()});
    description_ = fmt::format(
        "NVRTC {}.{} ({}, {})", major_, minor_, library_.path(),
        headers_ ? "headers from " + headers_->string()
                 : "without headers: none beside it, RONDO_NVRTC_INCLUDE can name their directory");
    identity_ = fmt::format("nvrtc {}.{}\n{}\n{}\n{}\n{}", major_, minor_, file_stamp(library_.path()),
                            headers_ ? file_stamp(*headers_ / "cuda_fp16.h") : "no headers",
                            fmt::join(options_, " "), text_digest({embedded::signature_traits}));
  }

  const std::string& identity() const noexcept override { return identity_; }
  const std::string& description() const noexcept override { return description_; }

  Binary compile(const CompileRequest& request) override {
    check_entries(request);
    const Target target = choose_target(request.architecture);
    const std::string source = definitions(request).substr(1) + line_directive(request.file) +
                               request.source + signature_source(request, "");
    GpuProgram program(api_, description_, request, source, unique_texts(request.headers));
    std::vector<std::string> options = options_;
    options.push_back("--gpu-architecture=" + target.architecture);
    program.compile(options);
    return collect(request, target, program);
  }

 private:
  struct Target {
    std::string architecture;  // real: NVRTC makes both a cubin and PTX for it
    bool ptx = false;          // what the GPU gets
  };

  void check(ProgramResult result, const char* call) const {
    if (result == ProgramResult::success) return;
    throw Error(ErrorCode::run_time, fmt::format("{} failed: {}", call, api_.get_error_string(result)));
  }

  Target choose_target(const std::string& architecture) const {
    int number = 0;
    const char* const begin = architecture.data() + std::min<std::size_t>(3, architecture.size());
    const auto parsed = std::from_chars(begin, architecture.data() + architecture.size(), number);
    if (!architecture.starts_with("sm_") || parsed.ec != std::errc{}) {
      throw Error(ErrorCode::bad_argument,
                  fmt::format("expected an architecture such as sm_90, got \"{}\"", architecture));
    }
    if (std::binary_search(supported_.begin(), supported_.end(), number)) return {architecture, false};
    const auto above = std::upper_bound(supported_.begin(), supported_.end(), number);
    if (above != supported_.begin()) return {fmt::format("sm_{}", *(above - 1)), true};
    throw Error(ErrorCode::missing_backend,
                fmt::format("NVRTC {}.{} ({}) compiles for sm_{} and newer, the GPU is {}", major_, minor_,
                            library_.path(), supported_.front(), architecture),
                "set RONDO_NVRTC_LIBRARY to the libnvrtc.so of an older CUDA");
  }

  Binary collect(const CompileRequest& request, const Target& target, const GpuProgram& program) const {
    Binary binary;
    std::vector<std::byte> cubin = program.code(api_.get_cubin_size, api_.get_cubin);
    std::vector<Diagnostic> wrong;
    for (std::size_t i = 0; i < request.entries.size(); ++i) {
      const std::string& entry = request.entries[i];
      const char* lowered = program.lowered(entry);
      const std::optional<ElfSymbol> symbol = lowered ? find_elf_symbol(cubin, lowered) : std::nullopt;
      if (!symbol || (symbol->other & kernel_mark) == 0) {
        wrong.push_back(not_global(request, entry));
        continue;
      }
      binary.entries.push_back({entry, lowered, read_signature(cubin, i, entry)});
    }
    if (!wrong.empty()) throw Error(ErrorCode::bad_schedule, std::move(wrong));
    binary.code = target.ptx ? program.code(api_.get_ptx_size, api_.get_ptx) : std::move(cubin);
    binary.log = program.log();
    return binary;
  }

  DynamicLibrary library_;
  Api api_;
  std::optional<fs::path> headers_;
  int major_ = 0, minor_ = 0;
  std::vector<int> supported_;
  std::vector<std::string> options_;
  std::string identity_, description_;
};

}  // namespace

std::shared_ptr<Compiler> make_nvrtc_compiler() { return std::make_shared<NvrtcCompiler>(); }

}  // namespace rondo::rtc
