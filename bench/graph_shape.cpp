// What lanes do to a wide graph: 1,024 nodes that could all run side by side, laid out by Rondo in 1, 2, 4, …
// chains and in as many as there are, on one CUDA device.
//
//     graph_shape --benchmark_out=graph_shape.json --benchmark_out_format=json
//
// Counters, medians over all samples: launch_us, host time of a launch on an idle stream; done_us, from there
// until the device is done.
//   nothing/lanes  kernels of one block that return at once
//   short/lanes    kernels of one block that run for 3,600 cycles, about 2 microseconds on an H200
// 0 lanes: no limit.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdio>

#include "raw_cuda.h"
#include "rondo/session.h"
#include "run.h"

namespace {

using namespace bench;

constexpr int samples = 200;

rondo::Session fan(std::int64_t lanes, int cycles) {
  return rondo::Session::parse(fmt::format(
                                   R"j({{"rondo": 1, "name": "fan", "graph": {{"lanes": {}}},
  "params": {{"time": {{"type": "i32", "constant": {}}}}},
  "buffers": {{"x": {{"type": "i32", "shape": [1024], "role": "state", "fill": 0}}}},
  "kernels": {{"busy": {{"entry": "busy", "code": "extern \"C\" __global__ void busy(int* x, int time) {{ if (time == 0) return; const long long start = clock64(); while (clock64() - start < time) {{}} x[0] = 1; }}"}}}},
  "ops": [{{"repeat": "i", "count": 1024, "ops": [{{"kernel": "busy", "grid": [1], "block": [32], "args": ["x[i : 1]", "time"]}}]}}]}})j",
                                   lanes, cycles),
                               "fan.json", cuda_device(), {});
}

void shape(benchmark::State& state, int cycles) {
  rondo::Session session = fan(state.range(0), cycles);
  std::vector<double> launch_us, done_us;
  for (auto _ : state) {
    const double done = microseconds([&] {
      launch_us.push_back(microseconds([&] { rondo::check(session.launch(), "a launch"); }));
      rondo::check(session.synchronize(), "waiting");
    });
    done_us.push_back(done);
    state.SetIterationTime(done * 1e-6);
  }
  state.counters["launch_us"] = median(launch_us);
  state.counters["done_us"] = median(done_us);
  state.counters["edges"] = static_cast<double>(session.summary().edges);
}

void add(const char* name, int cycles) {
  auto* const benchmark =
      benchmark::RegisterBenchmark(name, [cycles](benchmark::State& state) { shape(state, cycles); });
  benchmark->UseManualTime()->Iterations(samples)->Unit(benchmark::kMicrosecond);
  for (const std::int64_t lanes : {1, 2, 4, 8, 16, 32, 0}) benchmark->Arg(lanes);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  return bench::run([] {
    tell_device(*cuda_device());
    add("nothing", 0);
    add("short", 3600);
  });
}
