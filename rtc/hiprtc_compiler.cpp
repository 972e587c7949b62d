#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "amd_code_object.h"
#include "compiler.h"
#include "elf_symbols.h"
#include "embedded.h"
#include "gpu_program.h"
#include "headers.h"
#include "hiprtc_api.h"
#include "rondo/error.h"
#include "signature.h"
#include "text_digest.h"

namespace rondo::rtc {
namespace {

namespace fs = std::filesystem;
using hiprtc::Api;
using hiprtc::Comgr;

// -nostdinc: no header of the system's, which are in no cache key. hipRTC brings its own along.
constexpr const char* fixed_options[] = {"-std=c++17", "-O3", "-nostdinc"};

// What hipRTC and comgr read from the environment that changes the code they make.
constexpr const char* telling_variables[] = {"GPU_ENABLE_WAVE32_MODE",
                                             "GPU_ENABLE_WGP_MODE",
                                             "HIPRTC_COMPILE_OPTIONS_APPEND",
                                             "HIPRTC_LINK_OPTIONS_APPEND",
                                             "CPATH",
                                             "CPLUS_INCLUDE_PATH"};

constexpr std::string_view isa_prefix = "amdgcn-amd-amdhsa--";
constexpr const char* comgr_names[] = {"libamd_comgr.so.3", "libamd_comgr.so.2"};

LibrarySearch library_search() {
  LibrarySearch search;
  search.what = "hipRTC (libhiprtc.so, or libamdhip64.so before ROCm 6)";
  search.variable = "RONDO_HIPRTC_LIBRARY";
  if (const std::string home = environment("ROCM_PATH"); !home.empty())
    search.directories.push_back(fs::path(home) / "lib");
  search.directories.insert(search.directories.end(), {"", "/opt/rocm/lib"});
  for (const char* library : {"libhiprtc.so.", "libamdhip64.so."}) {
    for (const char* version : {"7", "6", "5"}) search.file_names.push_back(std::string(library) + version);
  }
  search.symbol = "hiprtcCreateProgram";
  search.hint =
      "install ROCm (on Debian: apt-get install libamdhip64-5 libhiprtc-builtins5), or set "
      "RONDO_HIPRTC_LIBRARY to its libhiprtc.so";
  return search;
}

// The libraries hold threads and LLVM's global state: they are never unloaded.
void keep_loaded(const DynamicLibrary& library) {
  dlopen(library.path().c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

// Its functions are null where there is none.
struct FoundComgr {
  DynamicLibrary library;  // none where hipRTC's own has the functions
  std::string path;
  Comgr functions;
};

bool bind_comgr(const DynamicLibrary& library, FoundComgr& found) {
  for_each_symbol(found.functions, [&](const std::string& name, auto& function) {
    function =
        library.function<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name.c_str());
  });
  found.path = library.path();
  return found.functions.get_isa_count && found.functions.get_isa_name;
}

// hipRTC loads comgr by name when it is first needed; afterwards the loader gives the very same one for that
// name, wherever it was found.
void make_hiprtc_load_comgr(const Api& api) {
  ProgramHandle program = nullptr;
  if (api.create_program(&program, "", "", 0, nullptr, nullptr) == ProgramResult::success)
    api.destroy_program(&program);
}

std::vector<std::string> comgr_candidates(const Api& api, const fs::path& hiprtc) {
  if (std::string chosen = environment("RONDO_COMGR_LIBRARY"); !chosen.empty()) return {std::move(chosen)};
  make_hiprtc_load_comgr(api);
  std::vector<std::string> candidates;
  for (const char* name : comgr_names) {
    if (void* loaded = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) {
      dlclose(loaded);
      candidates.emplace_back(name);
    }
  }
  for (const char* name : comgr_names) candidates.push_back((hiprtc.parent_path() / name).string());
  candidates.insert(candidates.end(), std::begin(comgr_names), std::end(comgr_names));
  return candidates;
}

FoundComgr find_comgr(const Api& api, const DynamicLibrary& hiprtc) {
  FoundComgr found;
  const bool is_chosen = !environment("RONDO_COMGR_LIBRARY").empty();
  if (!is_chosen && bind_comgr(hiprtc, found)) return found;
  std::string problem;
  for (const std::string& candidate : comgr_candidates(api, hiprtc.path())) {
    found.library = DynamicLibrary::open(candidate, problem);
    if (found.library && bind_comgr(found.library, found)) {
      keep_loaded(found.library);
      return found;
    }
  }
  if (is_chosen) {
    throw Error(ErrorCode::missing_backend,
                fmt::format("RONDO_COMGR_LIBRARY is \"{}\", which is no libamd_comgr.so{}{}",
                            environment("RONDO_COMGR_LIBRARY"), problem.empty() ? "" : ": ", problem),
                "give the path of the libamd_comgr.so that belongs to hipRTC, or unset it");
  }
  return {};
}

std::vector<std::string> architectures_of(const Comgr& comgr) {
  std::vector<std::string> names;
  std::size_t count = 0;
  if (!comgr.get_isa_count || comgr.get_isa_count(&count) != hiprtc::ComgrStatus::success) return names;
  for (std::size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    if (comgr.get_isa_name(i, &name) != hiprtc::ComgrStatus::success || !name) continue;
    std::string_view base = name;
    if (base.starts_with(isa_prefix)) base.remove_prefix(isa_prefix.size());
    names.emplace_back(base.substr(0, base.find(':')));
  }
  return names;
}

// "gfx90a", and behind it features that are on or off: ":sramecc+:xnack-".
bool is_well_formed(std::string_view architecture) {
  const auto is_name = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
  };
  std::size_t end = std::min(architecture.find(':'), architecture.size());
  if (!architecture.starts_with("gfx") || !is_name(architecture.substr(0, end))) return false;
  while (end < architecture.size()) {
    std::string_view feature = architecture.substr(end + 1);
    feature = feature.substr(0, feature.find(':'));
    if (feature.size() < 2 || (feature.back() != '+' && feature.back() != '-')) return false;
    if (!is_name(feature.substr(0, feature.size() - 1))) return false;
    end += 1 + feature.size();
  }
  return true;
}

// The headers as hipRTC gets them. It writes them to files of those names, so that the user's own ("../a.h")
// could lie anywhere: each text gets a plain name, and the lines that include it are rewritten.
struct PlainHeaders {
  std::map<std::string, std::string> names;
  std::vector<Header> headers;
};

PlainHeaders plain_headers(const std::vector<Header>& headers) {
  PlainHeaders plain;
  std::map<std::string_view, std::string> by_text;
  for (const Header& header : headers) {
    const auto [known, is_new] =
        by_text.emplace(header.text, fmt::format("rondo_header_{}.h", by_text.size()));
    plain.names[header.name] = known->second;
    if (is_new) plain.headers.push_back({known->second, line_directive(header.name).substr(1) + header.text});
  }
  for (Header& header : plain.headers) header.text = rename_includes(header.text, plain.names);
  return plain;
}

// hipRTC 5.2 finds an entry's symbol by comparing texts, so that "k<n>" and "k<(1 + 2)>" have none: a
// variable that holds the kernel's address tells which it is.
constexpr const char* pointer_name = "rondo_pointer_";

const AmdKernel* find_by_pointer(const AmdCodeObject& object, std::span<const std::byte> elf, std::size_t i) {
  const std::optional<std::uint64_t> address = find_amd_pointer(elf, pointer_name + std::to_string(i));
  if (!address) return nullptr;
  const auto found = std::find_if(object.kernels.begin(), object.kernels.end(), [&](const AmdKernel& kernel) {
    const std::optional<ElfSymbol> symbol = find_elf_symbol(elf, kernel.name);
    return symbol && symbol->address == *address;
  });
  return found == object.kernels.end() ? nullptr : &*found;
}

std::string whole_source(const CompileRequest& request, const PlainHeaders& headers) {
  std::string text = definitions(request).substr(1) + line_directive(request.file);
  text += rename_includes(request.source, headers.names);
  text += signature_source(request, "", [&](std::size_t i) {
    return fmt::format(
        "extern \"C\" {{ extern __device__ const rondo_function_{0} {1}{0};\n"
        "__device__ const rondo_function_{0} {1}{0} = &{2}; }}\n",
        i, pointer_name, request.entries[i]);
  });
  return text + line_directive("rondo/names");  // what hipRTC adds for the entries' names
}

// The argument buffer is filled by the C layout rules: the code object must have the same.
void check_layout(const Entry& entry, const AmdKernel& kernel, const std::string& compiler) {
  const auto fail = [&](const std::string& what) {
    return Error(ErrorCode::run_time,
                 fmt::format("entry \"{}\": {}, as {} compiled it", entry.expression, what, compiler),
                 "pass such arguments in a buffer, and please report this with the compiler's version");
  };
  if (kernel.arguments.size() != entry.parameters.size()) {
    throw fail(fmt::format("the code object has {} arguments where the source declares {}",
                           kernel.arguments.size(), entry.parameters.size()));
  }
  const std::vector<std::size_t> offsets = entry.offsets();
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const AmdArgument expected = {offsets[i], entry.parameters[i].size}, given = kernel.arguments[i];
    if (given == expected) continue;
    throw fail(
        fmt::format("argument {} lies at {} and has {} bytes in the code object; by C's rules it "
                    "lies at {} and has {}",
                    i, given.offset, given.size, expected.offset, expected.size));
  }
}

class HiprtcCompiler final : public Compiler {
 public:
  HiprtcCompiler()
      : library_(open_library(library_search())),
        api_(bind_all<Api>(library_, "the hipRTC of ROCm 4.2 or newer",
                           "set RONDO_HIPRTC_LIBRARY to a newer libhiprtc.so")),
        comgr_(find_comgr(api_, library_)),
        architectures_(architectures_of(comgr_.functions)) {
    keep_loaded(library_);
    int major = 0, minor = 0;
    api_.version(&major, &minor);
    // The file's name tells the version of ROCm; hiprtcVersion() tells 9.0 since long.
    description_ = fmt::format("hipRTC {}.{} ({}, {})", major, minor, library_.path(),
                               comgr_.path.empty() ? "without comgr" : "with " + comgr_.path);
    identity_ = fmt::format("hiprtc {}.{}\n{}\n{}\n{}\n{}", major, minor, file_stamp(library_.path()),
                            comgr_.path.empty() ? "no comgr" : file_stamp(comgr_.path),
                            fmt::join(fixed_options, " "), text_digest({embedded::signature_traits}));
    for (const char* variable : telling_variables)
      identity_ += fmt::format("\n{}={}", variable, environment(variable));
  }

