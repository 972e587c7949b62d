#include "graph_trial.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

#include "cache.h"
#include "compiler.h"
#include "handles.h"
#include "rondo/error.h"

namespace rondo {
namespace {

constexpr const char* source = R"(
extern "C" __global__ void rondo_trial(unsigned* out, unsigned index, unsigned value) { out[index] = value; }
)";

// As the kernel's parameters lie.
struct Arguments {
  DevicePointer out;
  std::uint32_t index, value;
};

constexpr std::uint32_t poison = 0xa5a5a5a5;
using Words = std::array<std::uint32_t, 3>;

// A call that failed, or a result that is wrong: the end of the trial.
struct Problem {
  std::string text;
};

void require(const Status& status) {
  if (status.ok()) return;
  throw Problem{status.driver_code == 0
                    ? status.call
                    : fmt::format("{} fails: {} ({})", status.call, status.driver_name, status.driver_code)};
}

class Trial {
 public:
  Trial(Driver& driver, const rtc::Binary& binary)
      : driver_(driver),
        stream_(driver, driver.create_stream()),
        memory_(driver, driver.allocate(sizeof(Words))),
        module_(driver, driver.load_module(binary.code)),
        function_(driver.function(module_.get(), binary.entries[0].lowered)) {}
  ~Trial() { static_cast<void>(driver_.synchronize(stream_.get())); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  void run() {
    build();
    poison_all();
    launch();
    expect({17, 23, poison}, "two nodes of one kernel do not keep their own arguments");

    require(update(first_, {memory_.get(), 0, 29}));
    launch();
    expect({29, 23, poison},
           "an update of a node reports success, and the next launch runs the old arguments");

    poison_all();
    launch();
    require(update(first_, {memory_.get(), 2, 31}));
    launch();
    expect({29, 23, 31}, "a launch that was queued before an update does not keep its own arguments");

    poison_all();
    require(driver_.enable_node(exec_.get(), second_, false));
    launch();
    expect({poison, poison, 31}, "a node that is disabled runs");
    require(driver_.enable_node(exec_.get(), second_, true));
    launch();
    expect({poison, 23, 31}, "a node that is enabled again does not run");
  }

 private:
  KernelLaunch kernel_launch(const Arguments& arguments) const {
    return {.function = function_,
            .shape = {.grid = {1, 1, 1}, .block = {1, 1, 1}},
            .arguments = reinterpret_cast<const std::byte*>(&arguments),
            .argument_bytes = sizeof arguments};
  }
  NodeHandle add(const Arguments& arguments) {
    return driver_.add_kernel_node(graph_.get(), kernel_launch(arguments));
  }
  void build() {
    graph_ = OwnedGraph(driver_, driver_.create_graph());
    first_ = add({memory_.get(), 0, 17});
    second_ = add({memory_.get(), 1, 23});
    const GraphEdge edge{first_, second_};
    driver_.add_dependencies(graph_.get(), {&edge, 1});
    exec_ = OwnedExec(driver_, driver_.instantiate(graph_.get()));
  }
  Status update(NodeHandle node, const Arguments& arguments) {
    return driver_.update_kernel_node(exec_.get(), node, kernel_launch(arguments));
  }
  void poison_all() {
    require(driver_.fill_bytes(memory_.get(), poison & 0xff, sizeof(Words), stream_.get()));
  }
  void launch() { require(driver_.launch_graph(exec_.get(), stream_.get())); }
  void expect(const Words& wanted, const char* otherwise) {
    Words found{};
    require(driver_.read(found.data(), memory_.get(), sizeof found, stream_.get()));
    require(driver_.synchronize(stream_.get()));
    if (found != wanted) throw Problem{otherwise};
  }

  Driver& driver_;
  OwnedStream stream_;
  OwnedMemory memory_;
  OwnedModule module_;
  const FunctionHandle function_;
  OwnedGraph graph_;
  OwnedExec exec_;
  NodeHandle first_ = nullptr, second_ = nullptr;
};

}  // namespace

std::string try_graphs(Driver& driver, rtc::Compiler& compiler, rtc::BinaryCache* cache) {
  rtc::CompileRequest request;
  request.file = "rondo/graph_trial.cu";
  request.source = source;
  request.entries = {"rondo_trial"};
  request.architecture = driver.properties().architecture;
  const std::vector<rtc::Binary> binaries = rtc::compile_all(compiler, cache, {&request, 1}, 1);
  Trial trial(driver, binaries[0]);
  const DriverScope scope(driver);
  check(scope.status(), "entering the driver");
  try {
    trial.run();
    return "";
  } catch (const Problem& problem) {
    return problem.text;
  } catch (const Error& error) {
    return error.what();  // what it says is the clause: "adding a kernel node: hipGraphAddKernelNode: …"
  }
}

}  // namespace rondo
