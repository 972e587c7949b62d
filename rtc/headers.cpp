#include "headers.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "compiler.h"
#include "embedded.h"
#include "rondo/error.h"
#include "signature.h"

namespace rondo::rtc {
namespace {

namespace fs = std::filesystem;

std::string_view trim_left(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view{} : text.substr(begin);
}

// `name` of a line `#include "name"`, within the line.
std::optional<std::string_view> included_name(std::string_view line) {
  line = trim_left(line);
  if (!line.starts_with('#')) return std::nullopt;
  line = trim_left(line.substr(1));
  if (!line.starts_with("include")) return std::nullopt;
  line = trim_left(line.substr(7));
  if (!line.starts_with('"')) return std::nullopt;
  line.remove_prefix(1);
  const std::size_t end = line.find('"');
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  return line.substr(0, end);
}

std::optional<std::string> read_text(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return std::nullopt;
  return std::move(text).str();
}

class Collector {
 public:
  explicit Collector(const std::vector<std::string>& include_directories)
      : include_directories_(include_directories) {}

  // Includes that comments or #if leave out are collected too: that costs a needless file in the hash, never
  // a wrong result.
  void scan(const fs::path& directory, const std::string& file, std::string_view text) {
    std::size_t line = 0;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      ++line;
      if (const auto name = included_name(text.substr(0, end)))
        add(directory, std::string(*name), in_file(file, line));
      text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
  }

  std::vector<Header> headers;

 private:
  struct Found {
    fs::path path;
    std::string text;
  };

  std::optional<Found> find(const fs::path& directory, const std::string& name) const {
    if (auto text = read_text(directory / name)) return Found{directory / name, std::move(*text)};
    for (const std::string& include_directory : include_directories_) {
      const fs::path path = fs::path(include_directory) / name;
      if (auto text = read_text(path)) return Found{path, std::move(*text)};
    }
    if (name == "portable.cuh") return Found{"portable.cuh", std::string(embedded::portable)};
    return std::nullopt;
  }

  void add(const fs::path& directory, const std::string& name, const Place& place) {
    std::optional<Found> found = find(directory, name);
    if (!found) return;
    const auto [known, is_new] = seen_.emplace(name, headers.size());
    if (!is_new) {
      if (headers[known->second].text == found->text) return;
      throw Error(
          ErrorCode::bad_schedule,
          Diagnostic{.place = place,
                     .message = fmt::format("two different files are included as \"{}\"; this one is {}",
                                            name, found->path.string()),
                     .hint = "include them under names that differ"});
    }
    headers.push_back({name, found->text});
    scan(found->path.parent_path(), found->path.string(), found->text);
  }

  const std::vector<std::string>& include_directories_;
  std::map<std::string, std::size_t> seen_;
};

}  // namespace

std::string rename_includes(std::string_view text, const std::map<std::string, std::string>& names) {
  std::string renamed;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    const std::optional<std::string_view> name = included_name(line);
    const auto found = name ? names.find(std::string(*name)) : names.end();
    if (found == names.end()) {
      renamed += line;
    } else {
      const auto at = static_cast<std::size_t>(name->data() - line.data());
      renamed.append(line.substr(0, at)).append(found->second).append(line.substr(at + name->size()));
    }
    text.remove_prefix(end);
  }
  return renamed;
}

std::vector<Header> collect_headers(const std::string& file, const std::string& source,
                                    const std::vector<std::string>& include_directories) {
  Collector collector(include_directories);
  collector.scan(fs::path(file).parent_path(), file, source);
  return std::move(collector.headers);
}

}  // namespace rondo::rtc
