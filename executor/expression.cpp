#include "expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <utility>

#include "rondo/error.h"

namespace rondo {
namespace {

constexpr std::size_t max_text_bytes = 4096;
constexpr std::size_t max_depth = 64;
constexpr std::size_t max_variables = 32;
// Each level of nesting holds one pending left operand for each of the six levels of precedence and one
// argument of a function.
constexpr std::size_t max_stack = (max_depth + 1) * 7;

constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string show(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7f ? fmt::format("'{}'", c) : fmt::format("byte 0x{:02x}", byte);
}

ExpressionFault divide(std::int64_t a, std::int64_t b, std::int64_t* result) {
  if (b == 0) return ExpressionFault::division_by_zero;
  if (a == smallest && b == -1) return ExpressionFault::overflow;
  *result = a / b;
  return ExpressionFault::none;
}

ExpressionFault remainder(std::int64_t a, std::int64_t b, std::int64_t* result) {
  if (b == 0) return ExpressionFault::division_by_zero;
  *result = b == -1 ? 0 : a % b;  // INT64_MIN % -1 traps on x86
  return ExpressionFault::none;
}

// Towards plus infinity, whatever the signs.
ExpressionFault ceil_divide(std::int64_t a, std::int64_t b, std::int64_t* result) {
  const ExpressionFault fault = divide(a, b, result);
  if (fault == ExpressionFault::none && *result * b != a && (a < 0) == (b < 0)) ++*result;
  return fault;
}

// The smallest multiple of |b| that is not less than a.
ExpressionFault round_up(std::int64_t a, std::int64_t b, std::int64_t* result) {
  std::int64_t rest = 0;
  const ExpressionFault fault = remainder(a, b, &rest);
  if (fault != ExpressionFault::none) return fault;
  *result = a - rest;
  if (rest <= 0) return ExpressionFault::none;
  const bool overflow =
      b < 0 ? __builtin_sub_overflow(*result, b, result) : __builtin_add_overflow(*result, b, result);
  return overflow ? ExpressionFault::overflow : ExpressionFault::none;
}

}  // namespace

enum class Expression::Operation : std::uint8_t {
  literal,
  variable,
  jump,
  jump_if_zero,
  negate,
  logical_not,
  add,
  subtract,
  multiply,
  divide,
  remainder,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
  ceil_div,
  round_up,
  min,
  max,
};

const std::vector<std::string>& expression_functions() {
  static const std::vector<std::string> names = {"ceil_div", "round_up", "min", "max", "select"};
  return names;
}

// Recursive descent with precedence climbing; emits the program as it goes and keeps count of the stack that
// it will need.
class Expression::Parser {
 public:
  explicit Parser(Expression& expression) : expression_(expression), text_(expression.text_) {}

  void parse() {
    if (text_.size() > max_text_bytes) {
      fail(max_text_bytes,
           fmt::format("expression of {} bytes; at most {} are allowed", text_.size(), max_text_bytes));
    }
    skip_space();
    if (at_end()) fail(position_, "expected an expression, got an empty string");
    parse_binary(0);
    if (!at_end()) fail_after_value();
  }

  struct BinaryOperator {
    std::string_view symbol;
    int precedence;
    Operation operation;
  };
  // Longer symbols first: "<=" is no "<".
  static constexpr std::array<BinaryOperator, 13> operators{{
      {"||", 0, Operation::logical_or},
      {"&&", 1, Operation::logical_and},
      {"==", 2, Operation::equal},
      {"!=", 2, Operation::not_equal},
      {"<=", 3, Operation::less_equal},
      {">=", 3, Operation::greater_equal},
      {"<", 3, Operation::less},
      {">", 3, Operation::greater},
      {"+", 4, Operation::add},
      {"-", 4, Operation::subtract},
      {"*", 5, Operation::multiply},
      {"/", 5, Operation::divide},
      {"%", 5, Operation::remainder},
  }};

