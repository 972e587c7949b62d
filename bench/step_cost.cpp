// What a step costs the host: set + launch by Rondo against a loop of bare driver calls over a graph of the
// same kernels, taking turns in one run, on one CUDA device. `set` is inside Rondo's time, writing the
// arguments inside the loop's; the stream is idle before each sample.
//
//     step_cost --benchmark_out=step_cost.json --benchmark_out_format=json
//
// Counters, medians over all samples: rondo_us and raw_us; ratio, the one over the other.
//   changed/k   k of 1,024 chained nodes have other arguments; raw: k exec SetParams, then cuGraphLaunch
//   slots/n     n step params, all in slots, have other values; raw: one exec SetParams, then cuGraphLaunch
// and what others do, beside Rondo's step with k of 1,024 nodes changed:
//   every_node  raw sets all 1,024 nodes, whatever has changed, then cuGraphLaunch
//   recapture   the stream is captured again, then cuGraphExecUpdate and cuGraphLaunch
//   plain       no graph: 1,024 kernel launches
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <optional>

#include "raw_cuda.h"
#include "rondo/session.h"
#include "run.h"

namespace {

using namespace bench;

constexpr std::size_t node_count = 1024;
constexpr int samples = 1000;
std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return '"' + text + '"';
}

// The chain by Rondo: the first `changed` of its nodes take the step param.
rondo::Session chain_session(std::size_t changed) {
  const std::string text = fmt::format(
      R"j({{"rondo": 1, "name": "chain", "params": {{"step": {{"type": "i32", "step": 0}}, "changed": {{"type": "i32", "constant": {}}}}},
           "buffers": {{"x": {{"type": "f32", "shape": [64], "role": "state", "fill": 0}}}},
           "kernels": {{"touch": {{"entry": "touch", "code": {}}}}},
           "ops": [{{"repeat": "i", "count": {}, "ops": [
             {{"when": "i < changed", "kernel": "touch", "grid": [4], "block": [128], "args": ["x", "x", "x", "x", 1, "step", 3.0, 4.0]}},
             {{"when": "i >= changed", "kernel": "touch", "grid": [4], "block": [128], "args": ["x", "x", "x", "x", 1, 2, 3.0, 4.0]}}]}}]}})j",
      changed, quoted(touch), node_count);
  return rondo::Session::parse(text, "chain.json", cuda_device(), {});
}

// The same chain by hand. A node's arguments are its own, as they would be where nodes differ.
class RawChain {
 public:
  // The first two nodes take that many integers in place of `touch`'s arguments, where it is not 0.
  explicit RawChain(std::size_t integers = 0) : integers_(integers + 1) {
    const std::string wide = fmt::format(
        "struct Integers {{ long long at[{}]; }}; extern \"C\" __global__ void wide(Integers all, long long* "
        "x) "
        "{{ if (all.at[0] == -12345) *x = 1; }}",
        std::max<std::size_t>(integers, 1));
    const rondo::rtc::Binary binary =
        cuda_device()->compiler().compile({.file = "chain.cu",
                                           .source = wide + touch,
                                           .headers = {},
                                           .defines = {},
                                           .entries = {"touch", "wide"},
                                           .architecture = cuda_device()->properties().architecture});
    module_ = {driver_, driver_.load_module(binary.code)};
    const auto function = [&](std::size_t entry) {
      return reinterpret_cast<rondo::cuda::Function>(
          driver_.function(module_.get(), binary.entries[entry].lowered));
    };
    function_ = function(0);
    wide_ = function(1);
    memory_ = {driver_, driver_.allocate(256)};
    stream_ = {driver_, driver_.create_stream()};
    const rondo::DevicePointer x = memory_.get();
    arguments_.assign(node_count, {x, x, x, x, 1, 2, 3, 4});
    graph_ = {driver_, driver_.create_graph()};
    rondo::cuda::Node before = nullptr;
    for (std::size_t i = 0; i < node_count; ++i) {
      const bool is_wide = integers > 0 && i < 2;
      Extra extra = is_wide ? wide_arguments() : arguments(i);
      const rondo::cuda::KernelNodeParameters parameters = node(is_wide ? wide_ : function_, extra);
      CHECK(api_->cuGraphAddKernelNode_v2(&nodes_.emplace_back(), native(graph_.get()), &before,
                                          before != nullptr ? 1 : 0, &parameters));
      before = nodes_.back();
    }
    exec_ = {driver_, driver_.instantiate(graph_.get())};
    driver_.upload(exec_.get(), stream_.get());
    synchronize();
  }

