// Which updates of a CUDA exec need the device's context current on the calling thread: every kind of node
// updated by the driver's call alone, on a thread with that context, with none, with one that was popped and
// with another one, each in a process of its own, because a driver may crash where cuda.h asks for no
// context.
//
//     context_need                    prints the table
//     context_need KIND SITUATION     one entry of it, in this process; by their numbers
//
// Exit code: 0; 1 where an update fails for which Rondo enters no context (ForeignKernel::needs_scope); 77
// where there is no CUDA device.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "compiler.h"
#include "cuda_graph_maker.h"
#include "foreign_graphs.h"
#include "handles.h"
#include "rondo/device.h"
#include "rondo/error.h"

namespace rondo::conformance {
namespace {

using cuda::Context;
using cuda::Result;

enum Kind { by_function, by_function_of_a_library, by_kernel, cooperative, memcpy_node, memset_node };
constexpr std::array kinds = {"kernel, CUfunction",
                              "kernel, CUfunction of a CUkernel",
                              "kernel, CUkernel",
                              "kernel, cooperative",
                              "memcpy",
                              "memset"};
enum Situation { own, none, popped, another };
constexpr std::array situations = {"own", "none", "popped", "another"};

constexpr int old_value = 1, new_value = 20, skipped = 77, needs_scope = 10;

constexpr const char* source =
    "extern \"C\" __global__ void store(int* out, int index, int value) { out[index] = value; }";

// As the kernel takes them.
struct Arguments {
  DevicePointer out;
  int index, value;
};

// A child's last line is what became of it.
void say(std::string_view text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

// A graph of one node that leaves old_value, and after the update new_value, in `out`.
class Probe {
 public:
  explicit Probe(Kind kind)
      : kind_(kind), binary_(compile()), library_(binary_.code, binary_.entries[0].lowered) {
    module_ = {driver_, driver_.load_module(binary_.code)};
    stream_ = {driver_, driver_.create_stream()};
    memory_ = {driver_, driver_.allocate(256)};
    graph_ = {driver_, driver_.create_graph()};
    const int values[] = {0, old_value, new_value};
    check(driver_.write(memory_.get(), values, sizeof values, stream_.get()), "writing");
    check(driver_.synchronize(stream_.get()), "writing");
    add_node();
    exec_ = {driver_, driver_.instantiate(graph_.get())};
    read_node();
  }

  bool needs_a_scope() const {
    if (kind_ == memcpy_node) return copy_.needs_scope;
    return kind_ == memset_node ? set_.needs_scope : kernel_.needs_scope;
  }

  Status update() {
    if (kind_ == memcpy_node) {
      copy_.from.address = address_of(2);
      return graphs_.update(exec_.get(), node_, copy_);
    }
    if (kind_ == memset_node) {
      set_.value = new_value;
      return graphs_.update(exec_.get(), node_, set_);
    }
    std::memcpy(kernel_.arguments.data() + offsetof(Arguments, value), &new_value, sizeof new_value);
    return graphs_.update(exec_.get(), node_, kernel_);
  }

  int result() {
    int value = 0;
    const DriverScope scope(driver_);
    check(scope.status(), "entering the context");
    check(driver_.launch_graph(exec_.get(), stream_.get()), "launching");
    check(driver_.read(&value, memory_.get(), sizeof value, stream_.get()), "reading");
    check(driver_.synchronize(stream_.get()), "waiting");
    return value;
  }

 private:
  DevicePointer address_of(std::size_t index) const { return memory_.get() + index * sizeof(int); }

  rtc::Binary compile() const {
    rtc::CompileRequest request;
    request.file = "context_need.cu";
    request.source = source;
    request.entries = {"store"};
    request.architecture = device_->properties().architecture;
    return device_->compiler().compile(request);
  }

  void add_node() {
    const Arguments arguments{memory_.get(), 0, old_value};
    const std::array<ParameterLayout, 3> layout = {{{0, 8}, {8, 4}, {12, 4}}};
    KernelLaunch launch{driver_.function(module_.get(), binary_.entries[0].lowered),
                        {},
                        reinterpret_cast<const std::byte*>(&arguments),
                        sizeof arguments};
    switch (kind_) {
      case memcpy_node:
        node_ = maker_->add_copy(graph_.get(), memory_.get(), address_of(1), sizeof(int));
        return;
      case memset_node:
        node_ = maker_->add_fill(graph_.get(), memory_.get(), old_value, sizeof(int), 1);
        return;
      case by_kernel:
        node_ = add_library_kernel(arguments);
        return;
      case by_function_of_a_library: {
        const auto get = cuda_function<Result(cuda::Function*, cuda::Kernel)>("cuKernelGetFunction");
        cuda::Function function = nullptr;
        check_vendor(static_cast<int>(get(&function, library_.kernel())), "cuKernelGetFunction");
        launch.function = reinterpret_cast<FunctionHandle>(function);
        break;
      }
      default:
        break;
    }
    node_ = maker_->add_kernel(graph_.get(), launch, layout, ArgumentForm::pointers);
    if (kind_ != cooperative) return;
    cuda::LaunchAttributeValue value{};
    value.cooperative = 1;
    const auto set =
        cuda_function<Result(cuda::Node, cuda::LaunchAttribute, const cuda::LaunchAttributeValue*)>(
            "cuGraphKernelNodeSetAttribute");
    check_vendor(static_cast<int>(set(native(node_), cuda::LaunchAttribute::cooperative, &value)),
                 "cuGraphKernelNodeSetAttribute");
  }

  NodeHandle add_library_kernel(Arguments arguments) {
    std::size_t bytes = sizeof arguments;
    void* extra[] = {cuda::launch_buffer(), &arguments, cuda::launch_buffer_size(), &bytes,
                     cuda::launch_end()};
    const cuda::KernelNodeParameters parameters{nullptr,           1,      1, 1, 1, 1, 1, 0, nullptr, extra,
                                                library_.kernel(), nullptr};
    cuda::Node node = nullptr;
    check_vendor(static_cast<int>(cuda::load_api()->cuGraphAddKernelNode_v2(
                     &node, reinterpret_cast<cuda::Graph>(graph_.get()), nullptr, 0, &parameters)),
                 "cuGraphAddKernelNode_v2");
    return reinterpret_cast<NodeHandle>(node);
  }

  void read_node() {
    if (kind_ == memcpy_node) {
      copy_ = graphs_.read_memcpy(node_);
    } else if (kind_ == memset_node) {
      set_ = graphs_.read_memset(node_);
    } else {
      kernel_ = graphs_.read_kernel(node_, nullptr);
    }
  }

  static cuda::Node native(NodeHandle node) { return reinterpret_cast<cuda::Node>(node); }

  const Kind kind_;
  const std::shared_ptr<Device> device_ = open_device("cuda:0");
  Driver& driver_ = device_->driver();
  ForeignGraphs& graphs_ = *driver_.foreign_graphs();
  const std::unique_ptr<GraphMaker> maker_ = GraphMaker::make("cuda");
  const rtc::Binary binary_;
  const CudaLibrary library_;
  OwnedModule module_;
  OwnedStream stream_;
  OwnedMemory memory_;
  OwnedGraph graph_;
  NodeHandle node_ = nullptr;
  OwnedExec exec_;
  ForeignKernel kernel_;
  ForeignMemcpy copy_;
  ForeignMemset set_;
};

Context current_context() {
  Context context = nullptr;
  check_vendor(static_cast<int>(cuda::load_api()->cuCtxGetCurrent(&context)), "cuCtxGetCurrent");
  return context;
}

Status update_in(Situation situation, Probe& probe, Context own_context) {
  const auto api = cuda::load_api();
  if (situation == own || situation == popped)
    check_vendor(static_cast<int>(api->cuCtxPushCurrent_v2(own_context)), "cuCtxPushCurrent_v2");
  Context context = nullptr;
  if (situation == popped)
    check_vendor(static_cast<int>(api->cuCtxPopCurrent_v2(&context)), "cuCtxPopCurrent_v2");
  if (situation == another) {
    const auto create = cuda_function<Result(Context*, unsigned, cuda::Device)>("cuCtxCreate_v2");
    check_vendor(static_cast<int>(create(&context, 0, 0)), "cuCtxCreate_v2");
  }
  const Context before = current_context();
  say("in the update");
  const Status status = probe.update();
  say("after the update");
  if (current_context() != before) throw std::runtime_error("another context is current after the update");
  // The other context lives as long as this process.
  return status;
}

bool has_kernel_functions() {
  try {
    cuda_function<Result(cuda::Function*, cuda::Kernel)>("cuKernelGetFunction");
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

// 0: the update worked; needs_scope where it did and Rondo makes it in a context; skipped.
int run_one(Kind kind, Situation situation) {
  if (kind == by_function_of_a_library && !has_kernel_functions()) {
    say("the driver has no cuKernelGetFunction");
    return skipped;
  }
  say("making the graph");
  Probe probe(kind);
  const Context own_context = current_context();
  if (probe.result() != old_value) throw std::runtime_error("wrong before the update");
  Status status;
  std::exception_ptr problem;
  std::thread([&] {
    try {
      status = update_in(situation, probe, own_context);
    } catch (...) {
      problem = std::current_exception();
    }
  }).join();
  if (problem) std::rethrow_exception(problem);
  if (!status.ok()) throw std::runtime_error(fmt::format("{}: {}", status.call, status.driver_name));
  say("launching after the update");
  if (probe.result() != new_value) throw std::runtime_error("no effect");
  say(probe.needs_a_scope() ? "ok" : "ok, and no scope is entered");
  return probe.needs_a_scope() ? needs_scope : 0;
}

struct Outcome {
  std::string text;
  bool worked = false, is_relied_on = false;
};

// The same in a process of its own, which must not be a fork of one that has called the driver.
Outcome run_apart(std::size_t kind, std::size_t situation) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const std::string first = std::to_string(kind), second = std::to_string(situation);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    constexpr unsigned patience_seconds = 120;
    alarm(patience_seconds);
    execl("/proc/self/exe", "context_need", first.c_str(), second.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  std::string said;
  char buffer[512];
  for (ssize_t bytes = 0; (bytes = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(bytes));
  close(ends[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("a lost process");
  if (!said.empty() && said.back() == '\n') said.pop_back();
  const std::string last = said.substr(said.rfind('\n') + 1);
  if (WIFSIGNALED(status)) return {fmt::format("{} {}", strsignal(WTERMSIG(status)), last), false, false};
  const int code = WEXITSTATUS(status);
  return {last, code == 0 || code == needs_scope || code == skipped, code == 0};
}

int print_table() {
  // Whether a kind is relied on shows where its update surely works.
  bool failed = false;
  fmt::print("{:34}{:10}{}\n", "node", "context", "update without a scope");
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    bool is_relied_on = false;
    for (std::size_t situation = 0; situation < situations.size(); ++situation) {
      const Outcome outcome = run_apart(kind, situation);
      is_relied_on = is_relied_on || outcome.is_relied_on;
      failed = failed || (!outcome.worked && (situation == own || is_relied_on));
      fmt::print("{:34}{:10}{}\n", kinds[kind], situations[situation], outcome.text);
      std::fflush(stdout);
    }
  }
  return failed ? 1 : 0;
}

int one_entry(std::string_view kind, std::string_view situation) {
  const auto index = [](std::string_view text, std::size_t count) {
    std::size_t value = 0;
    const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || rest != text.data() + text.size() || value >= count)
      throw std::runtime_error(fmt::format("expected a number below {}, found \"{}\"", count, text));
    return value;
  };
  return run_one(static_cast<Kind>(index(kind, kinds.size())),
                 static_cast<Situation>(index(situation, situations.size())));
}

}  // namespace
}  // namespace rondo::conformance

int main(int argc, char** argv) {
  using namespace rondo::conformance;
  try {
    if (argc == 3) return one_entry(argv[1], argv[2]);
    if (argc != 1) throw std::runtime_error("context_need [KIND SITUATION]");
    rondo::cuda::load_api();
  } catch (const rondo::Error& error) {
    say(error.what());
    return error.code() == rondo::ErrorCode::missing_backend ? skipped : 1;
  } catch (const std::exception& error) {
    say(error.what());
    return 1;
  }
  return print_table();
}
