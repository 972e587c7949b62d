#include "rondo/captured_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "captured_state.h"
#include "json_reader.h"
#include "printable.h"
#include "rondo/device.h"
#include "rondo/dot_text.h"

namespace rondo {
namespace {

constexpr const char* version_key = "rondo_captured_graph";
constexpr std::int64_t version = 1;

using Json = nlohmann::ordered_json;

constexpr std::pair<CapturedNodeKind, const char*> kinds[] = {{CapturedNodeKind::kernel, "kernel"},
                                                              {CapturedNodeKind::memcpy, "memcpy"},
                                                              {CapturedNodeKind::memset, "memset"}};

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

std::string to_hex(std::uint64_t address) { return fmt::format("{:#x}", address); }

Json to_json(const Dim3& dim) { return Json::array({dim.x, dim.y, dim.z}); }

Json to_json(const CapturedPicture::Node& node) {
  Json json = {{"path", node.info.path}, {"kind", node.info.kind_name}};
  if (!node.info.name.empty()) json["name"] = node.info.name;
  if (!node.info.problem.empty()) json["problem"] = node.info.problem;
  if (node.shape) {
    json["grid"] = to_json(node.shape->grid);
    json["block"] = to_json(node.shape->block);
    json["shared_bytes"] = node.shape->shared_bytes;
  }
  if (node.is_cooperative) json["cooperative"] = true;
  if (node.cluster != Dim3{0, 0, 0}) json["cluster"] = to_json(node.cluster);
  json["arguments"] = Json::array();
  for (const auto& argument : node.arguments)
    json["arguments"].push_back({{"offset", argument.offset}, {"bytes", argument.bytes}});
  return json;
}

// One object a line in the long arrays.
std::string one_a_line(const Json& array) {
  std::string text = "[";
  for (std::size_t i = 0; i < array.size(); ++i) {
    text += i == 0 ? "\n    " : ",\n    ";
    text += array[i].dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return text + (array.empty() ? "]" : "\n  ]");
}

Dim3 read_dim(const JsonReader& reader, const JsonReader::Value& at) {
  const auto items = reader.items(at);
  if (items.size() != 3) reader.fail(at, fmt::format("expected 3 numbers, found {}", items.size()));
  return {reader.small(items[0]), reader.small(items[1]), reader.small(items[2])};
}

std::uint64_t read_address(const JsonReader& reader, const JsonReader::Value& at) {
  const std::string& text = reader.text(at);
  std::uint64_t address = 0;
  const char* const end = text.data() + text.size();
  if (!text.starts_with("0x")) reader.fail(at, "expected an address, \"0x…\"");
  const auto [stop, error] = std::from_chars(text.data() + 2, end, address, 16);
  if (error != std::errc{} || stop != end) reader.fail(at, "expected an address, \"0x…\", of 64 bits");
  return address;
}

std::uint32_t read_index(const JsonReader& reader, const JsonReader::Value& at, std::size_t count) {
  const std::uint32_t index = reader.small(at);
  if (index >= count) reader.fail(at, fmt::format("{} is out of range: there are {} of them", index, count));
  return index;
}

CapturedPicture::Argument read_argument(const JsonReader& reader, const JsonReader::Value& at) {
  reader.object(at, {"offset", "bytes"});
  const JsonReader::Value bytes = reader.member(at, "bytes");
  CapturedPicture::Argument argument{reader.small(reader.member(at, "offset")), reader.text(bytes)};
  if (argument.bytes.size() % 2 != 0 ||
      argument.bytes.find_first_not_of("0123456789abcdef") != std::string::npos) {
    reader.fail(bytes, "expected bytes in hexadecimal, two digits each");
  }
  return argument;
}

CapturedPicture::Node read_node(const JsonReader& reader, const JsonReader::Value& at) {
  reader.object(at, {"path", "kind", "name", "problem", "grid", "block", "shared_bytes", "cooperative",
                     "cluster", "arguments"});
  CapturedPicture::Node node;
  node.info.path = reader.text(reader.member(at, "path"));
  node.info.kind_name = reader.text(reader.member(at, "kind"));
  for (const auto& [kind, name] : kinds) {
    if (node.info.kind_name == name) node.info.kind = kind;
  }
  if (const auto name = reader.optional_member(at, "name")) node.info.name = reader.text(*name);
  if (const auto problem = reader.optional_member(at, "problem")) node.info.problem = reader.text(*problem);
  if (const auto grid = reader.optional_member(at, "grid")) {
    node.shape = {read_dim(reader, *grid), read_dim(reader, reader.member(at, "block")),
                  reader.small(reader.member(at, "shared_bytes"))};
  }
  if (const auto cooperative = reader.optional_member(at, "cooperative")) {
    node.is_cooperative = reader.boolean(*cooperative);
  }
  if (const auto cluster = reader.optional_member(at, "cluster")) node.cluster = read_dim(reader, *cluster);
  for (const auto& argument : reader.items(reader.member(at, "arguments"))) {
    node.arguments.push_back(read_argument(reader, argument));
  }
  return node;
}

CapturedPicture::PlacedSite read_site(const JsonReader& reader, const JsonReader::Value& at,
                                      const CapturedPicture& picture) {
  reader.object(at, {"node", "argument", "offset", "value", "certain", "allocation"});
  CapturedPicture::PlacedSite placed;
  placed.site.node = read_index(reader, reader.member(at, "node"), picture.nodes.size());
  const auto& arguments = picture.nodes[placed.site.node].arguments;
  placed.site.argument = read_index(reader, reader.member(at, "argument"), arguments.size());
  const JsonReader::Value offset = reader.member(at, "offset");
  placed.site.offset = reader.small(offset);
  const std::size_t bytes = arguments[placed.site.argument].bytes.size() / 2;
  if (placed.site.offset % 8 != 0 || bytes < 8 || placed.site.offset > bytes - 8) {
    reader.fail(offset,
                fmt::format("expected a multiple of 8, with 8 bytes of the argument's {} behind it, found {}",
                            bytes, placed.site.offset));
  }
  const JsonReader::Value value = reader.member(at, "value");
  placed.site.value = read_address(reader, value);
  placed.site.is_certain = reader.boolean(reader.member(at, "certain"));
  placed.allocation = read_index(reader, reader.member(at, "allocation"), picture.allocations.size());
  if (!picture.allocations[placed.allocation].contains(placed.site.value))
    reader.fail(value, fmt::format("{:#x} is not in allocation {}", placed.site.value, placed.allocation));
  return placed;
}

// By node.
std::vector<std::vector<const CapturedPicture::PlacedSite*>> sites_of_nodes(const CapturedPicture& picture) {
  std::vector<std::vector<const CapturedPicture::PlacedSite*>> sites(picture.nodes.size());
  for (const CapturedPicture::PlacedSite& placed : picture.sites) sites[placed.site.node].push_back(&placed);
  return sites;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return printable(text);
}

std::string cut(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most) + fmt::format("… ({} bytes)", text.size() / 2);
}

std::string describe_shape(const CapturedPicture::Node& node) {
  if (!node.shape) return "";
  const auto& [grid, block, shared] = *node.shape;
  std::string text =
      fmt::format("grid {}×{}×{} block {}×{}×{}", grid.x, grid.y, grid.z, block.x, block.y, block.z);
  if (shared > 0) text += fmt::format(" shared {}", shared);
  if (node.is_cooperative) text += " cooperative";
  if (node.cluster != Dim3{0, 0, 0}) {
    text += fmt::format(" cluster {}×{}×{}", node.cluster.x, node.cluster.y, node.cluster.z);
  }
  return text;
}

std::string title(const CapturedPicture::Node& node) {
  return node.info.name.empty() ? node.info.kind_name : node.info.demangled();
}

std::string describe(const CapturedPicture& picture, const CapturedPicture::PlacedSite& placed) {
  const AddressRange& allocation = picture.allocations[placed.allocation];
  return fmt::format("allocation {} + {:#x}{}", placed.allocation, placed.site.value - allocation.begin,
                     placed.site.is_certain ? "" : ", not certain");
}

}  // namespace

CapturedPicture CapturedGraph::picture() const {
  State& state = *state_;
  CapturedPicture picture;
  picture.device = state.device->spec();
  picture.edges = state.edges;
  for (std::uint32_t index = 0; index < state.nodes.size(); ++index) {
    CapturedPicture::Node node;
    node.info = state.infos[index];
    if (const auto* kernel = std::get_if<KernelNodeParams>(&state.nodes[index].parameters)) {
      node.shape = kernel->shape();
      node.is_cooperative = kernel->is_cooperative();
      node.cluster = kernel->cluster();
    }
    for (std::size_t i = 0; i < state.arguments(index); ++i) {
      node.arguments.push_back(
          {static_cast<std::uint32_t>(state.offset(index, i)), to_hex(state.argument(index, i))});
    }
    picture.nodes.push_back(std::move(node));
  }
  std::map<std::uint64_t, std::uint32_t> indices;  // by where an allocation begins
  for (std::uint32_t index = 0; index < state.nodes.size(); ++index) {
    state.for_each_word(index, [&](const Site& site) {
      const auto range = state.allocation_of(site.value);
      if (!range) return;
      const auto [place, is_new] =
          indices.try_emplace(range->begin, static_cast<std::uint32_t>(picture.allocations.size()));
      if (is_new) picture.allocations.push_back(*range);
      picture.sites.push_back({site, place->second});
    });
  }
  return picture;
}

std::string CapturedGraph::to_json() const { return picture().to_json(); }
std::string CapturedGraph::to_dot() const { return picture().to_dot(); }

CapturedPicture CapturedPicture::parse(const std::string& json, const std::string& file) {
  const JsonReader reader(json, file);
  reader.object(reader.root(), {version_key, "device", "nodes", "edges", "allocations", "sites"});
  reader.expect_version(version_key, version);
  CapturedPicture picture;
  picture.device = reader.text(reader.member(reader.root(), "device"));
  for (const auto& at : reader.items(reader.member(reader.root(), "nodes"))) {
    picture.nodes.push_back(read_node(reader, at));
  }
  for (const auto& at : reader.items(reader.member(reader.root(), "edges"))) {
    const auto ends = reader.items(at);
    if (ends.size() != 2) reader.fail(at, fmt::format("expected 2 nodes, found {}", ends.size()));
    const std::uint32_t from = read_index(reader, ends[0], picture.nodes.size());
    picture.edges.emplace_back(from, read_index(reader, ends[1], picture.nodes.size()));
  }
  for (const auto& at : reader.items(reader.member(reader.root(), "allocations"))) {
    reader.object(at, {"begin", "bytes"});
    picture.allocations.push_back({read_address(reader, reader.member(at, "begin")),
                                   static_cast<std::size_t>(reader.integer(reader.member(at, "bytes")))});
  }
  for (const auto& at : reader.items(reader.member(reader.root(), "sites"))) {
    picture.sites.push_back(read_site(reader, at, picture));
  }
  return picture;
}

std::string CapturedPicture::to_json() const {
  Json node_list = Json::array(), edge_list = Json::array(), allocation_list = Json::array(),
       site_list = Json::array();
  for (const Node& node : nodes) node_list.push_back(rondo::to_json(node));
  for (const auto& [from, to] : edges) edge_list.push_back(Json::array({from, to}));
  for (const AddressRange& range : allocations) {
    allocation_list.push_back({{"begin", to_hex(range.begin)}, {"bytes", range.bytes}});
  }
  for (const auto& [site, allocation] : sites) {
    site_list.push_back({{"node", site.node},
                         {"argument", site.argument},
                         {"offset", site.offset},
                         {"value", to_hex(site.value)},
                         {"certain", site.is_certain},
                         {"allocation", allocation}});
  }
  return fmt::format(
      "{{\n  \"{}\": {},\n  \"device\": {},\n  \"nodes\": {},\n  \"edges\": {},\n  \"allocations\": {},\n"
      "  \"sites\": {}\n}}\n",
      version_key, version, Json(device).dump(-1, ' ', false, Json::error_handler_t::replace),
      one_a_line(node_list), edge_list.dump(), one_a_line(allocation_list), one_a_line(site_list));
}

std::string CapturedPicture::to_dot() const {
  const auto sites_of = sites_of_nodes(*this);
  std::string text = "digraph captured {\n  node [shape=box, fontname=monospace];\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    std::string label = fmt::format("{}  {}\n", node.info.path, title(node));
    if (node.shape) label += describe_shape(node) + "\n";
    for (const PlacedSite* placed : sites_of[i]) {
      label += fmt::format("argument {} byte {}: {}\n", placed->site.argument, placed->site.offset,
                           describe(*this, *placed));
    }
    text += fmt::format("  n{} [label={}{}];\n", i, dot_quoted(label),
                        node.info.problem.empty() ? "" : ", style=dashed");
  }
  for (const auto& [from, to] : edges) text += fmt::format("  n{} -> n{};\n", from, to);
  return text + "}\n";
}

