#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "compiler.h"
#include "embedded.h"
#include "process.h"
#include "rondo/error.h"
#include "signature.h"
#include "text_digest.h"

namespace rondo::rtc {
namespace {

namespace fs = std::filesystem;

// Reassociation lets the compiler vectorise sums. Not -ffast-math: it changes the floating-point mode of the
// whole process when the shared object is opened. No exceptions, as on a GPU: they could not leave the stack
// that a kernel runs on.
const std::vector<std::string> options = {
    "-x",
    "c++",
    "-std=c++20",
    "-O3",
    "-march=native",
    "-shared",
    "-Wl,-z,defs",  // a function that is declared and nowhere defined is an error of the source, not of
                    // loading
    "-fPIC",
    "-fassociative-math",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fno-math-errno",
    "-fno-exceptions",
    "-fvisibility=hidden",
    "-Wall",
    // CUDA's vocabulary is static and mostly unused in any one kernel.
    "-Wno-unused-function",
    "-Wno-unused-variable",
    "-Wno-unknown-pragmas",
#if defined(__x86_64__)
    "-mprefer-vector-width=512",
#endif
};
// g++ alone: without it, static variables in templates make the object impossible to unload, and shared
// between modules.
constexpr const char* gcc_options[] = {"-fno-gnu-unique", "-fmax-errors=50", "-Wno-psabi"};
constexpr const char* clang_options[] = {"-ferror-limit=50", "-Wno-unused-const-variable"};

// CUDA's own headers, where a kernel includes them: the prelude has their content.
constexpr const char* empty_headers[] = {"cuda_fp16.h",    "cuda_bf16.h",
                                         "cuda_runtime.h", "cuda_runtime_api.h",
                                         "vector_types.h", "device_launch_parameters.h"};

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

std::string find_on_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return is_program(program) ? program : "";
  const char* variable = std::getenv("PATH");
  std::string_view rest = variable ? variable : "/usr/bin:/bin";
  while (!rest.empty()) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(directory.size() + 1, rest.size()));
    const fs::path candidate = fs::path(directory) / program;
    if (!directory.empty() && is_program(candidate)) return candidate.string();
  }
  return "";
}

std::string find_compiler() {
  if (const char* chosen = std::getenv("RONDO_HOST_CXX"); chosen && *chosen) {
    std::string path = find_on_path(chosen);
    if (!path.empty()) return path;
    throw Error(ErrorCode::missing_backend,
                fmt::format("RONDO_HOST_CXX is \"{}\", which is not a program that can be run", chosen),
                "give the path of g++ or clang++, without options");
  }
  for (const char* name : {"c++", "g++", "clang++"}) {
    std::string path = find_on_path(name);
    if (!path.empty()) return path;
  }
  throw Error(ErrorCode::missing_backend,
              "the host device needs a C++ compiler, and none of c++, g++, clang++ is on PATH",
              "apt-get install g++, or set RONDO_HOST_CXX to a compiler's path");
}

void write_file(const fs::path& path, std::string_view text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) {
    throw Error(ErrorCode::run_time, fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)),
                "make room there, or set TMPDIR to another directory");
  }
}

std::vector<std::byte> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  std::vector<std::byte> bytes(size > 0 ? static_cast<std::size_t>(size) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file || bytes.empty()) throw Error(ErrorCode::run_time, fmt::format("cannot read {}", path.string()));
  return bytes;
}

// The source stands this deep, so that headers included as "../x.h" stay inside the temporary directory.
constexpr const char* deep = "1/2/3/4/5/6/7/8";

// A file that is included under two names ("a.h", "../a.h") is written once and linked: `#pragma once` knows
// it again.
void write_headers(const std::vector<Header>& headers, const fs::path& include_directory,
                   const fs::path& root) {
  std::map<std::string_view, fs::path> written;
  for (const Header& header : headers) {
    const fs::path path = (include_directory / header.name).lexically_normal();
    const fs::path inside = path.lexically_relative(root);
    // One that is named by its absolute path is found there by the compiler itself.
    if (fs::path(header.name).is_absolute() || inside.empty() || *inside.begin() == "..") continue;
    const auto [first, is_new] = written.emplace(header.text, path);
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (!is_new) fs::create_hard_link(first->second, path, error);
    if (is_new || error) write_file(path, line_directive(header.name).substr(1) + header.text);
  }
}

std::string trampoline(const CompileRequest& request, std::size_t i) {
  return fmt::format(
      "using rondo_runner_{0} = rondo_host::runner<&{1}, rondo_parameters_{0}::parameters,"
      " decltype(rondo_host::indices_of(rondo_parameters_{0}::parameters{{}}))>;\n"
      "extern \"C\" {{\n"
      "__attribute__((visibility(\"default\"))) void rondo_entry_{0}(rondo_host_block* block, const unsigned "
      "char* arguments)"
      " {{ rondo_runner_{0}::run(block, arguments); }}\n"
      "extern __attribute__((visibility(\"default\"))) const rondo_host_layout rondo_entry_{0}_layout;\n"
      "const rondo_host_layout rondo_entry_{0}_layout = rondo_runner_{0}::layout;\n}}\n",
      i, request.entries[i]);
}

