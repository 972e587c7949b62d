// Device time of a chain of 1,024 kernels, laid out by Rondo and by hand, on one CUDA device. The two take
// turns in one run, the stream is idle before each sample, and events before and after the launch tell the
// device's time.
//
//     pdl_chain --benchmark_out=pdl_chain.json --benchmark_out_format=json
//
// Counters, medians over all samples: rondo_us and raw_us; ratio, the one over the other; rondo_node_ns, of
// one node. The chain is checked to have run: each kernel adds 1 to what the one before left.
//   full          each kernel starts when the one before has ended
//   programmatic  it may start before that, and waits in its code (griddepcontrol)
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <span>

#include "raw_cuda.h"
#include "rondo/session.h"
#include "run.h"

namespace {

using namespace bench;

constexpr std::size_t node_count = 1024;
constexpr int samples = 1000;

// What rondo_wait_for_inputs and rondo_let_dependents_start are on CUDA.
constexpr const char* add_one =
    R"(extern "C" __global__ void add_one(int* x) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  x[threadIdx.x] += 1;
})";

std::string quoted(const char* text) {
  std::string out = "\"";
  for (; *text != '\0'; ++text) {
    if (*text == '\n') {
      out += "\\n";
    } else {
      if (*text == '"') out += '\\';
      out += *text;
    }
  }
  return out + '"';
}

rondo::Session chain_session(bool programmatic) {
  return rondo::Session::parse(fmt::format(
                                   R"j({{"rondo": 1, "name": "chain",
  "buffers": {{"x": {{"type": "i32", "shape": [32], "role": "state", "fill": 0}}}},
  "kernels": {{"add_one": {{"entry": "add_one", "pdl": {}, "code": {}}}}},
  "ops": [{{"repeat": "i", "count": {}, "ops": [{{"kernel": "add_one", "grid": [1], "block": [32], "args": ["x"]}}]}}]}})j",
                                   programmatic, quoted(add_one), node_count),
                               "chain.json", cuda_device(), {});
}

class RawChain {
 public:
  explicit RawChain(bool programmatic) {
    const rondo::rtc::Binary binary =
        cuda_device()->compiler().compile({.file = "chain.cu",
                                           .source = add_one,
                                           .headers = {},
                                           .defines = {},
                                           .entries = {"add_one"},
                                           .architecture = cuda_device()->properties().architecture});
    module_ = {driver_, driver_.load_module(binary.code)};
    const auto function =
        reinterpret_cast<rondo::cuda::Function>(driver_.function(module_.get(), binary.entries[0].lowered));
    memory_ = {driver_, driver_.allocate(sizeof(std::int32_t) * 32)};
    stream_ = {driver_, driver_.create_stream()};
    check(driver_.fill_bytes(memory_.get(), 0, sizeof(std::int32_t) * 32, stream_.get()), "clearing");
    graph_ = {driver_, driver_.create_graph()};
    rondo::DevicePointer x = memory_.get();
    Extra extra(&x, sizeof x);
    const rondo::cuda::KernelNodeParameters parameters{function,     1,       1,      1, 32, 1, 1, 0, nullptr,
                                                       extra.list(), nullptr, nullptr};
    std::vector<rondo::cuda::Node> nodes(node_count);
    for (rondo::cuda::Node& node : nodes)
      CHECK(api_->cuGraphAddKernelNode_v2(&node, native(graph_.get()), nullptr, 0, &parameters));
    constexpr std::size_t edges = node_count - 1;
    if (programmatic) {
      const std::vector<rondo::cuda::EdgeData> data(edges, rondo::cuda::programmatic_edge);
      CHECK(api_->cuGraphAddDependencies_v2(native(graph_.get()), nodes.data(), nodes.data() + 1, data.data(),
                                            edges));
    } else {
      CHECK(api_->cuGraphAddDependencies(native(graph_.get()), nodes.data(), nodes.data() + 1, edges));
    }
    exec_ = {driver_, driver_.instantiate(graph_.get())};
    driver_.upload(exec_.get(), stream_.get());
    CHECK(api_->cuStreamSynchronize(native(stream_.get())));
  }

  void launch() { CHECK(api_->cuGraphLaunch(native(exec_.get()), native(stream_.get()))); }
  rondo::StreamHandle stream() const { return stream_.get(); }
  std::int32_t result() {
    std::array<std::int32_t, 32> x{};
    check(driver_.read(x.data(), memory_.get(), sizeof x, stream_.get()), "reading");
    check(driver_.synchronize(stream_.get()), "waiting");
    return x[31];
  }

 private:
  rondo::Driver& driver_ = cuda_device()->driver();
  const std::shared_ptr<const Api> api_ = rondo::cuda::load_api();
  const CurrentContext context_{*api_};
  rondo::OwnedModule module_;
  rondo::OwnedMemory memory_;
  rondo::OwnedStream stream_;
  rondo::OwnedGraph graph_;
  rondo::OwnedExec exec_;
};

// Events around a launch.
class Stopwatch {
 public:
  double device_us(rondo::StreamHandle stream, const auto& launch) {
    check(driver_.record(start_.get(), stream), "recording");
    launch();
    check(driver_.record(end_.get(), stream), "recording");
    check(driver_.synchronize(stream), "waiting");
    float milliseconds = 0;
    check(driver_.elapsed_ms(start_.get(), end_.get(), &milliseconds), "timing");
    return 1e3 * static_cast<double>(milliseconds);
  }

 private:
  rondo::Driver& driver_ = cuda_device()->driver();
  rondo::OwnedEvent start_{driver_, driver_.create_event()}, end_{driver_, driver_.create_event()};
};

void check_result(std::int32_t result, std::size_t launches, const char* whose) {
  if (const std::size_t expected = launches * node_count; result != static_cast<std::int64_t>(expected))
    throw std::runtime_error(fmt::format("{} chain came to {}, not {}", whose, result, expected));
}

void chain(benchmark::State& state, bool programmatic) {
  rondo::Session session = chain_session(programmatic);
  RawChain raw(programmatic);
  Stopwatch stopwatch;
  std::vector<double> rondo_us, raw_us;
  const auto take_rondo = [&] {
    rondo_us.push_back(stopwatch.device_us(
        raw.stream(), [&] { check(session.launch({.native = raw.stream()}), "a launch"); }));
  };
  bool rondo_first = false;
  for (auto _ : state) {
    rondo_first = !rondo_first;
    if (rondo_first) take_rondo();
    raw_us.push_back(stopwatch.device_us(raw.stream(), [&] { raw.launch(); }));
    if (!rondo_first) take_rondo();
    state.SetIterationTime(rondo_us.back() * 1e-6);
  }
  std::array<std::int32_t, 32> x{};
  check(session.read(session.buffer("x"), std::as_writable_bytes(std::span(x))), "reading");
  check_result(x[31], rondo_us.size(), "Rondo's");
  check_result(raw.result(), raw_us.size(), "the bare");
  state.counters["rondo_us"] = median(rondo_us);
  state.counters["raw_us"] = median(raw_us);
  state.counters["ratio"] = median(rondo_us) / median(raw_us);
  state.counters["rondo_node_ns"] = 1e3 * median(rondo_us) / static_cast<double>(node_count);
}

void add(const char* name, bool programmatic) {
  benchmark::RegisterBenchmark(name, [programmatic](benchmark::State& state) { chain(state, programmatic); })
      ->UseManualTime()
      ->Iterations(samples)
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  return bench::run([] {
    tell_device(*cuda_device());
    add("full", false);
    if (cuda_device()->properties().has_programmatic_edges) add("programmatic", true);
  });
}
