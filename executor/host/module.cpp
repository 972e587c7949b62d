#include "module.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "rondo/error.h"

namespace rondo::host {
namespace {

[[noreturn]] void fail(const std::string& why) {
  throw Error(ErrorCode::run_time, "loading a host module: " + why);
}

// The loader maps what the headers say, and a file that is shorter than that would end the process with
// SIGBUS.
void check_is_whole(std::span<const std::byte> binary) {
  ElfW(Ehdr) header;
  if (binary.size() < sizeof header) fail(fmt::format("{} bytes are no shared object", binary.size()));
  std::memcpy(&header, binary.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) fail("not an ELF file");
  if (header.e_phentsize != sizeof(ElfW(Phdr)) || header.e_phoff > binary.size() ||
      header.e_phnum > (binary.size() - header.e_phoff) / sizeof(ElfW(Phdr))) {
    fail("its program headers lie outside the file");
  }
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    std::memcpy(&segment, binary.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset > binary.size() || segment.p_filesz > binary.size() - segment.p_offset) {
      fail(fmt::format("segment {} lies outside the file: it is cut short", i));
    }
  }
}

void write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(fmt::format("writing its file: {}", std::strerror(errno)));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

}  // namespace

Module::File::~File() {
  if (descriptor >= 0) close(descriptor);
}

Module::Module(std::span<const std::byte> binary) {
  check_is_whole(binary);
  std::string problem;
  file_.descriptor = memfd_create("rondo-module", MFD_CLOEXEC);
  if (file_.descriptor >= 0) {
    write_all(file_.descriptor, binary);
    library_ = DynamicLibrary::open(fmt::format("/proc/self/fd/{}", file_.descriptor), problem);
  }
  if (!library_) {
    // No memfd, no /proc, or memory that may not be executed: a file that is gone once it is loaded.
    std::string path = (std::filesystem::temp_directory_path() / "rondo-module-XXXXXX").string();
    File file{mkstemp(path.data())};
    if (file.descriptor < 0)
      fail(fmt::format("{}; and no temporary file {}: {}", problem, path, std::strerror(errno)));
    std::string second_problem;
    try {
      write_all(file.descriptor, binary);
      library_ = DynamicLibrary::open(path, second_problem);
    } catch (...) {
      unlink(path.c_str());
      throw;
    }
    unlink(path.c_str());
    if (!library_) fail(second_problem);
  }
}

Function& Module::function(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = functions_.find(name);
  if (found != functions_.end()) return *found->second;
  auto function = std::make_unique<Function>();
  function->name = name;
  function->entry = reinterpret_cast<rondo_host_entry>(library_.symbol(name.c_str()));
  function->layout = static_cast<const rondo_host_layout*>(library_.symbol((name + "_layout").c_str()));
  if (function->entry == nullptr || function->layout == nullptr) {
    throw Error(ErrorCode::bad_argument, fmt::format("the host module has no kernel \"{}\"", name));
  }
  if (function->layout->count > std::size(function->layout->parameters)) {
    fail(fmt::format("kernel \"{}\" has a damaged layout table", name));
  }
  for (unsigned i = 0; i < function->layout->count; ++i) {
    const auto& parameter = function->layout->parameters[i];
    function->argument_end = std::max(function->argument_end, std::size_t{parameter.offset} + parameter.size);
  }
  return *functions_.emplace(name, std::move(function)).first->second;
}

}  // namespace rondo::host
