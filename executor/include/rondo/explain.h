// What Rondo makes of a schedule on a device, and why: which step params are updated how and at what cost,
// the graph's shape, the kernels, and where temporaries lie.
//
//     auto device = rondo::open_device("host");
//     const rondo::Explanation explanation = rondo::explain("configs/saxpy.json", *device, {});
//     for (const auto& param : explanation.params) std::printf("%s: %s\n", param.name.c_str(),
//     param.why.c_str());
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rondo/data_type.h"
#include "rondo/device_properties.h"
#include "rondo/launch_shape.h"
#include "rondo/session.h"

namespace rondo {

struct ExplainedParam {
  // mixed: some kernels read its slot, other nodes are rewritten.
  enum class Way : std::uint8_t { unused, node, slot, mixed };
  std::string name;
  DataType type = DataType::i32;
  Way way = Way::unused;
  std::string why = {};
  std::size_t nodes = 0;        // that are rewritten when it is set; by slot: the one that publishes
  std::size_t bytes = 0;        // of their arguments, that depend on it
  std::size_t readers = 0;      // nodes that read it by slot
  bool changes_shapes = false;  // some grid, block or shared memory depends on it
  std::optional<double> set_ns =
      std::nullopt;  // expected host time of its updates in a step; empty: not measured here
};

struct ExplainedKernel {
  std::string name, entry;  // in the schedule; the C++ expression
  std::size_t nodes = 0;
  std::optional<std::size_t> registers, local_bytes;  // a thread's; empty where the driver does not tell
  std::size_t static_shared_bytes = 0;
  // Over its nodes, with the step params' values.
  std::size_t dynamic_shared_bytes = 0, threads = 0;  // largest; a block's
  std::size_t least_blocks = 0, most_blocks = 0;
};

// One op as it is launched, with the step params' values.
struct ExplainedNode {
  struct Edge {
    std::uint32_t earlier;  // index into Explanation::nodes
    bool is_programmatic;
  };
  std::string label, pointer;  // JSON pointer of the op; empty for Rondo's own
  std::uint32_t kernel = 0;    // index into Explanation::kernels
  Dim3 grid, block;
  std::size_t shared_bytes = 0;
  bool is_cooperative = false;
  Dim3 cluster{0, 0, 0};  // blocks; zeros: none
  int priority = 0;
  std::vector<Edge> waits_for = {};
};

struct ExplainedTemporary {
  std::string name;
  std::size_t offset = 0, bytes = 0;
  std::uint32_t first = 0, last = 0;  // nodes
};

// `later` waits for `earlier`, and could run beside it if the two temporaries did not share memory.
struct ExplainedReuse {
  std::uint32_t earlier = 0, later = 0;  // nodes
  std::string earlier_temporary, later_temporary;
};

struct Explanation {
  std::string schedule;
  DeviceProperties device;
  Mode mode = Mode::graph;
  std::string mode_reason;

  std::vector<ExplainedParam> params;  // step params alone
  std::size_t slots = 0;

  std::vector<ExplainedNode> nodes;  // in the order of emission
  std::size_t full_edges = 0, programmatic_edges = 0;
  std::size_t redundant_edges = 0;  // that hazards ask for, and that follow from others
  std::size_t depth = 0;            // nodes of the longest chain
  std::size_t widest = 0;           // most nodes at the same distance from the start
  std::size_t lanes = 0;            // the limit to that; 0: none
  std::size_t lane_edges = 0;       // that were added for the limit's sake
  std::optional<double> launch_us;  // expected host time of a launch; empty: not measured here
  std::string cost_source;          // where the expected times come from, or why there are none

  std::vector<ExplainedKernel> kernels;

  std::size_t arena_bytes = 0, arena_peak_bytes = 0;  // peak: largest sum of sizes that live at the same time
  std::vector<ExplainedTemporary> temporaries;        // by offset; empty where each has memory of its own
  std::vector<ExplainedReuse> reuses;
};

// Plans and compiles as Session::load does, and asks the device about the kernels; allocates no buffer and
// launches nothing (but what devices do to try their graphs). `step_values`, name and text, in place of step
// params' initial values: {"pos", "17"}. Throws Error(bad_schedule, bad_argument, missing_backend, run_time).
Explanation explain(const std::filesystem::path& file, Device& device, const SessionOptions& options,
                    const std::vector<std::pair<std::string, std::string>>& step_values = {});

}  // namespace rondo
