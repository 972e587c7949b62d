#include "rondo/error.h"

#include <gtest/gtest.h>

namespace rondo {
namespace {

TEST(Diagnostic, NamesThePlaceFirstAndTheNextStepLast) {
  const Diagnostic diagnostic{.place = {.file = "a.json", .line = 3, .column = 7, .pointer = "/ops/0/args/2", .op = "o", .kernel = "k",
                                        .argument = 2},
                              .message = "expected f32, got i32",
                              .hint = "change the type"};
  EXPECT_EQ(diagnostic.to_string(),
            "a.json:3:7: op \"o\", kernel \"k\", argument 2: expected f32, got i32 [/ops/0/args/2]\n  change the type");
}

TEST(Diagnostic, SteersNoTerminal) {
  Diagnostic diagnostic{.place = {}, .message = "key \"\xc2\x9b[2J\"\n\té", .hint = "\r\x7f"};
  diagnostic.place.file = "\x1b]0;title\x07.json";
  EXPECT_EQ(diagnostic.to_string(), "\\x1b]0;title\\x07.json: key \"\\x9b[2J\"\n\té\n  \\x0d\\x7f");
}

TEST(Diagnostic, LeavesOutWhatIsNotKnown) { EXPECT_EQ((Diagnostic{.place = {}, .message = "no", .hint = ""}).to_string(), "no"); }

TEST(Error, KeepsTheDriversCodeAndName) {
  const Status status{ErrorCode::run_time, 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "cuGraphLaunch"};
  const Error error(status, "launching");
  EXPECT_EQ(error.driver_code(), 700);
  EXPECT_EQ(error.exit_code(), 1);
  EXPECT_STREQ(error.what(), "launching: cuGraphLaunch failed with CUDA_ERROR_ILLEGAL_ADDRESS (700)");
}

TEST(Suggest, OffersTheNearestKnownName) {
  EXPECT_EQ(suggest("gird", {"grid", "block", "args"}), " Did you mean \"grid\"?");
  EXPECT_EQ(suggest("Grid", {"grid", "block"}), " Did you mean \"grid\"?");
  EXPECT_EQ(suggest("zzz", {"grid", "block"}), "");
}

}  // namespace
}  // namespace rondo
