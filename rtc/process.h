// Running another program without a shell.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rondo::rtc {

struct ProcessResult {
  int exit_code = 0;   // 128 + the signal where one ended it
  std::string output;  // stdout and stderr together; cut off after 1 MiB
};

// Runs `arguments[0]` (a path) with these arguments and this process's environment, messages in English,
// nothing on stdin, and waits for it. Throws run_time where it cannot be started.
ProcessResult run_process(const std::vector<std::string>& arguments);

// A directory of our own, readable by nobody else, removed with what is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();  // throws run_time, naming the directory that it tried ($TMPDIR, else /tmp)
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace rondo::rtc
