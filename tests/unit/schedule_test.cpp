#include "schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "name_template.h"

namespace rondo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::filesystem::path source_dir = RONDO_SOURCE_DIR;

std::vector<std::filesystem::path> valid_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& folder : {source_dir / "tests/data/schedules/valid", source_dir / "configs"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".json" || entry.path().filename() == "schedule.schema.json") continue;
      files.push_back(entry.path());
    }
  }
  return files;
}

std::vector<Diagnostic> errors_of(const std::string& text) {
  try {
    Schedule::parse(text, "t.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_schedule);
    return error.diagnostics();
  }
  return {};
}

std::string list(const std::vector<Diagnostic>& errors) {
  std::string text;
  for (const Diagnostic& error : errors) text += error.to_string() + '\n';
  return text;
}

// A schedule with one more param, buffer, kernel or op, or with another key at the top.
enum class Where { top, param, buffer, kernel, op };
std::string with(Where where, const std::string& fragment) {
  const auto more = [&](Where section) { return where == section ? ",\n" + fragment : std::string(); };
  return fmt::format(
      R"({{"rondo": 1, "name": "t"{},
"params": {{"n": {{"type": "i32", "constant": 4}}, "a": {{"type": "f32", "step": 1.5}}, "pos": {{"type": "i32", "step": 0}}{}}},
"buffers": {{"x": {{"type": "f32", "shape": ["n"], "role": "input"}},
  "w.{{i}}": {{"for": {{"i": 2}}, "role": "weight", "tensor": "t.{{i}}"}}{}}},
"kernels": {{"k": {{"source": "k.cu", "entry": "k"}}, "gemv_{{t}}": {{"for": {{"t": ["f32", "f16"]}}, "source": "g.cu", "entry": "g<{{t}}>"}}{}}},
"ops": [{{"fill": "x", "value": 0}}{}]}})",
      more(Where::top), more(Where::param), more(Where::buffer), more(Where::kernel), more(Where::op));
}

std::string kernel_op(const std::string& args) {
  return fmt::format(R"({{"kernel": "k", "grid": [1], "block": [1], "args": [{}]}})", args);
}

// A launch with a key more.
std::string launch_with(const std::string& key) {
  return fmt::format(R"({{"kernel": "k", "grid": [1], "block": [1], {}, "args": []}})", key);
}

struct Case {
  Where where;
  std::string fragment;
  std::string pointer;
  std::string message;
};

void expect_errors(const std::vector<Case>& cases) {
  for (const Case& bad : cases) {
    const std::string text = with(bad.where, bad.fragment);
    const std::vector<Diagnostic> errors = errors_of(text);
    ASSERT_EQ(errors.size(), 1u) << bad.fragment << '\n' << list(errors);
    EXPECT_EQ(errors[0].place.pointer, bad.pointer) << bad.fragment;
    EXPECT_THAT(errors[0].to_string(), HasSubstr(bad.message)) << bad.fragment;
    EXPECT_EQ(errors[0].place.file, "t.json");
    EXPECT_GE(errors[0].place.line, 1u) << bad.fragment;
    EXPECT_GE(errors[0].place.column, 1u) << bad.fragment;
  }
}

TEST(Schedule, LoadsEveryValidFile) {
  const auto files = valid_files();
  EXPECT_GE(files.size(), 3u);
  for (const auto& file : files) {
    try {
      Schedule::load(file);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(Schedule, RefusesEveryInvalidFile) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir / "tests/data/schedules/invalid")) {
    ++files;
    EXPECT_THROW(Schedule::load(entry.path()), Error) << entry.path();
  }
  EXPECT_GE(files, 10u);
}

TEST(Schedule, KeepsWhatTheFileSays) {
  const Schedule schedule = Schedule::load(source_dir / "tests/data/schedules/valid/everything.json");
  EXPECT_EQ(schedule.name, "everything");
  EXPECT_EQ(schedule.directory(), source_dir / "tests/data/schedules/valid");
  ASSERT_GE(schedule.params.size(), 3u);
  EXPECT_EQ(schedule.params[0].name, "n");
  EXPECT_EQ(std::get<Expression>(std::get<PlacedNumber>(schedule.params[0].value).value).text(), "1048576");
  EXPECT_THAT(std::get<MetadataSource>(schedule.params[1].value).keys, ElementsAre("llama.embedding_length"));
  const auto param = [&](const std::string& name) {
    for (const ParamDeclaration& candidate : schedule.params) {
      if (candidate.name == name) return candidate;
    }
    ADD_FAILURE() << name;
    return schedule.params[0];
  };
  EXPECT_EQ(std::get<MetadataSource>(param("rope_plain").value).equals, "none");
  EXPECT_EQ(std::get<TensorSource>(param("vocab").value).dimension, 0u);
  EXPECT_EQ(std::get<TensorSource>(param("has_output").value).dimension, std::nullopt);
  EXPECT_THAT(std::get<TensorSource>(param("vocab").value).tensors, ElementsAre("token_embd.weight"));
  EXPECT_THAT(std::get<TensorSource>(param("has_output").value).tensors,
              ElementsAre("output.weight", "lm_head.weight"));
  EXPECT_THAT(std::get<MetadataSource>(param("n_heads").value).keys,
              ElementsAre("llama.attention.head_count", "num_attention_heads"));
  EXPECT_TRUE(param("pos").is_step);
  EXPECT_EQ(param("pos").largest->value.text(), "context - 1");
  EXPECT_EQ(std::get<double>(std::get<PlacedNumber>(param("a").value).value), 2.0);
  EXPECT_EQ(std::get<Expression>(std::get<PlacedNumber>(param("rows").value).value).text(), "10");
  ASSERT_EQ(schedule.requirements.size(), 1u);
  EXPECT_EQ(schedule.requirements[0].otherwise, "rope scaling is not supported yet");

  const BufferDeclaration& x = schedule.buffers[0];
  EXPECT_EQ(x.role, Role::input);
  EXPECT_EQ(std::get<RandomFill>(*x.fill).seed, 1u);
  const BufferDeclaration& wq = schedule.buffers[2];
  EXPECT_EQ(wq.name.value, "wq.{layer}");
  EXPECT_EQ(wq.family->variable, "layer");
  EXPECT_FALSE(wq.type.has_value());
  EXPECT_FALSE(wq.shape_from_tensor);
  const BufferDeclaration& w_out = schedule.buffers[3];
  EXPECT_TRUE(w_out.shape_from_tensor);
  ASSERT_EQ(w_out.tensors.size(), 2u);
  EXPECT_EQ(w_out.tensors[1].value, "token_embd.weight");
  EXPECT_EQ(w_out.tensors[1].pointer, "/buffers/w_out/tensor/1");
  EXPECT_EQ(schedule.buffers[4].file->value, "table.npy");

  EXPECT_EQ(schedule.kernels[0].defines[0].second.value, "4 * n_layers");
  EXPECT_THAT(std::get<std::vector<std::string>>(schedule.kernels[1].family->values),
              ElementsAre("f32", "f16", "q8_0", "q4_1"));
}