  void update(std::size_t changed, int value) {
    for (std::size_t i = 0; i < changed; ++i) {
      arguments_[i].f = value;
      Extra extra = arguments(i);
      update(i, function_, extra);
    }
  }
  void update_integers(long long value) {
    std::fill(integers_.begin(), integers_.end() - 1, value);
    Extra extra = wide_arguments();
    update(0, wide_, extra);
  }
  void launch() { CHECK(api_->cuGraphLaunch(native(exec_.get()), native(stream_.get()))); }
  void synchronize() { CHECK(api_->cuStreamSynchronize(native(stream_.get()))); }
  void launch_plainly(std::size_t changed, int value) {
    for (std::size_t i = 0; i < node_count; ++i) {
      if (i < changed) arguments_[i].f = value;
      Extra extra = arguments(i);
      CHECK(api_->cuLaunchKernel(function_, 4, 1, 1, 128, 1, 1, 0, native(stream_.get()), nullptr,
                                 extra.list()));
    }
  }
  void recapture(std::size_t changed, int value) {
    constexpr unsigned thread_local_mode = 1;
    CHECK(capture_.begin(native(stream_.get()), thread_local_mode));
    launch_plainly(changed, value);
    rondo::cuda::Graph graph = nullptr;
    CHECK(capture_.end(native(stream_.get()), &graph));
    CaptureApi::UpdateInfo info{};
    CHECK(capture_.update(native(exec_.get()), graph, &info));
    CHECK(api_->cuGraphDestroy(graph));
  }

 private:
  Extra arguments(std::size_t node) { return Extra(&arguments_[node], sizeof(Arguments)); }
  Extra wide_arguments() { return Extra(integers_.data(), integers_.size() * sizeof integers_[0]); }
  static rondo::cuda::KernelNodeParameters node(rondo::cuda::Function function, Extra& extra) {
    return {function, 4, 1, 1, 128, 1, 1, 0, nullptr, extra.list(), nullptr, nullptr};
  }

  void update(std::size_t index, rondo::cuda::Function function, Extra& extra) {
    const rondo::cuda::KernelNodeParameters parameters = node(function, extra);
    CHECK(api_->cuGraphExecKernelNodeSetParams_v2(native(exec_.get()), nodes_[index], &parameters));
  }

  rondo::Driver& driver_ = cuda_device()->driver();
  const std::shared_ptr<const Api> api_ = rondo::cuda::load_api();
  const CaptureApi capture_{api_->path};
  const CurrentContext context_{*api_};
  rondo::cuda::Function function_ = nullptr, wide_ = nullptr;
  std::vector<Arguments> arguments_;
  std::vector<long long> integers_;  // and a pointer
  std::vector<rondo::cuda::Node> nodes_;
  rondo::OwnedModule module_;
  rondo::OwnedMemory memory_;
  rondo::OwnedStream stream_;
  rondo::OwnedGraph graph_;
  rondo::OwnedExec exec_;
};

// Samples of two ways in turn, each of which waits for the device when its time has been taken.
class Pair {
 public:
  void sample(benchmark::State& state, const auto& rondo, const auto& raw, const auto& wait) {
    const auto take = [&](std::vector<double>& to, const auto& way) {
      to.push_back(microseconds(way));
      wait();
    };
    rondo_first_ = !rondo_first_;
    if (rondo_first_) take(rondo_us_, rondo);
    take(raw_us_, raw);
    if (!rondo_first_) take(rondo_us_, rondo);
    state.SetIterationTime(rondo_us_.back() * 1e-6);
  }
  void report(benchmark::State& state) {
    state.counters["rondo_us"] = median(rondo_us_);
    state.counters["raw_us"] = median(raw_us_);
    state.counters["ratio"] = median(rondo_us_) / median(raw_us_);
  }

