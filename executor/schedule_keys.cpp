#include "schedule_keys.h"

namespace rondo {

std::vector<std::string> ScheduleKeys::names() const {
  std::vector<std::string> result;
  for (const ScheduleKey& key : keys) result.emplace_back(key.name);
  return result;
}

namespace schedule_keys {
namespace {

constexpr bool required = true;
constexpr bool optional = false;

constexpr ScheduleKey schedule_entries[] = {
    {"rondo", required},  {"name", required},    {"$schema", optional}, {"description", optional},
    {"params", optional}, {"require", optional}, {"buffers", optional}, {"kernels", optional},
    {"ops", required},    {"graph", optional}};
constexpr ScheduleKey graph_entries[] = {{"lanes", optional}};
constexpr ScheduleKey param_entries[] = {{"type", required}, {"constant", optional}, {"step", optional},
                                         {"min", optional},  {"max", optional},      {"update", optional}};
constexpr ScheduleKey metadata_entries[] = {{"metadata", required}, {"default", optional}, {"is", optional}};
constexpr ScheduleKey tensor_entries[] = {{"tensor", required}, {"dimension", optional}};
constexpr ScheduleKey types_entries[] = {{"types", required}, {"are", required}, {"for", optional}};
constexpr ScheduleKey requirement_entries[] = {{"that", required}, {"else", required}};
constexpr ScheduleKey buffer_entries[] = {{"role", required}, {"type", optional},   {"shape", optional},
                                          {"for", optional},  {"tensor", optional}, {"file", optional},
                                          {"fill", optional}};
constexpr ScheduleKey random_entries[] = {{"random", required}};
constexpr ScheduleKey kernel_entries[] = {{"source", optional},  {"code", optional}, {"entry", required},
                                          {"defines", optional}, {"pdl", optional},  {"for", optional}};
constexpr ScheduleKey kernel_op_entries[] = {
    {"kernel", required}, {"grid", required},        {"block", required},   {"args", required},
    {"shared", optional}, {"cooperative", optional}, {"cluster", optional}, {"priority", optional},
    {"name", optional},   {"when", optional}};
constexpr ScheduleKey copy_entries[] = {
    {"copy", required}, {"to", required}, {"name", optional}, {"when", optional}};
constexpr ScheduleKey fill_entries[] = {
    {"fill", required}, {"value", required}, {"name", optional}, {"when", optional}};
constexpr ScheduleKey repeat_entries[] = {
    {"repeat", required}, {"count", required}, {"ops", required}, {"name", optional}, {"when", optional}};
constexpr ScheduleKey write_entries[] = {{"write", required}};
constexpr ScheduleKey read_entries[] = {{"read", required}};
constexpr ScheduleKey table_entries[] = {{"table", required}, {"for", optional}};
constexpr ScheduleKey slot_entries[] = {{"slot", required}};

}  // namespace

const ScheduleKeys schedule{"schedule", "a schedule", schedule_entries};
const ScheduleKeys graph{"graph", "the graph's layout", graph_entries};
const ScheduleKeys param{"param", "a param", param_entries};
const ScheduleKeys metadata_source{"metadata_source", "a constant out of metadata", metadata_entries};
const ScheduleKeys tensor_source{"tensor_source", "a constant about a tensor", tensor_entries};
const ScheduleKeys types_source{"types_source", "a constant about buffers' types", types_entries};
const ScheduleKeys requirement{"requirement", "a requirement", requirement_entries};
const ScheduleKeys buffer{"buffer", "a buffer", buffer_entries};
const ScheduleKeys random_fill{"random_fill", "a random fill", random_entries};
const ScheduleKeys kernel{"kernel", "a kernel", kernel_entries};
const ScheduleKeys kernel_op{"kernel_op", "a kernel op", kernel_op_entries};
const ScheduleKeys copy_op{"copy_op", "a copy op", copy_entries};
const ScheduleKeys fill_op{"fill_op", "a fill op", fill_entries};
const ScheduleKeys repeat_op{"repeat_op", "a repeat", repeat_entries};
const ScheduleKeys write_argument{"write_argument", "a write argument", write_entries};
const ScheduleKeys read_argument{"read_argument", "a read argument", read_entries};
const ScheduleKeys table_argument{"table_argument", "a table argument", table_entries};
const ScheduleKeys slot_argument{"slot_argument", "a slot argument", slot_entries};

std::vector<const ScheduleKeys*> all() {
  return {&schedule,    &graph,     &param,         &metadata_source, &tensor_source, &types_source,
          &requirement, &buffer,    &random_fill,   &kernel,          &kernel_op,     &copy_op,
          &fill_op,     &repeat_op, &read_argument, &write_argument,  &slot_argument, &table_argument};
}

}  // namespace schedule_keys
}  // namespace rondo
