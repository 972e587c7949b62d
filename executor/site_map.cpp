#include "rondo/site_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "captured_state.h"

namespace rondo {
namespace {

[[noreturn]] void refuse(std::string message, std::string hint = {}) {
  throw Error(ErrorCode::bad_argument, std::move(message), std::move(hint));
}

std::string describe(const std::string& path, const std::string& kind, const std::string& name) {
  return name.empty() ? fmt::format("node {} ({})", path, kind)
                      : fmt::format("node {} ({} \"{}\")", path, kind, name);
}

std::vector<std::string> names_of(const auto& places) {
  std::vector<std::string> names;
  for (const auto& [name, list] : places) names.push_back(name);
  return names;
}

}  // namespace

// Finds the places in which two captures differ.
class SiteMap::Comparison {
 public:
  Comparison(SiteMap& map, CapturedGraph& first, CapturedGraph& second, std::span<const NamedBuffer> buffers)
      : map_(map), first_(first), second_(second), named_(buffers) {}

  void run() {
    check_names();
    map_.nodes_ = nodes_of(first_);
    map_.check(second_);
    if (first_.state_->edges != second_.state_->edges) {
      refuse("the two captures are not the same work: their nodes depend on each other in different ways");
    }
    for (std::uint32_t node = 0; node < map_.nodes_.size(); ++node) {
      check_launch(node);
      for (std::uint32_t i = 0; i < map_.nodes_[node].argument_bytes.size(); ++i) compare(node, i);
    }
  }

 private:
  void check_names() const {
    for (std::size_t i = 0; i < named_.size(); ++i) {
      if (named_[i].name.empty()) refuse(fmt::format("buffer {} has no name", i));
      for (std::size_t j = 0; j < i; ++j) {
        if (named_[i].name == named_[j].name)
          refuse(fmt::format("two buffers are called \"{}\"", named_[i].name));
      }
    }
  }

  // What a site map cannot set has to be equal.
  void check_launch(std::uint32_t node) const {
    const auto& a = first_.state_->nodes[node].parameters;
    const auto& b = second_.state_->nodes[node].parameters;
    bool same = true;
    if (const auto* kernel = std::get_if<KernelNodeParams>(&a)) {
      const auto& other = std::get<KernelNodeParams>(b);
      same = kernel->shape() == other.shape() && kernel->cluster() == other.cluster() &&
             kernel->is_cooperative() == other.is_cooperative();
    } else if (const auto* pointer = std::get_if<std::unique_ptr<ForeignMemcpy>>(&a)) {
      const ForeignMemcpy& copy = **pointer;
      const ForeignMemcpy& other = *std::get<std::unique_ptr<ForeignMemcpy>>(b);
      const auto shape = [](const ForeignMemcpy& c) {
        return std::tuple(c.width_bytes, c.height, c.depth, c.from.is_device, c.to.is_device);
      };
      same = shape(copy) == shape(other);
    } else if (const auto* memset = std::get_if<std::unique_ptr<ForeignMemset>>(&a)) {
      const ForeignMemset& other = *std::get<std::unique_ptr<ForeignMemset>>(b);
      const auto shape = [](const ForeignMemset& s) {
        return std::tuple(s.pitch, s.width, s.height, s.element_bytes);
      };
      same = shape(**memset) == shape(other);
    }
    if (same) return;
    refuse(fmt::format(
               "the two captures are not the same work: {} has another launch shape or size in the second",
               first_.state_->describe(node)),
           "capture the same work twice, with other buffers and scalars alone");
  }

  void compare(std::uint32_t node, std::uint32_t argument) {
    const std::span<const std::byte> a = first_.argument(node, argument),
                                     b = second_.argument(node, argument);
    if (!first_.state_->has_addresses(node, argument)) {
      // A memset's value; host memory at a memcpy's end is not to be changed.
      if (first_.nodes()[node].kind == CapturedNodeKind::memset) add_scalar({node, argument, 0, 4, 0}, a, b);
      return;
    }
    const bool has_words = first_.state_->offset(node, argument) % 8 == 0;
    for (std::uint32_t at = 0; at < a.size();) {
      if (has_words && a.size() - at >= 8) {
        compare_word({node, argument, at, 8, 0}, a, b);
        at += 8;
      } else {
        const std::size_t part = a.size() <= 8 ? a.size() : std::min<std::size_t>(4, a.size() - at);
        const auto bytes = static_cast<std::uint32_t>(part);
        add_scalar({node, argument, at, bytes, 0}, a.subspan(at, bytes), b.subspan(at, bytes));
        at += bytes;
      }
    }
  }

