// What the compilers for GPUs share: finding the vendor's library, and one compilation as its program object.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "compiler.h"
#include "dynamic_library.h"
#include "program_api.h"
#include "rondo/error.h"

namespace rondo::rtc {

// An environment variable's value; "" where it is not set.
std::string environment(const char* name);

// "path: size time": changes when the file does.
std::string file_stamp(const std::filesystem::path& path);

struct LibrarySearch {
  std::string what;                // "NVRTC (libnvrtc.so)"
  const char* variable = nullptr;  // RONDO_…_LIBRARY: a path that is taken before all others
  std::vector<std::filesystem::path> directories;  // in order; "" is the loader's own search
  std::vector<std::string> file_names;             // in each directory, in order
  const char* symbol = nullptr;                    // a library without it is another's, and passed over
  std::string hint;                                // the next step where none is found
};

// Throws Error(missing_backend) that says where it looked and what it found there.
DynamicLibrary open_library(const LibrarySearch& search);

// Fills a table through its for_each_symbol. Throws Error(missing_backend) that names the first missing
// function; `needed` is the oldest version that has all.
template <class Table>
Table bind_all(const DynamicLibrary& library, const std::string& needed, const std::string& hint) {
  Table table;
  for_each_symbol(table, [&](const std::string& name, auto& function) {
    using Function = std::remove_pointer_t<std::remove_reference_t<decltype(function)>>;
    function = library.function<Function>(name.c_str());
    if (function) return;
    throw Error(ErrorCode::missing_backend,
                fmt::format("{} has no {}; {} is needed", library.path(), name, needed), hint);
  });
  return table;
}

// nvrtcProgram, hiprtcProgram.
class GpuProgram {
 public:
  // `compiler` is Compiler::description(). Throws run_time where the library refuses the call.
  GpuProgram(const ProgramApi& api, const std::string& compiler, const CompileRequest& request,
             const std::string& source, const std::vector<Header>& headers);
  ~GpuProgram();
  GpuProgram(const GpuProgram&) = delete;
  GpuProgram& operator=(const GpuProgram&) = delete;

  // Throws what compile_failure makes of the log; run_time where the compiler itself fails.
  void compile(const std::vector<std::string>& options);
  std::string log() const;
  // The entry's symbol in the binary; nullptr where it is no kernel. Throws run_time where the library cannot look.
  const char* lowered(const std::string& entry) const;

  template <class GetSize, class Get>
  std::vector<std::byte> code(GetSize get_size, Get get) const {
    std::size_t size = 0;
    check(get_size(handle_, &size), "the size of the code");
    std::vector<std::byte> bytes(size);
    if (size != 0) check(get(handle_, reinterpret_cast<char*>(bytes.data())), "the code");
    return bytes;
  }

 private:
  void check(ProgramResult result, const char* wanted) const;

  const ProgramApi& api_;
  const std::string& compiler_;
  const CompileRequest& request_;
  ProgramHandle handle_ = nullptr;
};

// What to complain of an entry whose lowered() is null.
Diagnostic not_global(const CompileRequest& request, const std::string& entry);

}  // namespace rondo::rtc
