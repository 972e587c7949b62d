// C++ names for people.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace rondo {

// `name` itself where it is no mangled name.
inline std::string demangle(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  // Without a prefix it would take "i" for the type int.
  return status == 0 && text != nullptr && name.starts_with("_Z") ? std::string(text.get()) : name;
}

}  // namespace rondo