  void compare_word(Place place, std::span<const std::byte> argument_a,
                    std::span<const std::byte> argument_b) {
    const auto a = argument_a.subspan(place.offset, 8), b = argument_b.subspan(place.offset, 8);
    std::uint64_t in_first = 0, in_second = 0;
    std::memcpy(&in_first, a.data(), 8);
    std::memcpy(&in_second, b.data(), 8);
    if (in_first == in_second || add_pointer(place, in_first, in_second)) return;
    if (argument_a.size() == 8) return add_scalar(place, a, b);
    for (const std::uint32_t half : {0U, 4U}) {
      add_scalar({place.node, place.argument, place.offset + half, 4, 0}, a.subspan(half, 4),
                 b.subspan(half, 4));
    }
  }

  bool add_pointer(Place place, std::uint64_t in_first, std::uint64_t in_second) {
    for (const NamedBuffer& buffer : named_) {
      if (same_place(buffer.first, in_first, buffer.second, in_second)) {
        place.addend = static_cast<std::int64_t>(in_first - buffer.first.begin);
        map_.buffers_[buffer.name].push_back(place);
        return true;
      }
    }
    const auto a = first_.allocation(in_first);
    const auto b = a ? second_.allocation(in_second) : std::nullopt;
    if (!b || !same_place(*a, in_first, *b, in_second)) return false;
    const auto [found, is_new] = allocations_.try_emplace({a->begin, b->begin});
    if (is_new) found->second = new_name("allocation", allocations_.size() - 1, map_.buffers_);
    place.addend = static_cast<std::int64_t>(in_first - a->begin);
    map_.buffers_[found->second].push_back(place);
    return true;
  }

  static bool same_place(const AddressRange& a, std::uint64_t in_a, const AddressRange& b,
                         std::uint64_t in_b) {
    return a.contains(in_a) && b.contains(in_b) && in_a - a.begin == in_b - b.begin;
  }

  void add_scalar(Place place, std::span<const std::byte> a, std::span<const std::byte> b) {
    if (std::equal(a.begin(), a.end(), b.begin(), b.end())) return;
    const auto [found, is_new] = scalars_.try_emplace({{a.begin(), a.end()}, {b.begin(), b.end()}});
    if (is_new) found->second = new_name("scalar", scalars_.size() - 1, map_.scalars_);
    map_.scalars_[found->second].push_back(place);
  }

  // A buffer of the caller's may be called "allocation 0" too.
  std::string new_name(const char* what, std::size_t number, const Places& taken) const {
    for (;; ++number) {
      std::string name = fmt::format("{} {}", what, number);
      const bool is_named =
          std::any_of(named_.begin(), named_.end(), [&](const auto& b) { return b.name == name; });
      if (!is_named && !taken.contains(name)) return name;
    }
  }

