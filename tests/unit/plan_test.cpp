// What only the plan can refuse: values, ranges, weights, families. Each with its place.
#include "plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "gguf_bytes.h"
#include "plan_builder.h"

namespace rondo {
namespace {

using test::small_device;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint32_t f32 = 0, q4_1 = 3, q4_k = 12;  // ggml_type

// What a schedule is made of, each part replaceable.
struct Parts {
  std::string params =
      R"j("n": {"type": "i32", "constant": 64}, "pos": {"type": "i32", "step": 0, "min": 0, "max": 63})j";
  std::string buffers = R"j("x": {"type": "f32", "shape": ["n"], "role": "state"})j";
  std::string kernels = R"j("k": {"code": "extern \"C\" __global__ void k(float* x) {}", "entry": "k"})j";
  std::string ops = R"j({"kernel": "k", "grid": [1], "block": [32], "args": ["x"]})j";
};

class PlanTest : public ::testing::Test {
 protected:
  ~PlanTest() override { std::filesystem::remove(file_); }

  static std::string text(const Parts& parts) {
    return fmt::format(
        "{{\"rondo\": 1, \"name\": \"t\",\n\"params\": {{{}}},\n\"buffers\": {{{}}},\n\"kernels\": "
        "{{{}}},\n\"ops\": [{}]}}",
        parts.params, parts.buffers, parts.kernels, parts.ops);
  }

  Plan plan(const Parts& parts) {
    return make_plan(Schedule::parse(text(parts), "t.json"), device_, options_);
  }

  // The complaint about a schedule of these parts; "" where it is accepted.
  std::string refusal(const Parts& parts, ErrorCode code = ErrorCode::bad_schedule) {
    try {
      plan(parts);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "";
  }

  // The weight file of options_: these bytes.
  void use_weights(const test::GgufBytes& bytes) {
    std::ofstream(file_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.bytes().data()),
               static_cast<std::streamsize>(bytes.bytes().size()));
    options_.weights = WeightFile::open(file_);
  }

  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / fmt::format("rondo_plan_test_{}.gguf", ::getpid());
  SessionOptions options_;
  DeviceProperties device_ = small_device();
};

