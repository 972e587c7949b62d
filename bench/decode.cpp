// How fast one decode step of a Llama-architecture model is, against what reading its weights costs: the
// schedule in configs/llama, random weights.
//
//     decode [SCHEDULE] --benchmark_filter=1b/f16 --benchmark_out=decode.json --benchmark_out_format=json
//
// SHAPE/TYPE/CONTEXT: Llama-3.2-1B's or Llama-3.1-8B's shape, 128 steps from that position on. A run is set +
// launch for each step and one wait at the end; tokens_s is what the median of its runs gives.
//   tokens_s       tokens a second, embedding to argmax, the host's loop included
//   read_tokens_s  the same where the host waits for each token and reads it
//   host_us        of that loop: set + launch, median of all steps
//   GB             what a step has to read: every weight of the layers and of the logits once, and the caches
//   up to the middle of the run GB_s           GB by the time of a step ceiling_GB_s   what one kernel that
//   does nothing else reads out of 8 GiB, in the same run percent        the one of the other
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "raw_cuda.h"
#include "rondo/session.h"
#include "run.h"

namespace {

constexpr int steps = 128, runs = 7;

struct Shape {
  const char* name;
  int layers, d, d_ff, heads, kv_heads, head_dim;
};
constexpr Shape shapes[] = {{"1b", 16, 2048, 8192, 32, 8, 64}, {"8b", 32, 4096, 14336, 32, 8, 128}};
constexpr int vocabulary = 128256, context = 8192;

std::shared_ptr<rondo::Device> device;
std::filesystem::path decode_schedule;

void must(rondo::Session& session, const rondo::Status& status) {
  if (!status.ok()) throw session.error(status);
}

// GB/s
double read_ceiling() {
  const std::string text = R"j({"rondo": 1, "name": "read",
    "params": {"n": {"type": "i64", "constant": 536870912}},
    "buffers": {"from": {"type": "u32", "shape": ["4 * n"], "role": "state", "fill": 1}, "to": {"type": "u32", "shape": [1], "role": "state", "fill": 0}},
    "kernels": {"read": {"entry": "read", "code": "extern \"C\" __global__ void read(long long n, const unsigned* words, unsigned* out) {\n  const uint4* from = reinterpret_cast<const uint4*>(words);\n  unsigned all = 0;\n  const long long stride = (long long)gridDim.x * blockDim.x;\n  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n  for (; i + 3 * stride < n; i += 4 * stride) {\n    const uint4 a = __ldcs(from + i), b = __ldcs(from + i + stride), c = __ldcs(from + i + 2 * stride), d = __ldcs(from + i + 3 * stride);\n    all ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;\n  }\n  for (; i < n; i += stride) all ^= from[i].x ^ from[i].y ^ from[i].z ^ from[i].w;\n  if (all == 12345) *out = all;\n}"}},
    "ops": [{"kernel": "read", "grid": ["4 * device.processors"], "block": [512], "args": ["n", "from", "to"]}]})j";
  rondo::Session session = rondo::Session::parse(text, "read.json", device, {});
  double best = 0;
  for (int run = 0; run < 10; ++run) {
    must(session, session.synchronize());
    constexpr int launches = 4;
    const double us = bench::microseconds([&] {
      for (int i = 0; i < launches; ++i) must(session, session.launch());
      must(session, session.synchronize());
    });
    best = std::max(best, 8.0 * 1024 * 1024 * 1024 * launches / us / 1e3);
  }
  return best;
}

struct Model {
  std::string name;
  std::unique_ptr<rondo::Session> session;
};

// The last one is kept: one after the other they would not all fit.
rondo::Session& model(const Shape& shape, const std::string& type) {
  static Model last;
  const std::string name = std::string(shape.name) + type;
  if (last.name != name) {
    last.session.reset();
    rondo::SessionOptions options;
    const auto constant = [&](const char* key, auto value) {
      options.constants.emplace_back(key, fmt::format("{}", value));
    };
    constant("n_layers", shape.layers);
    constant("d", shape.d);
    constant("d_ff", shape.d_ff);
    constant("n_heads", shape.heads);
    constant("n_kv", shape.kv_heads);
    constant("vocab", vocabulary);
    constant("context", context);
    constant("epsilon", "1e-5");
    constant("rope_base", "500000");
    options.random_weights = rondo::parse_random_weights("random:" + type);
    last = {name, std::make_unique<rondo::Session>(rondo::Session::load(decode_schedule, device, options))};
  }
  return *last.session;
}

// Of the layers' weights and the logits': the embedding table is read one row a step.
double weight_bytes(const rondo::Session& session) {
  double bytes = 0;
  for (const rondo::BufferInfo& buffer : session.buffers())
    if (buffer.role == rondo::Role::weight && buffer.name != "w_embed")
      bytes += static_cast<double>(buffer.bytes);
  return bytes;
}

void decode(benchmark::State& state, const Shape& shape, const std::string& type, int first, double ceiling) {
  rondo::Session& session = model(shape, type);
  const rondo::ParamHandle position = session.param("pos");
  const rondo::BufferHandle token = session.buffer("token");
  std::vector<double> run_us, read_us, host_us;
  for (auto _ : state) {
    for (int run = 0; run <= runs; ++run) {  // the first one warms up
      must(session, session.reset());
      must(session, session.synchronize());
      const double us = bench::microseconds([&] {
        for (int i = 0; i < steps; ++i) {
          host_us.push_back(bench::microseconds([&] {
            must(session, session.set(position, first + i));
            must(session, session.launch());
          }));
        }
        must(session, session.synchronize());
      });
      if (run > 0) run_us.push_back(us / steps);
    }
    for (int run = 0; run < runs; ++run) {
      const double us = bench::microseconds([&] {
        for (int i = 0; i < steps; ++i) {
          std::int32_t next = 0;
          must(session, session.set(position, first + i));
          must(session, session.launch());
          must(session, session.read(token, std::as_writable_bytes(std::span(&next, 1))));
        }
      });
      read_us.push_back(us / steps);
    }
  }
  const double us = bench::median(run_us);
  const double cached = (first + steps / 2.0) * shape.kv_heads * shape.head_dim * 4 * 2 * shape.layers;
  const double gigabytes = (weight_bytes(session) + cached) / 1e9;
  state.counters["tokens_s"] = 1e6 / us;
  state.counters["read_tokens_s"] = 1e6 / bench::median(read_us);
  state.counters["host_us"] = bench::median(host_us);
  state.counters["GB"] = gigabytes;
  state.counters["GB_s"] = gigabytes / us * 1e6;
  state.counters["ceiling_GB_s"] = ceiling;
  state.counters["percent"] = 100 * gigabytes / us * 1e6 / ceiling;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  decode_schedule = argc > 1 && argv[1][0] != '-' ? argv[1] : RONDO_CONFIGS_FOLDER "/llama/decode.json";
  return bench::run([&] {
    device = rondo::open_device("cuda");
    bench::tell_device(*device);
    const double ceiling = read_ceiling();
    for (const Shape& shape : shapes)
      for (const char* type : {"f16", "bf16", "q8_0", "q4_0"})
        for (const int first : {0, 1024, context - steps})
          benchmark::RegisterBenchmark(
              fmt::format("{}/{}/{}", shape.name, type, first).c_str(),
              [&shape, type = std::string(type), first, ceiling](benchmark::State& state) {
                decode(state, shape, type, first, ceiling);
              })
              ->Iterations(1)
              ->Unit(benchmark::kMillisecond);
  });
}
