// Which bytes of a captured graph's nodes are pointers, and which are scalars that vary: found by comparing
// two captures of the same work with other buffers and values, saved as JSON, checked against a later
// capture, and used to update it by name.
//
//     auto map = rondo::SiteMap::diff(first, second, {{{"kv", kv_of_first, kv_of_second}}});
//     map.set_buffer(captured, "kv", new_base);
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
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
  // Throws Error(bad_argument) that names the node where the two are not the same work: other kernels,
  // layouts, launch shapes, kinds or numbers of nodes, other dependencies; and for buffers without a name or
  // with the same one.
  //
  // A word (8 bytes, at a multiple of 8) that differs is a pointer where it lies at the same offset in both
  // ranges of a named buffer, else in two allocations at the same offset (named "allocation 0", …). What else
  // differs is a scalar (named "scalar 0", …): a whole argument of up to 8 bytes, in larger ones each 4
  // bytes. Scalars of one size that have the same two values are the same scalar: give those that are to be
  // told apart different values in the two captures. What is equal in both is neither, so give each capture
  // buffers of its own.
  static SiteMap diff(CapturedGraph& first, CapturedGraph& second, std::span<const NamedBuffer> buffers = {});
  // Throws Error(bad_argument), with `file`, line, column and JSON pointer.
  static SiteMap parse(const std::string& json, const std::string& file = "");
  std::string to_json() const;

  // Throws Error(bad_argument) that names the node where `graph` is not of the program that the map was made
  // of.
  void check(const CapturedGraph& graph) const;

  std::vector<std::string> buffers() const;
  std::vector<std::string> scalars() const;
  std::size_t scalar_bytes(std::string_view name) const;  // throws Error(bad_argument) for an unknown name
  bool proves(const Site& site) const noexcept;

  // Every site of a buffer is set to `base` plus the offset that the map has for it; every place of a scalar
  // to the bytes given, whose number must be the scalar's. All or nothing; the nodes concerned are checked.
  // Throws Error(bad_argument), the nearest name suggested.
  void set_buffer(CapturedGraph& graph, std::string_view name, std::uint64_t base) const;
  void set_scalar(CapturedGraph& graph, std::string_view name, std::span<const std::byte> bytes) const;

  bool operator==(const SiteMap&) const = default;

 private:
  struct Place {
    std::uint32_t node = 0, argument = 0, offset = 0, bytes = 0;
    std::int64_t addend = 0;  // pointer: from the buffer's base
    bool operator==(const Place&) const = default;
  };
  struct Node {
    std::string path, kind, name;
    std::vector<std::uint32_t> argument_bytes;
    bool operator==(const Node&) const = default;
  };
  using Places = std::map<std::string, std::vector<Place>, std::less<>>;
  class Comparison;
  class Reader;

  static std::vector<Node> nodes_of(const CapturedGraph& graph);
  void check_node(const CapturedGraph& graph, std::size_t node) const;
  static const std::vector<Place>& find(const Places& places, std::string_view name, const char* what);

  std::vector<Node> nodes_;
  Places buffers_, scalars_;
};

}  // namespace rondo
