#include "crash.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <initializer_list>

namespace rondo::cli {
namespace {

// Only what POSIX allows in a signal handler: write and _exit.
std::atomic_flag crashed = ATOMIC_FLAG_INIT;

extern "C" void on_crash(int signal) {
  // Other threads run the same kernel, and fault while the first one tells.
  if (crashed.test_and_set()) {
    while (true) pause();
  }
  const char* const what = signal == SIGFPE    ? "an arithmetic fault (SIGFPE)"
                           : signal == SIGILL  ? "an illegal instruction (SIGILL)"
                           : signal == SIGABRT ? "an abort (SIGABRT)"
                           : signal == SIGBUS  ? "a memory fault (SIGBUS)"
                                               : "a memory fault (SIGSEGV)";
  for (const char* text : {"error: ", what,
                           ", most likely in a kernel on the host device\n"
                           "  check its indices against the buffers' shapes; --separate-buffers brings "
                           "faults nearer to their cause, and on a "
                           "GPU compute-sanitizer finds them\n"}) {
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  }
  _exit(1);
}

}  // namespace

void report_crashes() {
  struct sigaction action = {};
  action.sa_handler = on_crash;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
}

}  // namespace rondo::cli
