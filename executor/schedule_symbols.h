// What a schedule's names stand for, as far as its text alone tells.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "expression.h"
#include "json_text.h"
#include "rondo/data_type.h"

namespace rondo {

// Which params an expression may use where it stands.
enum class Use : std::uint8_t {
  constants,
  constants_or_float,  // or one float constant alone
  steps,
  steps_or_float,  // or one float param alone
};

// Names of buffers or kernels, some of which are templates.
class NameSet {
 public:
  void add(const std::string& name);
  // Whether something in the set can have the name; `{…}` on either side stands for any text.
  bool may_have(const std::string& name) const;
  bool has_exactly(const std::string& name) const {
    return plain_.contains(name) || families_.contains(name);
  }
  std::vector<std::string> names() const;

 private:
  std::unordered_set<std::string> plain_, families_;
};

class Symbols {
 public:
  struct Param {
    std::optional<DataType> type;
    bool is_step = false;
  };
  struct LoopVariable {
    std::string name;
    bool is_text;  // bound by `for` to names, not to numbers
  };
  struct Problem {
    std::string message;
    std::size_t offset;  // in the expression's text
  };

  // From the top object of a schedule, whatever else is wrong with it.
  explicit Symbols(const JsonObject& schedule);

  const Param* param(const std::string& name) const;
  const NameSet& buffers() const { return buffers_; }
  const NameSet& kernels() const { return kernels_; }
  std::optional<DataType> buffer_type(const std::string& name) const;  // by the exact name of its declaration

  std::vector<LoopVariable> loops;  // those in scope, outermost first
  const LoopVariable* loop(const std::string& name) const;

  // What is wrong with the names in an expression, each once.
  std::vector<Problem> problems(const Expression& expression, Use use) const;
  // The same for what stands between the braces of a template; throws ExpressionError for the first problem.
  void check_inner(std::string_view inner) const;
  // Names that an expression can have, for suggestions.
  std::vector<std::string> numbers() const;

 private:
  std::string problem(const std::string& name, bool stands_alone, Use use) const;

  std::unordered_map<std::string, Param> params_;
  std::unordered_map<std::string, std::optional<DataType>> buffer_types_;
  NameSet buffers_, kernels_;
};

const std::vector<std::string>& device_names();

}  // namespace rondo
