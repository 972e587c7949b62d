// A whole file, mapped for reading: pages come in when they are touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace rondo {

class MappedFile {
 public:
  // Throws Error(bad_argument) for what is missing, may not be read or is not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Starts on a page boundary. A file that another process cuts short meanwhile raises SIGBUS on the pages
  // that are gone.
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace rondo