TEST_F(PlanTest, ConstantsDependOnEachOtherInAnyOrder) {
  const Plan made = plan(
      {.params = R"j("a": {"type": "i32", "constant": "2 * b"}, "b": {"type": "i32", "constant": "c + 1"},
      "c": {"type": "i64", "constant": 20}, "n": {"type": "i32", "constant": "a"}, "f": {"type": "f32", "constant": "a"})j"});
  EXPECT_EQ(made.params[0].info.integer, 42);
  EXPECT_EQ(made.params[4].info.real, 42.0);
  EXPECT_EQ(made.buffers[0].info.bytes, 168u);
}

TEST_F(PlanTest, ConstantsMayNotDependOnEachOtherTooDeep) {
  const auto chain = [](int length) {
    std::string params = R"j("n": {"type": "i32", "constant": "c0"})j";
    for (int i = 0; i < length; ++i)
      params += fmt::format(R"j(, "c{}": {{"type": "i32", "constant": "c{}"}})j", i, i + 1);
    return Parts{.params = params + fmt::format(R"j(, "c{}": {{"type": "i32", "constant": 8}})j", length)};
  };
  EXPECT_EQ(refusal(chain(500)), "");
  EXPECT_THAT(refusal(chain(5000)), HasSubstr("more than 1000 deep"));
}

TEST_F(PlanTest, OverridesOfConstantsAreChecked) {
  options_.constants = {{"n", "2 * 64"}};
  EXPECT_EQ(plan({}).buffers[0].elements, 128u);
  options_.constants = {{"m", "1"}};
  EXPECT_THAT(refusal({}, ErrorCode::bad_argument), HasSubstr("no constant \"m\""));
  options_.constants = {{"pos", "1"}};
  EXPECT_THAT(refusal({}, ErrorCode::bad_argument), HasSubstr("is a step param"));
  options_.constants = {{"n", "many"}};
  EXPECT_THAT(refusal({}), HasSubstr("\"many\""));
  options_.constants = {{"n", "3000000000"}};
  EXPECT_THAT(refusal({}), HasSubstr("\"n\" is 3000000000, outside its range"));
}

TEST_F(PlanTest, ValuesOfConstantsThatCannotBe) {
  EXPECT_THAT(refusal({.params = R"j("n": {"type": "i32", "constant": "1 << 3"})j"}), HasSubstr("t.json:2:"));
  EXPECT_THAT(refusal({.params = R"j("n": {"type": "i64", "constant": "9223372036854775807 + 1"})j"}),
              AllOf(HasSubstr("t.json:2:"), HasSubstr("overflow"), HasSubstr("[/params/n/constant]")));
  EXPECT_THAT(
      refusal(
          {.params = R"j("z": {"type": "i32", "constant": 0}, "n": {"type": "i32", "constant": "64 / z"})j"}),
      HasSubstr("zero"));
  EXPECT_THAT(refusal({.params = R"j("n": {"type": "u8", "constant": "16 * 16"})j"}),
              HasSubstr("out of the range of u8, which is 0 to 255"));
  EXPECT_THAT(
      refusal(
          {.params =
               R"j("n": {"type": "i32", "constant": 64}, "p": {"type": "i32", "step": 5, "min": 0, "max": "n / 16"})j"}),
      HasSubstr("\"p\" is 5, outside its range 0 to 4"));
}

TEST_F(PlanTest, ShapesThatOverflow) {
  EXPECT_THAT(
      refusal({.buffers = R"j("x": {"type": "f32", "shape": [4294967296, 4294967296], "role": "state"})j"}),
      AllOf(HasSubstr("[4294967296, 4294967296]"), HasSubstr("63 bits"), HasSubstr("[/buffers/x]")));
  EXPECT_THAT(
      refusal({.buffers = R"j("x": {"type": "f64", "shape": [2305843009213693952], "role": "state"})j"}),
      HasSubstr("63 bits"));
  EXPECT_THAT(refusal({.buffers = R"j("x": {"type": "f32", "shape": ["n - 64"], "role": "state"})j"}),
              HasSubstr("at least 1"));
  EXPECT_THAT(refusal({.buffers = R"j("x": {"type": "q4_1", "shape": [2, 33], "role": "state"})j"}),
              HasSubstr("blocks of 32"));
}

TEST_F(PlanTest, RangesOutsideTheirBuffer) {
  const auto with = [&](const std::string& argument) {
    return refusal(
        {.ops = fmt::format(R"j({{"kernel": "k", "grid": [1], "block": [32], "args": ["{}"]}})j", argument)});
  };
  EXPECT_THAT(with("x[64]"),
              AllOf(HasSubstr("element 64 of \"x\", which has 64 elements"), HasSubstr("[/ops/0/args/0]")));
  EXPECT_THAT(with("x[-1]"), HasSubstr("element -1"));
  EXPECT_THAT(with("x[60 : 5]"), HasSubstr("elements 60 to 64"));
  EXPECT_THAT(with("x[0 : 0]"), HasSubstr("0 elements"));
  EXPECT_THAT(with("x[pos : 65]"), HasSubstr("65 elements"));
  EXPECT_EQ(with("x[60 : 4]"), "");
  EXPECT_EQ(with("x[pos + 100]"), "");  // known at a launch only
}

TEST_F(PlanTest, OffsetsInsideABlockOfQuantisedWeights) {
  const auto with = [&](const std::string& argument) {
    return refusal(
        {.buffers = R"j("x": {"type": "q4_1", "shape": [2, 64], "role": "state"})j",
         .ops = fmt::format(R"j({{"kernel": "k", "grid": [1], "block": [32], "args": ["{}"]}})j", argument)});
  };
  EXPECT_THAT(with("x[33]"), HasSubstr("offset 33 is not a whole number of blocks of 32 elements"));
  EXPECT_EQ(with("x[32 : 96]"), "");
}

TEST_F(PlanTest, LaunchShapesThatTheDeviceDoesNotTake) {
  const auto with = [&](const std::string& shape) {
    return refusal({.ops = fmt::format(R"j({{"kernel": "k", {}, "args": ["x"]}})j", shape)});
  };
  EXPECT_THAT(with(R"j("grid": ["n - 64"], "block": [32])j"),
              AllOf(HasSubstr("grid is zero along axis 0"), HasSubstr("[/ops/0/grid/0]")));
  EXPECT_THAT(with(R"j("grid": [1, 65536], "block": [32])j"),
              HasSubstr("grid is 65536 along axis 1; this device takes 1 to 65535"));
  EXPECT_THAT(with(R"j("grid": ["0 - n"], "block": [32])j"), HasSubstr("grid is -64"));
  EXPECT_THAT(with(R"j("grid": [1], "block": ["n - 64"])j"), HasSubstr("block is zero"));
  EXPECT_THAT(with(R"j("grid": [1], "block": [1025])j"), HasSubstr("block is 1025"));
  EXPECT_THAT(with(R"j("grid": [1], "block": [32, 64])j"),
              HasSubstr("2048 threads; this device takes up to 1024"));
  EXPECT_THAT(with(R"j("grid": [1], "block": [32], "shared": "n * 1025")j"),
              HasSubstr("65600 bytes of shared memory; this device has 0 to 65536"));
  EXPECT_EQ(with(R"j("grid": ["pos"], "block": ["pos + 2000"])j"), "");
}

// An op of this launch, with a key more.
std::string op_with(const std::string& key, const std::string& grid = "8") {
  return fmt::format(R"j({{"kernel": "k", "grid": [{}], "block": [32], {}, "args": ["x"]}})j", grid, key);
}

TEST_F(PlanTest, CooperativeOpsThatCannotBe) {
  const auto with = [&](const std::string& value, const std::string& grid = "8") {
    return refusal({.ops = op_with("\"cooperative\": " + value, grid)});
  };
  EXPECT_THAT(with("true"),
              AllOf(HasSubstr("t.json:5"), HasSubstr("this device has no cooperative launches"),
                    HasSubstr("[/ops/0/cooperative]"), HasSubstr("device.has_cooperative_launches")));
  EXPECT_EQ(with("\"device.has_cooperative_launches\""), "");
  EXPECT_EQ(with("\"n < 64\""), "");
  device_.has_cooperative_launches = true;
  EXPECT_EQ(with("true"), "");
  EXPECT_THAT(with("true", "\"pos + 1\""),
              AllOf(HasSubstr("grid, block and shared memory of a cooperative op are constants"),
                    HasSubstr("[/ops/0/cooperative]")));
  EXPECT_EQ(with("false", "\"pos + 1\""), "");
}

TEST_F(PlanTest, ClustersThatCannotBe) {
  const auto with = [&](const std::string& sizes, const std::string& grid = "8") {
    return refusal({.ops = op_with("\"cluster\": " + sizes, grid)});
  };
  EXPECT_THAT(with("[2]"), AllOf(HasSubstr("t.json:5"), HasSubstr("this device has no thread block clusters"),
                                 HasSubstr("[/ops/0/cluster/0]"), HasSubstr("device.max_cluster_blocks")));
  device_.max_cluster_blocks = 8;
  EXPECT_THAT(with("[16]"), AllOf(HasSubstr("1 to 8 blocks in all on this device; this size is 16"),
                                  HasSubstr("[/ops/0/cluster/0]")));
  EXPECT_THAT(with("[4, 4]", "8, 8"), AllOf(HasSubstr("1 to 8 blocks"), HasSubstr("[/ops/0/cluster/1]")));
  EXPECT_THAT(with("[\"n - 64\"]"), HasSubstr("this size is 0"));
  EXPECT_THAT(with("[1, -1]"), AllOf(HasSubstr("this size is -1"), HasSubstr("[/ops/0/cluster/1]")));
  EXPECT_THAT(with("[3]"),
              AllOf(HasSubstr("the grid's 8 blocks along axis 0 are no multiple of the cluster's 3"),
                    HasSubstr("[/ops/0/cluster/0]")));
  EXPECT_THAT(with("[1, 2]", "8, 3"), HasSubstr("the grid's 3 blocks along axis 1"));
  EXPECT_EQ(with("[2, 4]", "8, 4"), "");
  EXPECT_EQ(with("[4]", "\"pos\""), "");  // told when a value is set
}

TEST_F(PlanTest, PrioritiesThatCannotBe) {
  const auto with = [&](const std::string& value) {
    return refusal({.ops = op_with("\"priority\": " + value)});
  };
  EXPECT_THAT(with("2147483648"),
              AllOf(HasSubstr("t.json:5"), HasSubstr("a priority has 32 bits, and this is 2147483648"),
                    HasSubstr("[/ops/0/priority]")));
  EXPECT_THAT(with("\"0 - n * 100000000\""), HasSubstr("this is -6400000000"));
  EXPECT_EQ(with("-2147483648"), "");
  EXPECT_EQ(plan({.ops = op_with("\"priority\": \"n - 67\"")}).nodes[0].attributes.priority, -3);
}

TEST_F(PlanTest, KernelsOfAFamilyThatWaitForThemselves) {
  const Plan made = plan(
      {.kernels =
           R"j("k.{i}": {"for": {"i": 2}, "code": "extern \"C\" __global__ void k(float* x) {}", "entry": "k", "pdl": "i == 1"})j",
       .ops =
           R"j({"kernel": "k.0", "grid": [1], "block": [1], "args": ["x"]}, {"kernel": "k.1", "grid": [1], "block": [1], "args": ["x"]})j"});
  EXPECT_FALSE(made.kernels[made.nodes[0].kernel].pdl);
  EXPECT_TRUE(made.kernels[made.nodes[1].kernel].pdl);
  EXPECT_THAT(
      refusal(
          {.kernels =
               R"j("k": {"code": "extern \"C\" __global__ void k(float* x) {}", "entry": "k", "pdl": "1 / (n - 64)"})j"}),
      AllOf(HasSubstr("[/kernels/k/pdl]"), HasSubstr("zero")));
}

