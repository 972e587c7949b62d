// The keys that each object of a schedule may have: one table for the parser, its suggestions, and the tests
// of docs and schema.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

struct ScheduleKey {
  std::string_view name;
  bool is_required;
};

struct ScheduleKeys {
  std::string_view
      id;  // "kernel_op": its name under $defs of the JSON schema, and its anchor in docs/schedule.md
  std::string_view title;  // "a kernel op", for messages
  std::span<const ScheduleKey> keys;

  std::vector<std::string> names() const;
};

namespace schedule_keys {
extern const ScheduleKeys schedule, graph, param, metadata_source, tensor_source, types_source, requirement,
    buffer, random_fill, kernel, kernel_op, copy_op, fill_op, repeat_op, read_argument, write_argument,
    slot_argument, table_argument;
std::vector<const ScheduleKeys*> all();
}  // namespace schedule_keys

}  // namespace rondo
