// What Rondo began with, done rightly. An inference engine has a graph in which, for each layer, a kernel
// copies the new keys into the cache; where they go moves by one row with every token. The engine once wrote
// the new destination into the parameters that the runtime had handed out, which belong to the runtime. Here
// the graph is adopted, its destinations are found by the memory that they point into, and at each token only
// they are changed, in memory of Rondo's own, and brought to the executable graph.
//
//     kv_cache_copy [cuda:0 | hip:0]
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "compiler.h"
#include "driver.h"
#include "handles.h"
#include "rondo/captured_graph.h"
#include "rondo/device.h"

namespace {

constexpr std::size_t layers = 12, tokens = 64, width = 128;
constexpr std::size_t row_bytes = width * sizeof(float);
constexpr const char* source = R"(
extern "C" __global__ void append(float* to, const float* from, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] = from[i];
}
)";

// Somebody else's: memory, and a graph over it. An engine gets its graph by stream capture, which needs no
// more than a real device; to Rondo a graph is a graph, so this one is made node by node and runs on the
// doubles too.
class Engine {
 public:
  explicit Engine(rondo::Device& device) : driver_(device.driver()) {
    const rondo::rtc::Binary binary =
        device.compiler().compile({.file = "append.cu",
                                   .source = source,
                                   .headers = {},
                                   .defines = {},
                                   .entries = {"append"},
                                   .architecture = device.properties().architecture});
    code_ = binary.code;
    module_ = {driver_, driver_.load_module(binary.code)};
    stream_ = {driver_, driver_.create_stream()};
    keys_ = {driver_, driver_.allocate(layers * row_bytes)};
    cache_ = {driver_, driver_.allocate(layers * tokens * row_bytes)};
    graph_ = {driver_, driver_.create_graph()};
    const auto append = driver_.function(module_.get(), binary.entries[0].lowered);
    rondo::NodeHandle before = nullptr;
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const Arguments arguments{row(layer, 0), keys_.get() + layer * row_bytes, static_cast<int>(width)};
      const auto node = driver_.add_kernel_node(
          graph_.get(),
          {append, {{1}, {width}, 0}, reinterpret_cast<const std::byte*>(&arguments), argument_bytes});
      const rondo::GraphEdge edge{before, node};
      if (before != nullptr) driver_.add_dependencies(graph_.get(), {&edge, 1});
      before = node;
    }
    exec_ = {driver_, driver_.instantiate(graph_.get())};
  }

  void* graph() const { return graph_.get(); }
  void* exec() const { return exec_.get(); }
  rondo::AddressRange cache() const { return {cache_.get(), layers * tokens * row_bytes}; }
  const std::vector<std::byte>& code() const { return code_; }

  static float key(std::size_t layer, std::size_t token, std::size_t i) {
    return static_cast<float>(layer * 100000 + token * 1000 + i);
  }
  // New keys, and one launch of the graph.
  void step(std::size_t token) {
    std::vector<float> keys(layers * width);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = key(i / width, token, i % width);
    rondo::check(driver_.write(keys_.get(), keys.data(), layers * row_bytes, stream_.get()),
                 "writing the keys");
    const rondo::DriverScope scope(driver_);
    rondo::check(scope.status(), "launching the graph");
    rondo::check(driver_.launch_graph(exec_.get(), stream_.get()), "launching the graph");
  }
  std::size_t wrong_values() {
    std::vector<float> found(layers * tokens * width);
    rondo::check(driver_.read(found.data(), cache_.get(), found.size() * sizeof(float), stream_.get()),
                 "reading");
    rondo::check(driver_.synchronize(stream_.get()), "reading");
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] != key(i / width / tokens, i / width % tokens, i % width)) ++wrong;
    }
    return wrong;
  }

 private:
  struct Arguments {
    rondo::DevicePointer to, from;
    int n;
  };
  static constexpr std::size_t argument_bytes = offsetof(Arguments, n) + sizeof(int);

  rondo::DevicePointer row(std::size_t layer, std::size_t token) const {
    return cache_.get() + (layer * tokens + token) * row_bytes;
  }

  rondo::Driver& driver_;
  std::vector<std::byte> code_;
  rondo::OwnedModule module_;
  rondo::OwnedStream stream_;
  rondo::OwnedMemory keys_, cache_;
  rondo::OwnedGraph graph_;
  rondo::OwnedExec exec_;
};

// HIP cannot be asked how a kernel's arguments are laid out, CUDA can; the code object knows.
class CodeObjectFile {
 public:
  explicit CodeObjectFile(const std::vector<std::byte>& code)
      : path_(std::filesystem::temp_directory_path() / fmt::format("kv_cache_copy_{}.co", getpid())) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(code.data()), static_cast<std::streamsize>(code.size()));
  }
  ~CodeObjectFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  CodeObjectFile(const CodeObjectFile&) = delete;
  CodeObjectFile& operator=(const CodeObjectFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path path_;
};

int run(const std::shared_ptr<rondo::Device>& device) {
  Engine engine(*device);
  const CodeObjectFile code(engine.code());
  rondo::AdoptOptions options;
  if (device->properties().backend == "hip") options.code_object_files = {code.path()};
  auto captured = rondo::CapturedGraph::adopt(device, engine.graph(), options);

  // Where the graph writes to, found once.
  const std::vector<rondo::Site> destinations = captured.sites(engine.cache());
  for (std::size_t token = 0; token < tokens; ++token) {
    for (const rondo::Site& site : destinations) {
      const std::uint64_t to = site.value + token * row_bytes;
      captured.set_argument(site.node, site.argument, site.offset, std::as_bytes(std::span(&to, 1)));
    }
    if (const rondo::Status status = captured.apply(engine.exec()); !status.ok())
      throw captured.error(status);
    engine.step(token);
  }
  const std::size_t wrong = engine.wrong_values();
  std::printf("%zu layers, %zu tokens, %zu destinations moved at each: %zu wrong values in the cache\n",
              layers, tokens, destinations.size(), wrong);
  return wrong == 0 && destinations.size() == layers ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(rondo::open_device(count > 1 ? arguments[1] : "auto"));
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  }
}
