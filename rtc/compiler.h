// Run-time compilation: source text + entry expressions + architecture → binary, lowered names, signatures, log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rondo/data_type.h"

namespace rondo::rtc {

// A file that the source includes in quotes, by the name it is included under. Handed over in memory, so that it is in the hash.
struct Header {
  std::string name;
  std::string text;
};

struct CompileRequest {
  std::string file;  // what the log calls the source: the user's path
  std::string source;
  std::vector<Header> headers;                               // see collect_headers
  std::vector<std::pair<std::string, std::string>> defines;  // name, value; in the order given
  std::vector<std::string> entries;                          // C++ expressions that name kernels: "saxpy<float>"
  std::string architecture;                                  // DeviceProperties::architecture
};

enum class ParameterKind : std::uint8_t { scalar = 0, pointer = 1, structure = 2 };

// One parameter of a kernel, by the C++ type system itself (traits over decltype(&entry)).
struct Parameter {
  ParameterKind kind = ParameterKind::scalar;
  bool is_const = false;         // pointer: the pointee is const
  std::optional<DataType> type;  // scalar: its type; pointer: the pointee's; nullopt for void, structs and what has no DataType
  std::uint32_t element_size = 0;  // pointer: sizeof the pointee, 0 for void
  std::uint32_t size = 0, alignment = 0;  // of the parameter itself, bytes

  bool operator==(const Parameter&) const = default;
};

struct Entry {
  std::string expression;  // as asked for
  std::string lowered;     // the symbol in the binary
  std::vector<Parameter> parameters;

  // Where the parameters lie in the packed argument buffer, by the C layout rules.
  std::vector<std::size_t> offsets() const;
  std::size_t argument_bytes() const;  // 0 for a kernel without parameters
};

struct Binary {
  std::vector<std::byte> code;  // cubin, PTX (zero-terminated) or a shared object
  std::vector<Entry> entries;   // in the order of the request
  std::string log;              // the compiler's warnings; may be empty
  bool from_cache = false;
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  // Everything about the compiler itself that the result depends on: kind, version, library or program, the headers that belong to
  // it, fixed options. Part of the cache key.
  virtual const std::string& identity() const noexcept = 0;
  // For people: "NVRTC 13.0", "g++ 12.2.0", with where it was found.
  virtual const std::string& description() const noexcept = 0;
  // Throws Error(bad_schedule) with the compiler's log, its lines in the user's file, when the source or an entry does not
  // compile; Error(missing_backend) when the compiler cannot do that architecture at all. May be called from several threads.
  virtual Binary compile(const CompileRequest& request) = 0;
};

// The system's C++ compiler: $RONDO_HOST_CXX, else c++, g++, clang++ on PATH. Throws missing_backend where there is none.
std::shared_ptr<Compiler> make_host_compiler();
// libnvrtc: $RONDO_NVRTC_LIBRARY; else the first found in $CUDA_HOME/lib64, $CUDA_PATH/lib64, /usr/local/cuda/lib64, the loader's
// search path, and where pip puts it in $VIRTUAL_ENV; version 13 before 12 in each. The headers beside it are used, or those in
// $RONDO_NVRTC_INCLUDE. Throws missing_backend, saying where it looked, where there is none.
std::shared_ptr<Compiler> make_nvrtc_compiler();

// hipRTC: $RONDO_HIPRTC_LIBRARY; else the first that has its functions of libhiprtc.so.7, .6, .5 and libamdhip64.so.7, .6, .5 (which
// has them inside before ROCm 6) in $ROCM_PATH/lib, the loader's search path, /opt/rocm/lib. A device's architecture is what HIP calls
// gcnArchName, "gfx90a:sramecc+:xnack-". hipRTC ends the process for one that it does not know, so AMD's code object manager (comgr,
// the compiler inside hipRTC) is asked first: by the functions amd_comgr_* of the hipRTC library itself; else of the libamd_comgr.so.3
// or .2 that it has loaded, beside it, or in the loader's search path; $RONDO_COMGR_LIBRARY before all of these. hipRTC compiles
// through comgr, so one that cannot be found is one that was linked into it: nothing is compiled then, and the error asks for
// RONDO_COMGR_LIBRARY. Throws missing_backend, saying where it looked, where there is no hipRTC.
std::shared_ptr<Compiler> make_hiprtc_compiler();

// All files that `source` (of path `file`) includes in quotes, transitively: looked up beside the including file, then in
// `include_directories`, then among the headers built into the library (portable.cuh). What is not found is left to the compiler.
std::vector<Header> collect_headers(const std::string& file, const std::string& source,
                                    const std::vector<std::string>& include_directories = {});

class BinaryCache;  // rtc/cache.h

// Compiles all requests, in parallel on up to `threads` threads, through the cache (may be null). Results in the order of the
// requests. All failures are collected into one Error. `progress(done, total)` is called under a lock as results arrive.
std::vector<Binary> compile_all(Compiler& compiler, BinaryCache* cache, std::span<const CompileRequest> requests, unsigned threads,
                                const std::function<void(std::size_t, std::size_t)>& progress = {});

}  // namespace rondo::rtc
