// Captured graphs in random order, under AddressSanitizer: adopt, retarget, set, apply, launch, destroy, each
// call of the driver made to fail now and then. What the device's memory holds is compared with a model on
// the processor after every launch, and the graphs of others are compared with what they were.
//
//     captured_rounds cuda|hip rounds [seed]
//
// The program and the library's files that touch the driver's memory are compiled with the sanitizer; the
// double is not, but what the driver owns is on the same heap, or in pages that cannot be written.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <random>
#include <stdexcept>

#include "compiler.h"
#include "conformance/double_control.h"
#include "conformance/driver_conformance.h"
#include "conformance/graph_maker.h"
#include "foreign_graphs.h"
#include "handles.h"
#include "rondo/captured_graph.h"
#include "rondo/captured_picture.h"
#include "rondo/device.h"
#include "rondo/site_map.h"

namespace rondo {
namespace {

using conformance::ArgumentForm;
using conformance::DoubleControl;
using conformance::GraphMaker;

constexpr std::size_t buffer_count = 6, buffer_words = 64, touched_words = 8;
constexpr std::size_t buffer_bytes = buffer_words * sizeof(unsigned);

constexpr const char* source = R"(
struct Job { int pad; unsigned* out; const unsigned* in; unsigned value; char tail[4]; };
struct alignas(64) Tiles { unsigned long long before[3]; unsigned* out; unsigned long long after[12]; };
__global__ void combine(unsigned* out, const unsigned* in, unsigned value) {
  for (int i = 0; i < 8; ++i) out[i] = 3 * in[i] + value;
}
__global__ void run_job(short more, Job job) {
  for (int i = 0; i < 8; ++i) job.out[i] = job.in[i] + job.value + static_cast<unsigned>(more);
}
__global__ void run_tiles(Tiles tiles) {
  for (int i = 0; i < 8; ++i) tiles.out[i] += 1;
}
)";

struct Job {
  int pad;
  DevicePointer out, in;
  unsigned value;
  char tail[4];
};
struct alignas(64) Tiles {
  std::uint64_t before[3];
  DevicePointer out;
  std::uint64_t after[12];
};

[[noreturn]] void wrong(const std::string& what) { throw std::logic_error(what); }

enum class Kind { combine, job, tiles, copy, fill };

struct Operand {
  std::size_t buffer, word;
};

// A node as the model knows it; `index` is where the captured graph has it.
struct ModelNode {
  Kind kind;
  Operand out, in;  // `in` lies in the other half of a buffer, so that the two never overlap
  unsigned value;
  std::uint32_t index = 0;
};

using Memory = std::array<std::array<unsigned, buffer_words>, buffer_count>;

void run_on_model(const std::vector<ModelNode>& nodes, Memory& memory) {
  for (const ModelNode& node : nodes) {
    unsigned* const out = memory[node.out.buffer].data() + node.out.word;
    const unsigned* const in = memory[node.in.buffer].data() + node.in.word;
    for (std::size_t i = 0; i < touched_words; ++i) {
      switch (node.kind) {
        case Kind::combine:
          out[i] = 3 * in[i] + node.value;
          break;
        case Kind::job:
          out[i] = in[i] + node.value + 7;
          break;
        case Kind::tiles:
          out[i] += 1;
          break;
        case Kind::copy:
          out[i] = in[i];
          break;
        case Kind::fill:
          out[i] = node.value;
          break;
      }
    }
  }
}

// A graph of somebody else's with an exec, and what Rondo made of it.
struct Adopted {
  OwnedGraph graph;
  OwnedExec exec;
  std::optional<CapturedGraph> captured;
  std::vector<ModelNode> original, now, in_exec;
  std::vector<std::vector<std::byte>> arguments;  // of the graph's kernel nodes, as they were made
};

class Rounds {
 public:
  Rounds(const std::string& backend, unsigned seed)
      : backend_(backend),
        random_(seed),
        device_(open_device(backend)),
        driver_(device_->driver()),
        double_(backend) {
    compile();
    stream_ = {driver_, driver_.create_stream()};
    for (std::size_t i = 0; i < buffer_count; ++i) {
      buffers_.emplace_back(driver_, driver_.allocate(buffer_bytes));
      for (unsigned& word : memory_[i]) word = random_word();
      check(driver_.write(buffers_[i].get(), memory_[i].data(), buffer_bytes, stream_.get()), "writing");
    }
    check(driver_.synchronize(stream_.get()), "writing");
    handles_ = double_.live_handles();
  }
  ~Rounds() { std::filesystem::remove(code_file_); }

