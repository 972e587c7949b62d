// For counting instructions: makes `steps` steps, each of them, set and launch, in a function of a name that
// callgrind can be told, and waits for it outside of that function, so that no step meets work of another.
// What is counted is the calling thread's. A step changes
//   nodes  one step param that so many kernels of a chain of 64 depend on
//   slots  so many step params, all in slots
//
//     valgrind --tool=callgrind --toggle-collect=rondo_one_step step_instructions host nodes 64 200
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "rondo/device.h"
#include "rondo/session.h"

namespace {

constexpr int nodes = 64;

struct Steps {
  rondo::Session session;
  std::vector<rondo::ParamHandle> params;  // that a step sets
};

Steps chain(const char* device, int changed) {
  const std::string text = fmt::format(
      R"j({{"rondo": 1, "name": "chain", "params": {{"step": {{"type": "i32", "step": 0}}, "changed": {{"type": "i32", "constant": {}}}}},
           "buffers": {{"x": {{"type": "f32", "shape": [64], "role": "state", "fill": 0}}}},
           "kernels": {{"touch": {{"entry": "touch", "code": "extern \"C\" __global__ void touch(float* x, int e, int f) {{ if (e == f) x[0] = 1; }}"}}}},
           "ops": [{{"repeat": "i", "count": {}, "ops": [
             {{"when": "i < changed", "kernel": "touch", "grid": [1], "block": [1], "args": ["x", 1, "step"]}},
             {{"when": "i >= changed", "kernel": "touch", "grid": [1], "block": [1], "args": ["x", 1, 2]}}]}}]}})j",
      changed, nodes);
  rondo::Session session = rondo::Session::parse(text, "chain.json", rondo::open_device(device), {});
  const rondo::ParamHandle step = session.param("step");
  return {std::move(session), {step}};
}

Steps slots(const char* device, int count) {
  std::string params, args, parameters;
  for (int i = 0; i < count; ++i) {
    const char* const comma = i == 0 ? "" : ", ";
    params += fmt::format(R"({}"s{}": {{"type": "i64", "step": 0}})", comma, i);
    args += fmt::format(R"({}{{"slot": "s{}"}})", comma, i);
    parameters += fmt::format("{}const long long* s{}", comma, i);
  }
  const std::string text = fmt::format(
      R"j({{"rondo": 1, "name": "slots", "params": {{{}}},
           "kernels": {{"read": {{"entry": "read", "code": "extern \"C\" __global__ void read({}) {{}}"}}}},
           "ops": [{{"kernel": "read", "grid": [1], "block": [1], "args": [{}]}}]}})j",
      params, parameters, args);
  rondo::Session session = rondo::Session::parse(text, "slots.json", rondo::open_device(device), {});
  std::vector<rondo::ParamHandle> handles;
  for (int i = 0; i < count; ++i) handles.push_back(session.param(fmt::format("s{}", i)));
  return {std::move(session), std::move(handles)};
}

}  // namespace

extern "C" [[gnu::noinline]] rondo::Status rondo_one_step(rondo::Session& session,
                                                          std::span<const rondo::ParamHandle> params,
                                                          int value) {
  for (const rondo::ParamHandle param : params) {
    if (const rondo::Status status = session.set(param, value); !status.ok()) return status;
  }
  return session.launch();
}

int main(int argc, char** argv) {
  int count = 0, steps = 0;
  const auto number = [&](int index, int* value) {
    const std::string_view text = index < argc ? argv[index] : "";
    const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return code == std::errc() && rest == text.data() + text.size();
  };
  const std::string_view what = argc > 2 ? argv[2] : "";
  if (argc != 5 || (what != "nodes" && what != "slots") || !number(3, &count) || !number(4, &steps)) {
    std::fprintf(stderr,
                 "step_instructions DEVICE nodes|slots COUNT STEPS: how many of %d nodes, or how many slots, "
                 "change at each step, and how many steps\n",
                 nodes);
    return 2;
  }
  try {
    Steps made = what == "nodes" ? chain(argv[1], count) : slots(argv[1], count);
    for (int i = 1; i <= steps; ++i) {
      rondo::check(rondo_one_step(made.session, made.params, i), "a step");
      rondo::check(made.session.synchronize(), "waiting");
    }
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  }
}
