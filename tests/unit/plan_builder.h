// A device to plan for, and plans without a schedule: buffers, and nodes that read and write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dependencies.h"

namespace rondo::test {

inline DeviceProperties small_device() {
  DeviceProperties device;
  device.backend = "cuda";
  device.warp_size = 32;
  device.processors = 4;
  device.max_threads_per_block = 1024;
  device.max_block = {1024, 1024, 64};
  device.max_grid = {2147483647, 65535, 65535};
  device.max_shared_bytes = 65536;
  return device;
}

// A plan of f32 buffers and nodes that read and write them.
class PlanBuilder {
 public:
  std::uint32_t buffer(std::size_t elements, Role role = Role::state) {
    PlanBuffer buffer{};
    buffer.info.name = "b" + std::to_string(plan.buffers.size());
    buffer.info.type = DataType::f32;
    buffer.info.role = role;
    buffer.elements = elements;
    buffer.info.bytes = elements * 4;
    plan.buffers.push_back(buffer);
    return static_cast<std::uint32_t>(plan.buffers.size() - 1);
  }

  struct Use {
    std::uint32_t buffer;
    bool writes;
    std::optional<std::int64_t> offset = {}, extent = {};
  };

  void node(const std::vector<Use>& uses) {
    PlanNode& node = plan.nodes.emplace_back();
    for (const Use& use : uses) {
      PlanArgument argument;
      argument.kind = PlanArgument::Kind::buffer;
      argument.buffer = use.buffer;
      argument.writes = use.writes;
      if (use.offset) argument.value = Value::of(*use.offset);
      if (use.extent) argument.extent = Value::of(*use.extent);
      node.arguments.push_back(argument);
    }
  }

  std::vector<std::uint32_t> dependencies(std::size_t node) {
    std::vector<std::uint32_t> nodes;
    for (const Dependency& dependency : plan.nodes[node].dependencies) nodes.push_back(dependency.node);
    return nodes;
  }
  void find() { find_dependencies(plan, without_arena(plan)); }

  Plan plan;
};

}  // namespace rondo::test