  void run(std::size_t rounds) {
    for (std::size_t round = 0; round < rounds; ++round) one_round();
    while (!adopted_.empty()) destroy(pick());
    if (double_.live_handles() != handles_) wrong("handles are left over");
    for (const auto& [what, count] : counts_) {
      std::printf("%s: %zu, %zu of them made to fail\n", what.c_str(), count.all, count.failed);
      if (count.all < rounds / 50) wrong("too few of: " + what);
    }
  }

 private:
  struct Count {
    std::size_t all = 0, failed = 0, calls = 1;
  };

  std::size_t below(std::size_t bound) { return random_() % bound; }
  unsigned random_word() { return static_cast<unsigned>(random_()); }
  std::list<Adopted>::iterator pick() {
    return std::next(adopted_.begin(), static_cast<std::ptrdiff_t>(below(adopted_.size())));
  }

  void compile() {
    rtc::CompileRequest request;
    request.file = "captured_rounds.cu";
    request.source = source;
    request.entries = {"combine", "run_job", "run_tiles"};
    request.architecture = device_->properties().architecture;
    binary_ = device_->compiler().compile(request);
    module_ = {driver_, driver_.load_module(binary_.code)};
    // What CUDA's driver knows by itself, and no cubin: the double's code is for the processor.
    if (backend_ == "cuda") return;
    code_file_ = std::filesystem::temp_directory_path() / fmt::format("captured_rounds_{}.co", getpid());
    std::ofstream(code_file_, std::ios::binary)
        .write(reinterpret_cast<const char*>(binary_.code.data()),
               static_cast<std::streamsize>(binary_.code.size()));
    options_.code_object_files = {code_file_.string()};
  }

  void one_round() {
    const std::size_t choice = below(100);
    if (adopted_.size() < 2 || (choice < 12 && adopted_.size() < 6)) return adopt();
    if (choice < 20) return destroy(pick());
    if (choice < 45) return retarget(*pick());
    if (choice < 55) return set_value(*pick());
    if (choice < 80) return apply(*pick());
    if (choice < 82) return read_after_the_graph_has_gone(pick());
    launch(*pick());
  }

  // Runs `call`, in which now and then one of the driver's calls fails, any of them as likely as another.
  // True: it succeeded. A failure that was not asked for is wrong.
  template <class Call>
  bool guarded(const std::string& what, Call call) {
    Count& count = counts_[what];
    ++count.all;
    const bool fails = below(3) == 0;
    double_.reset();
    constexpr int out_of_memory = 2;  // on both vendors
    if (fails) double_.fail("*", 1 + below(count.calls), out_of_memory);
    bool done = true;
    try {
      call();
    } catch (const Error& error) {
      if (!fails) wrong(fmt::format("{}: {}", what, error.what()));
      done = false;
      ++count.failed;
    }
    if (!fails) count.calls = std::max<std::size_t>(1, double_.calls("*"));
    double_.reset();
    if (fails) pop_contexts();
    return done;
  }

  // What a pop that was made to fail has left.
  void pop_contexts() {
    if (backend_ != "cuda") return;
    using Pop = int(void**);
    auto* const pop = reinterpret_cast<Pop*>(
        conformance::vendor_function("RONDO_CUDA_LIBRARY", "libcuda.so.1", "cuCtxPopCurrent_v2"));
    void* context = nullptr;
    while (pop(&context) == 0) {
    }
  }

  DevicePointer address(const Operand& operand) const {
    return buffers_[operand.buffer].get() + operand.word * sizeof(unsigned);
  }

  ModelNode random_node() {
    ModelNode node{};
    node.kind =
        below(20) == 0 ? Kind::tiles : std::array{Kind::combine, Kind::job, Kind::copy, Kind::fill}[below(4)];
    node.out = {below(buffer_count), below(24)};
    node.in = {below(buffer_count), 32 + below(24)};
    node.value = random_word();
    return node;
  }

