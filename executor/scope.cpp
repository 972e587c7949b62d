#include "scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "name_template.h"

namespace rondo {

void Complaints::add(Diagnostic diagnostic) {
  const bool known = std::any_of(diagnostics_.begin(), diagnostics_.end(), [&](const Diagnostic& other) {
    return other.place.pointer == diagnostic.place.pointer && !diagnostic.place.pointer.empty();
  });
  if (!known) diagnostics_.push_back(std::move(diagnostic));
}

void Complaints::add(const Complaint& complaint) {
  add(Diagnostic{.place = schedule_.place(complaint.pointer, complaint.offset),
                 .message = complaint.message,
                 .hint = complaint.hint});
}

void Complaints::throw_if_any(ErrorCode code) {
  if (!diagnostics_.empty()) throw Error(code, std::move(diagnostics_));
}

ExpressionFault Value::evaluate(std::span<const std::int64_t> step_values,
                                std::int64_t* value) const noexcept {
  if (is_fixed()) {
    *value = fixed;
    return ExpressionFault::none;
  }
  std::array<std::int64_t, 32> operands_now;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operands_now[i] =
        operands[i].is_step ? step_values[static_cast<std::size_t>(operands[i].value)] : operands[i].value;
  }
  return expression->evaluate({operands_now.data(), operands.size()}, value);
}

std::optional<Value::Affine> Value::affine(const Plan& plan) const {
  if (is_fixed()) return std::nullopt;
  std::optional<std::size_t> which;
  std::vector<std::int64_t> values(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    values[i] = operands[i].value;
    if (!operands[i].is_step) continue;
    if (which) return std::nullopt;
    which = i;
  }
  if (!which) return std::nullopt;
  const auto param = static_cast<std::uint32_t>(operands[*which].value);
  const ParamInfo& info = plan.params[param].info;
  const auto form = expression->affine(values, *which, info.smallest, info.largest);
  if (!form) return std::nullopt;
  return Affine{param, form->scale, form->addend};
}

Scope::Scope(const Plan& plan, const DeviceProperties& device, Early early)
    : plan_(plan), early_(std::move(early)) {
  device_["device.warp_size"] = device.warp_size;
  device_["device.processors"] = device.processors;
  device_["device.max_threads_per_block"] = static_cast<std::int64_t>(device.max_threads_per_block);
  device_["device.max_cluster_blocks"] = device.max_cluster_blocks;
  device_["device.has_cooperative_launches"] = device.has_cooperative_launches ? 1 : 0;
  device_["device.compute_capability"] = device.compute_capability;
  device_["device.max_shared_bytes"] = static_cast<std::int64_t>(device.max_shared_bytes);
  device_["device.is_host"] = device.backend == "host" ? 1 : 0;
}

void Scope::push(std::string name, std::variant<std::int64_t, std::string> value) {
  loops_.emplace_back(std::move(name), std::move(value));
}

void Scope::pop() { loops_.pop_back(); }

const std::uint32_t* Scope::buffer(const std::string& name) const {
  const auto found = plan_.buffer_index.find(name);
  return found == plan_.buffer_index.end() ? nullptr : &found->second;
}

const DataType* Scope::type_of(const std::string& name) const {
  if (early_.type_of) return early_.type_of(name);
  const std::uint32_t* index = buffer(name);
  return index == nullptr ? nullptr : &plan_.buffers[*index].info.type;
}

const std::uint32_t* Scope::param(const std::string& name) const {
  if (early_.resolve_param) early_.resolve_param(name);
  const auto found = plan_.param_index.find(name);
  return found == plan_.param_index.end() ? nullptr : &found->second;
}

const std::uint32_t* Scope::float_param(const std::string& name) const {
  const std::uint32_t* index = param(name);
  return index != nullptr && info(plan_.params[*index].info.type).is_float ? index : nullptr;
}

std::vector<std::string> Scope::names() const {
  std::vector<std::string> all;
  for (const PlanParam& param : plan_.params) all.push_back(param.info.name);
  for (const PlanBuffer& buffer : plan_.buffers) all.push_back(buffer.info.name);
  for (const auto& [name, value] : device_) all.push_back(name);
  for (const auto& [name, value] : loops_) all.push_back(name);
  return all;
}

std::string Scope::interpolate(const Template& text) const {
  if (text.value.find_first_of("{}") == std::string::npos) return text.value;
  try {
    return rondo::interpolate(text, [&](std::string_view inner) { return resolve(inner, text.pointer); });
  } catch (const ExpressionError& error) {
    throw Complaint{.pointer = text.pointer, .message = error.what(), .offset = error.offset()};
  }
}