// Ops of a kernel that waits itself (p) and one that does not (k); with what makes them wait fully all the
// same.
TEST_F(PlanTest, EdgesAreProgrammaticBetweenKernelsThatWaitAndCannotBeSkipped) {
  device_.has_cooperative_launches = true;
  const auto op = [](const char* kernel, const std::string& grid, const char* more = "") {
    return fmt::format(R"j({{"kernel": "{}", "grid": [{}], "block": [1], "args": ["x"]{}}})j", kernel, grid,
                       more);
  };
  const std::vector<std::string> ops = {op("p", "1"),
                                        op("p", "\"pos + 1\""),        // never empty
                                        op("p", "\"pos\""),            // empty for 0
                                        op("p", "\"pos * pos + 1\""),  // for all that is known
                                        op("p", "1", R"(, "cooperative": true)"),
                                        op("k", "1"),
                                        R"({"fill": "x", "value": 0})"};
  Plan made = plan({.kernels = R"j("k": {"code": "extern \"C\" __global__ void k(float* x) {}", "entry": "k"},
                     "p": {"code": "extern \"C\" __global__ void p(float* x) {}", "entry": "p", "pdl": true})j",
                    .ops = fmt::format("{}", fmt::join(ops, ", "))});
  ASSERT_EQ(made.nodes.size(), ops.size());
  const std::vector<bool> overlaps = {true, true, false, false, false, false, true};
  for (std::uint32_t later = 0; later < ops.size(); ++later) {
    for (std::uint32_t earlier = 0; earlier < later; ++earlier) {
      const EdgeKind expected =
          overlaps[earlier] && overlaps[later] ? EdgeKind::programmatic : EdgeKind::full;
      EXPECT_EQ(made.edge_kind(earlier, later), expected) << ops[earlier] << "\n" << ops[later];
      made.nodes[later].dependencies.push_back({earlier});
    }
  }
  made.set_edge_kinds();
  for (std::uint32_t later = 0; later < ops.size(); ++later) {
    for (const Dependency& dependency : made.nodes[later].dependencies)
      EXPECT_EQ(dependency.kind, made.edge_kind(dependency.node, later));
  }
}

