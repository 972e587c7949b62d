// What a buffer is for.
#pragma once

#include <cstdint>

namespace rondo {

// input, output: the caller's side of a launch. weight: read only, from a file. state: kept between launches.
// temporary: of use within one launch.
enum class Role : std::uint8_t { input, output, weight, state, temporary };

const char* name(Role role) noexcept;  // the schedule's spelling: "input"

}  // namespace rondo