std::string Scope::resolve(std::string_view inner, const std::string& pointer) const {
  const std::string text(inner);
  for (auto loop = loops_.rbegin(); loop != loops_.rend(); ++loop) {
    if (loop->first == text && std::holds_alternative<std::string>(loop->second))
      return std::get<std::string>(loop->second);
  }
  constexpr std::string_view suffix = ".type";
  if (text.ends_with(suffix)) {
    const std::string name = text.substr(0, text.size() - suffix.size());
    const DataType* type = type_of(name);
    if (type == nullptr) {
      throw Complaint{
          .pointer = pointer,
          .message = fmt::format(
              "\"{{{}}}\" asks for the element type of a buffer \"{}\", and there is none of that name.{}",
              text, name, suggest(name, names()))};
    }
    return rondo::name(*type);
  }
  auto& parsed = parsed_[text];
  if (!parsed) parsed = std::make_shared<const Expression>(Expression::parse(text));
  const Value number = value(parsed, pointer);
  return std::to_string(number.is_fixed() ? number.fixed : constant(*parsed, pointer));  // which refuses it
}

Value::Operand Scope::operand(const Expression& expression, const std::string& name,
                              const std::string& pointer) const {
  for (auto loop = loops_.rbegin(); loop != loops_.rend(); ++loop) {
    if (loop->first != name) continue;
    if (const auto* number = std::get_if<std::int64_t>(&loop->second)) return {false, *number};
    throw Complaint{.pointer = pointer,
                    .message = fmt::format("\"{}\" stands for a text here, not for a number", name)};
  }
  if (const auto found = device_.find(name); found != device_.end()) return {false, found->second};
  const std::uint32_t* index = param(name);
  if (index == nullptr) {
    const std::string what =
        buffer(name) != nullptr ? "is a buffer, which an expression cannot use" : "is not a name known here";
    throw Complaint{.pointer = pointer,
                    .message = fmt::format("\"{}\" in \"{}\" {}.{}", name, expression.text(), what,
                                           buffer(name) != nullptr ? "" : suggest(name, names())),
                    .offset = std::min(expression.text().find(name), expression.text().size())};
  }
  const ParamInfo& info = plan_.params[*index].info;
  if (rondo::info(info.type).is_float) {
    throw Complaint{.pointer = pointer,
                    .message = fmt::format("expressions are over integers, and \"{}\" is of type {}", name,
                                           rondo::name(info.type)),
                    .hint = "A float param can only be a whole argument or fill value by itself."};
  }
  return info.is_step ? Value::Operand{true, *index} : Value::Operand{false, info.integer};
}

Value Scope::value(std::shared_ptr<const Expression> expression, const std::string& pointer) const {
  Value result;
  bool fixed = true;
  for (const std::string& name : expression->variables()) {
    result.operands.push_back(operand(*expression, name, pointer));
    fixed = fixed && !result.operands.back().is_step;
  }
  if (!fixed) {
    result.expression = std::move(expression);
    return result;
  }
  std::vector<std::int64_t> values;
  for (const Value::Operand& operand : result.operands) values.push_back(operand.value);
  try {
    return Value::of(expression->evaluate_or_throw(values));
  } catch (const ExpressionError& error) {
    throw Complaint{.pointer = pointer, .message = error.what(), .offset = error.offset()};
  }
}

Value Scope::value(const Expression& expression, const std::string& pointer) const {
  return value(std::make_shared<const Expression>(expression), pointer);
}

Value Scope::value(const Template& text) const {
  const std::string plain = interpolate(text);
  auto& parsed = parsed_[plain];
  if (!parsed) {
    try {
      parsed = std::make_shared<const Expression>(Expression::parse(plain));
    } catch (const ExpressionError& error) {
      throw Complaint{.pointer = text.pointer,
                      .message = fmt::format("{} in \"{}\"", error.what(), plain),
                      .offset = plain == text.value ? error.offset() : 0};
    }
  }
  return value(parsed, text.pointer);
}

std::int64_t Scope::constant(const Expression& expression, const std::string& pointer) const {
  const Value result = value(expression, pointer);
  if (!result.is_fixed()) {
    throw Complaint{.pointer = pointer,
                    .message = fmt::format("\"{}\" depends on a step param; only constants can be used here",
                                           expression.text())};
  }
  return result.fixed;
}

}  // namespace rondo
