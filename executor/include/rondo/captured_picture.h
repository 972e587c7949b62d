// What a captured graph looked like at one moment, as data: written by CapturedGraph::to_json, shown by
// `rondo captured`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rondo/address_range.h"
#include "rondo/captured_graph.h"

namespace rondo {

struct CapturedPicture {
  struct Argument {
    std::uint32_t offset = 0;  // in the packed arguments
    std::string bytes;         // hexadecimal, in the order of memory
  };
  struct Node {
    CapturedNode info;
    std::optional<LaunchShape> shape;  // of a kernel whose parameters are known
    bool is_cooperative = false;
    Dim3 cluster{0, 0, 0};
    std::vector<Argument> arguments;
  };
  struct PlacedSite {
    Site site;
    std::uint32_t allocation = 0;  // index in allocations
  };

  std::string device;  // "cuda:0"
  std::vector<Node> nodes;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // from, to
  std::vector<AddressRange> allocations;
  std::vector<PlacedSite> sites;

  // Throws Error(bad_argument) with `file`, line, column and JSON pointer.
  static CapturedPicture parse(const std::string& json, const std::string& file);
  std::string to_json() const;
  std::string to_dot() const;   // for Graphviz
  std::string to_text() const;  // a table
};

}  // namespace rondo