// In the main file of a compilation `#pragma once` is a warning.
std::string without_pragma_once(std::string_view text) {
  constexpr std::string_view pragma = "#pragma once";
  std::string result(text);
  const std::size_t at = result.find(pragma);
  return at == std::string::npos ? result : result.erase(at, pragma.size());
}

std::string whole_source(const CompileRequest& request) {
  std::string text = line_directive("rondo/host_kernel_abi.h").substr(1);
  text += without_pragma_once(embedded::host_kernel_abi);
  text += line_directive("rondo/host_prelude.h");
  text += without_pragma_once(embedded::host_prelude);
  text += definitions(request);
  text += line_directive(request.file);
  text += request.source;
  text += signature_source(request, "__attribute__((visibility(\"default\")))", {});
  text += own_text(request, "rondo/host_entry.h", embedded::host_entry);
  for (std::size_t i = 0; i < request.entries.size(); ++i) {
    text += line_directive(entry_file_name(request.entries[i]));
    text += trampoline(request, i);
  }
  return text;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

class HostCompiler final : public Compiler {
 public:
  HostCompiler() : program_(find_compiler()) {
    std::error_code error;
    const fs::path resolved = fs::canonical(program_, error);
    struct stat status {};
    if (error || stat(resolved.c_str(), &status) != 0) {
      throw Error(ErrorCode::missing_backend, fmt::format("cannot examine the C++ compiler {}", program_));
    }
    description_ =
        program_ == resolved.string() ? program_ : fmt::format("{} ({})", program_, resolved.string());
    // Size and time stand for the version: asking the compiler for it would cost a start with a warm cache a
    // process.
    identity_ =
        fmt::format("host\n{}\n{}\n{}\n{}.{:09}\n{}\n{}\n{}\n{}", program_, resolved.string(), status.st_size,
                    status.st_mtim.tv_sec, status.st_mtim.tv_nsec, fmt::join(options, " "),
                    fmt::join(gcc_options, " "), fmt::join(clang_options, " "),
                    text_digest({embedded::host_kernel_abi, embedded::host_prelude,
                                 embedded::signature_traits, embedded::host_entry}));
  }

  const std::string& identity() const noexcept override { return identity_; }
  const std::string& description() const noexcept override { return description_; }

  Binary compile(const CompileRequest& request) override {
    check_entries(request);
    const TemporaryDirectory directory;
    const fs::path include_directory = directory.path() / deep, output = directory.path() / "kernel.so";
    for (const char* name : empty_headers) write_file(directory.path() / "cuda" / name, "");
    write_headers(request.headers, include_directory, directory.path());
    write_file(include_directory / "kernel.cpp", whole_source(request));

    ProcessResult result = run_process(command(directory.path(), include_directory, output));
    replace_all(result.output, include_directory.string() + "/", "");
    replace_all(result.output, directory.path().string() + "/", "");
    if (result.exit_code != 0 && result.output.empty()) {
      throw Error(ErrorCode::missing_backend,
                  fmt::format("{} failed without a word, exit status {}", description_, result.exit_code),
                  "check that it compiles anything at all, or set RONDO_HOST_CXX to another compiler's path");
    }
    if (result.exit_code != 0) throw compile_failure(request, description_, result.output);
    return read_back(request, read_file(output), std::move(result.output));
  }

 private:
  std::vector<std::string> command(const fs::path& root, const fs::path& include_directory,
                                   const fs::path& output) {
    std::vector<std::string> arguments = {program_};
    arguments.insert(arguments.end(), options.begin(), options.end());
    if (is_clang()) {
      arguments.insert(arguments.end(), std::begin(clang_options), std::end(clang_options));
    } else {
      arguments.insert(arguments.end(), std::begin(gcc_options), std::end(gcc_options));
    }
    arguments.push_back("-iquote" + include_directory.string());
    arguments.push_back("-I" + (root / "cuda").string());
    arguments.insert(arguments.end(), {"-o", output.string(), (include_directory / "kernel.cpp").string()});
    return arguments;
  }

  bool is_clang() {
    std::call_once(asked_, [&] {
      is_clang_ = run_process({program_, "--version"}).output.find("clang") != std::string::npos;
    });
    return is_clang_;
  }

  static Binary read_back(const CompileRequest& request, std::vector<std::byte> code, std::string log) {
    Binary binary;
    std::vector<Diagnostic> wrong;
    for (std::size_t i = 0; i < request.entries.size(); ++i) {
      const std::string& entry = request.entries[i];
      if (!declares_kernel(request, entry)) {
        wrong.push_back(
            {.place = in_file(request.file),
             .message = fmt::format("entry \"{}\" is a function, but not declared as __global__", entry),
             .hint = ""});
        continue;
      }
      binary.entries.push_back({entry, fmt::format("rondo_entry_{}", i), read_signature(code, i, entry)});
    }
    if (!wrong.empty()) throw Error(ErrorCode::bad_schedule, std::move(wrong));
    binary.code = std::move(code);
    binary.log = std::move(log);
    return binary;
  }

  std::string program_, identity_, description_;
  std::once_flag asked_;
  bool is_clang_ = false;
};

}  // namespace

std::shared_ptr<Compiler> make_host_compiler() { return std::make_shared<HostCompiler>(); }

}  // namespace rondo::rtc
