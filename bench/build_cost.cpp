// What it costs to build a session: from the text of a schedule to a graph that can be launched, kernels in
// the cache, against the driver's own calls for the same graph (nodes and edges added, instantiated,
// uploaded), in turns in one run.
//
//     build_cost --device cuda --benchmark_out=build_cost.json --benchmark_out_format=json
//
// Counters, medians over all samples, in milliseconds: rondo, and of it parse_and_plan and load (the rest is
// finding the kernels in the cache, the hazards and the arena); driver; ratio, the one over the other.
//   written/n  n ops, each written out in the schedule
//   repeat/n   n ops out of two nested repeats
// In both, strands of ops run side by side and meet every now and then; all read one buffer, and each writes
// a temporary of its own or a slice of a buffer that all share.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <numeric>

#include "raw_cuda.h"
#include "rondo/session.h"
#include "run.h"
#include "session_state.h"

namespace {

using namespace bench;

constexpr int samples = 11;
constexpr std::int64_t strands = 4, ops_of_a_part = 32;

std::shared_ptr<rondo::Device> device;

// The op at `place` of a part; `t` and `slice` spell the place of a temporary within the part, and where the
// part's slices begin.
std::string op(std::int64_t place, const auto& t, const auto& slice) {
  // The first ops of a part begin from what all strands of the part before have left.
  const std::string before = place < strands ? fmt::format("slices[{} : {}]", slice(0), strands)
                                             : fmt::format("t.{}", t(place - strands));
  const std::string after = place < ops_of_a_part - strands
                                ? fmt::format("t.{}", t(place))
                                : fmt::format("slices[{} : 1]", slice(strands + place % strands));
  return fmt::format(
      R"j({{"kernel": "touch", "grid": ["ceil_div(n, 128)"], "block": [128], "args": ["n", "step", "all", "{}", {{"write": "{}"}}]}})j",
      before, after);
}

std::string written_op(std::int64_t index) {
  const std::int64_t part = index / ops_of_a_part;
  return op(
      index % ops_of_a_part, [&](std::int64_t place) { return part * ops_of_a_part + place; },
      [&](std::int64_t offset) { return part * strands + offset; });
}

std::string repeated_op(std::int64_t place) {
  return op(
      place, [](std::int64_t at) { return fmt::format("{{part * {} + {}}}", ops_of_a_part, at); },
      [](std::int64_t offset) { return fmt::format("part * {} + {}", strands, offset); });
}

std::string schedule(std::int64_t ops, bool written) {
  const std::int64_t parts = std::max<std::int64_t>(1, ops / ops_of_a_part);
  std::string list;
  if (written) {
    for (std::int64_t i = 0; i < parts * ops_of_a_part; ++i) list += (i == 0 ? "" : ",\n") + written_op(i);
  } else {
    for (std::int64_t place = 0; place < ops_of_a_part; ++place)
      list += (place == 0 ? "" : ",\n") + repeated_op(place);
    list = fmt::format(R"j({{"repeat": "part", "count": "parts", "ops": [{}]}})j", list);
  }
  return fmt::format(
      R"j({{"rondo": 1, "name": "build_cost",
  "params": {{"n": {{"type": "i32", "constant": 256}}, "parts": {{"type": "i32", "constant": {}}}, "step": {{"type": "i32", "step": 0}}}},
  "buffers": {{"all": {{"type": "f32", "shape": ["n"], "role": "input", "fill": 0}},
               "slices": {{"type": "f32", "shape": ["(parts + 1) * {}"], "role": "state", "fill": 0}},
               "t.{{i}}": {{"for": {{"i": "parts * {}"}}, "type": "f32", "shape": ["n"], "role": "temporary"}}}},
  "kernels": {{"touch": {{"entry": "touch", "code": "extern \"C\" __global__ void touch(int n, int step, const float* all, const float* from, float* to) {{ if (step == -12345) to[n] = all[n] + from[n]; }}"}}}},
  "ops": [{}]}})j",
      parts, strands, ops_of_a_part, list);
}

// The same graph without Rondo.
class Bare {
 public:
  explicit Bare(const std::string& text)
      : prepared_(prepare(rondo::Schedule::parse(text, "build_cost.json"), *device, {})) {
    const rondo::rtc::Binary& binary = prepared_.binaries.front();
    module_ = {driver_, driver_.load_module(binary.code)};
    function_ = driver_.function(module_.get(), binary.entries.front().lowered);
    stream_ = {driver_, driver_.create_stream()};
    if (device->properties().backend == "cuda") {
      api_ = rondo::cuda::load_api();
      context_.emplace(*api_);
    }
  }