 private:
  std::vector<double> rondo_us_, raw_us_;
  bool rondo_first_ = false;
};

enum class Peer { set_changed, set_every_node, recapture, plain };

void chain(benchmark::State& state, Peer peer) {
  const auto changed = static_cast<std::size_t>(state.range(0));
  rondo::Session session = chain_session(changed);
  const rondo::ParamHandle step = session.param("step");
  RawChain raw;
  Pair pair;
  int value = 0;
  for (auto _ : state) {
    ++value;
    pair.sample(
        state,
        [&] {
          rondo::Status status = session.set(step, value);
          if (status.ok()) status = session.launch();
          check(status, "a step");
        },
        [&] {
          switch (peer) {
            case Peer::set_changed:
              raw.update(changed, value);
              return raw.launch();
            case Peer::set_every_node:
              raw.update(node_count, value);
              return raw.launch();
            case Peer::recapture:
              raw.recapture(changed, value);
              return raw.launch();
            case Peer::plain:
              return raw.launch_plainly(changed, value);
          }
        },
        [&] {
          check(session.synchronize(), "waiting");
          raw.synchronize();
        });
  }
  pair.report(state);
}

// n slots that one kernel reads: a step changes all of them, and is one update of the node that publishes
// them.
void slots(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  std::string params, args, parameters;
  for (std::size_t i = 0; i < count; ++i) {
    params += fmt::format(R"(, "s{}": {{"type": "i64", "step": 0}})", i);
    args += fmt::format(R"(, {{"slot": "s{}"}})", i);
    parameters += fmt::format(", const long long* s{}", i);
  }
  const std::string code = fmt::format(
      "extern \"C\" __global__ void read(float* x{}) {{ if (*s0 == -12345) x[0] = 1; }}", parameters);
  const std::string text = fmt::format(
      R"j({{"rondo": 1, "name": "slots", "params": {{"one": {{"type": "i32", "constant": 1}}{}}},
           "buffers": {{"x": {{"type": "f32", "shape": [64], "role": "state", "fill": 0}}}},
           "kernels": {{"read": {{"entry": "read", "code": {}}}, "touch": {{"entry": "touch", "code": {}}}}},
           "ops": [{{"kernel": "read", "grid": [4], "block": [128], "args": ["x"{}]}},
                   {{"repeat": "i", "count": {}, "ops": [
                     {{"kernel": "touch", "grid": [4], "block": [128], "args": ["x", "x", "x", "x", 1, 2, 3.0, 4.0]}}]}}]}})j",
      params, quoted(code), quoted(touch), args, node_count - 2);
  rondo::Session session = rondo::Session::parse(text, "slots.json", cuda_device(), {});
  std::vector<rondo::ParamHandle> handles;
  for (std::size_t i = 0; i < count; ++i) handles.push_back(session.param(fmt::format("s{}", i)));
  RawChain raw(count);
  Pair pair;
  std::int64_t value = 0;
  for (auto _ : state) {
    ++value;
    pair.sample(
        state,
        [&] {
          for (const rondo::ParamHandle handle : handles) check(session.set(handle, value), "setting");
          check(session.launch(), "a step");
        },
        [&] {
          raw.update_integers(value);
          raw.launch();
        },
        [&] {
          check(session.synchronize(), "waiting");
          raw.synchronize();
        });
  }
  pair.report(state);
}

void add(const char* name, auto run, std::initializer_list<std::int64_t> range) {
  auto* const benchmark = benchmark::RegisterBenchmark(name, run);
  benchmark->UseManualTime()->Iterations(samples)->Unit(benchmark::kMicrosecond);
  for (const std::int64_t value : range) benchmark->Arg(value);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  return bench::run([] {
    tell_device(*cuda_device());
    add("changed", [](benchmark::State& state) { chain(state, Peer::set_changed); }, {0, 1, 64, 1024});
    add("slots", slots, {1, 16, 63});
    add("every_node", [](benchmark::State& state) { chain(state, Peer::set_every_node); }, {1});
    add("recapture", [](benchmark::State& state) { chain(state, Peer::recapture); }, {64});
    add("plain", [](benchmark::State& state) { chain(state, Peer::plain); }, {1});
  });
}
