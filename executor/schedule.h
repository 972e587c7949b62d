// JSON text → a validated Schedule. What a schedule may say is written down in docs/schedule.md.
//
// Parsing knows neither device nor weights: it checks everything that can be checked without them, and leaves names with `{…}` in
// them and expressions for the plan, which knows the constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "expression.h"
#include "rondo/data_type.h"
#include "rondo/error.h"
#include "rondo/role.h"

namespace rondo {

// Every item keeps the JSON pointer of the value it was read from, for Schedule::place.
template <typename T>
struct Placed {
  T value;
  std::string pointer;
};

// A string in which `{…}` is replaced at plan time: an integer expression over constants and loop variables ("{layer}",
// "{layer + 1}"), a name bound by `for`, or "{BUFFER.type}", the element type of a buffer (BUFFER may itself contain `{…}`).
using Template = Placed<std::string>;
using PlacedExpression = Placed<Expression>;
// Integer expression, or a float literal, or (by name) a float param: resolved at plan time, when names are known.
using PlacedNumber = Placed<std::variant<Expression, double>>;

// "for": {"layer": "n_layers"} counts 0 … n_layers - 1; "for": {"type": ["f16", "q8_0"]} goes through names.
struct ForClause {
  std::string variable;
  std::variant<Expression, std::vector<std::string>> values;
  std::string pointer;
};

// Where a constant's value comes from.
struct MetadataSource {            // {"metadata": "llama.block_count", "default": …, "is": "text"}
  std::vector<std::string> keys;      // the first of these that the file has
  std::optional<std::string> equals;  // "is": the constant is 1 where the metadata is this string, else 0
  std::optional<PlacedNumber> fallback;
};
struct TensorSource {              // {"tensor": "output.weight"}: is it there; with "dimension": i, its size along dimension i
  std::vector<std::string> tensors;  // the first of these that the file has
  std::optional<std::size_t> dimension;
};
struct TypesSource {  // {"types": ["w_q.{layer}", …], "for": {"layer": "n_layers"}, "are": ["f16", "q8_0"]}
  std::vector<Template>
      buffers;  // the constant is 1 where all of them have one type, and it is among `types`; else 0
  std::optional<ForClause> family;
  std::vector<DataType> types;
};
// How a new value of a step param reaches the kernels. chosen: as each kernel's signature asks for it. node: by rewriting the nodes
// that have it. slot: from device memory, where one small node writes it.
enum class UpdateWay : std::uint8_t { chosen, node, slot };
struct ParamDeclaration {
  std::string name;
  DataType type = DataType::i32;
  bool is_step = false;
  UpdateWay update = UpdateWay::chosen;  // "update": step params only
  std::variant<PlacedNumber, MetadataSource, TensorSource, TypesSource>
      value;  // of a step param: a PlacedNumber, its initial value
  std::optional<PlacedExpression> smallest, largest;               // "min", "max": integer params only; inclusive
  std::string pointer;
};

struct RandomFill {
  std::uint64_t seed;  // {"random": seed}: uniform in [-1, 1) for floats, over [0, 16) for integers
};
using BufferFill = std::variant<PlacedNumber, RandomFill>;

struct BufferDeclaration {
  Template name;                       // a family where it contains `{…}`
  std::optional<ForClause> family;
  std::optional<DataType> type;        // nullopt: the tensor's own (weights only)
  std::vector<PlacedExpression> shape; // empty with shape_from_tensor: the tensor's own (weights only)
  bool shape_from_tensor = false;
  Role role = Role::temporary;
  std::vector<Template> tensors;       // weights: the first of these that the file has
  std::optional<Placed<std::string>> file;  // weights: a file of its own, beside the schedule
  std::optional<BufferFill> fill;
  std::string pointer;
};

struct KernelDeclaration {
  Template name;
  std::optional<ForClause> family;
  std::optional<Placed<std::string>> source;  // path, relative to the schedule's folder
  std::optional<Placed<std::string>> code;    // or the text itself
  Template entry;                             // a C++ expression, "saxpy<float>"
  std::vector<std::pair<std::string, Template>> defines;
  std::optional<PlacedExpression> pdl;        // it waits itself for what it depends on
  std::string pointer;
};

// "x", "x[offset]" or "x[offset : extent]" (in elements), where x is a buffer's name after interpolation. Anything else in `args` is
// a number: which of the two a plain name is, only the plan can tell.
struct BufferReference {
  Template name;
  std::optional<Template> offset, extent;  // expressions, as text: they may contain `{…}`
};
// read: {"read": "x[…]"}, the kernel does not write it. write: {"write": "x[…]"}, it does not read it.
enum class Access : std::uint8_t { by_signature, read, write };

struct NumberArgument {  // an expression's or name's text, not yet interpolated, or a float literal
  std::variant<Template, double> value;
};
struct BufferArgument {
  BufferReference buffer;
  Access access = Access::by_signature;
};
struct SlotArgument {
  std::string param;
};
// One struct of pointers, by value: {"table": ["w.{layer}", {"write": "y.{layer}"}], "for": {"layer":
// "n_layers"}}.
struct TableArgument {
  std::vector<Placed<BufferArgument>> pointers;  // for each value of the variable, in order
  std::optional<ForClause> family;
};
// A string without brackets can be a buffer or an expression: NumberArgument with a Template then, to be looked up by the plan.
using Argument = Placed<std::variant<NumberArgument, BufferArgument, SlotArgument, TableArgument>>;

struct Op;
struct KernelOp {
  Template kernel;
  std::vector<Template> grid, block;  // 1 to 3 expressions each
  std::optional<Template> shared;     // bytes of dynamic shared memory
  std::optional<PlacedExpression> cooperative;
  std::vector<Template> cluster;      // none, or 1 to 3 expressions
  std::optional<Template> priority;
  std::vector<Argument> args;
};
struct CopyOp {
  BufferReference from, to;
  std::string from_pointer, to_pointer;
};
struct FillOp {
  BufferReference buffer;
  PlacedNumber value;
  std::string buffer_pointer;
};
struct RepeatOp {
  std::string variable;
  PlacedExpression count;
  std::vector<Op> ops;
};
struct Op {
  std::variant<KernelOp, CopyOp, FillOp, RepeatOp> what;
  std::optional<std::string> label;  // "name"
  std::optional<PlacedExpression> when;
  std::string pointer;
};

struct Requirement {  // "require": [{"that": "rope_is_plain", "else": "rope scaling is not supported yet"}]
  PlacedExpression that;
  std::string otherwise;
};

class Schedule {
 public:
  // Throws Error(bad_schedule) with one diagnostic for every error of the file. `file` is used for messages and relative paths.
  static Schedule parse(std::string text, std::filesystem::path file);
  static Schedule load(const std::filesystem::path& file);  // throws Error(bad_argument) for a file that cannot be read

  std::string name, description;
  std::optional<PlacedExpression> lanes;  // "graph": {"lanes": …}
  std::vector<ParamDeclaration> params;  // all vectors in the order of the file
  std::vector<Requirement> requirements;
  std::vector<BufferDeclaration> buffers;
  std::vector<KernelDeclaration> kernels;
  std::vector<Op> ops;

  const std::filesystem::path& file() const noexcept { return file_; }
  const std::string& text() const noexcept { return text_; }
  std::filesystem::path directory() const;  // that relative paths start from

  // File, line and column of the value that `pointer` names, found by walking the text. An unknown pointer gives its nearest parent.
  // With `offset`, that many bytes into the string value (its escapes are counted).
  Place place(const std::string& pointer, std::size_t offset = 0) const;

 private:
  std::filesystem::path file_;
  std::string text_;
};

}  // namespace rondo