TEST(Schedule, KeepsOpsAndTheirArguments) {
  const Schedule schedule = Schedule::parse(
      with(
          Where::op,
          R"({"name": "label", "when": "n > 2", "kernel": "gemv_{w.0.type}", "grid": ["n", 2], "block": [64], "shared": "4 * n",
               "args": ["n + 1", "a", "x", "x[ max(1, 2) ]", "x [pos : n * 2 ]", {"write": "x[1:2]"}, {"slot": "pos"}, 0.5, 7, true, "w.{n}"]},
              {"repeat": "i", "count": 2, "ops": [{"copy": "w.{i}", "to": "x"}]})"),
      "t.json");
  ASSERT_EQ(schedule.ops.size(), 3u);
  EXPECT_EQ(schedule.ops[1].label, "label");
  EXPECT_EQ(schedule.ops[1].when->value.text(), "n > 2");
  EXPECT_EQ(schedule.ops[1].pointer, "/ops/1");
  const KernelOp& op = std::get<KernelOp>(schedule.ops[1].what);
  EXPECT_EQ(op.kernel.value, "gemv_{w.0.type}");
  ASSERT_EQ(op.grid.size(), 2u);
  EXPECT_EQ(op.grid[1].value, "2");
  EXPECT_EQ(op.shared->value, "4 * n");
  const auto text = [&](std::size_t i) {
    return std::get<Template>(std::get<NumberArgument>(op.args[i].value).value).value;
  };
  const auto buffer = [&](std::size_t i) { return std::get<BufferArgument>(op.args[i].value); };
  EXPECT_EQ(text(0), "n + 1");
  EXPECT_EQ(text(2), "x");
  EXPECT_EQ(buffer(3).buffer.name.value, "x");
  EXPECT_EQ(buffer(3).buffer.offset->value, " max(1, 2) ");
  EXPECT_FALSE(buffer(3).buffer.extent.has_value());
  EXPECT_EQ(buffer(4).buffer.name.value, "x");
  EXPECT_EQ(buffer(4).buffer.offset->value, "pos ");
  EXPECT_EQ(buffer(4).buffer.extent->value, " n * 2 ");
  EXPECT_EQ(buffer(4).access, Access::by_signature);
  EXPECT_EQ(buffer(5).access, Access::write);
  EXPECT_EQ(buffer(5).buffer.extent->value, "2");
  EXPECT_EQ(std::get<SlotArgument>(op.args[6].value).param, "pos");
  EXPECT_EQ(std::get<double>(std::get<NumberArgument>(op.args[7].value).value), 0.5);
  EXPECT_EQ(text(8), "7");
  EXPECT_EQ(text(9), "true");
  EXPECT_EQ(text(10), "w.{n}");
  EXPECT_EQ(op.args[6].pointer, "/ops/1/args/6");
  const RepeatOp& repeat = std::get<RepeatOp>(schedule.ops[2].what);
  EXPECT_EQ(repeat.variable, "i");
  EXPECT_EQ(std::get<CopyOp>(repeat.ops.at(0).what).from.name.value, "w.{i}");
  EXPECT_EQ(std::get<CopyOp>(repeat.ops.at(0).what).to_pointer, "/ops/2/ops/0/to");
}

TEST(Schedule, KeepsTables) {
  const Schedule schedule = Schedule::parse(
      with(
          Where::op,
          kernel_op(
              R"({"table": ["x[n]", {"read": "w.{j}"}, {"write": "x [pos : 1]"}], "for": {"j": "n"}}, {"read": "x"})")),
      "t.json");
  const KernelOp& op = std::get<KernelOp>(schedule.ops[1].what);
  ASSERT_EQ(op.args.size(), 2u);
  const TableArgument& table = std::get<TableArgument>(op.args[0].value);
  EXPECT_EQ(table.family->variable, "j");
  ASSERT_EQ(table.pointers.size(), 3u);
  EXPECT_EQ(table.pointers[0].value.access, Access::by_signature);
  EXPECT_EQ(table.pointers[0].value.buffer.offset->value, "n");
  EXPECT_EQ(table.pointers[1].value.access, Access::read);
  EXPECT_EQ(table.pointers[1].value.buffer.name.value, "w.{j}");
  EXPECT_EQ(table.pointers[2].value.access, Access::write);
  EXPECT_EQ(table.pointers[2].pointer, "/ops/1/args/0/table/2");
  EXPECT_EQ(std::get<BufferArgument>(op.args[1].value).access, Access::read);
}

