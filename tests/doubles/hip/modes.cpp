#include "modes.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "control.h"

namespace rondo::doubles::hip {
namespace {

// What a node update was seen to take (ROCm/rocm-systems#10713): 354 MiB for 64,000 of them.
constexpr std::size_t leak_bytes = 5800;

enum Mode : unsigned { leak = 1, ignore_updates = 2, share_arguments = 4, rocm_5_4 = 8 };

// A test that misspells a mode must not pass because of it.
unsigned parse(std::string_view text) {
  unsigned modes = 0;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    if (one == "leak") {
      modes |= leak;
    } else if (one == "ignore_updates") {
      modes |= ignore_updates;
    } else if (one == "share_arguments") {
      modes |= share_arguments;
    } else if (one == "rocm_5.4") {
      modes |= rocm_5_4;
    } else {
      std::abort();
    }
  }
  return modes;
}

unsigned modes_of_environment() noexcept {
  const char* text = std::getenv("RONDO_DOUBLE_HIP");
  return parse(text != nullptr ? text : "");
}

std::atomic<unsigned>& modes() noexcept {
  static std::atomic<unsigned> modes{modes_of_environment()};
  return modes;
}

std::atomic<std::size_t> leaked{0}, most_leaked{0};

void reset() noexcept {
  modes() = modes_of_environment();
  most_leaked = leaked.load();
}

[[maybe_unused]] const bool registered = (at_reset(reset), true);

bool has(Mode mode) noexcept { return (modes().load() & mode) != 0; }

}  // namespace

bool leaks() noexcept { return has(leak); }
bool ignores_updates() noexcept { return has(ignore_updates); }
bool shares_arguments() noexcept { return has(share_arguments); }
bool is_rocm_5_4() noexcept {
#ifdef RONDO_DOUBLE_ROCM_5_4
  return true;
#else
  return has(rocm_5_4);
#endif
}

Leak::Leak() : memory_(new std::byte[leak_bytes]) {
  std::memset(memory_.get(), 0xa5, leak_bytes);
  const std::size_t now = leaked += leak_bytes;
  std::size_t most = most_leaked.load();
  while (most < now && !most_leaked.compare_exchange_weak(most, now)) {
  }
}

Leak::~Leak() {
  if (memory_ != nullptr) leaked -= leak_bytes;
}

}  // namespace rondo::doubles::hip

void rondo_double_set_mode(const char* modes) {
  rondo::doubles::hip::modes() = rondo::doubles::hip::parse(modes);
}

std::size_t rondo_double_leaked_bytes() { return rondo::doubles::hip::leaked; }
std::size_t rondo_double_most_leaked_bytes() { return rondo::doubles::hip::most_leaked; }
