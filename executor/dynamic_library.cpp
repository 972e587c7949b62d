#include "dynamic_library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

namespace rondo {
namespace {

std::string loaded_path(void* handle, const std::string& given) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr ||
      *map->l_name == '\0')
    return given;
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(map->l_name, error);
  return error ? map->l_name : resolved.string();
}

}  // namespace

void DynamicLibrary::Close::operator()(void* handle) const noexcept { dlclose(handle); }

DynamicLibrary DynamicLibrary::open(const std::string& file, std::string& problem) {
  DynamicLibrary library;
  // RTLD_NOW: a library that lacks what it needs is refused here, not in the middle of a call.
  library.handle_.reset(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library.handle_) {
    library.path_ = loaded_path(library.handle_.get(), file);
  } else {
    const char* reason = dlerror();
    problem = reason ? reason : "dlopen failed without a reason";
  }
  return library;
}

void* DynamicLibrary::symbol(const char* name) const noexcept {
  return handle_ ? dlsym(handle_.get(), name) : nullptr;
}

}  // namespace rondo
