#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "compiler.h"
#include "dynamic_library.h"
#include "elf_symbols.h"
#include "embedded.h"
#include "nvrtc_api.h"
#include "rondo/error.h"
#include "signature.h"
#include "text_digest.h"

namespace rondo::rtc {
namespace {

namespace fs = std::filesystem;
using nvrtc::Api;

constexpr const char* file_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
constexpr std::uint8_t kernel_mark =
    0x10;  // STO_CUDA_ENTRY: st_other of a __global__ function's symbol in a cubin

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

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

DynamicLibrary open_chosen(const std::string& chosen) {
  std::string problem;
  DynamicLibrary library = DynamicLibrary::open(chosen, problem);
  if (library) return library;
  throw Error(ErrorCode::missing_backend,
              fmt::format("RONDO_NVRTC_LIBRARY is \"{}\", which cannot be opened: {}", chosen, problem),
              "give the path of libnvrtc.so, or unset it");
}

DynamicLibrary open_library() {
  if (const std::string chosen = environment("RONDO_NVRTC_LIBRARY"); !chosen.empty())
    return open_chosen(chosen);
  std::vector<std::string> tried;
  for (const fs::path& directory : library_directories()) {
    for (const char* name : file_names) {
      std::error_code error;
      const fs::path file = directory / name;
      if (!directory.empty() && !fs::exists(file, error)) continue;
      std::string problem;
      if (DynamicLibrary library = DynamicLibrary::open(file.string(), problem)) return library;
      if (!directory.empty()) tried.push_back(problem);
    }
    tried.push_back(directory.empty() ? "the loader's search path" : directory.string());
  }
  throw Error(ErrorCode::missing_backend,
              fmt::format("NVRTC (libnvrtc.so) was not found; looked in {}", fmt::join(tried, ", ")),
              "install the CUDA toolkit, or pip install nvidia-cuda-nvrtc nvidia-cuda-runtime and set "
              "RONDO_NVRTC_LIBRARY to its "
              "libnvrtc.so");
}

Api bind(const DynamicLibrary& library) {
  Api api;
  nvrtc::for_each_symbol(api, [&](const char* name, auto& function) {
    function = library.function<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name);
    if (function) return;
    throw Error(ErrorCode::missing_backend,
                fmt::format("{} has no {}; NVRTC 11.2 or newer is needed", library.path(), name),
                "set RONDO_NVRTC_LIBRARY to a newer libnvrtc.so");
  });
  return api;
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

std::string file_stamp(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return fmt::format("{}: none", path.string());
  return fmt::format("{}: {} {}.{:09}", path.string(), status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

class ProgramOwner {
 public:
  explicit ProgramOwner(const Api& api) : api_(api) {}
  ~ProgramOwner() {
    if (program) api_.destroy_program(&program);
  }
  ProgramOwner(const ProgramOwner&) = delete;
  ProgramOwner& operator=(const ProgramOwner&) = delete;
  nvrtc::Program program = nullptr;

 private:
  const Api& api_;
};

// NVRTC tells headers apart by name. A file that is included under two ("a.h", "../a.h") becomes one that
// includes the first, so that
// `#pragma once` knows it again.
std::vector<std::string> texts_of(const std::vector<Header>& headers) {
  std::map<std::string_view, std::string_view> names;
  std::vector<std::string> texts;
  for (const Header& header : headers) {
    const auto [first, is_new] = names.emplace(header.text, header.name);
    texts.push_back(is_new ? header.text : fmt::format("#include \"{}\"\n", first->second));
  }
  return texts;
}

class NvrtcCompiler final : public Compiler {
 public:
  NvrtcCompiler() : library_(open_library()), api_(bind(library_)), headers_(find_headers(library_.path())) {
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
    ProgramOwner owner(api_);
    create(request, owner);
    const nvrtc::Result result = run(request, target, owner.program);
    std::string log = read_log(owner.program);
    if (result == nvrtc::error_compilation || result == nvrtc::error_name_expression_not_valid) {
      throw compile_failure(request, description_, log);
    }
    if (result != nvrtc::success) {
      throw Error(ErrorCode::run_time, fmt::format("{}: {} failed on {}:\n{}", request.file, description_,
                                                   api_.get_error_string(result), log));
    }
    return collect(request, target, owner.program, std::move(log));
  }

 private:
  struct Target {
    std::string architecture;  // real: NVRTC makes both a cubin and PTX for it
    bool ptx = false;          // what the GPU gets
  };

  void check(nvrtc::Result result, const char* call) const {
    if (result == nvrtc::success) return;
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

  void create(const CompileRequest& request, ProgramOwner& owner) const {
    const std::string source =
        line_directive(request.file).substr(1) + request.source + signature_source(request, "");
    std::vector<const char*> texts, names;
    const std::vector<std::string> header_texts = texts_of(request.headers);
    for (std::size_t i = 0; i < header_texts.size(); ++i) {
      const Header& header = request.headers[i];
      texts.push_back(header_texts[i].c_str());
      names.push_back(header.name.c_str());
    }
    check(api_.create_program(&owner.program, source.c_str(), request.file.c_str(),
                              static_cast<int>(texts.size()), texts.data(), names.data()),
          "nvrtcCreateProgram");
    for (const std::string& entry : request.entries) {
      check(api_.add_name_expression(owner.program, entry.c_str()), "nvrtcAddNameExpression");
    }
  }

  nvrtc::Result run(const CompileRequest& request, const Target& target, nvrtc::Program program) const {
    std::vector<std::string> options = options_;
    options.push_back("--gpu-architecture=" + target.architecture);
    for (const auto& [name, value] : request.defines) options.push_back("-D" + name + "=" + value);
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return api_.compile_program(program, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string read_log(nvrtc::Program program) const {
    std::size_t size = 0;
    check(api_.get_program_log_size(program, &size), "nvrtcGetProgramLogSize");
    std::string log(size, '\0');
    if (size != 0) check(api_.get_program_log(program, log.data()), "nvrtcGetProgramLog");
    while (!log.empty() && log.back() == '\0') log.pop_back();
    return log;
  }

  template <class GetSize, class Get>
  std::vector<std::byte> read_code(nvrtc::Program program, GetSize get_size, Get get) const {
    std::size_t size = 0;
    check(get_size(program, &size), "nvrtcGet…Size");
    std::vector<std::byte> code(size);
    if (size != 0) check(get(program, reinterpret_cast<char*>(code.data())), "nvrtcGet…");
    return code;
  }

  Binary collect(const CompileRequest& request, const Target& target, nvrtc::Program program,
                 std::string log) const {
    Binary binary;
    std::vector<std::byte> cubin = read_code(program, api_.get_cubin_size, api_.get_cubin);
    std::vector<Diagnostic> wrong;
    for (std::size_t i = 0; i < request.entries.size(); ++i) {
      const std::string& entry = request.entries[i];
      const char* lowered = nullptr;
      const nvrtc::Result result = api_.get_lowered_name(program, entry.c_str(), &lowered);
      const std::optional<ElfSymbol> symbol =
          result == nvrtc::success ? find_elf_symbol(cubin, lowered) : std::nullopt;
      if (!symbol || (symbol->other & kernel_mark) == 0) {
        wrong.push_back(
            {.place = in_file(request.file),
             .message = fmt::format("entry \"{}\" is a function, but not declared as __global__", entry),
             .hint = ""});
        continue;
      }
      binary.entries.push_back({entry, lowered, read_signature(cubin, i, entry)});
    }
    if (!wrong.empty()) throw Error(ErrorCode::bad_schedule, std::move(wrong));
    binary.code = target.ptx ? read_code(program, api_.get_ptx_size, api_.get_ptx) : std::move(cubin);
    binary.log = std::move(log);
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
