// An error whose place is a file, or a byte of one.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

#include "rondo/error.h"

namespace rondo {

inline constexpr const char* file_cut_short_hint =
    "The file is cut short or damaged: compare its size with the original's.";

[[noreturn]] inline void throw_file_error(ErrorCode code, const std::string& file, std::string message,
                                          std::string hint = {}) {
  Diagnostic diagnostic;
  diagnostic.place.file = file;
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  throw Error(code, std::move(diagnostic));
}

[[noreturn]] inline void throw_at_byte(const std::string& file, std::size_t offset,
                                       const std::string& message, std::string hint = {}) {
  throw_file_error(ErrorCode::bad_argument, file, fmt::format("at byte {}: {}", offset, message),
                   std::move(hint));
}

}  // namespace rondo
