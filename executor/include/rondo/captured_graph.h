// A graph that somebody else captured (an inference engine, PyTorch, cuBLAS), retargeted without touching the driver's memory.
//
//     auto captured = rondo::CapturedGraph::adopt(device, graph);          // copies; the graph stays its owner's
//     captured.retarget({old_base, bytes}, new_base);                       // every pointer into the range, in structs too
//     if (auto status = captured.apply(exec); !status.ok()) throw captured.error(status);   // only nodes that changed
//
// The graph that `exec` was instantiated from must be the adopted one and must still be there (both vendors update an exec by the
// graph's nodes). Updates affect launches made after apply. One CapturedGraph is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rondo/address_range.h"
#include "rondo/error.h"
#include "rondo/kernel_node_params.h"
#include "rondo/status.h"

namespace rondo {

class Device;

enum class CapturedNodeKind : std::uint8_t { kernel, memcpy, memset, other };

// One node. Nodes of child graphs follow their child graph node's place; `path` tells them apart: "3", "4/0".
struct CapturedNode {
  std::string path;
  CapturedNodeKind kind = CapturedNodeKind::other;
  std::string kind_name;  // "kernel", "memcpy", "host", "memory allocation", …
  std::string name;       // kernel: mangled
  std::string demangled;  // kernel: demangled
};

// A place in the bytes of a node's arguments that holds an address.
struct Site {
  std::uint32_t node = 0;      // index in nodes()
  std::uint32_t argument = 0;  // kernel: the parameter; memcpy: 0 the source, 1 the destination; memset: 0
  std::uint32_t offset = 0;    // bytes within the argument, a multiple of 8; 0 for memcpy and memset
  std::uint64_t value = 0;     // the address that is there
  // False: a word of what may be an opaque descriptor (a CUtensorMap is 128 bytes, aligned to 64), which only looks like an address.
  // Only a site map made by `diff` proves such a one.
  bool is_certain = true;

  bool operator==(const Site&) const = default;
};

class SiteMap;  // rondo/site_map.h

struct AdoptOptions {
  // Code objects and fat binaries, by file or content, that know the layouts which the driver does not (HIP, CUDA before 12.4). Those
  // of the ELF files that this process has loaded are searched too.
  std::vector<std::string> code_object_files;
};

class CapturedGraph {
 public:
  // All kernel, memcpy and memset nodes, child graphs included, deep-copied. `graph`: a CUgraph, cudaGraph_t or hipGraph_t. Nodes that
  // cannot be updated (memory, conditional, kernels without a known layout) are listed as they are, and refused when something asks to
  // change them. Throws Error(bad_argument) for a null graph or a device without graphs of others (host), Error(run_time) with the
  // driver's code.
  static CapturedGraph adopt(std::shared_ptr<Device> device, void* graph, const AdoptOptions& options = {});
  CapturedGraph(CapturedGraph&&) noexcept;
  CapturedGraph& operator=(CapturedGraph&&) noexcept;
  ~CapturedGraph();

  std::span<const CapturedNode> nodes() const noexcept;
  const KernelNodeParams* kernel(std::size_t node) const noexcept;  // null for what is no kernel node with a known layout

  // Every place that points into `range`, by-value structs included, in the order of nodes.
  std::vector<Site> sites(const AddressRange& range) const;
  // The allocation that an address lies in; asked of the driver once a range, and remembered. nullopt: no device memory.
  std::optional<AddressRange> allocation(std::uint64_t address);

  // Every site in `range` gets the same offset from `new_base`. Returns how many there were. All or nothing: throws Error(bad_argument)
  // naming the node where one is not certain (and `proof` does not have it), or belongs to a node that cannot be updated.
  std::size_t retarget(const AddressRange& range, std::uint64_t new_base, const SiteMap* proof = nullptr);
  // The bytes of one argument, as many as it has. Throws Error(bad_argument) otherwise.
  void set_argument(std::size_t node, std::size_t argument, std::span<const std::byte> bytes);

  // Updates the nodes of `exec` (CUgraphExec, cudaGraphExec_t, hipGraphExec_t) that changed since the last apply to this exec, and no
  // others. On a failure part of the way the exec may be left with half of it: has_failed(), and every later apply is refused until
  // the exec has been instantiated anew (reset). No allocation on our side.
  Status apply(void* exec) noexcept;
  bool has_failed() const noexcept;
  // A new exec, instantiated from the graph as it was adopted: the next apply brings every changed node to it.
  void reset() noexcept;
  // The story of a status that apply returned last: the node, the kernel.
  Error error(const Status& status) const;

  // As text: what `rondo captured` shows.
  std::string to_json() const;
  std::string to_dot() const;

 private:
  friend class SiteMap;
  struct State;
  explicit CapturedGraph(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace rondo
