// The sections of a schedule, read in the order params, require, buffers, kernels, ops.
#pragma once

#include "schedule_reader.h"

namespace rondo {

// One variable is pushed for as long as this lives.
class LoopScope {
 public:
  LoopScope(Symbols& symbols, const std::optional<ForClause>& clause)
      : symbols_(symbols), is_pushed_(clause.has_value()) {
    if (clause) symbols_.loops.push_back({clause->variable, clause->values.index() == 1});
  }
  ~LoopScope() {
    if (is_pushed_) symbols_.loops.pop_back();
  }
  LoopScope(const LoopScope&) = delete;
  LoopScope& operator=(const LoopScope&) = delete;

 private:
  Symbols& symbols_;
  bool is_pushed_;
};

class ScheduleParser {
 public:
  ScheduleParser(ScheduleReader& reader, Schedule& schedule) : reader_(reader), schedule_(schedule) {}
  void parse(const JsonValue& root);

 private:
  void head(const JsonObject& root);
  void graph(const Node& node);
  void param(const std::string& name, const Node& node);
  void param_value(const JsonObject& object, ParamDeclaration& param);
  void param_update(const JsonObject& object, ParamDeclaration& param);
  void param_range(const JsonObject& object, ParamDeclaration& param);
  void check_literals(const ParamDeclaration& param);
  std::vector<std::string> alternatives(const Node& node, const char* what);
  std::optional<MetadataSource> metadata_source(const Node& node, DataType type);
  std::optional<TensorSource> tensor_source(const Node& node, DataType type);
  std::optional<TypesSource> types_source(const Node& node, DataType type);
  void check_cycles();
  void requirement(const Node& node);
  void buffer(const std::string& name, const Node& node);
  void buffer_weight(const JsonObject& object, BufferDeclaration& buffer);
  void buffer_fill(const Node& node, BufferDeclaration& buffer);
  void kernel(const std::string& name, const Node& node);
  void defines(const Node& node, KernelDeclaration& kernel);
  std::optional<ForClause> family(const JsonObject& object, const std::string& name,
                                  const std::string& pointer);

  std::vector<Op> ops(const Node& node);
  std::optional<Op> op(const Node& node);
  KernelOp kernel_op(const JsonObject& object, const std::string& pointer);
  CopyOp copy_op(const JsonObject& object, const std::string& pointer);
  FillOp fill_op(const JsonObject& object, const std::string& pointer);
  RepeatOp repeat_op(const JsonObject& object, const std::string& pointer);
  std::vector<Template> launch_shape(const JsonObject& object, const std::string& pointer,
                                     std::string_view key, Use use);
  std::optional<Argument> argument(const Node& node);
  std::optional<BufferArgument> buffer_argument(const Node& node, Access access);
  std::optional<TableArgument> table(const Node& node);
  std::optional<BufferArgument> table_pointer(const Node& node);
  void check_argument_text(const std::string& text, const std::string& pointer);
  std::optional<SlotArgument> slot(const Node& node);

  ScheduleReader& reader_;
  Schedule& schedule_;
  std::size_t repeat_depth_ = 0;
};

}  // namespace rondo
