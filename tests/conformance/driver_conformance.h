// What every backend's driver must do, tested by what kernels leave in memory and not by what calls return. A
// test of a device that is not there is skipped, and says why.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler.h"
#include "driver.h"
#include "gate.h"
#include "rondo/device.h"

namespace rondo::conformance {

// A kernel's arguments, packed by C's rules for a struct of them.
class PackedArguments {
 public:
  template <class... T>
  explicit PackedArguments(const T&... values) {
    (add(&values, sizeof values, alignof(T)), ...);
  }
  const std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  // What a driver that kept a pointer to them would find.
  void overwrite() { std::fill(bytes_.begin(), bytes_.end(), std::byte{0xa5}); }

 private:
  void add(const void* value, std::size_t bytes, std::size_t alignment) {
    const std::size_t offset = (bytes_.size() + alignment - 1) / alignment * alignment;
    bytes_.resize(offset + bytes);
    std::memcpy(bytes_.data() + offset, value, bytes);
  }
  std::vector<std::byte> bytes_;
};

// One device, opened and its kernels compiled once for all tests.
struct TestDevice {
  std::shared_ptr<Device> device;  // null: not there
  std::string problem;
  rtc::Binary binary;

  static TestDevice& get(const std::string& spec);
};

// The parameter is what open_device takes.
class DriverConformance : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
  void TearDown() override;

  Driver& driver() { return *driver_; }
  const rtc::Entry& entry(const std::string& kernel) const;
  FunctionHandle function(const std::string& kernel);
  KernelLaunch make_launch(const std::string& kernel, const PackedArguments& arguments,
                           LaunchShape shape = {}) {
    return {function(kernel), shape, arguments.data(), arguments.size()};
  }
  Status launch(const std::string& kernel, PackedArguments arguments, LaunchShape shape = {});

  // Memory that goes with the test, every byte of it `fill`.
  DevicePointer memory(std::size_t bytes, std::uint8_t fill = 0xcd);
  template <class T>
  std::vector<T> read(DevicePointer from, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(driver().read(values.data(), from, count * sizeof(T), stream_).ok());
    const Status status = driver().synchronize(stream_);
    EXPECT_TRUE(status.ok()) << status.call << ' ' << status.driver_name;
    return values;
  }
  template <class T>
  T read_one(DevicePointer from) {
    return read<T>(from, 1)[0];
  }

  GraphHandle graph();
  NodeHandle add_node(GraphHandle graph, const std::string& kernel, PackedArguments arguments,
                      LaunchShape shape = {});
  void depend(GraphHandle graph, NodeHandle before, NodeHandle after, EdgeKind kind = EdgeKind::full) {
    const GraphEdge edge{before, after, kind};
    driver().add_dependencies(graph, {&edge, 1});
  }
  ExecHandle instantiate(GraphHandle graph);
  Status update(ExecHandle exec, NodeHandle node, const std::string& kernel, PackedArguments arguments,
                LaunchShape shape = {});

  StreamHandle stream_ = nullptr;

 private:
  Driver* driver_ = nullptr;
  std::optional<DriverScope> scope_;
  const TestDevice* test_device_ = nullptr;
  ModuleHandle module_ = nullptr;
  std::map<std::string, FunctionHandle> functions_;
  std::vector<DevicePointer> memory_;
  std::vector<GraphHandle> graphs_;
  std::vector<ExecHandle> execs_;
};

}  // namespace rondo::conformance