  NodeHandle add(GraphMaker& maker, GraphHandle graph, const ModelNode& node) {
    const ArgumentForm form = below(2) == 0 ? ArgumentForm::pointers : ArgumentForm::packed;
    conformance::PackedArguments combine(address(node.out), address(node.in), node.value),
        job(short{7}, Job{1, address(node.out), address(node.in), node.value, {}}),
        tiles(Tiles{{1, 2, 3}, address(node.out), {}});
    switch (node.kind) {
      case Kind::combine:
        return add_kernel(maker, graph, 0, combine, form);
      case Kind::job:
        return add_kernel(maker, graph, 1, job, form);
      case Kind::tiles:
        return add_kernel(maker, graph, 2, tiles, form);
      case Kind::copy:
        return maker.add_copy(graph, address(node.out), address(node.in), touched_words * sizeof(unsigned));
      case Kind::fill:
        break;
    }
    return maker.add_fill(graph, address(node.out), node.value, sizeof(unsigned), touched_words);
  }
  NodeHandle add_kernel(GraphMaker& maker, GraphHandle graph, std::size_t kernel,
                        const conformance::PackedArguments& arguments, ArgumentForm form) {
    const rtc::Entry& entry = binary_.entries[kernel];
    std::vector<ParameterLayout> layout;
    const std::vector<std::size_t> offsets = entry.offsets();
    for (std::size_t i = 0; i < offsets.size(); ++i) layout.push_back({offsets[i], entry.parameters[i].size});
    const FunctionHandle function = driver_.function(module_.get(), entry.lowered);
    return maker.add_kernel(graph, {function, {}, arguments.data(), arguments.size()}, layout, form);
  }

  // A chain; the nodes of `nodes` from first on, `count` of them, at `index` of the captured graph.
  NodeHandle add_chain(GraphMaker& maker, GraphHandle graph, std::vector<ModelNode>& nodes, std::size_t count,
                       std::uint32_t& index, NodeHandle before) {
    for (std::size_t i = 0; i < count; ++i) {
      nodes.push_back(random_node());
      nodes.back().index = index++;
      const NodeHandle node = add(maker, graph, nodes.back());
      const GraphEdge edge{before, node};
      if (before != nullptr) driver_.add_dependencies(graph, {&edge, 1});
      before = node;
    }
    return before;
  }

  void adopt() {
    Adopted made;
    {
      const auto maker = GraphMaker::make(backend_);
      made.graph = {driver_, driver_.create_graph()};
      std::uint32_t index = 0;
      NodeHandle last = add_chain(*maker, made.graph.get(), made.original, 1 + below(6), index, nullptr);
      if (below(3) == 0) {
        const OwnedGraph child{driver_, driver_.create_graph()};
        ++index;  // the child graph's own node
        add_chain(*maker, child.get(), made.original, 1 + below(3), index, nullptr);
        const NodeHandle node = maker->add_child(made.graph.get(), child.get());
        const GraphEdge edge{last, node};
        driver_.add_dependencies(made.graph.get(), {&edge, 1});
        last = node;
      }
      add_chain(*maker, made.graph.get(), made.original, below(4), index, last);
      made.exec = {driver_, driver_.instantiate(made.graph.get())};
    }
    made.now = made.in_exec = made.original;
    const bool done =
        guarded("adopt", [&] { made.captured = CapturedGraph::adopt(device_, made.graph.get(), options_); });
    if (!done) return;
    check_indices(made);
    made.arguments = kernel_arguments(made.graph.get());
    adopted_.push_back(std::move(made));
  }

  static void check_indices(const Adopted& made) {
    for (const ModelNode& node : made.original) {
      const CapturedNode& info = made.captured->nodes()[node.index];
      const char* const expected = node.kind == Kind::copy   ? "memcpy"
                                   : node.kind == Kind::fill ? "memset"
                                                             : "kernel";
      if (info.kind_name != expected || !info.problem.empty())
        wrong("node " + info.path + " was not adopted");
    }
  }

  std::vector<std::vector<std::byte>> kernel_arguments(GraphHandle graph) {
    const auto copy = CapturedGraph::adopt(device_, graph, options_);
    std::vector<std::vector<std::byte>> all;
    for (std::size_t i = 0; i < copy.nodes().size(); ++i) {
      for (std::size_t a = 0; a < copy.arguments(i); ++a) {
        const auto bytes = copy.argument(i, a);
        all.emplace_back(bytes.begin(), bytes.end());
      }
    }
    return all;
  }

  static bool points_to(const ModelNode& node, std::size_t buffer) {
    const bool has_input = node.kind != Kind::tiles && node.kind != Kind::fill;
    return node.out.buffer == buffer || (has_input && node.in.buffer == buffer);
  }

  void retarget(Adopted& it) {
    const std::size_t from = below(buffer_count), to = below(buffer_count);
    bool is_uncertain = false;
    for (const ModelNode& node : it.now) {
      if (backend_ == "cuda" && node.kind == Kind::tiles && node.out.buffer == from) is_uncertain = true;
    }
    if (is_uncertain) {
      bool refused = false;
      try {
        it.captured->retarget({buffers_[from].get(), buffer_bytes}, buffers_[to].get());
      } catch (const Error& error) {
        refused = error.code() == ErrorCode::bad_argument;
      }
      if (!refused) wrong("an uncertain word was retargeted");
      return;
    }
    if (!guarded("retarget", [&] {
          it.captured->retarget({buffers_[from].get(), buffer_bytes}, buffers_[to].get());
        })) {
      return;  // all or nothing: the next launches tell
    }
    for (ModelNode& node : it.now) {
      if (node.out.buffer == from) node.out.buffer = to;
      if (points_to(node, from) && node.in.buffer == from) node.in.buffer = to;
    }
  }

