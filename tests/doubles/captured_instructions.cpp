// For counting instructions: CapturedGraph::apply to `changed` of 64 kernel nodes, `steps` times, in a
// function of a name that callgrind can be told. The changes themselves are made outside of it.
//
//     valgrind --tool=callgrind --toggle-collect=rondo_one_step captured_instructions cuda 1 200
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <string_view>

#include "compiler.h"
#include "driver.h"
#include "handles.h"
#include "rondo/captured_graph.h"
#include "rondo/device.h"

extern "C" [[gnu::noinline]] rondo::Status rondo_one_step(rondo::CapturedGraph& captured, void* exec) {
  return captured.apply(exec);
}

namespace {

constexpr std::size_t nodes = 64;

void run(const char* spec, std::size_t changed, int steps) {
  const auto device = rondo::open_device(spec);
  rondo::Driver& driver = device->driver();
  const rondo::rtc::Binary binary = device->compiler().compile(
      {.file = "touch.cu",
       .source = "extern \"C\" __global__ void touch(float* x, int e, int f) { if (e == f) x[0] = 1; }",
       .headers = {},
       .defines = {},
       .entries = {"touch"},
       .architecture = device->properties().architecture});
  const rondo::OwnedModule module(driver, driver.load_module(binary.code));
  const rondo::OwnedMemory memory(driver, driver.allocate(256));
  const struct {
    rondo::DevicePointer x;
    int e, f;
  } arguments{memory.get(), 1, 2};
  const rondo::KernelLaunch launch{driver.function(module.get(), binary.entries[0].lowered),
                                   {},
                                   reinterpret_cast<const std::byte*>(&arguments),
                                   sizeof arguments};
  const rondo::OwnedGraph graph(driver, driver.create_graph());
  for (std::size_t i = 0; i < nodes; ++i) driver.add_kernel_node(graph.get(), launch);
  const rondo::OwnedExec exec(driver, driver.instantiate(graph.get()));
  auto captured = rondo::CapturedGraph::adopt(device, graph.get());
  for (int step = 3; step < 3 + steps; ++step) {
    for (std::size_t i = 0; i < changed; ++i) captured.set_argument(i, 2, std::as_bytes(std::span(&step, 1)));
    if (const rondo::Status status = rondo_one_step(captured, exec.get()); !status.ok())
      throw captured.error(status);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t changed = 0;
  int steps = 0;
  const auto number = [&](int index, auto* value) {
    const std::string_view text = index < argc ? argv[index] : "";
    const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return code == std::errc() && rest == text.data() + text.size();
  };
  if (argc != 4 || !number(2, &changed) || changed > nodes || !number(3, &steps)) {
    std::fprintf(
        stderr,
        "captured_instructions DEVICE CHANGED STEPS: how many of %zu nodes change at each step, and how many "
        "steps\n",
        nodes);
    return 2;
  }
  try {
    run(argv[1], changed, steps);
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  }
}