 private:
  class Level {
   public:
    Level(Parser& parser, std::size_t offset) : parser_(parser) {
      if (++parser.depth_ > max_depth) {
        fail(offset, fmt::format("expression nested more than {} levels deep", max_depth));
      }
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  [[noreturn]] static void fail(std::size_t offset, std::string message) {
    throw ExpressionError(std::move(message), offset);
  }

  [[noreturn]] void fail_after_value() const {
    const char c = text_[position_];
    if (c == '=') fail(position_, "expected an operator, got '='; comparison is written ==");
    if (c == '&' || c == '|')
      fail(position_, fmt::format("expected an operator, got '{0}'; did you mean {0}{0}?", c));
    if (c == ')') fail(position_, "')' without '('");
    if (c == ',') fail(position_, "',' outside a function's arguments");
    fail(position_, fmt::format("expected an operator, got {}", show(c)));
  }

  bool at_end() const { return position_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[position_]; }
  void skip_space() {
    while (!at_end() && is_space(text_[position_])) ++position_;
  }
  bool accept(char c) {
    if (at_end() || text_[position_] != c) return false;
    ++position_;
    skip_space();
    return true;
  }
  void expect(char c, const std::string& after) {
    if (accept(c)) return;
    const std::string got = at_end() ? "the end" : show(text_[position_]);
    fail(position_, fmt::format("expected '{}' {}, got {}", c, after, got));
  }

  void emit(Operation operation, std::int64_t operand, std::size_t offset) {
    expression_.program_.push_back({operation, operand, static_cast<std::uint32_t>(offset)});
  }
  void emit_value(Operation operation, std::int64_t operand, std::size_t offset) {
    emit(operation, operand, offset);
    if (++stack_ > max_stack) fail(offset, "expression too deep");
  }
  void emit_binary(Operation operation, std::size_t offset) {
    emit(operation, 0, offset);
    --stack_;
  }

  const BinaryOperator* peek_operator() const {
    const std::string_view rest = std::string_view(text_).substr(position_);
    const auto* found = std::find_if(operators.begin(), operators.end(), [rest](const BinaryOperator& entry) {
      return rest.starts_with(entry.symbol);
    });
    return found == operators.end() ? nullptr : found;
  }

  void parse_binary(int lowest_precedence) {
    parse_unary();
    int compared = -1;  // the precedence of the comparison just parsed at this level
    for (const BinaryOperator* next = peek_operator(); next && next->precedence >= lowest_precedence;
         next = peek_operator()) {
      const std::size_t offset = position_;
      const bool is_comparison = next->precedence == 2 || next->precedence == 3;
      if (is_comparison && compared == next->precedence) {
        fail(offset, "comparisons do not chain; write a < b && b < c");
      }
      compared = is_comparison ? next->precedence : -1;
      position_ += next->symbol.size();
      skip_space();
      parse_binary(next->precedence + 1);
      emit_binary(next->operation, offset);
    }
  }

  void parse_unary() {
    const std::size_t offset = position_;
    if (accept('-')) {
      // The magnitude of INT64_MIN is no literal of its own.
      if (is_digit(peek())) return parse_number(true, offset);
      const Level level(*this, offset);
      parse_unary();
      emit(Operation::negate, 0, offset);
      return;
    }
    if (accept('!')) {
      const Level level(*this, offset);
      parse_unary();
      emit(Operation::logical_not, 0, offset);
      return;
    }
    parse_primary();
  }

  void parse_primary() {
    const std::size_t offset = position_;
    if (at_end()) fail(offset, "expected a value, got the end of the expression");
    const char c = text_[position_];
    if (is_digit(c)) return parse_number(false, offset);
    if (is_name_start(c)) return parse_name();
    if (!accept('(')) {
      fail(offset, fmt::format("expected a number, a name or '(', got {}", show(c)));
    }
    const Level level(*this, offset);
    parse_binary(0);
    expect(')', fmt::format("to match '(' at byte {}", offset));
  }

  void parse_number(bool negative, std::size_t offset) {
    const std::size_t start = position_;
    std::uint64_t base = 10;
    if (peek() == '0' && position_ + 1 < text_.size() &&
        (text_[position_ + 1] == 'x' || text_[position_ + 1] == 'X')) {
      base = 16;
      position_ += 2;
    }
    const std::size_t first_digit = position_;
    std::uint64_t magnitude = 0;
    const std::uint64_t limit = static_cast<std::uint64_t>(largest) + (negative ? 1 : 0);
    bool fits = true;
    for (; !at_end(); ++position_) {
      const int digit = digit_value(text_[position_]);
      if (digit < 0 || static_cast<std::uint64_t>(digit) >= base) break;
      fits = fits && magnitude <= (limit - static_cast<std::uint64_t>(digit)) / base;
      if (fits) magnitude = magnitude * base + static_cast<std::uint64_t>(digit);
    }
    check_end_of_number(start, first_digit, base);
    if (!fits) {
      fail(offset, fmt::format("{}{} does not fit a signed 64-bit integer", negative ? "-" : "",
                               text_.substr(start, position_ - start)));
    }
    skip_space();
    const std::uint64_t bits = negative ? 0 - magnitude : magnitude;
    emit_value(Operation::literal, static_cast<std::int64_t>(bits), offset);
  }

  static int digit_value(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  }

  void check_end_of_number(std::size_t start, std::size_t first_digit, std::uint64_t base) {
    if (position_ == first_digit) fail(start, "expected hexadecimal digits after 0x");
    const char next = peek();
    if (base == 10 && (next == '.' || next == 'e' || next == 'E')) {
      fail(start, "expected an integer; a fractional number may only stand alone, as a JSON number");
    }
    if (is_name_part(next))
      fail(position_, fmt::format("expected an operator after a number, got '{}'", next));
    if (base == 10 && text_[start] == '0' && position_ - start > 1) {
      fail(start, "a number with a leading zero; octal is not known, write it without");
    }
  }

  void parse_name() {
    const std::size_t offset = position_;
    while (is_name_part(peek())) ++position_;
    while (peek() == '.') {
      ++position_;
      if (!is_name_part(peek())) fail(position_, "expected the rest of a name after '.'");
      while (is_name_part(peek())) ++position_;
    }
    const std::string name = text_.substr(offset, position_ - offset);
    skip_space();
    if (peek() == '(') return parse_call(name, offset);
    if (name == "true" || name == "false")
      return emit_value(Operation::literal, name == "true" ? 1 : 0, offset);
    auto& variables = expression_.variables_;
    const auto found = std::find(variables.begin(), variables.end(), name);
    const auto index = found - variables.begin();
    if (found == variables.end()) {
      if (variables.size() == max_variables) {
        fail(offset, fmt::format("more than {} different names in one expression", max_variables));
      }
      variables.push_back(name);
    }
    emit_value(Operation::variable, index, offset);
  }

  void parse_call(const std::string& name, std::size_t offset) {
    const Level level(*this, offset);
    const std::size_t open = position_;
    accept('(');
    if (name == "select") {
      parse_select(offset);
    } else if (name == "ceil_div" || name == "round_up") {
      parse_binary(0);
      expect(',', fmt::format("and a second argument of {}(a, b)", name));
      parse_binary(0);
      emit_binary(name == "ceil_div" ? Operation::ceil_div : Operation::round_up, offset);
      if (peek() == ',') fail(position_, fmt::format("{} takes 2 arguments, got more", name));
    } else if (name == "min" || name == "max") {
      // Folded pair by pair, so that many arguments need no more stack than two.
      parse_binary(0);
      while (accept(',')) {
        parse_binary(0);
        emit_binary(name == "min" ? Operation::min : Operation::max, offset);
      }
    } else {
      const std::string hint = suggest(name, expression_functions());
      fail(offset,
           fmt::format(
               "unknown function \"{}\".{}", name,
               hint.empty() ? fmt::format(" Known: {}", fmt::join(expression_functions(), ", ")) : hint));
    }
    expect(')', fmt::format("to match '(' at byte {}", open));
  }

  void parse_select(std::size_t offset) {
    parse_binary(0);
    expect(',', "and two more arguments of select(condition, a, b)");
    const std::size_t jump_to_second = expression_.program_.size();
    emit_binary(Operation::jump_if_zero, offset);
    parse_binary(0);
    expect(',', "and a third argument of select(condition, a, b)");
    const std::size_t jump_to_end = expression_.program_.size();
    emit_binary(Operation::jump, offset);
    expression_.program_[jump_to_second].operand = static_cast<std::int64_t>(expression_.program_.size());
    parse_binary(0);
    expression_.program_[jump_to_end].operand = static_cast<std::int64_t>(expression_.program_.size());
    if (peek() == ',') fail(position_, "select takes 3 arguments, got more");
  }

  Expression& expression_;
  const std::string& text_;
  std::size_t position_ = 0;
  std::size_t depth_ = 0;
  std::size_t stack_ = 0;
};

Expression Expression::parse(std::string_view text) {
  Expression expression;
  expression.text_ = text;
  Parser(expression).parse();
  return expression;
}

Expression Expression::literal(std::int64_t value) {
  Expression expression;
  expression.text_ = std::to_string(value);
  expression.program_.push_back({Operation::literal, value, 0});
  return expression;
}

bool Expression::is_literal() const noexcept {
  return program_.size() == 1 && program_[0].operation == Operation::literal;
}

ExpressionFault Expression::apply(Operation operation, std::int64_t left, std::int64_t right,
                                  std::int64_t* result) noexcept {
  const auto checked = [](bool overflow) {
    return overflow ? ExpressionFault::overflow : ExpressionFault::none;
  };
  const auto set = [result](std::int64_t value) {
    *result = value;
    return ExpressionFault::none;
  };
  // clang-format off
  switch (operation) {
    case Operation::add: return checked(__builtin_add_overflow(left, right, result));
    case Operation::subtract: return checked(__builtin_sub_overflow(left, right, result));
    case Operation::multiply: return checked(__builtin_mul_overflow(left, right, result));
    case Operation::divide: return rondo::divide(left, right, result);
    case Operation::remainder: return rondo::remainder(left, right, result);
    case Operation::ceil_div: return ceil_divide(left, right, result);
    case Operation::round_up: return rondo::round_up(left, right, result);
    case Operation::equal: return set(left == right);
    case Operation::not_equal: return set(left != right);
    case Operation::less: return set(left < right);
    case Operation::less_equal: return set(left <= right);
    case Operation::greater: return set(left > right);
    case Operation::greater_equal: return set(left >= right);
    case Operation::logical_and: return set(left != 0 && right != 0);
    case Operation::logical_or: return set(left != 0 || right != 0);
    case Operation::min: return set(std::min(left, right));
    case Operation::max: return set(std::max(left, right));
    default: return ExpressionFault::none;
  }
  // clang-format on
}

ExpressionFault Expression::run(std::span<const std::int64_t> values, std::int64_t* value,
                                FaultDetail* detail) const noexcept {
  assert(values.size() >= variables_.size());
  std::array<std::int64_t, max_stack + 1> stack;
  std::size_t top = 0;  // how many values are on the stack
  for (std::size_t next = 0; next < program_.size(); ++next) {
    const auto [operation, operand, offset] = program_[next];
    switch (operation) {
      case Operation::literal:
        stack[top++] = operand;
        continue;
      case Operation::variable:
        stack[top++] = values[static_cast<std::size_t>(operand)];
        continue;
      case Operation::jump:
        next = static_cast<std::size_t>(operand) - 1;
        continue;
      case Operation::jump_if_zero:
        if (stack[--top] == 0) next = static_cast<std::size_t>(operand) - 1;
        continue;
      case Operation::logical_not:
        stack[top - 1] = stack[top - 1] == 0;
        continue;
      case Operation::negate:
        stack[top] = stack[top - 1];  // as 0 - value
        stack[top - 1] = 0;
        break;
      default:
        --top;
        break;
    }
    const std::int64_t left = stack[top - 1], right = stack[top];
    const Operation binary = operation == Operation::negate ? Operation::subtract : operation;
    const ExpressionFault fault = apply(binary, left, right, &stack[top - 1]);
    if (fault == ExpressionFault::none) continue;
    if (detail) *detail = {offset, operation, left, right};
    return fault;
  }
  *value = stack[0];
  return ExpressionFault::none;
}

namespace {

bool fits_for_all(const Expression::Affine& form, std::int64_t from, std::int64_t to) noexcept {
  for (const std::int64_t v : {from, to}) {
    std::int64_t product = 0, sum = 0;
    if (__builtin_mul_overflow(form.scale, v, &product) || __builtin_add_overflow(product, form.addend, &sum))
      return false;
  }
  return true;
}

}  // namespace

std::optional<Expression::Affine> Expression::affine(std::span<const std::int64_t> values, std::size_t which,
                                                     std::int64_t from, std::int64_t to) const noexcept {
  std::array<Affine, max_stack + 1> stack;
  std::size_t top = 0;
  for (const Instruction& instruction : program_) {
    switch (instruction.operation) {
      case Operation::literal:
        stack[top++] = {0, instruction.operand};
        continue;
      case Operation::variable: {
        const auto index = static_cast<std::size_t>(instruction.operand);
        stack[top++] = index == which ? Affine{1, 0} : Affine{0, values[index]};
        continue;
      }
      case Operation::negate:
        stack[top] = stack[top - 1];  // as 0 - value
        stack[top - 1] = {0, 0};
        break;
      case Operation::add:
      case Operation::subtract:
      case Operation::multiply:
        --top;
        break;
      default:
        return std::nullopt;
    }
    Affine& left = stack[top - 1];
    const Affine& right = stack[top];
    bool overflows = false;
    if (instruction.operation == Operation::multiply) {
      if (left.scale != 0 && right.scale != 0) return std::nullopt;
      const std::int64_t factor = left.scale != 0 ? right.addend : left.addend;
      const Affine& other = left.scale != 0 ? left : right;
      Affine product{};
      overflows = __builtin_mul_overflow(other.scale, factor, &product.scale) ||
                  __builtin_mul_overflow(other.addend, factor, &product.addend);
      left = product;
    } else if (instruction.operation == Operation::add) {
      overflows = __builtin_add_overflow(left.scale, right.scale, &left.scale) ||
                  __builtin_add_overflow(left.addend, right.addend, &left.addend);
    } else {
      overflows = __builtin_sub_overflow(left.scale, right.scale, &left.scale) ||
                  __builtin_sub_overflow(left.addend, right.addend, &left.addend);
    }
    if (overflows || !fits_for_all(left, from, to)) return std::nullopt;
  }
  return stack[0];
}

ExpressionFault Expression::evaluate(std::span<const std::int64_t> values,
                                     std::int64_t* value) const noexcept {
  return run(values, value, nullptr);
}

std::int64_t Expression::evaluate_or_throw(std::span<const std::int64_t> values) const {
  std::int64_t value = 0;
  FaultDetail detail{};
  const ExpressionFault fault = run(values, &value, &detail);
  if (fault == ExpressionFault::none) return value;
  std::string what;
  switch (detail.operation) {
    case Operation::negate:
      what = fmt::format("-({})", detail.right);
      break;
    case Operation::ceil_div:
      what = fmt::format("ceil_div({}, {})", detail.left, detail.right);
      break;
    case Operation::round_up:
      what = fmt::format("round_up({}, {})", detail.left, detail.right);
      break;
    default: {
      const auto* found =
          std::find_if(Parser::operators.begin(), Parser::operators.end(),
                       [&](const auto& entry) { return entry.operation == detail.operation; });
      what = fmt::format("{} {} {}", detail.left, found->symbol, detail.right);
    }
  }
  if (fault == ExpressionFault::division_by_zero)
    throw ExpressionError(fmt::format("division by zero: {}", what), detail.offset);
  throw ExpressionError(fmt::format("overflow: {} does not fit a signed 64-bit integer", what),
                        detail.offset);
}

}  // namespace rondo