  SiteMap& map_;
  CapturedGraph& first_;
  CapturedGraph& second_;
  std::span<const NamedBuffer> named_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> allocations_;
  std::map<std::pair<std::vector<std::byte>, std::vector<std::byte>>, std::string> scalars_;
};

SiteMap SiteMap::diff(CapturedGraph& first, CapturedGraph& second, std::span<const NamedBuffer> buffers) {
  SiteMap map;
  Comparison(map, first, second, buffers).run();
  return map;
}

std::vector<SiteMap::Node> SiteMap::nodes_of(const CapturedGraph& graph) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const CapturedNode& info = graph.nodes()[i];
    Node node{info.path, info.kind_name, info.name, {}};
    for (std::size_t a = 0; a < graph.arguments(i); ++a) {
      node.argument_bytes.push_back(static_cast<std::uint32_t>(graph.argument(i, a).size()));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

void SiteMap::check_node(const CapturedGraph& graph, std::size_t index) const {
  const CapturedNode& info = graph.nodes()[index];
  const Node& node = nodes_[index];
  if (info.path != node.path || info.kind_name != node.kind || info.name != node.name) {
    refuse(fmt::format("the graph is of another program than the site map: expected {}, found {}",
                       describe(node.path, node.kind, node.name),
                       describe(info.path, info.kind_name, info.name)));
  }
  bool same = graph.arguments(index) == node.argument_bytes.size();
  for (std::size_t a = 0; same && a < node.argument_bytes.size(); ++a) {
    same = graph.argument(index, a).size() == node.argument_bytes[a];
  }
  if (same) return;
  refuse(fmt::format("the graph is of another program than the site map: {} takes other arguments",
                     describe(node.path, node.kind, node.name)));
}

void SiteMap::check(const CapturedGraph& graph) const {
  const std::size_t common = std::min(nodes_.size(), graph.nodes().size());
  for (std::size_t i = 0; i < common; ++i) check_node(graph, i);
  if (nodes_.size() > common) {
    const Node& node = nodes_[common];
    refuse(fmt::format(
        "the graph is of another program than the site map: it has {} nodes, {} expected; the first "
        "that is missing is {}",
        graph.nodes().size(), nodes_.size(), describe(node.path, node.kind, node.name)));
  }
  if (graph.nodes().size() > common) {
    const CapturedNode& info = graph.nodes()[common];
    refuse(fmt::format(
        "the graph is of another program than the site map: it has {} nodes, {} expected; the first "
        "beyond is {}",
        graph.nodes().size(), nodes_.size(), describe(info.path, info.kind_name, info.name)));
  }
}

std::vector<std::string> SiteMap::buffers() const { return names_of(buffers_); }
std::vector<std::string> SiteMap::scalars() const { return names_of(scalars_); }

const std::vector<SiteMap::Place>& SiteMap::find(const Places& places, std::string_view name,
                                                 const char* what) {
  const auto found = places.find(name);
  if (found != places.end()) return found->second;
  const std::vector<std::string> known = names_of(places);
  refuse(fmt::format("the site map has no {} \"{}\".{}", what, name, suggest(std::string(name), known)),
         known.empty() ? fmt::format("it has no {} at all", what)
                       : fmt::format("it has: {}", fmt::join(known, ", ")));
}

std::size_t SiteMap::scalar_bytes(std::string_view name) const {
  return find(scalars_, name, "scalar").front().bytes;
}

bool SiteMap::proves(const Site& site) const noexcept {
  for (const auto& [name, places] : buffers_) {
    for (const Place& place : places) {
      if (place.node == site.node && place.argument == site.argument && place.offset == site.offset)
        return true;
    }
  }
  return false;
}

void SiteMap::set_buffer(CapturedGraph& graph, std::string_view name, std::uint64_t base) const {
  const std::vector<Place>& places = find(buffers_, name, "buffer");
  if (graph.nodes().size() != nodes_.size()) check(graph);
  std::vector<std::uint64_t> addresses;
  std::vector<CapturedGraph::State::Change> changes;
  addresses.reserve(places.size());  // the changes point into it
  for (const Place& place : places) {
    const auto addend = static_cast<std::uint64_t>(place.addend);
    if (place.addend >= 0 ? base > UINT64_MAX - addend : base < -addend) {
      refuse(fmt::format("buffer \"{}\" cannot begin at {:#x}: a site {} bytes from there is no address",
                         name, base, place.addend));
    }
    addresses.push_back(base + addend);
    changes.push_back(
        {place.node, place.argument, place.offset, std::as_bytes(std::span(&addresses.back(), 1))});
  }
  for (const auto& change : changes) {
    check_node(graph, change.node);
    graph.state_->check_change(change);
  }
  for (const auto& change : changes) graph.state_->make_change(change);
}

void SiteMap::set_scalar(CapturedGraph& graph, std::string_view name,
                         std::span<const std::byte> bytes) const {
  const std::vector<Place>& places = find(scalars_, name, "scalar");
  if (bytes.size() != places.front().bytes) {
    refuse(
        fmt::format("scalar \"{}\" has {} bytes, {} were given", name, places.front().bytes, bytes.size()));
  }
  if (graph.nodes().size() != nodes_.size()) check(graph);
  for (const Place& place : places) {
    check_node(graph, place.node);
    graph.state_->check_change({place.node, place.argument, place.offset, bytes});
  }
  for (const Place& place : places)
    graph.state_->make_change({place.node, place.argument, place.offset, bytes});
}

}  // namespace rondo