TEST(Schedule, RefusesBadTables) {
  const auto bad = [](const std::string& argument, const std::string& below, const std::string& message) {
    return Case{Where::op, kernel_op(argument), "/ops/1/args/0" + below, message};
  };
  expect_errors({
      bad(R"({"table": "x"})", "/table", "expected an array of buffers"),
      bad(R"({"table": []})", "/table", "one pointer or more"),
      bad(R"({"table": ["x", 4]})", "/table/1", "expected a buffer or a part of it"),
      bad(R"({"table": ["x", {"slot": "pos"}]})", "/table/1", "numbers and slots are arguments of their own"),
      bad(R"({"table": ["x", {"table": ["x"]}]})", "/table/1", "expected a buffer or a part of it"),
      bad(R"({"table": ["n"]})", "/table/0", "\"n\" is a param, not a buffer"),
      bad(R"({"table": ["y"]})", "/table/0", "unknown buffer \"y\""),
      bad(R"({"table": [{"write": "x[1"}]})", "/table/0/write", "expected ']'"),
      bad(R"({"table": [{"read": "x", "write": "x"}]})", "/table/0/write",
          "unknown key \"write\" in a read argument"),
      bad(R"({"table": ["w.{j}"]})", "/table/0", "unknown name \"j\""),
      bad(R"({"table": ["x"], "fro": {"j": 2}})", "/fro", "Did you mean \"for\"?"),
      bad(R"({"table": ["w.{j}"], "for": {"j": "pos"}})", "/for/j", "step param"),
      bad(R"({"table": ["w.{n}"], "for": {"n": 2}})", "/for/n", "\"n\""),
      bad(R"({"read": "n"})", "/read", "\"n\" is a param, not a buffer"),
      bad(R"({"read": "x", "for": {"j": 2}})", "/for", "unknown key \"for\""),
  });
}

TEST(Schedule, KeepsIntegersExact) {
  const Schedule schedule =
      Schedule::parse(with(Where::param, R"("big": {"type": "i64", "constant": 9223372036854775807},
                        "low": {"type": "i64", "constant": -9223372036854775808}, "odd": {"type": "u64", "step": 9007199254740993},
                        "f": {"type": "f64", "constant": 18446744073709551616}, "g": {"type": "f32", "constant": 3})"),
                      "t.json");
  const auto literal = [&](std::size_t i) {
    return std::get<Expression>(std::get<PlacedNumber>(schedule.params[i].value).value).evaluate_or_throw({});
  };
  EXPECT_EQ(literal(3), INT64_MAX);
  EXPECT_EQ(literal(4), INT64_MIN);
  EXPECT_EQ(literal(5), 9007199254740993);
  EXPECT_EQ(std::get<double>(std::get<PlacedNumber>(schedule.params[6].value).value), 18446744073709551616.0);
  EXPECT_EQ(std::get<double>(std::get<PlacedNumber>(schedule.params[7].value).value), 3.0);
}

TEST(Schedule, RefusesBadParams) {
  expect_errors({
      {Where::param, R"("b": 3)", "/params/b", "expected an object (a param), got the number 3"},
      {Where::param, R"("b": {"constant": 3})", "/params/b", "needs the key \"type\""},
      {Where::param, R"("b": {"type": "i32"})", "/params/b", "has neither"},
      {Where::param, R"("b": {"type": "i32", "constant": 1, "step": 2})", "/params/b", "has both"},
      {Where::param, R"("b": {"type": "int", "constant": 1})", "/params/b/type", "unknown type \"int\""},
      {Where::param, R"("b": {"type": "f23", "constant": 1})", "/params/b/type", "Did you mean"},
      {Where::param, R"("b": {"type": "q8_0", "constant": 1})", "/params/b/type", "block type q8_0"},
      {Where::param, R"("b": {"type": "i32", "constnat": 1, "step": 2})", "/params/b/constnat",
       "Did you mean \"constant\"?"},
      {Where::param, R"("b": {"type": "i8", "constant": 128})", "/params/b/constant", "-128 to 127"},
      {Where::param, R"("b": {"type": "u8", "step": -1})", "/params/b/step", "0 to 255"},
      {Where::param, R"("b": {"type": "i8", "constant": "100 + 28"})", "/params/b/constant",
       "128 is out of the range"},
      {Where::param, R"("b": {"type": "i32", "constant": 1.5})", "/params/b/constant", "expected an integer"},
      {Where::param, R"("b": {"type": "bool", "constant": 2})", "/params/b/constant",
       "out of the range of bool"},
      {Where::param, R"("b": {"type": "i32", "constant": true})", "/params/b/constant",
       "true and false are values of the type bool"},
      {Where::param, R"("b": {"type": "u64", "constant": 9223372036854775808})", "/params/b/constant",
       "signed 64-bit"},
      {Where::param, R"("b": {"type": "i64", "constant": 99999999999999999999})", "/params/b/constant",
       "99999999999999999999"},
      {Where::param, R"("b": {"type": "f16", "constant": 65505})", "/params/b/constant",
       "out of the range of f16"},
      {Where::param, R"("b": {"type": "f32", "constant": -1e39})", "/params/b/constant",
       "out of the range of f32"},
      {Where::param, R"("b": {"type": "i32", "constant": null})", "/params/b/constant", "got null"},
      {Where::param, R"("b": {"type": "i32", "constant": "pos + 1"})", "/params/b/constant",
       "\"pos\" is a step param"},
      {Where::param, R"("b": {"type": "i32", "constant": "a"})", "/params/b/constant",
       "\"a\" is a step param"},
      {Where::param, R"("b": {"type": "i32", "constant": "x"})", "/params/b/constant", "\"x\" is a buffer"},
      {Where::param, R"("b": {"type": "i32", "constant": "device.processor"})", "/params/b/constant",
       "unknown name \"device.processor\". Did you mean \"device.processors\"?"},
      {Where::param, R"("b": {"type": "i32", "constant": "device.warpsize"})", "/params/b/constant",
       "\"device.warp_size\"?"},
      {Where::param, R"("b": {"type": "i32", "constant": "1 / 0"})", "/params/b/constant",
       "division by zero"},
      {Where::param, R"("b": {"type": "i32", "step": {"metadata": "k"}})", "/params/b/step",
       "Only constants"},
      {Where::param, R"("b": {"type": "i32", "constant": {}})", "/params/b/constant", "has none"},
      {Where::param, R"("b": {"type": "i32", "constant": {"metadata": "k", "tensor": "t"}})",
       "/params/b/constant", "has several"},
      {Where::param, R"("b": {"type": "i32", "constant": {"types": ["x"]}})", "/params/b/constant",
       "needs the key \"are\""},
      {Where::param, R"("b": {"type": "i32", "constant": {"types": "x", "are": ["f32"]}})",
       "/params/b/constant/types", "an array of buffers' names"},
      {Where::param, R"("b": {"type": "i32", "constant": {"types": [], "are": ["f32"]}})",
       "/params/b/constant/types", "empty array"},
      {Where::param, R"("b": {"type": "i32", "constant": {"types": ["x"], "are": []}})",
       "/params/b/constant/are", "empty array"},
      {Where::param, R"("b": {"type": "i32", "constant": {"types": ["x"], "are": ["f23"]}})",
       "/params/b/constant/are/0", "unknown type \"f23\""},
      {Where::param, R"("b": {"type": "i32", "constant": {"types": ["x", "n"], "are": ["f32"]}})",
       "/params/b/constant/types/1", "\"n\" is a param, not a buffer"},
      {Where::param, R"("b": {"type": "i32", "constant": {"types": ["x[1]"], "are": ["f32"]}})",
       "/params/b/constant/types/0", "unknown buffer \"x[1]\""},
      {Where::param,
       R"("b": {"type": "i32", "constant": {"types": ["w.{j}"], "for": {"j": "pos"}, "are": ["f32"]}})",
       "/params/b/constant/for/j", "step param"},
      {Where::param, R"("b": {"type": "i32", "constant": {"types": ["w.{j}"], "are": ["f32"]}})",
       "/params/b/constant/types/0", "unknown name \"j\""},
      {Where::param, R"("b": {"type": "f32", "constant": {"types": ["x"], "are": ["f32"]}})",
       "/params/b/constant", "the type is f32"},
      {Where::param, R"("b": {"type": "i32", "constant": {"metadata": ""}})", "/params/b/constant/metadata",
       "metadata key"},
      {Where::param, R"("b": {"type": "i32", "constant": {"metadata": []}})", "/params/b/constant/metadata",
       "a metadata key (a string), or an array of them"},
      {Where::param, R"("b": {"type": "i32", "constant": {"metadata": ["k", 3]}})",
       "/params/b/constant/metadata/1", "got the number 3"},
      {Where::param, R"("b": {"type": "i32", "constant": {"tensor": ["t", []]}})",
       "/params/b/constant/tensor/1", "a tensor's name (a string), or an array of them"},
      {Where::param, R"("b": {"type": "i32", "constant": {"metadata": "k", "defualt": 1}})",
       "/params/b/constant/defualt", "\"default\"?"},
      {Where::param, R"("b": {"type": "i32", "constant": {"metadata": "k", "default": "pos"}})",
       "/params/b/constant/default", "step param"},
      {Where::param, R"("b": {"type": "f32", "constant": {"metadata": "k", "is": "y"}})",
       "/params/b/constant/is", "gives 0 or 1"},
      {Where::param, R"("b": {"type": "i32", "constant": {"tensor": "k", "dimension": -1}})",
       "/params/b/constant/dimension", "dimension"},
      {Where::param, R"("b": {"type": "f32", "constant": {"tensor": "k"}})", "/params/b/constant",
       "the type is f32"},
      {Where::param, R"("b": {"type": "f32", "step": 1, "min": 0})", "/params/b/min", "for integer params"},
      {Where::param, R"("b": {"type": "i32", "step": 1, "min": "pos"})", "/params/b/min", "step param"},
      {Where::param, R"("b": {"type": "i32", "step": 1, "min": 2})", "/params/b/step",
       "below \"min\", which is 2"},
      {Where::param, R"("b": {"type": "i32", "step": 1, "max": 0})", "/params/b/step",
       "above \"max\", which is 0"},
      {Where::param, R"("b": {"type": "i32", "step": 1, "min": 2, "max": 1})", "/params/b/max",
       "below \"min\""},
      {Where::param, R"("2b": {"type": "i32", "step": 1})", "/params/2b", "cannot be a name"},
      {Where::param, R"("b/c~": {"type": "i32", "step": 1})", "/params/b~1c~0", "cannot be a name"},
      {Where::param, R"("device": {"type": "i32", "step": 1})", "/params/device", "reserved"},
      {Where::param, R"("device.x": {"type": "i32", "step": 1})", "/params/device.x", "reserved"},
      {Where::param, R"("true": {"type": "i32", "step": 1})", "/params/true", "reserved"},
      {Where::param, R"("b": {"type": "i32", "constant": "b + 1"})", "/params/b", "depends on itself: b → b"},
      {Where::param,
       R"("b": {"type": "i32", "constant": "c"}, "c": {"type": "i32", "constant": {"metadata": "k", "default": "b"}}, "d": {"type": "i32", "constant": "b"})",
       "/params/b", "depends on itself: b → c → b"},
  });
}

TEST(Schedule, RefusesBadBuffers) {
  expect_errors({
      {Where::buffer, R"("n": {"type": "f32", "shape": [1], "role": "input"})", "/buffers/n",
       "\"n\" is a param already"},
      {Where::buffer, R"("b": {"type": "f32", "shape": [1]})", "/buffers/b", "needs the key \"role\""},
      {Where::buffer, R"("b": {"type": "f32", "shape": [1], "role": "inptu"})", "/buffers/b/role",
       "Did you mean \"input\"?"},
      {Where::buffer, R"("b": {"shape": [1], "role": "input"})", "/buffers/b", "needs the key \"type\""},
      {Where::buffer, R"("b": {"type": "f32", "role": "input"})", "/buffers/b", "needs the key \"shape\""},
      {Where::buffer, R"("b": {"type": "f32", "shape": "n", "role": "input"})", "/buffers/b/shape",
       "expected an array"},
      {Where::buffer, R"("b": {"type": "f32", "shape": [1.5], "role": "input"})", "/buffers/b/shape/0",
       "expected an integer"},
      {Where::buffer, R"("b": {"type": "f32", "shape": [-1], "role": "input"})", "/buffers/b/shape/0",
       "cannot be negative"},
      {Where::buffer, R"("b": {"type": "f32", "shape": [2, "pos"], "role": "input"})", "/buffers/b/shape/1",
       "step param"},
      {Where::buffer, R"("b": {"type": "f32", "shape": ["a"], "role": "input"})", "/buffers/b/shape/0",
       "step param"},
      {Where::buffer, R"("b": {"type": "f32", "shape": [1], "role": "input", "tensor": "t"})",
       "/buffers/b/tensor", "only a buffer of the role weight"},
      {Where::buffer, R"("b": {"type": "f32", "shape": [1], "role": "input", "file": "t"})",
       "/buffers/b/file", "only a buffer of the role weight"},
      {Where::buffer, R"("b": {"role": "weight"})", "/buffers/b", "needs the key \"tensor\""},
      {Where::buffer, R"("b": {"role": "weight", "tensor": []})", "/buffers/b/tensor", "empty array"},
      {Where::buffer, R"("b": {"role": "weight", "tensor": ["t", 3]})", "/buffers/b/tensor/1",
       "got the number 3"},
      {Where::buffer, R"("b": {"role": "weight", "tensor": "t", "fill": 0})", "/buffers/b/fill", "no fill"},
      {Where::buffer, R"("b": {"type": "f32", "shape": [1], "role": "temporary", "fill": 0})",
       "/buffers/b/fill", "would not last"},
      {Where::buffer, R"("b": {"type": "q8_0", "shape": [32], "role": "state", "fill": 0})",
       "/buffers/b/fill", "block type"},
      {Where::buffer, R"("b": {"type": "u8", "shape": [1], "role": "state", "fill": 256})", "/buffers/b/fill",
       "0 to 255"},
      {Where::buffer, R"("b": {"type": "i32", "shape": [1], "role": "state", "fill": 0.5})",
       "/buffers/b/fill", "expected an integer"},
      {Where::buffer, R"("b": {"type": "f32", "shape": [1], "role": "state", "fill": "a"})",
       "/buffers/b/fill", "step param"},
      {Where::buffer, R"("b": {"type": "f32", "shape": [1], "role": "state", "fill": {"random": -1}})",
       "/buffers/b/fill/random", "seed"},
      {Where::buffer, R"("b": {"type": "f32", "shape": [1], "role": "state", "fill": {}})", "/buffers/b/fill",
       "needs the key"},
      {Where::buffer, R"("b.{i": {"role": "weight", "tensor": "t"})", "/buffers/b.{i", "cannot be a name"},
      {Where::buffer, R"("b.{}": {"role": "weight", "tensor": "t"})", "/buffers/b.{}", "nothing between"},
      {Where::buffer, R"("b.{j}": {"role": "weight", "tensor": "t"})", "/buffers/b.{j}",
       "unknown name \"j\""},
      {Where::buffer, R"("b.{pos}": {"role": "weight", "tensor": "t"})", "/buffers/b.{pos}", "step param"},
      {Where::buffer, R"("b": {"for": {"j": 2}, "role": "weight", "tensor": "t"})", "/buffers/b/for",
       "Use the variable in the name"},
      {Where::buffer, R"("b.{j}": {"for": {"j": 2, "k": 3}, "role": "weight", "tensor": "t"})",
       "/buffers/b.{j}/for", "with 2 keys"},
      {Where::buffer, R"("b.{j}": {"for": {"j": []}, "role": "weight", "tensor": "t"})",
       "/buffers/b.{j}/for/j", "empty array"},
      {Where::buffer, R"("b.{j}": {"for": {"j": ["y", "y"]}, "role": "weight", "tensor": "t"})",
       "/buffers/b.{j}/for/j/1", "twice"},
      {Where::buffer, R"("b.{j}": {"for": {"j": ["y z"]}, "role": "weight", "tensor": "t"})",
       "/buffers/b.{j}/for/j/0", "part of a name"},
      {Where::buffer, R"("b.{n}": {"for": {"n": 2}, "role": "weight", "tensor": "t"})",
       "/buffers/b.{n}/for/n", "has the name of a param"},
      {Where::buffer, R"("b.{j}": {"for": {"j": ["y"]}, "role": "weight", "tensor": "t", "shape": ["j"]})",
       "/buffers/b.{j}/shape/0", "stands for names"},
      {Where::buffer, R"("b.{j}": {"for": {"j": 2}, "role": "weight", "tensor": "t.{k}"})",
       "/buffers/b.{j}/tensor", "unknown name \"k\""},
      {Where::buffer, R"("b": {"role": "weight", "tensor": "t.}"})", "/buffers/b/tensor", "'}' without '{'"},
  });
}

TEST(Schedule, RefusesBadKernels) {
  expect_errors({
      {Where::kernel, R"("l": {"entry": "l"})", "/kernels/l", "has neither"},
      {Where::kernel, R"("l": {"source": "a", "code": "b", "entry": "l"})", "/kernels/l", "has both"},
      {Where::kernel, R"("l": {"source": "a"})", "/kernels/l", "needs the key \"entry\""},
      {Where::kernel, R"("l": {"source": 1, "entry": "l"})", "/kernels/l/source", "expected a file's path"},
      {Where::kernel, R"("l": {"source": "a", "entry": ""})", "/kernels/l/entry", "C++ name"},
      {Where::kernel, R"("l": {"source": "a", "entry": "f<{u}>"})", "/kernels/l/entry", "unknown name \"u\""},
      {Where::kernel, R"("l": {"source": "a", "entry": "l", "defines": {"A B": 1}})",
       "/kernels/l/defines/A B", "macro's name"},
      {Where::kernel, R"("l": {"source": "a", "entry": "l", "defines": {"A": "pos"}})",
       "/kernels/l/defines/A", "step param"},
      {Where::kernel, R"("l": {"source": "a", "entry": "l", "defines": {"A": 0.5}})", "/kernels/l/defines/A",
       "expected an integer"},
      {Where::kernel, R"("l": {"source": "a", "entry": "l", "defines": []})", "/kernels/l/defines",
       "an object of macros"},
      {Where::kernel, R"("l": {"source": "a", "entry": "l", "pdl": "pos"})", "/kernels/l/pdl", "step param"},
      {Where::kernel, R"("l": {"source": "a", "entry": "l", "pdl": [true]})", "/kernels/l/pdl",
       "got an array"},
      {Where::kernel, R"("l": {"source": "a", "entry": "l", "pdl": 0.5})", "/kernels/l/pdl",
       "expected an integer"},
      {Where::kernel, R"("l": {"source": "a", "entry": "l", "pld": true})", "/kernels/l/pld",
       "Did you mean \"pdl\"?"},
      {Where::kernel, R"("l": {"source": "a", "entry": "l", "sorce": 1})", "/kernels/l/sorce",
       "Did you mean \"source\"?"},
  });
}

TEST(Schedule, RefusesBadOps) {
  expect_errors({
      {Where::op, R"(3)", "/ops/1", "expected an op"},
      {Where::op, R"({"kernle": "k"})", "/ops/1", "Did you mean \"kernel\"?"},
      {Where::op, R"({"copy": "x", "fill": "x"})", "/ops/1", "several"},
      {Where::op, R"({"copy": "x"})", "/ops/1", "needs the key \"to\""},
      {Where::op, R"({"copy": "x", "to": "y"})", "/ops/1/to", "unknown buffer \"y\""},
      {Where::op, R"({"copy": "n", "to": "x"})", "/ops/1/copy", "\"n\" is a param, not a buffer"},
      {Where::op, R"({"fill": "x"})", "/ops/1", "needs the key \"value\""},
      {Where::op, R"({"fill": "x", "value": [1]})", "/ops/1/value", "got an array"},
      {Where::op, R"({"fill": "x", "value": 1e300})", "/ops/1/value", "out of the range of f32"},
      {Where::op, R"({"fill": "x", "value": 0, "when": "pos"})", "/ops/1/when", "step param"},
      {Where::op, R"({"fill": "x", "value": 0, "name": 3})", "/ops/1/name", "a label"},
      {Where::op, R"({"kernel": "gemvf32", "grid": [1], "block": [1], "args": []})", "/ops/1/kernel",
       "unknown kernel \"gemvf32\""},
      {Where::op, R"({"kernel": "gemw_{n}", "grid": [1], "block": [1], "args": []})", "/ops/1/kernel",
       "unknown kernel \"gemw_{n}\". Did you mean \"gemv_{t}\"?"},
      {Where::op, R"({"kernel": "gemv_{y.type}", "grid": [1], "block": [1], "args": []})", "/ops/1/kernel",
       "unknown buffer \"y\""},
      {Where::op, R"({"kernel": "k", "gird": [1], "grid": [1], "block": [1], "args": []})", "/ops/1/gird",
       "Did you mean \"grid\"?"},
      {Where::op, R"({"kernel": "k", "grid": [], "block": [1], "args": []})", "/ops/1/grid",
       "1 to 3 sizes (x, y, z), got 0"},
      {Where::op, R"({"kernel": "k", "grid": [1], "block": [1, 1, 1, 1], "args": []})", "/ops/1/block",
       "got 4"},
      {Where::op, R"({"kernel": "k", "grid": 1, "block": [1], "args": []})", "/ops/1/grid",
       "got the number 1"},
      {Where::op, R"({"kernel": "k", "grid": ["a"], "block": [1], "args": []})", "/ops/1/grid/0",
       "expressions are over integers"},
      {Where::op, R"({"kernel": "k", "grid": [1], "block": [1], "shared": "4 *", "args": []})",
       "/ops/1/shared", "got the end"},
      {Where::op, launch_with(R"("cooperative": "pos > 1")"), "/ops/1/cooperative", "step param"},
      {Where::op, launch_with(R"("cooperative": {})"), "/ops/1/cooperative", "got an object"},
      {Where::op, launch_with(R"("cooperatve": true)"), "/ops/1/cooperatve", "Did you mean \"cooperative\"?"},
      {Where::op, launch_with(R"("cluster": 2)"), "/ops/1/cluster", "got the number 2"},
      {Where::op, launch_with(R"("cluster": [])"), "/ops/1/cluster", "1 to 3 sizes (x, y, z), got 0"},
      {Where::op, launch_with(R"("cluster": [1, "pos"])"), "/ops/1/cluster/1", "step param"},
      {Where::op, launch_with(R"("priority": "pos")"), "/ops/1/priority", "step param"},
      {Where::op, launch_with(R"("priority": "high")"), "/ops/1/priority", "unknown name \"high\""},
      {Where::op, launch_with(R"("priority": true)"), "/ops/1/priority", "got true"},
      {Where::op, launch_with(R"("priorty": 1)"), "/ops/1/priorty", "Did you mean \"priority\"?"},
      {Where::op, R"({"kernel": "k", "grid": [1], "block": [1]})", "/ops/1", "needs the key \"args\""},
      {Where::op, R"({"repeat": "n", "count": 2, "ops": []})", "/ops/1/repeat", "has the name of a param"},
      {Where::op, R"({"repeat": "x", "count": 2, "ops": []})", "/ops/1/repeat", "has the name of a buffer"},
      {Where::op, R"({"repeat": "l", "count": 2, "ops": [{"repeat": "l", "count": 2, "ops": []}]})",
       "/ops/1/ops/0/repeat", "an outer loop variable"},
      {Where::op, R"({"repeat": "l", "count": "pos", "ops": []})", "/ops/1/count", "step param"},
      {Where::op, R"({"repeat": "l", "ops": []})", "/ops/1", "needs the key \"count\""},
      {Where::op, kernel_op(R"("y")"), "/ops/1/args/0", "unknown name \"y\": neither buffer nor param"},
      {Where::op, kernel_op(R"("n + a")"), "/ops/1/args/0", "\"a\" is of type f32"},
      {Where::op, kernel_op(R"("n + y")"), "/ops/1/args/0", "unknown name \"y\""},
      {Where::op, kernel_op(R"("n + x")"), "/ops/1/args/0", "\"x\" is a buffer"},
      {Where::op, kernel_op(R"("")"), "/ops/1/args/0", "empty"},
      {Where::op, kernel_op(R"("v.{n}")"), "/ops/1/args/0", "unknown name \"v.{n}\""},
      {Where::op, kernel_op(R"("w.{pos}")"), "/ops/1/args/0", "step param"},
      {Where::op, kernel_op(R"("w.{n")"), "/ops/1/args/0", "'{' without '}'"},
      {Where::op, kernel_op(R"("x[")"), "/ops/1/args/0", "expected ']'"},
      {Where::op, kernel_op(R"("[1]")"), "/ops/1/args/0", "name of a buffer before '['"},
      {Where::op, kernel_op(R"("x[]")"), "/ops/1/args/0", "empty"},
      {Where::op, kernel_op(R"("x[1:]")"), "/ops/1/args/0", "empty"},
      {Where::op, kernel_op(R"("x[0:1:2]")"), "/ops/1/args/0", "a second ':'"},
      {Where::op, kernel_op(R"("x[0] + 1")"), "/ops/1/args/0", "nothing after ']'"},
      {Where::op, kernel_op(R"("x[x[0]]")"), "/ops/1/args/0", "'[' inside"},
      {Where::op, kernel_op(R"("x[(0:1)]")"), "/ops/1/args/0", "expected ')'"},
      {Where::op, kernel_op(R"("n[0]")"), "/ops/1/args/0", "is a param, not a buffer"},
      {Where::op, kernel_op(R"({"write": "y"})"), "/ops/1/args/0/write", "unknown buffer"},
      {Where::op, kernel_op(R"({})"), "/ops/1/args/0", "needs the key \"write\""},
      {Where::op, kernel_op(R"({"slot": "n"})"), "/ops/1/args/0/slot", "\"n\" is a constant"},
      {Where::op, kernel_op(R"({"slot": "poss"})"), "/ops/1/args/0/slot", "Did you mean \"pos\"?"},
      {Where::op, kernel_op(R"({"slot": 1})"), "/ops/1/args/0/slot", "a step param's name"},
      {Where::op, kernel_op(R"(18446744073709551616)"), "/ops/1/args/0", "a number of 64 bits"},
      {Where::op, kernel_op(R"(null)"), "/ops/1/args/0", "got null"},
  });
}

TEST(Schedule, RefusesABadTop) {
  expect_errors({
      {Where::top, R"("bufers": {})", "/bufers",
       "unknown key \"bufers\" in a schedule. Did you mean \"buffers\"?"},
      {Where::top, R"("description": 3)", "/description", "expected a string"},
      {Where::top, R"("require": {})", "/require", "an array of requirements"},
      {Where::top, R"("require": [{"that": 1}])", "/require/0", "needs the key \"else\""},
      {Where::top, R"("require": [{"that": "pos", "else": "no"}])", "/require/0/that", "step param"},
  });
  const auto message = [](const std::string& text) { return list(errors_of(text)); };
  EXPECT_THAT(message(R"({"name": "t", "ops": []})"), HasSubstr("a schedule needs the key \"rondo\""));
  EXPECT_THAT(message(R"({"rondo": 1, "ops": []})"), HasSubstr("a schedule needs the key \"name\""));
  EXPECT_THAT(message(R"({"rondo": 1, "name": "t"})"), HasSubstr("a schedule needs the key \"ops\""));
  EXPECT_THAT(message(R"({"rondo": 2, "nothing": "else counts"})"),
              HasSubstr("expected the version 1, got the number 2"));
  EXPECT_EQ(errors_of(R"({"rondo": 2, "nothing": "else counts"})").size(), 1u);
  EXPECT_THAT(message(R"({"rondo": "1", "name": "t", "ops": []})"), HasSubstr("got the string \"1\""));
  EXPECT_THAT(message("[]"), HasSubstr("expected an object (a schedule), got an array"));
  EXPECT_THAT(message("null"), HasSubstr("got null"));
  EXPECT_EQ(message(R"({"rondo": 1, "name": "t", "ops": []})"), "");
}

struct SyntaxCase {
  std::string text;
  std::size_t line, column;
  std::string message;
};

TEST(Schedule, PlacesSyntaxErrors) {
  const std::vector<SyntaxCase> cases = {
      {"", 1, 1, "ends too early"},
      {"{\n  \"rondo\": 1", 2, 13, "ends too early"},
      {"{\"a\": [1, 2,\n]}", 1, 12, "',' before ']'"},
      {"{\"a\": 1,}", 1, 8, "',' before '}'"},
      {"{\n// hello\n}", 2, 1, "comments are not JSON"},
      {"{\"a\": 'x'}", 1, 7, "double quotes"},
      {"{\"a\": \"x\ny\"}", 1, 9, "not closed on its line"},
      {"{\"a\": \"\\q\"}", 1, 9, "bad escape"},
      {"{\"a\": \"\\ud800\"}", 1, 14, "bad escape"},
      {"{\"a\" 1}", 1, 6, "expected ':', got '1'"},
      {"{\"a\": True}", 1, 7, "got 'T'"},
      {"{\"a\": 1} x", 1, 10, "expected end of input, got 'x'"},
      {"{\"a\": 1e999}", 1, 7, "1e999 is too large"},
      {"\xef\xbb\xbf{}", 1, 1, "byte order mark"},
      {"{\n \"\xff\": 1}", 2, 3, "byte 0xff is not UTF-8"},
      {"{\"\xed\xa0\x80\": 1}", 1, 3, "byte 0xed is not UTF-8"},
      {"{\"\xc0\x80\": 1}", 1, 3, "byte 0xc0 is not UTF-8"},
      {"{\"\xf4\x90\x80\x80\": 1}", 1, 3, "byte 0xf4 is not UTF-8"},
      {std::string("{}\0{}", 5), 1, 3, "byte 0x00"},
      {"{\"a\": \"\xc3", 1, 8, "byte 0xc3"},
  };
  for (const SyntaxCase& bad : cases) {
    const std::vector<Diagnostic> errors = errors_of(bad.text);
    ASSERT_EQ(errors.size(), 1u) << bad.text;
    EXPECT_THAT(errors[0].to_string(), HasSubstr(bad.message)) << bad.text;
    EXPECT_EQ(errors[0].place.line, bad.line) << bad.text << list(errors);
    EXPECT_EQ(errors[0].place.column, bad.column) << bad.text << list(errors);
  }
}

TEST(Schedule, FindsDuplicateKeysAtEveryLevel) {
  const std::vector<Diagnostic> errors = errors_of(
      "{\"rondo\": 1, \"name\": \"t\",\n\"name\": {\"z\": 1, \"z\": 2},\n\"params\": {\"n\": {\"type\": "
      "\"i32\", \"constant\": 1,\n"
      "  \"type\": \"f32\"}},\n\"ops\": [],\n\"ops\": 3, \"ops\": 4}");
  ASSERT_EQ(errors.size(), 3u) << list(errors);
  EXPECT_EQ(errors[0].to_string().substr(0, 60),
            "t.json:2:1: duplicate key \"name\"; it is already on line 1 [/");
  EXPECT_EQ(errors[1].place.pointer, "/params/n/type");
  EXPECT_EQ(errors[1].place.line, 4u);
  EXPECT_EQ(errors[1].place.column, 3u);
  EXPECT_EQ(errors[2].place.pointer, "/ops");
  EXPECT_EQ(errors[2].place.line, 6u);
}

TEST(Schedule, RefusesDeepNestingBeforeItMatters) {
  for (const std::size_t levels : {65u, 1000000u}) {
    const std::string text = "{\"a\":" + std::string(levels, '[');
    const std::vector<Diagnostic> errors = errors_of(text);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_THAT(errors[0].message, HasSubstr("more than 64 levels"));
    EXPECT_EQ(errors[0].place.column, 6u + 63u);
  }
  const auto nested = [](int levels) {
    std::string op = R"({"fill": "x", "value": 0})";
    for (int i = 0; i < levels; ++i)
      op = fmt::format(R"({{"repeat": "l{}", "count": 1, "ops": [{}]}})", i, op);
    return with(Where::op, op);
  };
  EXPECT_EQ(list(errors_of(nested(8))), "");
  EXPECT_THAT(list(errors_of(nested(9))), HasSubstr("repeat nested more than 8 levels"));
}

TEST(Schedule, RefusesAFileAbove64MiB) {
  EXPECT_THAT(list(errors_of(std::string((std::size_t{64} << 20) + 1, ' '))), HasSubstr("67108865 bytes"));
}

TEST(Schedule, PlacesAnErrorInsideAString) {
  const std::vector<Diagnostic> errors = errors_of(
      "{\"rondo\": 1, \"name\": \"t\", \"params\": {\"n\": {\"type\": \"i32\", \"constant\": 1}},\n"
      "\"ops\": [\n"
      "  {\"repeat\": \"i\", \"count\": \"n + \\u0020nn * (\", \"ops\": []}\n"
      "]}");
  ASSERT_EQ(errors.size(), 1u) << list(errors);
  EXPECT_EQ(errors[0].place.line, 3u);
  const std::string line = "  {\"repeat\": \"i\", \"count\": \"n + \\u0020nn * (";
  EXPECT_EQ(errors[0].place.column, line.size() + 1);
}

TEST(Schedule, ListsAllErrorsInTheOrderOfTheFile) {
  const std::vector<Diagnostic> errors = errors_of(R"({
  "ops": [{"fill": "y", "value": 0}],
  "name": "t", "nmae": "u",
  "params": {"n": {"type": "i32", "constant": 1.5}},
  "rondo": 1
})");
  ASSERT_EQ(errors.size(), 3u) << list(errors);
  EXPECT_EQ(errors[0].place.line, 2u);
  EXPECT_EQ(errors[1].place.line, 3u);
  EXPECT_EQ(errors[2].place.line, 4u);
}

TEST(Schedule, CountsWhatIsTooMuchToList) {
  std::string ops;
  for (int i = 0; i < 150; ++i) ops += (i ? "," : "") + std::string("{}");
  const std::vector<Diagnostic> errors = errors_of(R"({"rondo": 1, "name": "t", "ops": [)" + ops + "]}");
  ASSERT_EQ(errors.size(), 101u);
  EXPECT_EQ(errors.back().message, "50 more errors are not listed");
}

TEST(Schedule, FindsPlacesByPointer) {
  const Schedule schedule = Schedule::parse(
      "{\"rondo\": 1, \"name\": \"t\",\n \"ops\": [ ],\n \"description\": \"a\\u00e4\\nb\"\n}", "d/t.json");
  const auto place = [&](const std::string& pointer, std::size_t offset = 0) {
    const Place found = schedule.place(pointer, offset);
    EXPECT_EQ(found.file, "d/t.json");
    EXPECT_EQ(found.pointer, pointer);
    return fmt::format("{}:{}", found.line, found.column);
  };
  EXPECT_EQ(place(""), "1:1");
  EXPECT_EQ(place("/rondo"), "1:11");
  EXPECT_EQ(place("/ops"), "2:9");
  EXPECT_EQ(place("/ops/0/args/1"), "2:9");
  EXPECT_EQ(place("/nothing"), "1:1");
  EXPECT_EQ(place("/description"), "3:17");
  EXPECT_EQ(place("/description", 1), "3:19");
  EXPECT_EQ(place("/description", 3), "3:25");
  EXPECT_EQ(place("/description", 4), "3:27");
  EXPECT_EQ(place("/description", 99), "3:28");
}

TEST(Schedule, SaysWhyAFileCannotBeRead) {
  const auto message = [](const std::filesystem::path& path) -> std::string {
    try {
      Schedule::load(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_argument);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("no/such/file.json"),
              HasSubstr("no/such/file.json: the schedule cannot be read: there is no such file"));
  EXPECT_THAT(message(source_dir), HasSubstr("it is a folder"));
}

TEST(Interpolate, ReplacesInnermostFirst) {
  std::vector<std::string> asked;
  const auto resolve = [&](std::string_view inner) {
    asked.emplace_back(inner);
    return inner == "layer" ? std::string("3") : "<" + std::string(inner) + ">";
  };
  EXPECT_EQ(interpolate({"gemv_{ wq.{layer}.type }_{b}", ""}, resolve), "gemv_<wq.3.type>_<b>");
  EXPECT_THAT(asked, ElementsAre("layer", "wq.3.type", "b"));
  EXPECT_EQ(interpolate({"plain", ""}, resolve), "plain");
  EXPECT_EQ(interpolate({"{x}", ""}, [](std::string_view) { return "{y}"; }), "{y}");
}

TEST(Interpolate, PlacesItsErrors) {
  const auto error = [](const std::string& text) {
    try {
      interpolate({text, ""}, [](std::string_view inner) -> std::string {
        throw ExpressionError(std::string(inner), 1);
      });
    } catch (const ExpressionError& caught) {
      return fmt::format("{}@{}", caught.what(), caught.offset());
    }
    return std::string();
  };
  EXPECT_EQ(error("a}"), "'}' without '{'@1");
  EXPECT_EQ(error("ab{"), "'{' without '}'@2");
  EXPECT_EQ(error("ab{ }"), "nothing between '{' and '}'@2");
  EXPECT_EQ(error("ab{  xy}"), "xy@6");
}

TEST(MayBeSameName, LetsBracesStandForAnything) {
  EXPECT_TRUE(may_be_same_name("wq.{layer}", "wq.{i + 1}"));
  EXPECT_TRUE(may_be_same_name("wq.3", "wq.{i}"));
  EXPECT_TRUE(may_be_same_name("{a}_x", "y_{b}"));
  EXPECT_TRUE(may_be_same_name("gemv_{w.{i}.type}", "gemv_{t}"));
  EXPECT_FALSE(may_be_same_name("wq.3", "wk.{i}"));
  EXPECT_FALSE(may_be_same_name("wq.{i}", "wk.{i}"));
  EXPECT_FALSE(may_be_same_name("a{i}b", "a{i}c"));
  EXPECT_FALSE(may_be_same_name("ab", "abc"));
}

// Whatever the bytes are, parsing succeeds or throws rondo::Error.
TEST(ScheduleFuzz, MutatedSchedulesParseOrAreRefused) {
  std::mt19937 random(20240601);
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const std::string interesting = "{}[]\",:\\/0189-.e+ \n\t'aintrue\x80\xff";
  std::size_t refused = 0, rounds = 0;
  for (const auto& file : valid_files()) {
    const std::string original = Schedule::load(file).text();
    for (int round = 0; round < 1000; ++round, ++rounds) {
      std::string text = original;
      for (std::size_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) {
        const std::size_t at = below(text.size());
        const std::size_t length = std::min(1 + below(round % 4 == 0 ? 40 : 2), text.size() - at);
        switch (below(4)) {
          case 0:
            text[at] = interesting[below(interesting.size())];
            break;
          case 1:
            text.erase(at, length);
            break;
          case 2:
            text.insert(at, text.substr(at, length));
            break;
          default:
            text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
            break;
        }
      }
      try {
        Schedule::parse(text, "fuzz.json");
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(error.code(), ErrorCode::bad_schedule);
        EXPECT_FALSE(error.diagnostics().empty());
      }
    }
  }
  EXPECT_GE(rounds, 3000u);
  EXPECT_GT(refused, rounds / 4);
}

}  // namespace
}  // namespace rondo
