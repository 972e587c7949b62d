#include "schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace rondo {
namespace {

const std::filesystem::path source_dir = RONDO_SOURCE_DIR;

TEST(Schedule, LoadsEveryValidFile) {
  std::size_t files = 0;
  for (const auto& folder : {source_dir / "tests/data/schedules/valid", source_dir / "configs"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".json" || entry.path().filename() == "schedule.schema.json") continue;
      ++files;
      try {
        Schedule::load(entry.path());
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  EXPECT_GE(files, 2u);
}

}  // namespace
}  // namespace rondo
