#include "arguments.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string_view>

#include "rondo/error.h"

namespace rondo::cli {
namespace {

std::optional<std::int64_t> parse_integer(std::string_view text) noexcept {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void refuse_sweep(const std::string& text, const std::string& why) {
  throw Error(ErrorCode::bad_argument, fmt::format("--sweep {}: {}", text, why),
              "expected PARAM=FIRST..[LAST][:STEP] in integers, as in pos=0..127 or pos=0..");
}

}  // namespace

std::pair<std::string, std::string> parse_assignment(const std::string& option, const std::string& text,
                                                     const std::string& value_name) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("{} expects NAME={}, but was given \"{}\"", option, value_name, text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::pair<std::string, std::string>> parse_assignments(const std::string& option,
                                                                   const std::vector<std::string>& texts,
                                                                   const std::string& value_name) {
  std::vector<std::pair<std::string, std::string>> assignments;
  assignments.reserve(texts.size());
  for (const std::string& text : texts) assignments.push_back(parse_assignment(option, text, value_name));
  return assignments;
}

std::optional<std::int64_t> Sweep::value(std::uint64_t index) const noexcept {
  std::int64_t distance = 0, result = 0;
  if (__builtin_mul_overflow(index, step, &distance)) return std::nullopt;
  if (__builtin_add_overflow(first, distance, &result)) return std::nullopt;
  return result;
}

Sweep parse_sweep(const std::string& text) {
  const auto [name, range] = parse_assignment("--sweep", text, "FIRST..[LAST][:STEP]");
  Sweep sweep;
  sweep.param = name;
  std::string_view rest = range;
  if (const std::size_t colon = rest.find(':'); colon != std::string_view::npos) {
    const auto step = parse_integer(rest.substr(colon + 1));
    if (!step || *step == 0) refuse_sweep(text, "the step is not an integer other than zero");
    sweep.step = *step;
    rest = rest.substr(0, colon);
  }
  const std::size_t dots = rest.find("..");
  if (dots == std::string_view::npos) refuse_sweep(text, "there is no \"..\"");
  const auto first = parse_integer(rest.substr(0, dots));
  if (!first) refuse_sweep(text, "the first value is not an integer");
  sweep.first = *first;
  const std::string_view last_text = rest.substr(dots + 2);
  if (last_text.empty()) return sweep;
  const auto last = parse_integer(last_text);
  if (!last) refuse_sweep(text, "the last value is not an integer");
  if (sweep.step > 0 ? *last < *first : *last > *first) refuse_sweep(text, "the range is empty");
  // In unsigned arithmetic the distance of any two 64-bit integers fits, and so does the most negative step.
  const auto larger = static_cast<std::uint64_t>(sweep.step > 0 ? *last : *first);
  const auto smaller = static_cast<std::uint64_t>(sweep.step > 0 ? *first : *last);
  const auto step = static_cast<std::uint64_t>(sweep.step);
  const std::uint64_t intervals = (larger - smaller) / (sweep.step > 0 ? step : 0 - step);
  if (intervals == std::numeric_limits<std::uint64_t>::max()) refuse_sweep(text, "the range is too long");
  sweep.count = intervals + 1;
  return sweep;
}

std::uint64_t step_count(std::optional<std::uint64_t> steps, const std::vector<Sweep>& sweeps) {
  const Sweep* bounded = nullptr;
  for (const Sweep& sweep : sweeps) {
    if (!sweep.count) continue;
    if (steps && *sweep.count < *steps) {
      throw Error(ErrorCode::bad_argument,
                  fmt::format("--steps {} asks for more than the {} values that --sweep {}=… has", *steps,
                              *sweep.count, sweep.param));
    }
    if (!steps && bounded && *bounded->count != *sweep.count) {
      throw Error(ErrorCode::bad_argument,
                  fmt::format("--sweep {}=… has {} values and --sweep {}=… has {}", bounded->param,
                              *bounded->count, sweep.param, *sweep.count),
                  "give --steps, or ranges of one length");
    }
    bounded = &sweep;
  }
  if (steps) return *steps;
  return bounded ? *bounded->count : 1;
}

}  // namespace rondo::cli
