// A site map as JSON, and back.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json_reader.h"
#include "rondo/error.h"
#include "rondo/site_map.h"

namespace rondo {
namespace {

constexpr const char* version_key = "rondo_site_map";
constexpr std::int64_t version = 1;

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

class SiteMap::Reader {
 public:
  Reader(const std::string& json, const std::string& file, SiteMap& map) : reader_(json, file), map_(map) {}

  void run() {
    reader_.object(reader_.root(), {version_key, "nodes", "buffers", "scalars"});
    reader_.expect_version(version_key, version);
    for (const auto& at : reader_.items(reader_.member(reader_.root(), "nodes"))) read_node(at);
    read_places("buffers", map_.buffers_, true);
    read_places("scalars", map_.scalars_, false);
  }

 private:
  void read_node(const JsonReader::Value& at) {
    reader_.object(at, {"path", "kind", "name", "argument_bytes"});
    Node node;
    node.path = reader_.text(reader_.member(at, "path"));
    node.kind = reader_.text(reader_.member(at, "kind"));
    if (const auto name = reader_.optional_member(at, "name")) node.name = reader_.text(*name);
    for (const auto& bytes : reader_.items(reader_.member(at, "argument_bytes"))) {
      node.argument_bytes.push_back(reader_.small(bytes));
    }
    map_.nodes_.push_back(std::move(node));
  }

  void read_places(const char* key, Places& places, bool are_pointers) {
    const JsonReader::Value all = reader_.member(reader_.root(), key);
    for (const auto& [name, value] : reader_.object(all)) {
      const JsonReader::Value at{&value, child_pointer(all.pointer, name)};
      std::vector<Place>& list = places[name];
      if (name.empty()) reader_.fail(at, "a name is empty");
      for (const auto& item : reader_.items(at)) {
        list.push_back(read_place(item, are_pointers));
        if (list.back().bytes != list.front().bytes) {
          reader_.fail(item,
                       fmt::format("the places of one scalar have the same size: expected {} bytes, found {}",
                                   list.front().bytes, list.back().bytes));
        }
      }
      if (list.empty()) reader_.fail(at, "expected at least one place");
    }
  }

  Place read_place(const JsonReader::Value& at, bool is_pointer) const {
    if (is_pointer) {
      reader_.object(at, {"node", "argument", "offset", "addend"});
    } else {
      reader_.object(at, {"node", "argument", "offset", "bytes"});
    }
    Place place;
    place.node = index(reader_.member(at, "node"), map_.nodes_.size(), "nodes");
    const std::vector<std::uint32_t>& sizes = map_.nodes_[place.node].argument_bytes;
    place.argument = index(reader_.member(at, "argument"), sizes.size(), "arguments of the node");
    const JsonReader::Value offset = reader_.member(at, "offset");
    place.offset = reader_.small(offset);
    if (is_pointer) {
      place.bytes = 8;
      place.addend = reader_.integer(reader_.member(at, "addend"), INT64_MIN + 1);
      if (place.offset % 8 != 0)
        reader_.fail(offset, fmt::format("expected a multiple of 8, found {}", place.offset));
    } else {
      place.bytes = static_cast<std::uint32_t>(reader_.integer(reader_.member(at, "bytes"), 1, UINT32_MAX));
    }
    const std::uint32_t size = sizes[place.argument];
    if (place.offset > size || place.bytes > size - place.offset) {
      reader_.fail(offset, fmt::format("{} bytes at {} are not in the argument, which has {}", place.bytes,
                                       place.offset, size));
    }
    return place;
  }

  std::uint32_t index(const JsonReader::Value& at, std::size_t count, const char* what) const {
    const std::uint32_t index = reader_.small(at);
    if (index >= count)
      reader_.fail(at, fmt::format("{} is out of range: there are {} {}", index, count, what));
    return index;
  }

  const JsonReader reader_;
  SiteMap& map_;
};

SiteMap SiteMap::parse(const std::string& json, const std::string& file) {
  SiteMap map;
  Reader(json, file, map).run();
  return map;
}

// One place a line.
std::string SiteMap::to_json() const {
  const auto list = [](const std::string& open, const std::vector<std::string>& items,
                       const std::string& indent, const char* close) {
    return items.empty() ? open + close
                         : fmt::format("{}\n{}{}{}", open, indent, fmt::join(items, ",\n" + indent), close);
  };
  const auto text_of = [&list](const Places& places, bool are_pointers) {
    std::vector<std::string> entries;
    for (const auto& [name, all] : places) {
      std::vector<std::string> items;
      for (const Place& place : all) {
        Json json = {{"node", place.node}, {"argument", place.argument}, {"offset", place.offset}};
        if (are_pointers) {
          json["addend"] = place.addend;
        } else {
          json["bytes"] = place.bytes;
        }
        items.push_back(dump(json));
      }
      entries.push_back(list(dump(name) + ": [", items, "      ", "]"));
    }
    return list("{", entries, "    ", "}");
  };
  std::vector<std::string> nodes;
  for (const Node& node : nodes_) {
    Json json = {{"path", node.path}, {"kind", node.kind}};
    if (!node.name.empty()) json["name"] = node.name;
    json["argument_bytes"] = node.argument_bytes;
    nodes.push_back(dump(json));
  }
  return fmt::format("{{\n  \"{}\": {},\n  \"nodes\": {},\n  \"buffers\": {},\n  \"scalars\": {}\n}}\n",
                     version_key, version, list("[", nodes, "    ", "]"), text_of(buffers_, true),
                     text_of(scalars_, false));
}

}  // namespace rondo
