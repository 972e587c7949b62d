// What a step asks of the heap on Rondo's side of the driver: nothing. Every operator new of this thread is
// counted whose first caller, on the way up from it, among this program and the vendor's library is this
// program: what the vendor's library asks for is its own matter. The host device is not here: its launches
// are its own driver's, which hands work to its threads and may allocate.
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "driver.h"
#include "handles.h"
#include "must_be_there.h"
#include "rondo/device.h"
#include "rondo/session.h"

namespace {

thread_local bool is_counting = false;
thread_local std::size_t allocations = 0;

const void* object_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}
// This program, the C++ and the C library are passed by on the way up, or stop it; anything else is a
// vendor's.
enum class Owner { program, runtime, vendor };
Owner owner_of(const void* address) {
  static const void* const program = object_of(reinterpret_cast<const void*>(&object_of));
  static const void* const cxx = object_of(dlsym(RTLD_DEFAULT, "__cxa_throw"));
  static const void* const c = object_of(dlsym(RTLD_DEFAULT, "qsort"));
  const void* const object = object_of(address);
  if (object == program) return Owner::program;
  return object == cxx || object == c ? Owner::runtime : Owner::vendor;
}

[[gnu::noinline]] void count() {
  is_counting = false;  // backtrace may allocate the first time
  void* frames[64];
  const int depth = backtrace(frames, 64);
  constexpr int ours = 2;  // count and operator new
  for (int i = ours; i < depth; ++i) {
    const Owner owner = owner_of(frames[i]);
    if (owner == Owner::runtime) continue;
    if (owner == Owner::program) ++allocations;
    break;
  }
  is_counting = true;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (is_counting) count();
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace rondo {
namespace {

std::size_t allocations_of(const auto& work) {
  allocations = 0;
  is_counting = true;
  work();
  is_counting = false;
  return allocations;
}

constexpr const char* schedule = R"j({
  "rondo": 1, "name": "every way to depend on a param",
  "params": {"all": {"type": "i32", "step": 0}, "one": {"type": "i32", "step": 0}, "f": {"type": "f32", "step": 0.5},
             "at": {"type": "i64", "step": 0}, "on": {"type": "i32", "step": 1, "min": 0, "max": 2}, "s": {"type": "i64", "step": 0},
             "n": {"type": "i32", "constant": 50}},
  "buffers": {"out": {"type": "i32", "shape": [64], "role": "state", "fill": 0}},
  "kernels": {
    "put": {"entry": "put", "code": "extern \"C\" __global__ void put(int* out, int value, float f) { *out = value + static_cast<int>(f); }"},
    "read": {"entry": "read", "code": "extern \"C\" __global__ void read(int* out, const long long* s) { *out = static_cast<int>(*s); }"}},
  "ops": [
    {"repeat": "i", "count": "n", "ops": [{"kernel": "put", "grid": [1], "block": [1], "args": ["out[i]", "all + i", "f"]}]},
    {"kernel": "put", "grid": [1], "block": [1], "args": ["out[50]", "one", 0.5]},
    {"kernel": "put", "grid": [1], "block": [1], "args": ["out[at]", 1, 0.5]},
    {"kernel": "put", "grid": [1], "block": [1], "args": ["out[at * at : 1]", "one * all", 0.5]},
    {"kernel": "put", "grid": ["on"], "block": [1], "args": ["out[52]", "one", 0.5]},
    {"kernel": "read", "grid": [1], "block": [1], "args": ["out[53]", {"slot": "s"}]}]
})j";

class StepAllocation : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { open_or_skip(GetParam(), device_); }

  std::shared_ptr<Device> device_;
};

INSTANTIATE_TEST_SUITE_P(Devices, StepAllocation, ::testing::Values("cuda", "hip"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(StepAllocation, AStepAllocatesNothingInEitherMode) {
  for (const Mode mode : {Mode::graph, Mode::eager}) {
    SessionOptions options;
    options.mode = mode;
    options.updates_before_renewal = 200;  // new graphs are made by a thread of their own
    Session session = Session::parse(schedule, "steps.json", device_, options);
    ASSERT_EQ(session.mode(), mode);
    const auto param = [&](const char* name) { return session.param(name); };
    const ParamHandle all = param("all"), one = param("one"), f = param("f"), at = param("at"),
                      on = param("on"), s = param("s"), n = param("n");
    const BufferHandle out = session.buffer("out");
    const std::size_t bytes = session.buffers()[out.index].bytes;
    const OwnedMemory mine(device_->driver(), device_->driver().allocate(bytes));
    std::size_t done = 0, refused = 0;
    const auto count = [&](const Status& status) { ++(status.ok() ? done : refused); };
    const auto step = [&](int i) {
      count(session.launch());  // nothing has changed
      count(session.set(one, i));
      count(session.launch());
      count(session.set(all, i));
      count(session.set(f, 0.25 * i));
      count(session.launch());
      count(session.set(s, std::int64_t{5} * i));
      count(session.launch());
      count(session.set(on, i % 3));
      count(session.launch());
      count(session.set(at, 1 + i % 7));
      count(session.launch());
      count(session.bind(out, mine.get(), bytes));
      count(session.launch());
      count(session.unbind(out));
      count(session.launch());
      count(session.synchronize());
      // What is refused: by set, by bind, and by launch.
      count(session.set(on, 3));
      count(session.set(f, 1e39));
      count(session.set(n, 3));
      count(session.set(one, 0.5));
      count(session.bind(out, 4, bytes));
      count(session.set(at, 1000));
      count(session.launch());
      count(session.set(at, 1));
      count(session.launch());
    };
    constexpr int steps = 100;
    EXPECT_EQ(allocations_of([&] {
                for (int i = 1; i <= steps; ++i) step(i);
              }),
              0U);
    EXPECT_EQ(done, steps * 20U);
    EXPECT_EQ(refused, steps * 6U);
    ASSERT_TRUE(session.synchronize().ok());
    EXPECT_FALSE(session.failed());
    // That the count counts: a message is made of strings.
    const Status refusal = session.set(n, 3);
    EXPECT_GT(allocations_of([&] { static_cast<void>(session.error(refusal)); }), 0U);
  }
}

}  // namespace
}  // namespace rondo
