#include "interrupt.h"

namespace rondo::cli {
namespace {

// A signal handler can reach nothing but what is global.
volatile std::sig_atomic_t interrupted = 0;

extern "C" void on_interrupt(int) { interrupted = 1; }

}  // namespace

InterruptGuard::InterruptGuard() noexcept {
  interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }

bool InterruptGuard::requested() const noexcept { return interrupted != 0; }

}  // namespace rondo::cli