TEST_F(PlanTest, CopiesThatOverlap) {
  const auto with = [&](const std::string& op) { return refusal({.ops = op}); };
  EXPECT_THAT(with(R"j({"copy": "x[0 : 63]", "to": "x[1 : 63]"})j"),
              HasSubstr("overlap: 63 elements from 0 to 1 of \"x\""));
  EXPECT_THAT(with(R"j({"copy": "x", "to": "x"})j"), HasSubstr("overlap"));
  EXPECT_EQ(with(R"j({"copy": "x[0 : 32]", "to": "x[32 : 32]"})j"), "");
}

TEST_F(PlanTest, FloatsBeyondTheirType) {
  const auto fill = [&](const std::string& type, const std::string& value) {
    return refusal(
        {.buffers = fmt::format(R"j("x": {{"type": "{}", "shape": [64], "role": "state"}})j", type),
         .ops = fmt::format(R"j({{"fill": "x", "value": {}}})j", value)});
  };
  EXPECT_THAT(fill("f16", "\"n * 10000\""), HasSubstr("640000 is beyond what f16 holds"));
  EXPECT_EQ(fill("f32", "\"n * 10000\""), "");
  EXPECT_THAT(
      refusal({.params = R"j("n": {"type": "i32", "constant": 64}, "c": {"type": "f64", "constant": 1e300})j",
               .buffers = R"j("x": {"type": "f32", "shape": [64], "role": "state", "fill": "c"})j"}),
      HasSubstr("beyond what f32 holds"));
}

