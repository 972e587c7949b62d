#include "mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "file_error.h"

namespace rondo {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why, const std::string& hint) {
  throw_file_error(ErrorCode::bad_argument, path.string(), why, hint);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) {
    const int code = errno;
    refuse(path, fmt::format("cannot be opened: {}", std::generic_category().message(code)),
           "Check the path and its permissions.");
  }
  struct stat status {};
  if (::fstat(file.number, &status) != 0) {
    const int code = errno;
    refuse(path, fmt::format("its size cannot be read: {}", std::generic_category().message(code)), "");
  }
  if (!S_ISREG(status.st_mode))
    refuse(path, "not a regular file", "Give a .gguf, .safetensors or .npy file, or a folder.");
  if (status.st_size == 0) return;
  if (static_cast<std::uint64_t>(status.st_size) > std::numeric_limits<std::size_t>::max()) {
    refuse(path, "larger than this machine's address space", "");
  }
  const std::size_t size = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) {
    const int code = errno;
    refuse(path, fmt::format("{} bytes cannot be mapped: {}", size, std::generic_category().message(code)),
           "");
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace rondo
