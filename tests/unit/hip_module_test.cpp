// Which code objects a HIP device runs.
#include <gtest/gtest.h>

#include "hip/module.h"

namespace rondo::hip {
namespace {

TEST(RunsOn, TheSameArchitectureWithTheSameFeatures) {
  EXPECT_TRUE(runs_on("gfx90a", "gfx90a"));
  EXPECT_TRUE(runs_on("gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"));
}

TEST(RunsOn, CodeThatAsksForNoFeatureRunsWithAny) {
  EXPECT_TRUE(runs_on("gfx90a", "gfx90a:sramecc+:xnack-"));
}

TEST(RunsOn, CodeThatAsksForAFeatureNeedsIt) {
  EXPECT_TRUE(runs_on("gfx90a:xnack-", "gfx90a:sramecc+:xnack-"));
  EXPECT_FALSE(runs_on("gfx90a:xnack+", "gfx90a:sramecc+:xnack-"));
  EXPECT_FALSE(runs_on("gfx90a:sramecc-:xnack-", "gfx90a:sramecc+:xnack-"));
}

TEST(RunsOn, AFeatureTheDeviceIsSilentAboutIsNotHeldAgainstTheCode) {
  EXPECT_TRUE(runs_on("gfx906:sramecc+", "gfx906"));
}

TEST(RunsOn, AnotherArchitectureNever) {
  EXPECT_FALSE(runs_on("gfx906", "gfx90a"));
  EXPECT_FALSE(runs_on("gfx90", "gfx90a"));
  EXPECT_FALSE(runs_on("gfx1030", "gfx1031:xnack-"));
}

}  // namespace
}  // namespace rondo::hip