TEST_F(PlanTest, RepeatsThatGoRoundTooOften) {
  const auto with = [&](const std::string& count) {
    return refusal(
        {.ops = fmt::format(R"j({{"repeat": "i", "count": {}, "ops": [{{"repeat": "j", "count": "n", "ops": [
        {{"kernel": "k", "grid": [1], "block": [1], "args": ["x[i % 64]"]}}]}}]}})j",
                            count)});
  };
  EXPECT_THAT(with("\"0 - 1\""), HasSubstr("this one -1"));
  EXPECT_THAT(with("1000000000000"), HasSubstr("this one 1000000000000"));
  EXPECT_THAT(with("1000000"), HasSubstr("more than"));
  EXPECT_EQ(with("0"), "");
}

TEST_F(PlanTest, AnErrorInALoopIsToldOnce) {
  try {
    plan(
        {.ops =
             R"j({"repeat": "i", "count": 50, "ops": [{"kernel": "k", "grid": [1], "block": [1], "args": ["x[64 + i]"]}]})j"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.diagnostics().size(), 1u);
    EXPECT_EQ(error.diagnostics()[0].place.pointer, "/ops/0/ops/0/args/0");
  }
}

TEST_F(PlanTest, NamesThatClashOrAreMissingOnceFamiliesAreExpanded) {
  EXPECT_THAT(refusal({.buffers = R"j("x": {"type": "f32", "shape": [4], "role": "state"},
      "b.{i}": {"for": {"i": 3}, "type": "f32", "shape": [4], "role": "state"}, "b.1": {"type": "f32", "shape": [4], "role": "state"})j"}),
              HasSubstr("\"b.1\""));
  EXPECT_THAT(
      refusal({.buffers = R"j("x.{i}": {"for": {"i": 3}, "type": "f32", "shape": [4], "role": "state"})j",
               .ops = R"j({"kernel": "k", "grid": [1], "block": [1], "args": ["x.{n - 61}[0]"]})j"}),
      HasSubstr("no buffer \"x.3\""));
  EXPECT_THAT(refusal({.kernels = R"j("k{i}": {"for": {"i": 30}, "code": "void k(float* x) {}", "entry": "k"})j",
                       .ops = R"j({"kernel": "kn", "grid": [1], "block": [1], "args": ["x"]})j"}),
              AllOf(HasSubstr("there is no kernel \"kn\""), HasSubstr("Declared: k0, k1,"),
                    HasSubstr(" and 6 more.")));
}

TEST_F(PlanTest, TheComputeCapabilityIsAConstant) {
  const Parts parts{.params = R"j("n": {"type": "i32", "constant": "device.compute_capability + 1"})j"};
  EXPECT_EQ(plan(parts).params[0].info.integer, 1);
  DeviceProperties device = small_device();
  device.compute_capability = 90;
  EXPECT_EQ(make_plan(Schedule::parse(text(parts), "t.json"), device, {}).params[0].info.integer, 91);
}

// Weights.

test::GgufBytes one_tensor(std::uint32_t type, const std::vector<std::uint64_t>& dimensions,
                           std::size_t bytes) {
  test::GgufBytes file;
  file.header(3, 1, 0).tensor("weight", dimensions, type, 0).align(32).zeros(bytes);
  return file;
}

TEST_F(PlanTest, WeightsThatAreNotWhatTheScheduleSays) {
  const auto with = [&](const std::string& declaration) {
    return refusal(
        {.buffers = fmt::format(R"j("x": {{"role": "weight", {}}})j", declaration),
         .kernels = R"j("k": {"code": "extern \"C\" __global__ void k(const float* x) {}", "entry": "k"})j"});
  };
  EXPECT_THAT(with(R"j("tensor": "weight")j"), AllOf(HasSubstr("none was given"), HasSubstr("--weights")));
  use_weights(one_tensor(f32, {8, 2}, 64));
  EXPECT_EQ(with(R"j("tensor": "weight")j"), "");
  EXPECT_EQ(with(R"j("tensor": ["v", "weight"], "shape": [2, 8], "type": "f32")j"), "");
  EXPECT_THAT(with(R"j("tensor": "weihgt")j"),
              AllOf(HasSubstr("no tensor \"weihgt\""), HasSubstr("Did you mean \"weight\"?")));
  EXPECT_THAT(with(R"j("tensor": "weight", "shape": [8, 2])j"),
              AllOf(HasSubstr("[8, 2]"), HasSubstr("has [2, 8]")));
  EXPECT_THAT(with(R"j("tensor": "weight", "type": "f16")j"),
              HasSubstr("declared as f16, and the tensor \"weight\" is f32"));
  use_weights(one_tensor(q4_k, {256}, 144));
  EXPECT_THAT(with(R"j("tensor": "weight")j"),
              AllOf(HasSubstr("type Q4_K, which Rondo cannot read yet"), HasSubstr("Q8_0")));
  use_weights(one_tensor(q4_1, {64}, 40));
  EXPECT_EQ(plan({.buffers = R"j("x": {"role": "weight", "tensor": "weight"})j"}).buffers[0].info.bytes, 40u);
}

TEST_F(PlanTest, ConstantsOfSeveralKeysAndTensorsTakeTheFirstThatIsThere) {
  test::GgufBytes file;
  file.header(3, 1, 2).key("b", 4).value<std::uint32_t>(7);
  file.key("c", 4).value<std::uint32_t>(8);
  file.tensor("w", {2, 5}, f32, 0).align(32).zeros(40);
  use_weights(file);
  const auto with = [&](const char* source) {
    return fmt::format(R"j("n": {{"type": "i32", "constant": {}}})j", source);
  };
  const auto value = [&](const char* source) {
    return plan({.params = with(source)}).params[0].info.integer;
  };
  EXPECT_EQ(value(R"j({"metadata": ["a", "b", "c"]})j"), 7);
  EXPECT_EQ(value(R"j({"metadata": ["c", "b"]})j"), 8);
  EXPECT_EQ(value(R"j({"metadata": ["a", "d"], "default": 9})j"), 9);
  EXPECT_EQ(value(R"j({"tensor": ["v", "w"], "dimension": 0})j"), 5);
  EXPECT_THAT(refusal({.params = with(R"j({"metadata": ["a", "d"]})j")}),
              HasSubstr("no metadata \"a\", nor \"d\" for the constant \"n\""));
  EXPECT_THAT(refusal({.params = with(R"j({"tensor": ["u", "v"], "dimension": 0})j")}),
              HasSubstr("no tensor \"u\", nor \"v\" for the constant \"n\""));
}

// Norms of a checkpoint in 16 bits, for a kernel that takes them as f32.
TEST_F(PlanTest, NarrowerFloatsAreWidened) {
  constexpr std::uint32_t bf16 = 30;
  use_weights(one_tensor(bf16, {8}, 16));
  const Plan made = plan(
      {.buffers = R"j("x": {"role": "weight", "type": "f32", "tensor": "weight"},
                                         "y": {"role": "weight", "tensor": "weight"})j",
       .kernels = R"j("k": {"code": "extern \"C\" __global__ void k(const float*) {}", "entry": "k"})j"});
  EXPECT_EQ(made.buffers[0].info.bytes, 32u);
  EXPECT_EQ(made.buffers[1].info.bytes, 16u);
  EXPECT_EQ(made.buffers[1].same_as, std::nullopt);
}

TEST_F(PlanTest, TheSameTensorIsHeldOnce) {
  use_weights(one_tensor(f32, {8}, 32));
  const Plan made = plan(
      {.buffers =
           R"j("x": {"role": "weight", "tensor": "weight"}, "y": {"role": "weight", "tensor": ["v", "weight"]})j"});
  EXPECT_EQ(made.buffers[1].same_as, 0u);
}

// Constants by the types of buffers.
class TypesTest : public PlanTest {
 protected:
  // "one", of a schedule with these buffers beside x.
  std::int64_t one(const std::string& source, const std::string& buffers = "",
                   const std::string& params = "") {
    return plan(parts(source, buffers, params)).params[0].info.integer;
  }
  std::string refusal_of(const std::string& source, const std::string& buffers = "",
                         const std::string& params = "") {
    return refusal(parts(source, buffers, params));
  }

 private:
  static Parts parts(const std::string& source, const std::string& buffers, const std::string& params) {
    return {.params = fmt::format(
                R"j("one": {{"type": "i32", "constant": {{{}}}}}, "n": {{"type": "i32", "constant": "m + 1"}},
        "m": {{"type": "i32", "constant": 1}}{})j",
                source, params),
            .buffers = R"j("x": {"type": "f32", "shape": ["n"], "role": "state"},
        "a.{i}": {"for": {"i": "n"}, "type": "f16", "shape": ["one + 1"], "role": "state"},
        "b.{t}": {"for": {"t": ["f16", "f32"]}, "type": "f16", "shape": ["n"], "role": "state"})j" +
                       buffers};
  }
};

