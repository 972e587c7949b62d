#include "control.h"

#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::doubles {
namespace {

struct Fault {
  std::string function;  // "*": any
  std::size_t nth = 0;   // call from now on; 1: the next
  int result = 0;
};

struct Control {
  std::mutex mutex;
  std::map<std::string, std::size_t, std::less<>> calls;
  std::size_t all_calls = 0;
  std::vector<Fault> faults;
  void (*at_reset)() noexcept = nullptr;
};

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

// "cuGraphLaunch:3:719". A test that misspells its faults must not pass because of it.
Fault parse_fault(std::string_view text) {
  const std::size_t first = text.find(':'), second = text.find(':', first + 1);
  Fault fault;
  if (first == std::string_view::npos || second == std::string_view::npos ||
      !parse(text.substr(first + 1, second - first - 1), fault.nth) || fault.nth == 0 ||
      !parse(text.substr(second + 1), fault.result)) {
    std::abort();
  }
  fault.function = text.substr(0, first);
  return fault;
}

std::vector<Fault> faults_of_environment() {
  std::vector<Fault> faults;
  const char* text = std::getenv("RONDO_DOUBLE_FAIL");
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    faults.push_back(parse_fault(one));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  return faults;
}

// Never destroyed: calls may come as late as the process's end.
Control& control() {
  static Control& control = *[] {
    auto* made = new Control;
    made->faults = faults_of_environment();
    return made;
  }();
  return control;
}

}  // namespace

int enter(const char* function) noexcept {
  Control& state = control();
  const std::lock_guard lock(state.mutex);
  ++state.calls[function];
  ++state.all_calls;
  int result = 0;
  std::erase_if(state.faults, [&](Fault& fault) {
    if ((fault.function != "*" && fault.function != function) || --fault.nth != 0) return false;
    if (result == 0) result = fault.result;
    return true;
  });
  return result;
}

void at_reset(void (*function)() noexcept) noexcept { control().at_reset = function; }

}  // namespace rondo::doubles

using rondo::doubles::control;

void rondo_double_reset() {
  rondo::doubles::Control& state = control();
  const std::lock_guard lock(state.mutex);
  state.calls.clear();
  state.all_calls = 0;
  state.faults.clear();
  if (state.at_reset != nullptr) state.at_reset();
}

void rondo_double_fail(const char* function, std::size_t nth, int result) {
  rondo::doubles::Control& state = control();
  const std::lock_guard lock(state.mutex);
  state.faults.push_back({function, nth, result});
}

std::size_t rondo_double_calls(const char* function) {
  rondo::doubles::Control& state = control();
  const std::lock_guard lock(state.mutex);
  if (std::string_view(function) == "*") return state.all_calls;
  const auto found = state.calls.find(std::string_view(function));
  return found == state.calls.end() ? 0 : found->second;
}
