#include "graph_maker.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <stdexcept>

#include "cuda_graph_maker.h"
#include "hip_graph_maker.h"

namespace rondo::conformance {

std::unique_ptr<GraphMaker> GraphMaker::make(const std::string& backend) {
  return backend == "cuda" ? make_cuda_graph_maker() : make_hip_graph_maker();
}

void* vendor_function(const char* variable, const char* usual, const char* name) {
  const char* given = std::getenv(variable);
  const std::string file = given != nullptr ? given : usual;
  // A driver is never closed: it runs threads of its own.
  static auto& libraries = *new std::map<std::string, DynamicLibrary>;
  std::string problem;
  auto found = libraries.find(file);
  if (found == libraries.end()) found = libraries.emplace(file, DynamicLibrary::open(file, problem)).first;
  void* const function = found->second.symbol(name);
  if (function == nullptr) throw std::runtime_error(fmt::format("no {}: {}", name, problem));
  return function;
}

void check_vendor(int result, const char* call) {
  if (result != 0) throw std::runtime_error(fmt::format("{}: {}", call, result));
}

}  // namespace rondo::conformance
