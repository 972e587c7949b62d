// The small languages of the options: NAME=VALUE, NAME=FIRST..LAST:STEP. All throw Error(bad_argument) that
// names the option, what was given and what was expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rondo::cli {

// "a=2.5" → {"a", "2.5"}. The value may be empty or contain "=".
std::pair<std::string, std::string> parse_assignment(const std::string& option, const std::string& text,
                                                     const std::string& value_name = "VALUE");
std::vector<std::pair<std::string, std::string>> parse_assignments(const std::string& option,
                                                                   const std::vector<std::string>& texts,
                                                                   const std::string& value_name = "VALUE");

// A step param's values, one a step: first, first + step, …, up to and with the last that does not go beyond
// `last`.
struct Sweep {
  std::string param;
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::optional<std::uint64_t> count;  // nullopt: no end

  // nullopt where the value does not fit 64 bits. `index` is below `count`.
  std::optional<std::int64_t> value(std::uint64_t index) const noexcept;
};

// "pos=0..", "pos=0..127", "pos=10..0:-2".
Sweep parse_sweep(const std::string& text);

// How many steps to run: `steps` where it is given (each sweep must reach that far), else the length that all
// sweeps with an end share, else 1.
std::uint64_t step_count(std::optional<std::uint64_t> steps, const std::vector<Sweep>& sweeps);

}  // namespace rondo::cli
