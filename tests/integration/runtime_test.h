// For tests that capture through CUDA's runtime interface and hand the graph to Rondo.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "rondo/captured_graph.h"
#include "rondo/device.h"
#include "runtime_calls.h"

namespace rondo::integration {

// Device memory of the runtime's.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    void* pointer = nullptr;
    RUNTIME_CHECK(cudaMalloc(&pointer, bytes));
    memory_.reset(pointer);
  }

  template <class T = void>
  T* get() const {
    return static_cast<T*>(memory_.get());
  }
  AddressRange range() const { return {reinterpret_cast<std::uintptr_t>(memory_.get()), bytes_}; }

  void write(const void* values) {
    RUNTIME_CHECK(cudaMemcpy(memory_.get(), values, bytes_, cudaMemcpyHostToDevice));
  }
  std::vector<std::byte> read() const {
    std::vector<std::byte> bytes(bytes_);
    RUNTIME_CHECK(cudaMemcpy(bytes.data(), memory_.get(), bytes_, cudaMemcpyDeviceToHost));
    return bytes;
  }
  void poison() {
    RUNTIME_CHECK(cudaMemset(memory_.get(), 0xff, bytes_));
    RUNTIME_CHECK(cudaDeviceSynchronize());
  }
  bool is_poisoned() const { return read() == std::vector(bytes_, std::byte{0xff}); }

 private:
  struct Free {
    void operator()(void* pointer) const { cudaFree(pointer); }
  };
  std::size_t bytes_;
  std::unique_ptr<void, Free> memory_;
};

// A graph that was captured, and an exec of it.
class Captured {
 public:
  explicit Captured(cudaGraph_t made) : graph_(made) {
    cudaGraphExec_t exec = nullptr;
    RUNTIME_CHECK(cudaGraphInstantiate(&exec, made, 0));
    exec_.reset(exec);
  }

  cudaGraph_t graph() const { return graph_.get(); }
  cudaGraphExec_t exec() const { return exec_.get(); }
  void launch(cudaStream_t stream) const {
    RUNTIME_CHECK(cudaGraphLaunch(exec_.get(), stream));
    RUNTIME_CHECK(cudaStreamSynchronize(stream));
  }

 private:
  struct Destroy {
    void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
    void operator()(cudaGraphExec_t exec) const { cudaGraphExecDestroy(exec); }
  };
  std::unique_ptr<CUgraph_st, Destroy> graph_;
  std::unique_ptr<CUgraphExec_st, Destroy> exec_;  // goes first
};

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0)
      GTEST_SKIP() << "CUDA's runtime finds no device: " << cudaGetErrorName(error);
    RUNTIME_CHECK(cudaSetDevice(0));
    device_ = open_device("cuda:0");
    RUNTIME_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  // Every node is there, and can be changed.
  static void expect_all(const CapturedGraph& captured, cudaGraph_t graph) {
    std::size_t count = 0;
    RUNTIME_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
    EXPECT_EQ(captured.nodes().size(), count);
    for (const CapturedNode& node : captured.nodes())
      EXPECT_EQ(node.problem, "") << "node " << node.path << ", " << node.kind_name << ' '
                                  << node.demangled();
  }
  void apply(CapturedGraph& captured, const Captured& to) {
    const Status status = captured.apply(to.exec());
    if (!status.ok()) throw captured.error(status);
  }
  std::size_t below(std::size_t bound) { return random_() % bound; }

  std::shared_ptr<Device> device_;
  cudaStream_t stream_ = nullptr;
  std::mt19937 random_{std::random_device{}()};
};

}  // namespace rondo::integration
