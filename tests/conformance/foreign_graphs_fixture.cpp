#include "foreign_graphs_fixture.h"

#include <map>
#include <stdexcept>

#include "must_be_there.h"
#include "rondo/error.h"

namespace rondo::conformance {
namespace {

constexpr const char* source = R"(
struct Job {
  int pad;
  int* out;
  int value;
  char tail[3];
};
__global__ void nothing() {}
__global__ void store(int* out, int index, int value) { out[index] = value; }
__global__ void append_digit(unsigned long long* out, int digit) { *out = 10 * *out + static_cast<unsigned long long>(digit); }
__global__ void store_job(int*, short more, Job job) { *job.out = job.value + more; }
)";

struct Compiled {
  std::shared_ptr<Device> device;  // null: not there
  std::string problem;
  rtc::Binary binary;
};

const Compiled& compiled(const std::string& spec) {
  // Never destroyed: a driver's library may be gone by the time static objects are.
  static auto& all = *new std::map<std::string, Compiled>;
  const auto found = all.find(spec);
  if (found != all.end()) return found->second;
  Compiled& made = all[spec];
  try {
    auto device = open_device(spec);
    rtc::CompileRequest request;
    request.file = "foreign_graphs.cu";
    request.source = source;
    request.entries = {"nothing", "store", "append_digit", "store_job"};
    request.architecture = device->properties().architecture;
    made.binary = device->compiler().compile(request);
    made.device = std::move(device);
  } catch (const Error& error) {
    made.problem = error.what();
    if (error.code() != ErrorCode::missing_backend) throw;
  }
  return made;
}

}  // namespace

void ForeignGraphsTest::SetUp() {
  const Compiled& found = compiled(GetParam());
  if (found.device == nullptr) {
    if (must_be_there(GetParam())) FAIL() << found.problem;
    GTEST_SKIP() << found.problem;
  }
  device_ = found.device;
  binary_ = &found.binary;
  ASSERT_NE(driver().foreign_graphs(), nullptr);
  if (GetParam() == "hip") code_objects_.add(binary_->code, "the kernels of this test");
  maker_ = GraphMaker::make(GetParam());
  module_ = driver().load_module(binary_->code);
  stream_ = driver().create_stream();
}

void ForeignGraphsTest::TearDown() {
  if (device_ == nullptr) return;
  if (stream_ != nullptr) driver().destroy_stream(stream_);
  for (ExecHandle exec : execs_) driver().destroy_exec(exec);
  for (GraphHandle graph : graphs_) driver().destroy_graph(graph);
  for (DevicePointer pointer : memory_) driver().release(pointer);
  if (module_ != nullptr) driver().unload_module(module_);
}

const rtc::Entry& ForeignGraphsTest::entry(const std::string& kernel) const {
  for (const rtc::Entry& entry : binary_->entries) {
    if (entry.expression == kernel) return entry;
  }
  throw std::logic_error("no kernel " + kernel);
}

std::vector<ParameterLayout> ForeignGraphsTest::layout(const std::string& kernel) const {
  std::vector<ParameterLayout> layout;
  const std::vector<std::size_t> offsets = entry(kernel).offsets();
  for (std::size_t i = 0; i < offsets.size(); ++i)
    layout.push_back({offsets[i], entry(kernel).parameters[i].size});
  return layout;
}

DevicePointer ForeignGraphsTest::memory(std::size_t bytes) {
  memory_.push_back(driver().allocate(bytes));
  EXPECT_TRUE(driver().fill_bytes(memory_.back(), 0xcd, bytes, stream_).ok());
  EXPECT_TRUE(driver().synchronize(stream_).ok());
  return memory_.back();
}

GraphHandle ForeignGraphsTest::make_graph() {
  graphs_.push_back(driver().create_graph());
  return graphs_.back();
}

NodeHandle ForeignGraphsTest::add(GraphHandle graph, const std::string& kernel,
                                  const PackedArguments& arguments, ArgumentForm form, LaunchShape shape) {
  return maker().add_kernel(graph, {function(kernel), shape, arguments.data(), arguments.size()},
                            layout(kernel), form);
}

ExecHandle ForeignGraphsTest::instantiate(GraphHandle graph) {
  execs_.push_back(driver().instantiate(graph));
  return execs_.back();
}

void ForeignGraphsTest::run(ExecHandle exec) {
  const DriverScope scope(driver());
  ASSERT_TRUE(scope.status().ok());
  const Status launched = driver().launch_graph(exec, stream_);
  ASSERT_TRUE(launched.ok()) << launched.call << ' ' << launched.driver_name;
  const Status ended = driver().synchronize(stream_);
  ASSERT_TRUE(ended.ok()) << ended.call << ' ' << ended.driver_name;
}

}  // namespace rondo::conformance
