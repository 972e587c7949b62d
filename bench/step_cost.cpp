// The host's time for a step: set + launch with k of 1,024 chained nodes changed, by Rondo and by a loop of
// bare driver calls, in one run on one CUDA device. The stream is idle before each sample. `set` is inside
// our time, writing the arguments inside the loop's.
//
//     step_cost --benchmark_repetitions=5 --benchmark_report_aggregates_only
//     --benchmark_enable_random_interleaving
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "compiler.h"
#include "cuda/api.h"
#include "driver.h"
#include "rondo/device.h"
#include "rondo/session.h"

namespace {

constexpr int nodes = 1024;
constexpr int samples =
    1000;  // each waits for the device, some 0.5 ms, so that time is no measure of how many are enough
constexpr const char* kernel =
    "extern \\\"C\\\" __global__ void touch(float* a, float* b, float* c, float* d, int e, int f, float g, "
    "float h) "
    "{ if (e == -12345) a[0] = b[0] + c[0] + d[0] + f + g + h; }";

struct Arguments {
  rondo::DevicePointer a, b, c, d;
  int e, f;
  float g, h;
};

std::shared_ptr<rondo::Device> device() {
  static const std::shared_ptr<rondo::Device> opened = rondo::open_device("cuda");
  return opened;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void by_rondo(benchmark::State& state) {
  const std::string text = fmt::format(
      R"j({{"rondo": 1, "name": "chain", "params": {{"step": {{"type": "i32", "step": 0}}, "changed": {{"type": "i32", "constant": {}}}}},
           "buffers": {{"x": {{"type": "f32", "shape": [64], "role": "state", "fill": 0}}}},
           "kernels": {{"touch": {{"entry": "touch", "code": "{}"}}}},
           "ops": [{{"repeat": "i", "count": {}, "ops": [
             {{"when": "i < changed", "kernel": "touch", "grid": [4], "block": [128], "args": ["x", "x", "x", "x", 1, "step", 3.0, 4.0]}},
             {{"when": "i >= changed", "kernel": "touch", "grid": [4], "block": [128], "args": ["x", "x", "x", "x", 1, 2, 3.0, 4.0]}}]}}]}})j",
      state.range(0), kernel, nodes);
  rondo::Session session = rondo::Session::parse(text, "chain.json", device(), {});
  const rondo::ParamHandle step = session.param("step");
  std::int64_t value = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    rondo::Status status = session.set(step, ++value);
    if (status.ok()) status = session.launch();
    state.SetIterationTime(seconds_since(start));
    if (status.ok()) status = session.synchronize();
    if (!status.ok()) state.SkipWithError(status.call);
  }
}

// The same chain, by bare calls of the driver: k exec SetParams with packed arguments, then cuGraphLaunch.
void by_driver(benchmark::State& state) {
  using namespace rondo::cuda;
  rondo::Driver& driver = device()->driver();
  std::string source = kernel;
  for (std::size_t at; (at = source.find('\\')) != std::string::npos;) source.erase(at, 1);
  const rondo::rtc::Binary binary =
      device()->compiler().compile({.file = "chain.cu",
                                    .source = source,
                                    .headers = {},
                                    .defines = {},
                                    .entries = {"touch"},
                                    .architecture = device()->properties().architecture});
  const auto module = driver.load_module(binary.code);
  const auto function = driver.function(module, binary.entries[0].lowered);
  const rondo::DevicePointer x = driver.allocate(256);
  const rondo::StreamHandle stream = driver.create_stream();
  Arguments arguments{x, x, x, x, 1, 2, 3, 4};
  const rondo::KernelLaunch launch{
      function, {{4}, {128}, 0}, reinterpret_cast<const std::byte*>(&arguments), sizeof arguments};
  const auto graph = driver.create_graph();
  std::vector<rondo::NodeHandle> handles;
  for (int i = 0; i < nodes; ++i) handles.push_back(driver.add_kernel_node(graph, launch));
  driver.add_dependencies(graph, {handles.data(), nodes - 1}, {handles.data() + 1, nodes - 1});
  const auto exec = driver.instantiate(graph);
  driver.upload(exec, stream);
  rondo::check(driver.synchronize(stream), "uploading");

  const std::shared_ptr<const Api> api = load_api();
  Context context = nullptr;
  api->cuDevicePrimaryCtxRetain(&context, Device{});
  api->cuCtxPushCurrent_v2(context);
  std::size_t bytes = sizeof arguments;
  void* extra[] = {launch_buffer(), &arguments, launch_buffer_size(), &bytes, launch_end()};
  const KernelNodeParameters parameters{
      reinterpret_cast<Function>(function), 4, 1, 1, 128, 1, 1, 0, nullptr, extra, nullptr, nullptr};
  const auto changed = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    Result result = Result::success;
    for (std::size_t i = 0; i < changed && result == Result::success; ++i) {
      ++arguments.f;
      result = api->cuGraphExecKernelNodeSetParams_v2(reinterpret_cast<Exec>(exec),
                                                      reinterpret_cast<Node>(handles[i]), &parameters);
    }
    if (result == Result::success)
      result = api->cuGraphLaunch(reinterpret_cast<Exec>(exec), reinterpret_cast<Stream>(stream));
    state.SetIterationTime(seconds_since(start));
    if (result == Result::success) result = api->cuStreamSynchronize(reinterpret_cast<Stream>(stream));
    if (result != Result::success) state.SkipWithError(name(*api, result));
  }
  api->cuCtxPopCurrent_v2(&context);
  api->cuDevicePrimaryCtxRelease_v2(Device{});
  driver.destroy_exec(exec);
  driver.destroy_graph(graph);
  driver.destroy_stream(stream);
  driver.release(x);
  driver.unload_module(module);
}

BENCHMARK(by_driver)->Arg(0)->Arg(1)->Arg(64)->Arg(1024)->UseManualTime()->Iterations(samples)->Unit(
    benchmark::kMicrosecond);
BENCHMARK(by_rondo)->Arg(0)->Arg(1)->Arg(64)->Arg(1024)->UseManualTime()->Iterations(samples)->Unit(
    benchmark::kMicrosecond);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    device();
    benchmark::RunSpecifiedBenchmarks();
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  }
}
