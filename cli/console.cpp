#include "console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "rondo/error.h"

namespace rondo::cli {
namespace {

// On failure returns false and leaves errno.
bool write_all(int file, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Console::Console() : terminal_(::isatty(STDERR_FILENO) == 1) {}

void Console::print(std::string_view text) {
  if (output_closed_) return;
  clear_progress();
  if (write_all(STDOUT_FILENO, text)) return;
  if (errno != EPIPE) {
    throw Error(ErrorCode::run_time,
                fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
  output_closed_ = true;
}

void Console::notice(std::string_view line) noexcept {
  clear_progress();
  // Nobody is left to tell where standard error itself cannot be written.
  if (write_all(STDERR_FILENO, line)) (void)write_all(STDERR_FILENO, "\n");
}

void Console::progress(std::string_view what, std::size_t done, std::size_t total) noexcept {
  if (!terminal_) return;
  char line[160];
  const auto end = fmt::format_to_n(line, sizeof line, "\r\x1b[K{:.100} {}/{}", what, done, total);
  (void)write_all(STDERR_FILENO, {line, std::min(end.size, sizeof line)});
  progress_shown_ = true;
}

void Console::clear_progress() noexcept {
  if (!progress_shown_) return;
  (void)write_all(STDERR_FILENO, "\r\x1b[K");
  progress_shown_ = false;
}

}  // namespace rondo::cli