TEST_F(TypesTest, AreOneWhereAllHaveOneOfThem) {
  EXPECT_EQ(one(R"j("types": ["x"], "are": ["f16", "f32"])j"), 1);
  EXPECT_EQ(one(R"j("types": ["x"], "are": ["f16", "q8_0"])j"), 0);
  EXPECT_EQ(one(R"j("types": ["a.{j}", "b.f32"], "for": {"j": "n"}, "are": ["bf16", "f16"])j"), 1);
  EXPECT_EQ(one(R"j("types": ["b.{j}"], "for": {"j": ["f16", "f32"]}, "are": ["f16"])j"), 1);
  // Each among them, and not the same.
  EXPECT_EQ(one(R"j("types": ["x", "a.0"], "are": ["f16", "f32"])j"), 0);
  EXPECT_EQ(one(R"j("types": ["a.{j}"], "for": {"j": "m - 1"}, "are": ["f16"])j"), 0);
  options_.constants = {{"one", "5"}};
  EXPECT_EQ(one(R"j("types": ["x"], "are": ["f16"])j"), 5);
}

TEST_F(TypesTest, AreThoseOfTheWeightsTensors) {
  const std::string weights =
      R"j(, "w.{i}": {"for": {"i": "n"}, "role": "weight", "tensor": ["blk.{i + m}.w", "blk.{i}.v"]},
      "v": {"role": "weight", "tensor": "{x.type}", "shape": [32]})j";
  const auto use = [&](std::uint32_t second) {
    test::GgufBytes file;
    file.header(3, 3, 0).tensor("blk.0.v", {32}, q4_1, 0).tensor("blk.2.w", {32}, second, 32);
    file.tensor("f32", {32}, f32, 192).align(32).zeros(320);
    use_weights(file);
  };
  const std::string all = R"j("types": ["w.{j}"], "for": {"j": "n"}, "are": ["f32", "q4_1"])j";
  use(q4_1);
  EXPECT_EQ(one(all, weights), 1);
  EXPECT_EQ(one(R"j("types": ["v"], "are": ["f32"])j", weights), 1);
  use(f32);
  EXPECT_EQ(one(all, weights), 0);
  use(q4_k);
  EXPECT_THAT(refusal_of(all, weights),
              AllOf(HasSubstr("type Q4_K, which Rondo cannot read yet"), HasSubstr("[/buffers/w.{i}]")));
  EXPECT_THAT(refusal_of(R"j("types": ["u"], "are": ["f32"])j",
                         R"j(, "u": {"role": "weight", "tensor": "blk.7.v"})j"),
              HasSubstr("no tensor \"blk.7.v\" for the weight \"u\""));
  options_.weights = nullptr;
  EXPECT_THAT(refusal_of(all, weights), HasSubstr("none was given"));
}

