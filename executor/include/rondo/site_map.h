// Which bytes of a captured graph's nodes are pointers, and which are scalars that vary: found by comparing two captures of the same
// work with other buffers and values, saved as JSON, checked against a later capture, and used to update it by name.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "rondo/captured_graph.h"

namespace rondo {

// Memory that the two captures used for the same thing.
struct NamedBuffer {
  std::string name;
  AddressRange first, second;
};

class SiteMap {
 public:
  // Throws Error(bad_argument) that names the node where the two are not the same work: other kernels, layouts, kinds or numbers of
  // nodes. A word that differs is a pointer where it lies at the same offset in both ranges of a named buffer, or in two allocations
  // at the same offset (named "allocation 0", …); else its bytes are a scalar (named "scalar 0", …).
  static SiteMap diff(CapturedGraph& first, CapturedGraph& second, std::span<const NamedBuffer> buffers = {});
  static SiteMap parse(const std::string& json);  // throws Error(bad_argument), with the JSON pointer
  std::string to_json() const;

  // Throws Error(bad_argument) that names the node where `graph` is not of the program that the map was made of.
  void check(const CapturedGraph& graph) const;

  std::vector<std::string> buffers() const;
  std::vector<std::string> scalars() const;
  bool proves(const Site& site) const noexcept;

  // Every site of a buffer is set to `base` plus the offset that the map has for it; every place of a scalar to the bytes given, whose
  // number must be the scalar's. All or nothing. Throws Error(bad_argument), the nearest name suggested.
  void set_buffer(CapturedGraph& graph, std::string_view name, std::uint64_t base) const;
  void set_scalar(CapturedGraph& graph, std::string_view name, std::span<const std::byte> bytes) const;

 private:
  struct Place {
    std::uint32_t node = 0, argument = 0, offset = 0, bytes = 0;
    std::int64_t addend = 0;  // pointer: from the buffer's base
  };
  struct Node {
    std::string path, kind, name;
    std::vector<std::uint32_t> argument_bytes;
  };
  std::vector<Node> nodes_;
  std::map<std::string, std::vector<Place>> buffers_, scalars_;
};

}  // namespace rondo
