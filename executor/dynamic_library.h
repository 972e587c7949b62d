// A shared library opened at run time, closed when the object goes.
#pragma once

#include <memory>
#include <string>

namespace rondo {

class DynamicLibrary {
 public:
  DynamicLibrary() = default;  // holds none

  // `file` as dlopen takes it: a path, or a bare name that the loader searches for. Symbols stay local to the
  // handle. Where it cannot be opened, the object holds none and `problem` has the loader's own words.
  static DynamicLibrary open(const std::string& file, std::string& problem);

  explicit operator bool() const noexcept { return handle_ != nullptr; }

  // nullptr where the library does not have it, or where none is held.
  void* symbol(const char* name) const noexcept;
  template <class Function>
  Function* function(const char* name) const noexcept {
    return reinterpret_cast<Function*>(symbol(name));
  }

  // The absolute path of the file that was opened, as far as the loader can tell; else what was given to
  // open.
  const std::string& path() const noexcept { return path_; }

 private:
  struct Close {
    void operator()(void* handle) const noexcept;
  };
  std::unique_ptr<void, Close> handle_;
  std::string path_;
};

}  // namespace rondo
