// What names mean while a plan is made: constants, step params, device properties, loop variables, buffers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "plan.h"

namespace rondo {

// A complaint on its way to Complaints: `offset` bytes into the string at `pointer`.
struct Complaint {
  std::string pointer;
  std::string message;
  std::string hint = {};
  std::size_t offset = 0;
};

// Gathers the diagnostics of many places, so that all are reported; one for each place, however often a loop
// comes by.
class Complaints {
 public:
  explicit Complaints(const Schedule& schedule) : schedule_(schedule) {}
  void add(const Complaint& complaint);
  void add(Diagnostic diagnostic);
  bool empty() const noexcept { return diagnostics_.empty(); }
  std::size_t size() const noexcept { return diagnostics_.size(); }
  void throw_if_any(ErrorCode code = ErrorCode::bad_schedule);

 private:
  const Schedule& schedule_;
  std::vector<Diagnostic> diagnostics_;
};

class WeightFinder;

class Scope {
 public:
  // Asked before the plan is, while its params and buffers are not all there yet.
  struct Early {
    std::function<void(const std::string& name)>
        resolve_param;  // puts a param of that name, if there is one, into the plan
    std::function<const DataType*(const std::string& buffer)> type_of;  // nullptr: there is no such buffer
  };
  Scope(const Plan& plan, const DeviceProperties& device, Early early = {});

  // Loop variables and variables of `for`; the last one pushed is looked up first.
  void push(std::string name, std::variant<std::int64_t, std::string> value);
  void pop();

  std::string interpolate(const Template& text) const;  // throws Complaint
  // An expression's value. Step params are refused where `constant_only`; float params always. Throws
  // Complaint.
  Value value(const Expression& expression, const std::string& pointer) const;
  Value value(const Template& text) const;
  std::int64_t constant(const Expression& expression, const std::string& pointer) const;
  const std::uint32_t* buffer(const std::string& name) const;  // nullptr: none of that name
  const std::uint32_t* param(const std::string& name) const;
  const std::uint32_t* float_param(const std::string& name) const;  // nullptr also for one of an integer type
  std::vector<std::string> names() const;                           // for suggestions

 private:
  std::string resolve(std::string_view inner, const std::string& pointer) const;
  Value value(std::shared_ptr<const Expression> expression, const std::string& pointer) const;
  Value::Operand operand(const Expression& expression, const std::string& name,
                         const std::string& pointer) const;

  const DataType* type_of(const std::string& buffer) const;

  const Plan& plan_;
  const Early early_;
  std::unordered_map<std::string, std::int64_t> device_;
  std::vector<std::pair<std::string, std::variant<std::int64_t, std::string>>> loops_;
  // Texts come again and again in unrolled loops.
  mutable std::unordered_map<std::string, std::shared_ptr<const Expression>> parsed_;
};

// Calls `visit` for each member of a family, with its variable pushed; once where there is no family. Throws
// Complaint.
void for_each_member(Scope& scope, const std::optional<ForClause>& family,
                     const std::function<void()>& visit);
// A number that must be known when the plan is made: a literal, an expression, or a float constant by name.
// Throws Complaint.
double constant_number(const Scope& scope, const Plan& plan, const PlacedNumber& number);

// Step 1 of a plan: the params, constants evaluated in whatever order they depend on each other. Throws
// Error.
void resolve_params(Plan& plan, const Schedule& schedule, const DeviceProperties& device,
                    const SessionOptions& options, WeightFinder& weights);
// Step 2: the buffers, families expanded, weights found. Throws Error.
void resolve_buffers(Plan& plan, const Schedule& schedule, const DeviceProperties& device,
                     const SessionOptions& options, WeightFinder& weights);

}  // namespace rondo
