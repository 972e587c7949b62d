// A graph that somebody else captured (an inference engine, PyTorch, cuBLAS), retargeted without touching the
// driver's memory.
//
//     auto captured = rondo::CapturedGraph::adopt(device, graph);   // copies; the graph stays its owner's
//     captured.retarget({old_base, bytes}, new_base);               // every pointer into the range, in
//     structs too if (auto status = captured.apply(exec); !status.ok()) throw captured.error(status);  //
//     what changed
//
// The graph that `exec` was instantiated from must be the adopted one and must still be there (both vendors
// update an exec by the graph's nodes). Updates affect launches made after apply. One CapturedGraph is used
// by one thread at a time.
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
class SiteMap;           // rondo/site_map.h
struct CapturedPicture;  // rondo/captured_picture.h

enum class CapturedNodeKind : std::uint8_t { kernel, memcpy, memset, other };

// One node. Nodes of child graphs follow their child graph node's place; `path` tells them apart: "3", "4/0".
struct CapturedNode {
  std::string path;
  CapturedNodeKind kind = CapturedNodeKind::other;
  std::string kind_name;  // "kernel", "memcpy", "host", "memory allocation", …
  std::string name;       // kernel: mangled; empty where the driver does not even tell that
  std::string problem;    // why the node cannot be changed, a clause; empty where it can

  // A kernel's name for people; empty for other nodes. Computed at each call.
  std::string demangled() const;
};

// The arguments of a node, here and in site maps:
//   kernel  its parameters
//   memcpy  0 the source's address, 1 the destination's; 8 bytes each
//   memset  0 the destination's address, 8 bytes; 1 the value, 4 bytes

// A place in the bytes of a node's arguments that holds an address.
struct Site {
  std::uint32_t node = 0;      // index in nodes()
  std::uint32_t argument = 0;  // as above
  std::uint32_t offset = 0;    // bytes within the argument, a multiple of 8
  std::uint64_t value = 0;     // the address that is there
  // False: a word of what may be an opaque descriptor, which only looks like an address. Only a site map made
  // by `diff` proves such a one.
  //
  // The rule. The one such descriptor that is passed by value is CUtensorMap (CUDA, from sm_90 on): 128
  // bytes, aligned to 64, its contents undocumented. A type that holds one has that alignment too, so its
  // size is a multiple of 64 and it lies at a multiple of 64 in the packed arguments. In arguments of that
  // kind, of 128 bytes or more, no word is certain, because every one lies within 128 bytes that begin at a
  // multiple of 64. All other arguments cannot hold one: a struct of 272 or of 736 bytes (PyTorch's attention
  // and matrix products) is no multiple of 64.
  bool is_certain = true;

  bool operator==(const Site&) const = default;
};

class CapturedGraph {
 public:
  // All kernel, memcpy and memset nodes, child graphs included, deep-copied. `graph`: a CUgraph, cudaGraph_t
  // or hipGraph_t. Nodes that cannot be changed (memory, conditional, kernels without a known layout, copies
  // that are not one-dimensional) are listed with their problem, and refused when something asks to change
  // them. Throws Error(bad_argument) for a null graph or a device without graphs of others (host),
  // Error(run_time) with the driver's code.
  static CapturedGraph adopt(std::shared_ptr<Device> device, void* graph, const AdoptOptions& options = {});
  CapturedGraph(CapturedGraph&&) noexcept;
  CapturedGraph& operator=(CapturedGraph&&) noexcept;
  ~CapturedGraph();

  std::span<const CapturedNode> nodes() const noexcept;
  // Null for what is no kernel node with a known layout, and for an index out of range.
  const KernelNodeParams* kernel(std::size_t node) const noexcept;
  // How many arguments a node has, and their bytes as they are now; 0 and empty where there are none.
  std::size_t arguments(std::size_t node) const noexcept;
  std::span<const std::byte> argument(std::size_t node, std::size_t argument) const noexcept;

  // Every place that points into `range`, by-value structs included, in the order of nodes. Places are words
  // at multiples of 8, as a pointer's alignment asks; what an integer of 64 bits happens to hold is not told
  // from a pointer. An address one past the range's end does not point into it.
  std::vector<Site> sites(const AddressRange& range) const;
  // The allocation that an address lies in; asked of the driver once a range, and remembered: nullopt, for
  // what is no device memory, is not. Where memory has been freed since, forget_allocations() first. At most
  // 4,096 ranges are remembered; a new one takes the place of those that it overlaps, which must have been
  // freed.
  std::optional<AddressRange> allocation(std::uint64_t address);
  void forget_allocations() noexcept;

  // Every site in `range` gets the same offset from `new_base`. Returns how many there were. All or nothing:
  // throws Error(bad_argument) naming the node where one is not certain (and `proof` does not have it),
  // belongs to a node that cannot be changed, or is a memcpy's or memset's and would leave device memory.
  std::size_t retarget(const AddressRange& range, std::uint64_t new_base, const SiteMap* proof = nullptr);
  // The bytes of one argument, as many as it has. Throws Error(bad_argument) otherwise, and for what retarget
  // refuses too.
  void set_argument(std::size_t node, std::size_t argument, std::span<const std::byte> bytes);
  // Part of an argument: `bytes` at `offset` in it.
  void set_argument(std::size_t node, std::size_t argument, std::size_t offset,
                    std::span<const std::byte> bytes);

  // Updates the nodes of `exec` (CUgraphExec, cudaGraphExec_t, hipGraphExec_t) that changed since the last
  // apply to this exec, each once, and no others; where the last apply was to another exec, all that changed
  // since adopt. An exec is told from another by its handle: one that was instantiated anew may have the old
  // one's, so call reset() then. Nodes that cannot be changed were refused before, by what was to change
  // them. When the driver refuses one all the same, the exec may be left with half of the changes:
  // has_failed(), and every later apply is refused until the exec has been instantiated anew and reset()
  // called. No allocation, lock or string on our side.
  //
  // CUDA's driver takes a kernel's update only on a thread with a context current (which one does not matter;
  // without, CUDA 13.0's ends in a segmentation fault). With `unknown`, apply asks for it and makes the
  // device's current where there is none; `current` says that there is one, as wherever the runtime's
  // interface was used, and saves the question.
  enum class ThreadContext : std::uint8_t { unknown, current };
  Status apply(void* exec, ThreadContext context = ThreadContext::unknown) noexcept;
  bool has_failed() const noexcept;
  // A new exec, instantiated from the graph as it was adopted: the next apply brings every changed node to
  // it.
  void reset() noexcept;
  // The story of a status that apply returned last: the node, the kernel.
  Error error(const Status& status) const;

  // What `rondo captured` shows: nodes, arguments, sites by allocation, which the driver is asked for.
  CapturedPicture picture() const;
  std::string to_json() const;
  std::string to_dot() const;

 private:
  friend class SiteMap;
  struct State;
  explicit CapturedGraph(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace rondo
