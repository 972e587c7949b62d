// The one interface that a backend implements. Everything above it (plan, graph, session) is free of vendors.
//
// Calls that a step makes return a Status, are noexcept and allocate nothing on our side; all others throw rondo::Error with the
// driver's own code and name in it. No call leaves a context of ours current on the calling thread. Calls may be made from several
// threads, where they are not about the same stream, graph or exec.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch_attributes.h"
#include "rondo/device_properties.h"
#include "rondo/launch_shape.h"
#include "rondo/status.h"

namespace rondo {

// A device address; on the host backend an ordinary pointer's value.
using DevicePointer = std::uint64_t;

// Opaque handles: on cuda they are the driver's own (CUstream, CUevent, CUmodule, CUfunction, CUgraph, CUgraphNode, CUgraphExec).
using StreamHandle = struct StreamOpaque*;
using EventHandle = struct EventOpaque*;
using ModuleHandle = struct ModuleOpaque*;
using FunctionHandle = struct FunctionOpaque*;
using GraphHandle = struct GraphOpaque*;
using NodeHandle = struct NodeOpaque*;
using ExecHandle = struct ExecOpaque*;

// One parameter as the driver lays it out in the packed argument buffer.
struct ParameterLayout {
  std::size_t offset, size;
};

struct FunctionInfo {
  std::vector<ParameterLayout> parameters;  // empty with layout_known == false where the driver cannot tell
  bool layout_known = false;
  std::size_t static_shared_bytes = 0;
  std::size_t max_threads_per_block = 0;  // of this kernel, by its register use
  std::optional<std::size_t> registers, local_bytes;  // a thread's; empty where the driver does not tell
};

// Everything one launch of a kernel needs. `arguments` is the packed buffer: the parameters at their C offsets. It is owned by
// the caller, and read (copied) by the driver during the call alone.
struct KernelLaunch {
  FunctionHandle function = nullptr;
  LaunchShape shape;
  const std::byte* arguments = nullptr;
  std::size_t argument_bytes = 0;
  bool is_checked = false;  // the node was added with this shape: update_kernel_node does not check it again
  // Null: none. Owned by the caller; read during the call alone. An update names those that the node was added with.
  const LaunchAttributes* attributes = nullptr;
};

struct GraphEdge {
  NodeHandle from, to;  // `to` waits for `from`
  EdgeKind kind = EdgeKind::full;
};

class ForeignGraphs;

class Driver {
 public:
  virtual ~Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  virtual const DeviceProperties& properties() const noexcept = 0;
  // Whether this driver's graphs are known to misbehave in some of its versions, so that they are tried out before they are used
  // (graph_trial.h).
  virtual bool graphs_need_a_test() const noexcept { return false; }
  // After how many node updates an exec is to be replaced by a new one, because updates leak memory; 0: never.
  virtual std::size_t updates_before_renewal() const noexcept { return 0; }

  // Memory. Addresses are aligned to at least 256 bytes. allocate(0) throws bad_argument.
  virtual DevicePointer allocate(std::size_t bytes) = 0;
  virtual void release(DevicePointer pointer) noexcept = 0;  // waits for the device where the driver does
  // Stream-ordered copies. Host memory may be reused when the call returns (to the device) or when the stream has been
  // synchronized (to the host).
  virtual Status write(DevicePointer to, const void* from, std::size_t bytes, StreamHandle stream) noexcept = 0;
  virtual Status read(void* to, DevicePointer from, std::size_t bytes, StreamHandle stream) noexcept = 0;
  virtual Status fill_bytes(DevicePointer to, std::uint8_t value, std::size_t bytes, StreamHandle stream) noexcept = 0;