std::string CapturedPicture::to_text() const {
  const auto sites_of = sites_of_nodes(*this);
  std::string text;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    const std::string shape = describe_shape(node);
    text += fmt::format("{:<6} {:<8} {}{}{}\n", one_line(node.info.path), one_line(node.info.kind_name),
                        one_line(node.info.demangled()), node.info.name.empty() || shape.empty() ? "" : "  ",
                        shape);
    if (!node.info.problem.empty()) {
      text += fmt::format("       cannot be changed: {}\n", one_line(node.info.problem));
    }
    for (std::size_t a = 0; a < node.arguments.size(); ++a) {
      const Argument& argument = node.arguments[a];
      text += fmt::format("       {:>3}  {:>5} bytes  {}\n", a, argument.bytes.size() / 2,
                          cut(argument.bytes, 64));
      for (const PlacedSite* placed : sites_of[i]) {
        if (placed->site.argument != a) continue;
        text += fmt::format("            byte {}: {}\n", placed->site.offset, describe(*this, *placed));
      }
    }
  }
  if (!allocations.empty()) text += "\nallocations\n";
  for (std::size_t i = 0; i < allocations.size(); ++i) {
    text += fmt::format("{:>6}  {:#x}  {} bytes\n", i, allocations[i].begin, allocations[i].bytes);
  }
  return text;
}

}  // namespace rondo