  const std::string& identity() const noexcept override { return identity_; }
  const std::string& description() const noexcept override { return description_; }

  Binary compile(const CompileRequest& request) override {
    check_entries(request);
    check_architecture(request.architecture);
    const PlainHeaders headers = plain_headers(request.headers);
    const std::string source = whole_source(request, headers);
    std::vector<std::string> options(std::begin(fixed_options), std::end(fixed_options));
    options.push_back("--offload-arch=" + request.architecture);
    // One at a time in a process: nothing promises that LLVM's and LLD's global state, which all programs
    // share, bears more.
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    GpuProgram program(api_, description_, request, source, headers.headers);
    program.compile(options);
    return collect(request, program);
  }

 private:
  Error unsupported(const std::string& message, const std::string& hint) const {
    return Error(ErrorCode::missing_backend, message, hint);
  }

  // hipRTC up to at least ROCm 6.2 frees memory twice, and so ends the process, for a name that comgr
  // refuses.
  void check_architecture(const std::string& architecture) const {
    if (!is_well_formed(architecture)) {
      throw Error(
          ErrorCode::missing_backend,
          fmt::format("{} cannot compile for the architecture that the device reports, \"{}\": expected one "
                      "such as gfx90a or gfx90a:sramecc+:xnack-",
                      description_, architecture));
    }
    if (architectures_.empty()) {
      throw unsupported(
          fmt::format("{} cannot be asked whether it compiles for {}: its libamd_comgr.so was not found",
                      description_, architecture),
          "set RONDO_COMGR_LIBRARY to the libamd_comgr.so that it belongs to");
    }
    const std::string base = architecture.substr(0, architecture.find(':'));
    const std::string hint = "set RONDO_HIPRTC_LIBRARY to the libhiprtc.so of a ROCm that supports the GPU";
    if (std::find(architectures_.begin(), architectures_.end(), base) == architectures_.end()) {
      throw unsupported(fmt::format("{} does not compile for {}; it knows {}", description_, architecture,
                                    fmt::join(architectures_, ", ")),
                        hint);
    }
    if (!accepts(architecture)) {
      throw unsupported(fmt::format("{} compiles for {}, but not with the features of {}", description_, base,
                                    architecture),
                        hint);
    }
  }

