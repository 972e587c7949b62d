#include "gpu_program.h"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cstdlib>

#include "signature.h"

namespace rondo::rtc {
namespace {

namespace fs = std::filesystem;

DynamicLibrary open_chosen(const LibrarySearch& search, const std::string& chosen) {
  std::string problem;
  DynamicLibrary library = DynamicLibrary::open(chosen, problem);
  if (library && !library.symbol(search.symbol)) problem = fmt::format("it has no {}", search.symbol);
  if (problem.empty()) return library;
  throw Error(ErrorCode::missing_backend,
              fmt::format("{} is \"{}\", which cannot be used as {}: {}", search.variable, chosen,
                          search.what, problem),
              "give the path of that library, or unset " + std::string(search.variable));
}

}  // namespace

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string file_stamp(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return fmt::format("{}: none", path.string());
  return fmt::format("{}: {} {}.{:09}", path.string(), status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

DynamicLibrary open_library(const LibrarySearch& search) {
  if (const std::string chosen = environment(search.variable); !chosen.empty())
    return open_chosen(search, chosen);
  std::vector<std::string> tried;
  for (const fs::path& directory : search.directories) {
    for (const std::string& name : search.file_names) {
      std::error_code error;
      const fs::path file = directory / name;
      if (!directory.empty() && !fs::exists(file, error)) continue;
      std::string problem;
      DynamicLibrary library = DynamicLibrary::open(file.string(), problem);
      if (library && library.symbol(search.symbol)) return library;
      if (library) problem = fmt::format("{} (it has no {})", library.path(), search.symbol);
      if (library || !directory.empty()) tried.push_back(problem);
    }
    tried.push_back(directory.empty() ? "the loader's search path" : directory.string());
  }
  throw Error(ErrorCode::missing_backend,
              fmt::format("{} was not found; looked in {}", search.what, fmt::join(tried, ", ")),
              search.hint);
}

GpuProgram::GpuProgram(const ProgramApi& api, const std::string& compiler, const CompileRequest& request,
                       const std::string& source, const std::vector<Header>& headers)
    : api_(api), compiler_(compiler), request_(request) {
  std::vector<const char*> texts, names;
  for (const Header& header : headers) {
    texts.push_back(header.text.c_str());
    names.push_back(header.name.c_str());
  }
  check(api_.create_program(&handle_, source.c_str(), request.file.c_str(), static_cast<int>(texts.size()),
                            texts.data(), names.data()),
        "a program");
  try {
    for (const std::string& entry : request.entries)
      check(api_.add_name_expression(handle_, entry.c_str()), "a place for the name of an entry");
  } catch (...) {
    api_.destroy_program(&handle_);
    throw;
  }
}

GpuProgram::~GpuProgram() { api_.destroy_program(&handle_); }

void GpuProgram::check(ProgramResult result, const char* wanted) const {
  if (result == ProgramResult::success) return;
  throw Error(ErrorCode::run_time, fmt::format("{}: {} does not give {}: {}", request_.file, compiler_,
                                               wanted, api_.get_error_string(result)));
}

void GpuProgram::compile(const std::vector<std::string>& options) {
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  const ProgramResult result =
      api_.compile_program(handle_, static_cast<int>(pointers.size()), pointers.data());
  if (result == ProgramResult::success) return;
  if (result == ProgramResult::error_compilation || result == ProgramResult::error_name_expression_not_valid)
    throw compile_failure(request_, compiler_, log());
  throw Error(ErrorCode::run_time, fmt::format("{}: {} failed on {}:\n{}", request_.file, compiler_,
                                               api_.get_error_string(result), log()));
}

std::string GpuProgram::log() const {
  std::size_t size = 0;
  check(api_.get_program_log_size(handle_, &size), "the size of the log");
  std::string log(size, '\0');
  if (size != 0) check(api_.get_program_log(handle_, log.data()), "the log");
  while (!log.empty() && log.back() == '\0') log.pop_back();
  return log;
}

const char* GpuProgram::lowered(const std::string& entry) const {
  const char* name = nullptr;
  const ProgramResult result = api_.get_lowered_name(handle_, entry.c_str(), &name);
  // Other results say that there is no such name.
  if (result == ProgramResult::error_out_of_memory || result == ProgramResult::error_internal_error)
    check(result, "the name of an entry");
  return result == ProgramResult::success ? name : nullptr;
}

Diagnostic not_global(const CompileRequest& request, const std::string& entry) {
  return {.place = in_file(request.file),
          .message = fmt::format("entry \"{}\" is a function, but not declared as __global__", entry),
          .hint = ""};
}

}  // namespace rondo::rtc