TEST_F(TypesTest, OfBuffersThatAreNotThere) {
  EXPECT_THAT(refusal_of(R"j("types": ["x", "a.{j}"], "for": {"j": "n + 1"}, "are": ["f32"])j"),
              AllOf(HasSubstr("there is no buffer \"a.2\""), HasSubstr("Did you mean"),
                    HasSubstr("[/params/one/constant/types/1]")));
}

TEST_F(TypesTest, ThatDependOnThemselves) {
  EXPECT_THAT(
      refusal_of(R"j("types": ["c.0"], "are": ["f32"])j",
                 R"j(, "c.{i}": {"for": {"i": "one"}, "type": "f32", "shape": [4], "role": "state"})j"),
      AllOf(HasSubstr("the constant \"one\" depends on itself"), HasSubstr("[/params/one]")));
  use_weights(one_tensor(f32, {8}, 32));
  EXPECT_THAT(refusal_of(R"j("types": ["c"], "are": ["f32"])j",
                         R"j(, "c": {"role": "weight", "tensor": "weight{two}"})j",
                         R"j(, "two": {"type": "i32", "constant": "2 * one"})j"),
              HasSubstr("depends on itself"));
  EXPECT_THAT(
      refusal_of(R"j("types": ["c.0"], "are": ["f32"])j",
                 R"j(, "c.{i}": {"for": {"i": 2}, "role": "weight", "tensor": "{c.{i}.type}"})j"),
      AllOf(HasSubstr("the type of the buffer \"c.{i}\" depends on itself"), HasSubstr("[/buffers/c.{i}]")));
}

