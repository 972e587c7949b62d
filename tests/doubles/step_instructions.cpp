// For counting instructions: builds a chain of 64 kernels of which `changed` depend on a step param, and
// makes `steps` steps, each of them, set and launch, in a function of a name that callgrind can be told, and
// waits for it outside of that function, so that no step meets work of another. What is counted is the
// calling thread's.
//
//     valgrind --tool=callgrind --toggle-collect=rondo_one_step step_instructions host 64 200
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "rondo/device.h"
#include "rondo/session.h"

namespace {

constexpr int nodes = 64;

rondo::Session chain(const char* device, int changed) {
  const std::string text = fmt::format(
      R"j({{"rondo": 1, "name": "chain", "params": {{"step": {{"type": "i32", "step": 0}}, "changed": {{"type": "i32", "constant": {}}}}},
           "buffers": {{"x": {{"type": "f32", "shape": [64], "role": "state", "fill": 0}}}},
           "kernels": {{"touch": {{"entry": "touch", "code": "extern \"C\" __global__ void touch(float* x, int e, int f) {{ if (e == f) x[0] = 1; }}"}}}},
           "ops": [{{"repeat": "i", "count": {}, "ops": [
             {{"when": "i < changed", "kernel": "touch", "grid": [1], "block": [1], "args": ["x", 1, "step"]}},
             {{"when": "i >= changed", "kernel": "touch", "grid": [1], "block": [1], "args": ["x", 1, 2]}}]}}]}})j",
      changed, nodes);
  return rondo::Session::parse(text, "chain.json", rondo::open_device(device), {});
}

}  // namespace

extern "C" [[gnu::noinline]] rondo::Status rondo_one_step(rondo::Session& session, rondo::ParamHandle step,
                                                          int value) {
  const rondo::Status status = session.set(step, value);
  return status.ok() ? session.launch() : status;
}

int main(int argc, char** argv) {
  int changed = 0, steps = 0;
  const auto number = [&](int index, int* value) {
    const std::string_view text = index < argc ? argv[index] : "";
    const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return code == std::errc() && rest == text.data() + text.size();
  };
  if (argc != 4 || !number(2, &changed) || !number(3, &steps)) {
    std::fprintf(stderr,
                 "step_instructions DEVICE CHANGED STEPS: how many of %d nodes change at each step, and how "
                 "many steps\n",
                 nodes);
    return 2;
  }
  try {
    rondo::Session session = chain(argv[1], changed);
    const rondo::ParamHandle step = session.param("step");
    for (int i = 1; i <= steps; ++i) {
      rondo::check(rondo_one_step(session, step, i), "a step");
      rondo::check(session.synchronize(), "waiting");
    }
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  }
}
