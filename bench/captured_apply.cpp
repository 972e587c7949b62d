// The host's time for changing k of the 1,024 kernel nodes of a captured graph: CapturedGraph::apply against
// a hand-written loop of cuGraphExecKernelNodeSetParams over the same nodes, taking turns in one run, on one
// CUDA device; beside what engines do, capturing the stream again and cuGraphExecUpdate; and the time that
// adopting takes, a node. The changes themselves are made outside the time that is measured, on both sides.
// The graph is launched and waited for after each sample, so that no update finds another one waiting.
//
//     captured_apply
//
//   apply/in_context/k   on a thread with a context current, which the loop needs too
//   apply/anywhere/k     the same without saying so: apply asks the driver
//
// Counters, medians over all samples: rondo_us and loop_us; ratio, the one over the other.
#include <benchmark/benchmark.h>

#include <cstdio>

#include "raw_cuda.h"
#include "rondo/captured_graph.h"
#include "run.h"

namespace {

using namespace bench;

constexpr std::size_t node_count = 1024;
constexpr int samples = 1000;
constexpr std::size_t changed_argument = 5;  // f

// A chain that was captured from a stream, and two execs of it.
class Captured {
 public:
  Captured() : api(rondo::cuda::load_api()), capture_api(api->path), context_(*api) {
    const rondo::rtc::Binary binary =
        device->compiler().compile({.file = "chain.cu",
                                    .source = touch,
                                    .headers = {},
                                    .defines = {},
                                    .entries = {"touch"},
                                    .architecture = device->properties().architecture});
    module_ = {driver, driver.load_module(binary.code)};
    function_ =
        reinterpret_cast<rondo::cuda::Function>(driver.function(module_.get(), binary.entries[0].lowered));
    memory_ = {driver, driver.allocate(256)};
    stream_ = {driver, driver.create_stream()};
    const rondo::DevicePointer x = memory_.get();
    arguments = {x, x, x, x, 1, 2, 3, 4};
    graph_ = {driver, capture()};
    for (rondo::OwnedExec* exec : {&by_rondo, &by_loop}) {
      *exec = {driver, driver.instantiate(graph_.get())};
      driver.upload(exec->get(), stream_.get());
    }
    nodes.resize(node_count);
    std::size_t count = node_count;
    CHECK(api->cuGraphGetNodes(native(graph_.get()), nodes.data(), &count));
    if (count != node_count) throw std::runtime_error("the captured graph has another number of nodes");
  }

  rondo::GraphHandle capture() {
    const rondo::cuda::Stream stream = native(stream_.get());
    constexpr unsigned thread_local_mode = 1;
    CHECK(capture_api.begin(stream, thread_local_mode));
    for (std::size_t i = 0; i < node_count; ++i) {
      Extra extra(&arguments, sizeof arguments);
      CHECK(api->cuLaunchKernel(function_, 4, 1, 1, 128, 1, 1, 0, stream, nullptr, extra.list()));
    }
    rondo::cuda::Graph graph = nullptr;
    CHECK(capture_api.end(stream, &graph));
    return reinterpret_cast<rondo::GraphHandle>(graph);
  }

  // What somebody who knows every node's arguments would write.
  void loop(std::size_t changed) {
    Extra extra(&arguments, sizeof arguments);
    const rondo::cuda::KernelNodeParameters parameters{
        function_, 4, 1, 1, 128, 1, 1, 0, nullptr, extra.list(), nullptr, nullptr};
    Result result = Result::success;
    for (std::size_t i = 0; i < changed && result == Result::success; ++i) {
      ++arguments.f;
      result = api->cuGraphExecKernelNodeSetParams_v2(native(by_loop.get()), nodes[i], &parameters);
    }
    bench::check(result, "cuGraphExecKernelNodeSetParams_v2");
  }
  void launch(const rondo::OwnedExec& exec) {
    rondo::check(driver.launch_graph(exec.get(), stream_.get()), "launching");
    rondo::check(driver.synchronize(stream_.get()), "waiting");
  }
  rondo::GraphHandle graph() const { return graph_.get(); }

