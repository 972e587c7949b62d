// What Rondo throws while loading and building: one or several diagnostics, each with its place.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "rondo/status.h"

namespace rondo {

// Where something is wrong. Every field may be empty; what is known is filled in.
struct Place {
  std::string file;
  std::size_t line = 0;    // counted from 1; 0: unknown
  std::size_t column = 0;  // counted from 1, in bytes; 0: unknown
  std::string pointer;     // JSON pointer (RFC 6901) into a schedule, "/ops/3/args/0"
  std::string op;          // an op's label, "layer[3]/gemv_q4_1"
  std::string kernel;      // a kernel's name in the schedule
  std::optional<std::size_t> argument;  // position in the op's args, counted from 0
};

struct Diagnostic {
  Place place;
  std::string message;  // what is wrong: what was expected, what was given
  std::string hint;     // the next step; may be empty

  // "file:line:column: op "o", kernel "k", argument 2: message [/ops/0/args/2]", then the hint on a line of its own.
  std::string to_string() const;
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, Diagnostic diagnostic);
  Error(ErrorCode code, std::vector<Diagnostic> diagnostics);  // at least one
  // The short form for what has no place in a schedule.
  Error(ErrorCode code, std::string message, std::string hint = {});
  // A driver's failure; keeps its code and name, and says them in the message after `doing` ("adding node 12").
  Error(const Status& status, std::string doing, Place place = {});

  ErrorCode code() const noexcept { return code_; }
  int exit_code() const noexcept { return rondo::exit_code(code_); }
  const std::vector<Diagnostic>& diagnostics() const noexcept { return diagnostics_; }
  int driver_code() const noexcept { return driver_code_; }

 private:
  ErrorCode code_;
  int driver_code_ = 0;
  std::vector<Diagnostic> diagnostics_;
};

[[noreturn]] void throw_error(const Status& status, const char* doing);
// Throws Error(status, doing) unless status.ok().
inline void check(const Status& status, const char* doing) {
  if (!status.ok()) throw_error(status, doing);
}

// " Did you mean "x"?" for the known name nearest to `given`, or "" where none is near. Case-insensitive edit distance of at
// most a third of the length.
std::string suggest(const std::string& given, const std::vector<std::string>& known);

}  // namespace rondo
