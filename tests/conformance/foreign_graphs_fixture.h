// A device, kernels, and graphs that were made past Rondo.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "code_objects.h"
#include "driver_conformance.h"
#include "foreign_graphs.h"
#include "graph_maker.h"

namespace rondo::conformance {

// As the kernel "store_job" takes it.
struct Job {
  int pad;
  DevicePointer out;
  int value;
  char tail[3];
};

inline constexpr int poison = static_cast<int>(0xcdcdcdcd);

// The parameter is what open_device takes.
class ForeignGraphsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
  void TearDown() override;

  Driver& driver() { return device_->driver(); }
  ForeignGraphs& graphs() { return *driver().foreign_graphs(); }
  GraphMaker& maker() { return *maker_; }
  const rtc::Binary& binary() const { return *binary_; }
  const std::string& lowered(const std::string& kernel) const { return entry(kernel).lowered; }
  FunctionHandle function(const std::string& kernel) { return driver().function(module_, lowered(kernel)); }
  std::vector<ParameterLayout> layout(const std::string& kernel) const;

  // Of the kernels here, for HIP; null where the driver knows their layouts.
  const CodeObjects* code_objects() const { return GetParam() == "hip" ? &code_objects_ : nullptr; }

  DevicePointer memory(std::size_t bytes);  // poisoned; goes with the test
  template <class T>
  std::vector<T> read(DevicePointer from, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(driver().read(values.data(), from, count * sizeof(T), stream_).ok());
    EXPECT_TRUE(driver().synchronize(stream_).ok());
    return values;
  }
  template <class T>
  void write(DevicePointer to, const std::vector<T>& values) {
    EXPECT_TRUE(driver().write(to, values.data(), values.size() * sizeof(T), stream_).ok());
    EXPECT_TRUE(driver().synchronize(stream_).ok());
  }

  GraphHandle make_graph();  // goes with the test
  NodeHandle add(GraphHandle graph, const std::string& kernel, const PackedArguments& arguments,
                 ArgumentForm form, LaunchShape shape = {});
  ExecHandle instantiate(GraphHandle graph);  // goes with the test
  template <class Parameters>
  Status update_node(ExecHandle exec, NodeHandle node, const Parameters& parameters) {
    const DriverScope scope(driver());
    return scope.status().ok() ? graphs().update(exec, node, parameters) : scope.status();
  }
  void run(ExecHandle exec);

  StreamHandle stream_ = nullptr;

 private:
  const rtc::Entry& entry(const std::string& kernel) const;

  std::shared_ptr<Device> device_;
  const rtc::Binary* binary_ = nullptr;
  SearchedCodeObjects code_objects_;
  std::unique_ptr<GraphMaker> maker_;
  ModuleHandle module_ = nullptr;
  std::vector<DevicePointer> memory_;
  std::vector<GraphHandle> graphs_;
  std::vector<ExecHandle> execs_;
};

}  // namespace rondo::conformance
