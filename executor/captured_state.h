// What a CapturedGraph holds.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "foreign_graphs.h"
#include "rondo/captured_graph.h"

namespace rondo {

// Throws Error(bad_argument) for a device that has none (host).
ForeignGraphs& foreign_graphs(Device& device);

template <class T>
std::span<std::byte> bytes_of(T& value) noexcept {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Allocations that the driver has told of, by address.
class KnownAllocations {
 public:
  static constexpr std::size_t most = 4096;

  std::optional<AddressRange> find(std::uint64_t address) const noexcept;
  void add(const AddressRange& range);
  void clear() noexcept { ranges_.clear(); }

 private:
  std::vector<AddressRange> ranges_;  // sorted; none overlaps another
};

// What every apply reads comes first, in one cache line.
struct alignas(64) CapturedGraph::State {
  // One node's, with what it takes, so that apply need not look at the node.
  struct Update {
    NodeHandle node = nullptr;
    const ForeignKernel* kernel = nullptr;  // null: a memcpy or memset node
    std::uint32_t index = 0;
    bool needs_scope = true;
  };
  // Each node once; with room for all of them, so that adding one never allocates.
  using Updates = std::vector<Update>;
  struct Node {
    Update update;
    std::variant<std::monostate, KernelNodeParams, std::unique_ptr<ForeignMemcpy>,
                 std::unique_ptr<ForeignMemset>>
        parameters;
    bool has_changed = false;         // since adopt: it is in `changed`
    std::uint64_t pending_since = 0;  // `round` of when it was put into `pending`
  };

  ForeignGraphs* graphs = nullptr;
  ExecHandle exec = nullptr;  // of the last apply
  std::uint64_t round = 1;    // one more with each apply, which empties `pending`
  Updates pending;            // since the last apply
  bool failed = false;
  bool pending_needs_scope = false;  // one of `pending` does
  bool changed_needs_scope = false;
  bool has_opaque_descriptors = true;  // whether kernels of this device may take a CUtensorMap

  Updates changed;  // since adopt
  std::vector<Node> nodes;
  std::shared_ptr<Device> device;
  std::vector<CapturedNode> infos;                             // as `nodes`
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // sorted
  KnownAllocations known;

  std::optional<std::uint32_t> failed_node;

  void add_graph(GraphHandle graph, const std::string& prefix, const CodeObjects* code_objects, int depth);
  void read_node(Node& node, CapturedNode& info, ForeignNodeKind kind, const CodeObjects* code_objects);

  std::size_t arguments(std::size_t node) const noexcept;
  // Bytes of an argument, to read and to write; empty for what there is not.
  std::span<std::byte> argument(std::size_t node, std::size_t argument) noexcept;
  std::size_t offset(std::size_t node, std::size_t argument) const noexcept;  // in the packed arguments
  // Whether it holds addresses of device memory: not a memcpy's end in host memory, not a memset's value.
  bool has_addresses(std::size_t node, std::size_t argument) const noexcept;
  // Whether an address in it must be that of device memory, as the driver asks of memcpy and memset nodes.
  bool takes_device_memory_only(std::size_t node) const noexcept;
  bool is_certain(std::size_t node, std::size_t argument) const noexcept;

  // Calls visit(const Site&) for every word that may be an address.
  template <class Visit>
  void for_each_word(std::uint32_t node, Visit visit) {
    for (std::uint32_t i = 0; i < arguments(node); ++i) {
      const std::span<const std::byte> bytes = argument(node, i);
      if (offset(node, i) % 8 != 0 || !has_addresses(node, i)) continue;
      Site site{node, i, 0, 0, is_certain(node, i)};
      for (; site.offset + std::size_t{8} <= bytes.size(); site.offset += 8) {
        std::memcpy(&site.value, bytes.data() + site.offset, 8);
        visit(site);
      }
    }
  }

  std::optional<AddressRange> allocation_of(std::uint64_t address);  // known, or asked of the driver

  // What a memcpy or memset node reads or writes from its addresses on, and what those are multiples of.
  struct Touched {
    std::size_t bytes, alignment;
  };
  Touched touched_by(std::size_t node) const noexcept;

  // A change to the bytes of an argument that is allowed: check_change throws Error(bad_argument) for others.
  struct Change {
    std::uint32_t node, argument, offset;
    std::span<const std::byte> bytes;
  };
  void check_change(const Change& change);
  void make_change(const Change& change) noexcept;

  // Of the exec's nodes, in this order. One that fails leaves the state `failed`.
  Status update(ExecHandle handle, const Updates& due) noexcept;
  Status update_in_scope(ExecHandle handle, const Updates& due) noexcept;
  Status update_no_kernel(ExecHandle handle, const Update& due) noexcept;
  Status refusal(ExecHandle handle) const noexcept;  // why nothing is applied to it
  std::string describe(std::size_t node) const;      // "node 4/0 (kernel "scale(float*)")"
};

}  // namespace rondo