  const std::shared_ptr<rondo::Device> device = rondo::open_device("cuda:0");
  rondo::Driver& driver = device->driver();
  const std::shared_ptr<const Api> api;
  const CaptureApi capture_api;
  Arguments arguments{};
  std::vector<rondo::cuda::Node> nodes;

 private:
  const CurrentContext context_;
  rondo::OwnedModule module_;
  rondo::cuda::Function function_ = nullptr;
  rondo::OwnedMemory memory_;
  rondo::OwnedStream stream_;
  rondo::OwnedGraph graph_;

 public:
  rondo::OwnedExec by_rondo, by_loop;  // destroyed before the graph
};

void apply(benchmark::State& state, rondo::CapturedGraph::ThreadContext context) {
  Captured chain;
  auto captured = rondo::CapturedGraph::adopt(chain.device, chain.graph());
  const auto changed = static_cast<std::size_t>(state.range(0));
  std::vector<double> rondo_us, loop_us;
  int value = 1000;
  bool rondo_first = false;
  for (auto _ : state) {
    ++value;
    for (std::size_t i = 0; i < changed; ++i) {
      captured.set_argument(i, changed_argument, std::as_bytes(std::span(&value, 1)));
    }
    rondo::Status status;
    const auto by_rondo = [&] {
      rondo_us.push_back(microseconds([&] { status = captured.apply(chain.by_rondo.get(), context); }));
      chain.launch(chain.by_rondo);
    };
    const auto by_loop = [&] {
      loop_us.push_back(microseconds([&] { chain.loop(changed); }));
      chain.launch(chain.by_loop);
    };
    rondo_first = !rondo_first;
    if (rondo_first) by_rondo();
    by_loop();
    if (!rondo_first) by_rondo();
    if (!status.ok()) throw captured.error(status);
    state.SetIterationTime(rondo_us.back() * 1e-6);
  }
  state.counters["rondo_us"] = median(rondo_us);
  state.counters["loop_us"] = median(loop_us);
  state.counters["ratio"] = median(rondo_us) / median(loop_us);
}

// What engines do in place of it, however few nodes have changed.
void recapture(benchmark::State& state) {
  Captured chain;
  std::vector<double> capture_us, update_us;
  for (auto _ : state) {
    ++chain.arguments.f;
    rondo::OwnedGraph graph;
    capture_us.push_back(microseconds([&] { graph = {chain.driver, chain.capture()}; }));
    CaptureApi::UpdateInfo info{};
    update_us.push_back(microseconds(
        [&] { CHECK(chain.capture_api.update(native(chain.by_loop.get()), native(graph.get()), &info)); }));
    state.SetIterationTime((capture_us.back() + update_us.back()) * 1e-6);
    chain.launch(chain.by_loop);
  }
  state.counters["capture_us"] = median(capture_us);
  state.counters["update_us"] = median(update_us);
}

void adopt(benchmark::State& state) {
  Captured chain;
  std::vector<double> us;
  for (auto _ : state) {
    us.push_back(microseconds(
        [&] { benchmark::DoNotOptimize(rondo::CapturedGraph::adopt(chain.device, chain.graph())); }));
    state.SetIterationTime(us.back() * 1e-6);
  }
  state.counters["us_a_node"] = median(us) / static_cast<double>(node_count);
}

BENCHMARK_CAPTURE(apply, in_context, rondo::CapturedGraph::ThreadContext::current)
    ->Arg(1)->Arg(64)->Arg(1024)->UseManualTime()->Iterations(samples)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(apply, anywhere, rondo::CapturedGraph::ThreadContext::unknown)
    ->Arg(1)->Arg(64)->Arg(1024)->UseManualTime()->Iterations(samples)->Unit(benchmark::kMicrosecond);
BENCHMARK(recapture)->UseManualTime()->Iterations(samples)->Unit(benchmark::kMicrosecond);
BENCHMARK(adopt)->UseManualTime()->Iterations(samples / 10)->Unit(benchmark::kMicrosecond);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  return bench::run([] { rondo::open_device("cuda:0"); });
}