// The decode schedule asks of a model what it can do.
class DecodeRequirements : public PlanTest {
 protected:
  std::string refusal_of(const std::string& architecture, const std::string& scaling) {
    test::GgufBytes file;
    const std::vector<std::pair<std::string, std::uint32_t>> numbers = {{"llama.block_count", 0},
                                                                        {"llama.embedding_length", 64},
                                                                        {"llama.feed_forward_length", 64},
                                                                        {"llama.attention.head_count", 1},
                                                                        {"llama.attention.head_count_kv", 1},
                                                                        {"llama.context_length", 128}};
    file.header(3, 1, numbers.size() + 3);
    file.key("general.architecture", 8).string(architecture);
    file.key("llama.rope.scaling.type", 8).string(scaling);
    file.key("llama.attention.layer_norm_rms_epsilon", 6).value(1e-5f);
    for (const auto& [key, number] : numbers) file.key(key, 4).value(number);
    file.tensor("token_embd.weight", {64, 8}, f32, 0).align(32).zeros(64 * 8 * 4);
    use_weights(file);
    try {
      make_plan(Schedule::load(std::filesystem::path(RONDO_SOURCE_DIR) / "configs/llama/decode.json"),
                small_device(), options_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(DecodeRequirements, RopeScalingOfAnUnknownKindIsRefused) {
  EXPECT_THAT(refusal_of("llama", "yarn"),
              AllOf(HasSubstr("of the types linear and llama3 only"), HasSubstr("decode.json:")));
  for (const char* known : {"none", "linear", "llama3"})
    EXPECT_THAT(refusal_of("llama", known), Not(HasSubstr("rope"))) << known;
}

TEST_F(DecodeRequirements, AnotherArchitectureIsRefused) {
  EXPECT_THAT(refusal_of("qwen2", "none"), HasSubstr("for the Llama architecture"));
}

}  // namespace
}  // namespace rondo