  std::size_t nodes() const { return prepared_.plan.nodes.size(); }

  void build() {
    rondo::OwnedGraph graph(driver_, driver_.create_graph());
    const std::vector<rondo::PlanNode>& nodes = prepared_.plan.nodes;
    std::vector<rondo::NodeHandle> handles;
    std::vector<rondo::GraphEdge> edges;
    handles.reserve(nodes.size());
    for (const rondo::PlanNode& node : nodes) {
      handles.push_back(add(graph.get()));
      for (const rondo::Dependency& earlier : node.dependencies)
        edges.push_back({handles[earlier.node], handles.back(), earlier.kind});
    }
    driver_.add_dependencies(graph.get(), edges);
    const rondo::OwnedExec exec(driver_, driver_.instantiate(graph.get()));
    driver_.upload(exec.get(), stream_.get());
    rondo::check(driver_.synchronize(stream_.get()), "waiting");
  }

 private:
  rondo::NodeHandle add(rondo::GraphHandle graph) {
    alignas(16) std::byte arguments[32]{};
    if (api_ == nullptr)
      return driver_.add_kernel_node(graph, {.function = function_,
                                             .shape = {{2, 1, 1}, {128, 1, 1}, 0},
                                             .arguments = arguments,
                                             .argument_bytes = 32});
    Extra extra(arguments, sizeof arguments);
    const rondo::cuda::KernelNodeParameters parameters{reinterpret_cast<rondo::cuda::Function>(function_),
                                                       2,
                                                       1,
                                                       1,
                                                       128,
                                                       1,
                                                       1,
                                                       0,
                                                       nullptr,
                                                       extra.list(),
                                                       nullptr,
                                                       nullptr};
    rondo::cuda::Node node = nullptr;
    CHECK(api_->cuGraphAddKernelNode_v2(&node, native(graph), nullptr, 0, &parameters));
    return reinterpret_cast<rondo::NodeHandle>(node);
  }

  rondo::Driver& driver_ = device->driver();
  rondo::Prepared prepared_;
  rondo::OwnedModule module_;
  rondo::FunctionHandle function_ = nullptr;
  rondo::OwnedStream stream_;
  std::shared_ptr<const Api> api_;
  std::optional<CurrentContext> context_;
};

void build(benchmark::State& state, bool written) {
  const std::string text = schedule(state.range(0), written);
  Bare bare(text);  // and the kernel is in the cache now
  std::vector<double> rondo_ms, plan_ms, load_ms, driver_ms;
  for (auto _ : state) {
    std::optional<rondo::Session> session;
    rondo_ms.push_back(microseconds([&] {
                         session.emplace(rondo::Session::parse(text, "build_cost.json", device, {}));
                         rondo::check(session->synchronize(), "waiting");
                       }) /
                       1e3);
    plan_ms.push_back(session->summary().plan_ms);
    load_ms.push_back(session->summary().load_ms);
    session.reset();
    driver_ms.push_back(microseconds([&] { bare.build(); }) / 1e3);
    state.SetIterationTime(rondo_ms.back() / 1e3);
  }
  state.counters["nodes"] = static_cast<double>(bare.nodes());
  state.counters["rondo"] = median(rondo_ms);
  state.counters["plan"] = median(plan_ms);
  state.counters["load"] = median(load_ms);
  state.counters["driver"] = median(driver_ms);
  state.counters["ratio"] = median(rondo_ms) / median(driver_ms);
}

void add(const char* name, bool written) {
  auto* const benchmark =
      benchmark::RegisterBenchmark(name, [written](benchmark::State& state) { build(state, written); });
  benchmark->UseManualTime()->Iterations(samples)->Unit(benchmark::kMillisecond);
  for (const std::int64_t ops : {1000, 10000, 100000}) benchmark->Arg(ops);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const bool has_device = argc == 3 && std::strcmp(argv[1], "--device") == 0;
  if (argc != 1 && !has_device) {
    std::fprintf(stderr, "usage: build_cost [--device DEVICE] [--benchmark_…]\n");
    return 2;
  }
  const int code = run([&] {
    device = rondo::open_device(has_device ? argv[2] : "auto");
    tell_device(*device);
    add("written", true);
    add("repeat", false);
  });
  device.reset();
  return code;
}
