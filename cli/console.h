// What the program says, and where: results on standard output, everything else on standard error.
#pragma once

#include <cstddef>
#include <string_view>

namespace rondo::cli {

class Console {
 public:
  Console();

  // Writes to standard output at once. A reader that has gone (`rondo … | head`) is no error: the rest is
  // dropped, and output_closed() says so. Any other failure throws Error(run_time).
  void print(std::string_view text);
  bool output_closed() const noexcept { return output_closed_; }

  // One line on standard error.
  void notice(std::string_view line) noexcept;

  // A line that is written over by the next one, on a terminal alone: "compiling kernels 3/12".
  void progress(std::string_view what, std::size_t done, std::size_t total) noexcept;
  void clear_progress() noexcept;

 private:
  bool terminal_;
  bool progress_shown_ = false;
  bool output_closed_ = false;
};

}  // namespace rondo::cli
