// Integer expressions of a schedule: "ceil_div(n, 256)", "pos * stride", "select(device.warp_size == 1, 1,
// 256)".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// What is wrong with an expression's text, or with its value for some variables; `offset` is the byte in the
// text.
class ExpressionError : public std::runtime_error {
 public:
  ExpressionError(std::string message, std::size_t offset)
      : std::runtime_error(std::move(message)), offset_(offset) {}
  std::size_t offset() const noexcept { return offset_; }

 private:
  std::size_t offset_;
};

// A fault of evaluation, without allocation: for the hot path.
enum class ExpressionFault : std::uint8_t { none, overflow, division_by_zero };

// Checked signed 64-bit arithmetic: + - * / % (C's truncation; see docs/schedule.md), unary - and !,
// comparisons (which do not chain), && || (both sides evaluated), parentheses, decimal and 0x literals, true,
// false; ceil_div(a, b), round_up(a, b), min(a, …), max(a, …), select(condition, a, b) (only the chosen side
// may fault). Immutable; compiled once to a postfix program.
class Expression {
 public:
  // At most 4,096 bytes and 64 levels deep; anything else throws ExpressionError.
  static Expression parse(std::string_view text);
  static Expression literal(std::int64_t value);

  const std::string& text() const noexcept { return text_; }
  // Each name once, in the order of appearance; at most 32. Names are [A-Za-z_][A-Za-z0-9_]* and further
  // parts [A-Za-z0-9_]+ after dots.
  const std::vector<std::string>& variables() const noexcept { return variables_; }
  bool is_literal() const noexcept;

  // `values` in the order of variables(), as many of them. Never allocates. On a fault *value is untouched.
  ExpressionFault evaluate(std::span<const std::int64_t> values, std::int64_t* value) const noexcept;
  // scale * v + addend.
  struct Affine {
    std::int64_t scale, addend;
  };
  // The expression as such a form of variable `which`, the others having `values`; nullopt where it is none, or where anything in it
  // might overflow for some v of [from, to].
  std::optional<Affine> affine(std::span<const std::int64_t> values, std::size_t which, std::int64_t from,
                               std::int64_t to) const noexcept;
  // The same as evaluate, throwing ExpressionError with the place of the fault and the operands.
  std::int64_t evaluate_or_throw(std::span<const std::int64_t> values) const;

 private:
  enum class Operation : std::uint8_t;
  struct Instruction {
    Operation operation;
    std::int64_t operand;  // literal, variable index or jump target
    std::uint32_t offset;  // where in the text, for errors
  };
  struct FaultDetail {
    std::uint32_t offset;
    Operation operation;
    std::int64_t left, right;
  };
  class Parser;

  static ExpressionFault apply(Operation operation, std::int64_t left, std::int64_t right,
                               std::int64_t* result) noexcept;
  ExpressionFault run(std::span<const std::int64_t> values, std::int64_t* value,
                      FaultDetail* detail) const noexcept;

  std::string text_;
  std::vector<std::string> variables_;
  std::vector<Instruction> program_;
};

// The names of the functions, for messages and suggestions.
const std::vector<std::string>& expression_functions();

}  // namespace rondo