  void set_value(Adopted& it) {
    ModelNode& node = it.now[below(it.now.size())];
    const unsigned value = random_word();
    const auto bytes = std::as_bytes(std::span(&value, 1));
    guarded("set", [&] {
      if (node.kind == Kind::combine) it.captured->set_argument(node.index, 2, bytes);
      if (node.kind == Kind::job) it.captured->set_argument(node.index, 1, offsetof(Job, value), bytes);
      if (node.kind == Kind::fill) it.captured->set_argument(node.index, 1, bytes);
      node.value = value;
    });
  }

  void apply(Adopted& it) {
    const bool done = guarded("apply", [&] {
      const Status status = it.captured->apply(it.exec.get());
      if (!status.ok()) throw it.captured->error(status);
    });
    if (done) {
      it.in_exec = it.now;
    } else if (it.captured->has_failed()) {
      if (it.captured->apply(it.exec.get()).ok()) wrong("an exec that failed was updated again");
      it.exec = {driver_, driver_.instantiate(it.graph.get())};
      it.in_exec = it.original;
      it.captured->reset();
    } else if (below(4) == 0) {
      it.captured->reset();  // needless, and harmless
    }
  }

  void launch(Adopted& it) {
    ++counts_["launch"].all;
    {
      const DriverScope scope(driver_);
      check(scope.status(), "launching");
      check(driver_.launch_graph(it.exec.get(), stream_.get()), "launching");
    }
    Memory found;
    for (std::size_t i = 0; i < buffer_count; ++i) {
      check(driver_.read(found[i].data(), buffers_[i].get(), buffer_bytes, stream_.get()), "reading");
    }
    check(driver_.synchronize(stream_.get()), "reading");
    run_on_model(it.in_exec, memory_);
    if (found != memory_) wrong("the device's memory is not what the model has");
  }

  void destroy(std::list<Adopted>::iterator it) {
    ++counts_["destroy"].all;
    if (kernel_arguments(it->graph.get()) != it->arguments) wrong("the graph that was adopted has changed");
    if (below(2) == 0) it->captured.reset();  // else after the graph
    it->exec = {};
    it->graph = {};
    adopted_.erase(it);
  }

  // Everything but apply does without the driver's graph.
  void read_after_the_graph_has_gone(std::list<Adopted>::iterator it) {
    it->exec = {};
    it->graph = {};
    const CapturedPicture picture = it->captured->picture();
    if (CapturedPicture::parse(picture.to_json(), "").to_json() != picture.to_json())
      wrong("a picture is not read back");
    std::size_t places = 0;
    for (std::size_t i = 0; i < buffer_count; ++i) {
      places += it->captured->sites({buffers_[i].get(), buffer_bytes}).size();
    }
    if (places != picture.sites.size()) wrong("the picture has other sites");
    adopted_.erase(it);
  }

  const std::string backend_;
  std::mt19937 random_;
  const std::shared_ptr<Device> device_;
  Driver& driver_;
  const DoubleControl double_;
  rtc::Binary binary_;
  std::filesystem::path code_file_;
  AdoptOptions options_;
  OwnedModule module_;
  OwnedStream stream_;
  std::vector<OwnedMemory> buffers_;
  Memory memory_{};
  std::size_t handles_ = 0;
  std::list<Adopted> adopted_;
  std::map<std::string, Count> counts_;
};

// A library that has been unloaded can no longer hold what it never frees: LeakSanitizer would report it.
void keep_loaded(const char* variable) {
  if (const char* library = std::getenv(variable)) dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

}  // namespace
}  // namespace rondo

int main(int count, char** arguments) {
  if (count != 3 && count != 4) return 2;
  const unsigned seed = count == 4 ? static_cast<unsigned>(std::stoul(arguments[3])) : std::random_device{}();
  std::printf("seed %u\n", seed);
  rondo::keep_loaded("RONDO_NVRTC_LIBRARY");
  rondo::keep_loaded("RONDO_HIPRTC_LIBRARY");
  try {
    rondo::Rounds(arguments[1], seed).run(std::stoul(arguments[2]));
  } catch (const std::exception& error) {
    std::printf("wrong: %s\n", error.what());
    return 1;
  }
}
