// docs/schedule.md and configs/schedule.schema.json say what the parser does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "expression.h"
#include "rondo/data_type.h"
#include "schedule.h"
#include "schedule_keys.h"
#include "schedule_symbols.h"

namespace rondo {
namespace {

using testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream stream(std::string(RONDO_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(stream) << path;
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::set<std::string> keys_of(const ScheduleKeys& table) {
  const std::vector<std::string> names = table.names();
  return {names.begin(), names.end()};
}

std::set<std::string> required_of(const ScheduleKeys& table) {
  std::set<std::string> names;
  for (const ScheduleKey& key : table.keys) {
    if (key.is_required) names.emplace(key.name);
  }
  return names;
}

struct DocumentedKeys {
  std::set<std::string> all, required;
};

// The tables behind "<!-- keys: ID -->": | `key` | yes | …
std::map<std::string, DocumentedKeys> documented_keys() {
  std::map<std::string, DocumentedKeys> tables;
  std::istringstream lines(read("docs/schedule.md"));
  const std::string mark = "<!-- keys: ";
  std::string id;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(mark)) {
      id = line.substr(mark.size(), line.find(" -->") - mark.size());
      tables[id];
    } else if (line.empty()) {
      id.clear();
    } else if (!id.empty() && line.starts_with("| `")) {
      const std::string key = line.substr(3, line.find('`', 3) - 3);
      tables[id].all.insert(key);
      if (line.starts_with("| `" + key + "` | yes |")) tables[id].required.insert(key);
    }
  }
  return tables;
}

TEST(ScheduleDocs, ListEveryKeyOfTheParser) {
  const auto documented = documented_keys();
  EXPECT_EQ(documented.size(), schedule_keys::all().size());
  for (const ScheduleKeys* table : schedule_keys::all()) {
    const std::string id(table->id);
    ASSERT_TRUE(documented.contains(id)) << id;
    EXPECT_EQ(documented.at(id).all, keys_of(*table)) << id;
    EXPECT_EQ(documented.at(id).required, required_of(*table)) << id;
  }
}

TEST(ScheduleSchema, ListsEveryKeyOfTheParser) {
  const auto schema = nlohmann::json::parse(read("configs/schedule.schema.json"));
  for (const ScheduleKeys* table : schedule_keys::all()) {
    const std::string id(table->id);
    const auto& object = id == "schedule" ? schema : schema.at("$defs").at(id);
    EXPECT_EQ(object.at("additionalProperties"), false) << id;
    std::set<std::string> properties;
    for (const auto& [key, value] : object.at("properties").items()) properties.insert(key);
    EXPECT_EQ(properties, keys_of(*table)) << id;
    EXPECT_EQ(object.at("required").get<std::set<std::string>>(), required_of(*table)) << id;
  }
  // Every object of fixed keys is in the parser's tables.
  std::size_t fixed = schema.at("additionalProperties") == false ? 1 : 0;
  for (const auto& definition : schema.at("$defs"))
    fixed += definition.value("additionalProperties", nlohmann::json()) == false ? 1 : 0;
  EXPECT_EQ(fixed, schedule_keys::all().size());
}

TEST(ScheduleSchema, ListsEveryType) {
  const auto schema = nlohmann::json::parse(read("configs/schedule.schema.json"));
  std::vector<std::string> all, plain;
  for (std::size_t i = 0; i < data_type_count; ++i) {
    const auto type = static_cast<DataType>(i);
    all.emplace_back(name(type));
    if (is_plain(type)) plain.emplace_back(name(type));
  }
  EXPECT_EQ(schema.at("$defs").at("type").at("enum").get<std::vector<std::string>>(), all);
  EXPECT_EQ(schema.at("$defs").at("plain_type").at("enum").get<std::vector<std::string>>(), plain);
}

TEST(ScheduleDocs, NameEveryFunctionTypeAndDeviceProperty) {
  const std::string text = read("docs/schedule.md");
  for (const std::string& function : expression_functions())
    EXPECT_THAT(text, HasSubstr("`" + function + "(")) << function;
  for (const std::string& property : device_names())
    EXPECT_THAT(text, HasSubstr("`" + property + "`")) << property;
  for (std::size_t i = 0; i < data_type_count; ++i) {
    EXPECT_THAT(text, HasSubstr(std::string("`") + name(static_cast<DataType>(i)) + "`"));
  }
}

// A block is a whole schedule, or members of one.
TEST(ScheduleDocs, HaveExamplesThatParse) {
  const std::string text = read("docs/schedule.md");
  std::size_t examples = 0;
  const std::string open = "\n```json\n", close = "\n```\n";
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    std::string example = text.substr(at, text.find(close, at) - at);
    if (!example.starts_with("{")) {
      const std::string ops = example.find("\"ops\"") == std::string::npos ? ", \"ops\": []" : "";
      example = "{\"rondo\": 1, \"name\": \"example\",\n" + example + ops + "}";
    }
    ++examples;
    EXPECT_NO_THROW({
      try {
        Schedule::parse(example, "docs/schedule.md");
      } catch (const Error& error) {
        ADD_FAILURE() << error.what() << '\n' << example;
        throw;
      }
    });
  }
  EXPECT_GE(examples, 6u);
}

}  // namespace
}  // namespace rondo