  bool accepts(const std::string& architecture) const {
    const Comgr& comgr = comgr_.functions;
    if (!comgr.create_action_info || !comgr.destroy_action_info || !comgr.set_isa_name) return true;
    hiprtc::ActionInfo info{};
    if (comgr.create_action_info(&info) != hiprtc::ComgrStatus::success) return false;
    const hiprtc::ComgrStatus status =
        comgr.set_isa_name(info, (std::string(isa_prefix) + architecture).c_str());
    comgr.destroy_action_info(info);
    return status == hiprtc::ComgrStatus::success;
  }

  Binary collect(const CompileRequest& request, const GpuProgram& program) const {
    Binary binary;
    const std::vector<std::byte> code = program.code(api_.get_code_size, api_.get_code);
    const std::span<const std::byte> elf = unbundle(code, request.architecture);
    const AmdCodeObject object = read_amd_code_object(elf);
    std::vector<Diagnostic> wrong;
    for (std::size_t i = 0; i < request.entries.size(); ++i) {
      const std::string& entry = request.entries[i];
      const char* lowered = program.lowered(entry);
      const AmdKernel* kernel = lowered ? object.find(lowered) : find_by_pointer(object, elf, i);
      if (!kernel) {
        wrong.push_back(not_global(request, entry));
        continue;
      }
      binary.entries.push_back({entry, kernel->name, read_signature(elf, i, entry)});
      check_layout(binary.entries.back(), *kernel, description_);
    }
    if (!wrong.empty()) throw Error(ErrorCode::bad_schedule, std::move(wrong));
    binary.code.assign(elf.begin(), elf.end());
    binary.log = program.log();
    return binary;
  }

  DynamicLibrary library_;
  Api api_;
  FoundComgr comgr_;
  std::vector<std::string> architectures_;
  std::string identity_, description_;
};

}  // namespace

std::shared_ptr<Compiler> make_hiprtc_compiler() { return std::make_shared<HiprtcCompiler>(); }

}  // namespace rondo::rtc
