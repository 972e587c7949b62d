#include "process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "rondo/error.h"

extern char** environ;

namespace rondo::rtc {
namespace {

constexpr std::size_t longest_output = 1 << 20;

class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void reset() {
    if (number >= 0) close(number);
    number = -1;
  }
  int number = -1;
};

struct SpawnActions {
  SpawnActions() { posix_spawn_file_actions_init(&actions); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t actions;
};

std::vector<char*> english_environment(std::string& setting) {
  std::vector<char*> variables;
  for (char** variable = environ; variable && *variable; ++variable) {
    const std::string_view text = *variable;
    const bool is_replaced = text.starts_with("LC_ALL=") || text.starts_with("LANGUAGE=");
    // Include paths that are in no cache key: what they lead to could change unseen.
    const bool is_include_path = text.starts_with("CPATH=") || text.starts_with("CPLUS_INCLUDE_PATH=");
    if (!is_replaced && !is_include_path) variables.push_back(*variable);
  }
  variables.push_back(setting.data());
  variables.push_back(nullptr);
  return variables;
}

std::string read_all(int descriptor) {
  std::string output;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return output;
    if (output.size() < longest_output) output.append(buffer, static_cast<std::size_t>(count));
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments) {
  Descriptor reader, writer;
  int ends[2];
  const auto fail = [&](int error) -> Error {
    return Error(ErrorCode::run_time, fmt::format("cannot run {}: {}", arguments[0], std::strerror(error)));
  };
  if (pipe2(ends, O_CLOEXEC) != 0) throw fail(errno);
  reader.number = ends[0];
  writer.number = ends[1];

  SpawnActions spawn;
  posix_spawn_file_actions_addopen(&spawn.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&spawn.actions, writer.number, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.actions, writer.number, STDERR_FILENO);
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  std::string english = "LC_ALL=C";
  const std::vector<char*> environment = english_environment(english);

  pid_t process = 0;
  const int error = posix_spawn(&process, arguments[0].c_str(), &spawn.actions, nullptr, pointers.data(),
                                environment.data());
  if (error != 0) throw fail(error);
  writer.reset();
  ProcessResult result;
  result.output = read_all(reader.number);
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) throw fail(errno);
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

TemporaryDirectory::TemporaryDirectory() {
  const char* parent = std::getenv("TMPDIR");
  std::string name = std::string(parent && *parent ? parent : "/tmp") + "/rondo-XXXXXX";
  if (!mkdtemp(name.data())) {
    throw Error(ErrorCode::run_time,
                fmt::format("cannot make a temporary directory {}: {}", name, std::strerror(errno)),
                "set TMPDIR to a directory that can be written");
  }
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace rondo::rtc