  // Streams and events. A null StreamHandle is never passed by Rondo.
  virtual StreamHandle create_stream() = 0;  // does not synchronize with any default stream
  virtual void destroy_stream(StreamHandle stream) noexcept = 0;
  virtual Status synchronize(StreamHandle stream) noexcept = 0;
  virtual EventHandle create_event() = 0;
  virtual void destroy_event(EventHandle event) noexcept = 0;
  virtual Status record(EventHandle event, StreamHandle stream) noexcept = 0;
  virtual Status synchronize_event(EventHandle event) noexcept = 0;
  // Work queued in `stream` from now on waits for the event's latest record; for nothing where there is none. The event may be
  // destroyed, and recorded again, after the call.
  virtual Status wait(StreamHandle stream, EventHandle event) noexcept = 0;
  // Milliseconds of device time between two recorded and completed events.
  virtual Status elapsed_ms(EventHandle from, EventHandle to, float* milliseconds) noexcept = 0;
  // Calls function(data) on a thread of the driver's when all earlier work of the stream is done; later work waits for it.
  virtual Status launch_host_function(StreamHandle stream, void (*function)(void*), void* data) noexcept = 0;

  // Modules. `name` is the lowered name that rtc reported.
  virtual ModuleHandle load_module(std::span<const std::byte> binary) = 0;
  virtual void unload_module(ModuleHandle module) noexcept = 0;
  virtual FunctionHandle function(ModuleHandle module, const std::string& name) = 0;
  // `parameters`: how many the kernel has by its signature. A kernel with fewer is an error; one with more goes unnoticed where the
  // driver can only be asked for one after another (cuda).
  virtual FunctionInfo function_info(FunctionHandle function, std::size_t parameters) = 0;
  // How many blocks of that shape the whole device holds at once: the largest grid of a cooperative launch. 0: the device has none.
  virtual std::size_t resident_blocks(FunctionHandle, const LaunchShape&) { return 0; }
  // Allows launches of `function` with up to `bytes` of dynamic shared memory. Above the device's limit: throws.
  virtual void allow_dynamic_shared(FunctionHandle function, std::size_t bytes) = 0;

  // The calls of a step, launch to launch_graph below, are made in a DriverScope, which makes ready once what they need on the calling
  // thread (cuda: the context becomes current; hip: the device). `before` is for leave.
  virtual Status enter(std::intptr_t* before) noexcept {
    *before = 0;
    return {};
  }
  virtual void leave(std::intptr_t) noexcept {}

  // One plain launch. In a DriverScope.
  virtual Status launch(const KernelLaunch& launch, StreamHandle stream) noexcept = 0;

  // Graphs. The graph must outlive its execs (both vendors: the node passed to an exec update belongs to the graph).
  virtual GraphHandle create_graph() = 0;
  virtual void destroy_graph(GraphHandle graph) noexcept = 0;
  virtual NodeHandle add_kernel_node(GraphHandle graph, const KernelLaunch& launch) = 0;
  // All of them at once, or none where one is refused. Programmatic edges are between kernel nodes.
  virtual void add_dependencies(GraphHandle graph, std::span<const GraphEdge> edges) = 0;
  // With by_node_priority each node has its own priority, else that of the stream it is launched into.
  virtual ExecHandle instantiate(GraphHandle graph, bool by_node_priority = false) = 0;
  virtual void destroy_exec(ExecHandle exec) noexcept = 0;
  virtual void upload(ExecHandle exec, StreamHandle stream) = 0;
  // The next three in a DriverScope. Updates affect launches made after the call; those already queued keep what they had.
  virtual Status update_kernel_node(ExecHandle exec, NodeHandle node, const KernelLaunch& launch) noexcept = 0;
  virtual Status enable_node(ExecHandle exec, NodeHandle node, bool enabled) noexcept = 0;
  virtual Status launch_graph(ExecHandle exec, StreamHandle stream) noexcept = 0;

  // Access to graphs that others made (foreign_graphs.h), as long as the driver lives; null where there are none (host).
  virtual ForeignGraphs* foreign_graphs() noexcept { return nullptr; }

 protected:
  Driver() = default;
};

// Around the calls of a step, on one thread. Where status() is not ok, none of them may be made.
class DriverScope {
 public:
  explicit DriverScope(Driver& driver) noexcept : driver_(driver), status_(driver.enter(&before_)) {}
  ~DriverScope() {
    if (status_.ok()) driver_.leave(before_);
  }
  DriverScope(const DriverScope&) = delete;
  DriverScope& operator=(const DriverScope&) = delete;

  const Status& status() const noexcept { return status_; }

 private:
  Driver& driver_;
  std::intptr_t before_ = 0;
  const Status status_;
};

}  // namespace rondo
