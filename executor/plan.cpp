#include "plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "buffer_types.h"
#include "builtin.h"
#include "driver.h"
#include "scope.h"

namespace rondo {
namespace {

// Far above any real schedule, and far below what would exhaust memory while unrolling.
constexpr std::size_t most_nodes = 1 << 18;
constexpr std::int64_t most_iterations = 1 << 20;
constexpr int most_caught = 1000;

std::string read_source(const std::filesystem::path& path, const std::string& pointer) {
  std::error_code code;
  if (std::filesystem::is_regular_file(path, code)) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (file.good()) return text.str();
  }
  throw Complaint{.pointer = pointer,
                  .message = fmt::format("the kernel source {} cannot be read: {}", path.string(),
                                         code ? code.message() : "it is not a file"),
                  .hint = "Paths are relative to the schedule's folder."};
}

// The kernels that the schedule declares, families expanded; those that ops use become PlanKernels, grouped
// into translation units.
class KernelTable {
 public:
  KernelTable(Plan& plan, const Schedule& schedule) : plan_(plan), schedule_(schedule) {}

  void declare(Scope& scope) {
    for (const KernelDeclaration& declaration : schedule_.kernels) {
      for_each_member(scope, declaration.family, [&] { add(scope, declaration); });
    }
  }

  // Families can have hundreds of members: of many, the first few.
  static std::string declared(std::vector<std::string> names) {
    constexpr std::size_t most = 24;
    const std::size_t more = names.size() > most ? names.size() - most : 0;
    names.resize(names.size() - more);
    return fmt::format("Declared: {}{}.", fmt::join(names, ", "),
                       more == 0 ? "" : fmt::format(" and {} more", more));
  }

  // The PlanKernel of that name, made on first use. Throws Complaint.
  std::uint32_t use(const std::string& name, const std::string& pointer) {
    if (const auto found = used_.find(name); found != used_.end()) return found->second;
    const auto found = declared_.find(name);
    if (found == declared_.end()) {
      std::vector<std::string> names;
      for (const auto& [known, kernel] : declared_) names.push_back(known);
      throw Complaint{.pointer = pointer,
                      .message = fmt::format("there is no kernel \"{}\".{}", name, suggest(name, names)),
                      .hint = declared(std::move(names))};
    }
    const Declared& kernel = found->second;
    const std::size_t unit = unit_of(kernel);
    const auto index = static_cast<std::uint32_t>(plan_.kernels.size());
    plan_.kernels.push_back({.name = name,
                             .unit = static_cast<std::uint32_t>(unit),
                             .entry = entry_of(plan_.units[unit], kernel.entry),
                             .pointer = kernel.declaration->pointer,
                             .pdl = kernel.pdl});
    used_.emplace(name, index);
    return index;
  }

  // One of Rondo's own kernels (builtin.h).
  std::uint32_t use_builtin(const std::string& entry) {
    if (const auto found = used_.find("rondo:" + entry); found != used_.end()) return found->second;
    if (!builtin_unit_) {
      builtin_unit_ = static_cast<std::uint32_t>(plan_.units.size());
      plan_.units.push_back(builtin_unit());
    }
    const auto index = static_cast<std::uint32_t>(plan_.kernels.size());
    plan_.kernels.push_back({.name = entry,
                             .unit = *builtin_unit_,
                             .entry = entry_of(plan_.units[*builtin_unit_], entry),
                             .pointer = "",
                             .pdl = true});
    used_.emplace("rondo:" + entry, index);
    return index;
  }

 private:
  struct Declared {
    const KernelDeclaration* declaration;
    std::string entry;
    std::vector<std::pair<std::string, std::string>> defines;
    bool pdl;
  };

  void add(const Scope& scope, const KernelDeclaration& declaration) {
    Declared kernel{
        .declaration = &declaration,
        .entry = scope.interpolate(declaration.entry),
        .defines = {},
        .pdl = declaration.pdl && scope.constant(declaration.pdl->value, declaration.pdl->pointer) != 0};
    for (const auto& [name, value] : declaration.defines)
      kernel.defines.emplace_back(name, define_text(scope, value));
    const std::string name = scope.interpolate(declaration.name);
    if (!declared_.emplace(name, std::move(kernel)).second) {
      throw Complaint{.pointer = declaration.pointer,
                      .message = fmt::format("a second kernel is called \"{}\" too", name)};
    }
  }

  static std::string define_text(const Scope& scope, const Template& value) {
    const Value number = scope.value(value);
    if (!number.is_fixed()) {
      throw Complaint{.pointer = value.pointer, .message = "a define can only use constants"};
    }
    return std::to_string(number.fixed);
  }

  std::size_t unit_of(const Declared& kernel) {
    const KernelDeclaration& declaration = *kernel.declaration;
    std::string key = declaration.source ? declaration.source->value : "code " + declaration.pointer;
    for (const auto& [name, value] : kernel.defines) key += fmt::format("\n{}={}", name, value);
    if (const auto found = units_.find(key); found != units_.end()) return found->second;
    rtc::CompileRequest unit;
    if (declaration.source) {
      const std::filesystem::path path =
          (schedule_.directory() / declaration.source->value).lexically_normal();
      unit.file = path.string();
      unit.source = read_source(path, declaration.source->pointer);
    } else {
      unit.file = fmt::format("{}#{}", schedule_.file().string(), declaration.code->pointer);
      unit.source = declaration.code->value;
    }
    // Beside inline code lies the schedule.
    const std::string beside = declaration.source ? unit.file : schedule_.file().string();
    unit.headers = rtc::collect_headers(beside, unit.source);
    unit.defines = kernel.defines;
    plan_.units.push_back(std::move(unit));
    units_.emplace(key, plan_.units.size() - 1);
    return plan_.units.size() - 1;
  }

  static std::uint32_t entry_of(rtc::CompileRequest& unit, const std::string& entry) {
    const auto found = std::find(unit.entries.begin(), unit.entries.end(), entry);
    const auto index = static_cast<std::uint32_t>(found - unit.entries.begin());
    if (found == unit.entries.end()) unit.entries.push_back(entry);
    return index;
  }

  Plan& plan_;
  const Schedule& schedule_;
  std::map<std::string, Declared> declared_;
  std::unordered_map<std::string, std::uint32_t> used_;
  std::unordered_map<std::string, std::size_t> units_;
  std::optional<std::uint32_t> builtin_unit_;
};

// Unrolls the ops into nodes.
class Unroller {
 public:
  Unroller(Plan& plan, const Schedule& schedule, const DeviceProperties& device)
      : plan_(plan),
        schedule_(schedule),
        device_(device),
        scope_(plan, device),
        kernels_(plan, schedule),
        complaints_(schedule) {}

  void run() {
    try {
      set_lanes();
      kernels_.declare(scope_);
    } catch (const Complaint& complaint) {
      complaints_.add(complaint);
    }
    complaints_.throw_if_any();
    unroll(schedule_.ops);
    complaints_.throw_if_any();
  }

 private:
  void set_lanes() {
    plan_.lanes = device_.graph_lanes;
    if (!schedule_.lanes) return;
    const std::int64_t lanes = scope_.constant(schedule_.lanes->value, schedule_.lanes->pointer);
    if (lanes < 0 || lanes > static_cast<std::int64_t>(most_nodes)) {
      throw Complaint{.pointer = schedule_.lanes->pointer,
                      .message = fmt::format("a graph has 1 to {} lanes, or 0 for no limit, and this is {}",
                                             most_nodes, lanes)};
    }
    plan_.lanes = static_cast<std::uint32_t>(lanes);
  }

  void unroll(const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      try {
        if (op.when && scope_.constant(op.when->value, op.when->pointer) == 0) continue;
        std::visit([&](const auto& what) { add(op, what); }, op.what);
      } catch (const Complaint& complaint) {
        complaints_.add(complaint);
        // The same few places again and again, round a loop.
        if (++caught_ > most_caught) complaints_.throw_if_any();
      }
    }
  }

  void add(const Op& op, const RepeatOp& repeat) {
    const std::int64_t count = scope_.constant(repeat.count.value, repeat.count.pointer);
    if (count < 0 || count > most_iterations) {
      throw Complaint{
          .pointer = repeat.count.pointer,
          .message = fmt::format("a repeat goes round 0 to {} times, this one {}", most_iterations, count)};
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (++iterations_ > most_iterations) {
        give_up(op, fmt::format("nested repeats go round more than {} times", most_iterations));
      }
      scope_.push(repeat.variable, i);
      labels_.push_back(fmt::format("{}[{}]", repeat.variable, i));
      unroll(repeat.ops);
      labels_.pop_back();
      scope_.pop();
    }
  }

  // Past a limit there is no use in going on.
  [[noreturn]] void give_up(const Op& op, std::string why) {
    throw Error(ErrorCode::bad_schedule,
                {.place = schedule_.place(op.pointer), .message = std::move(why), .hint = ""});
  }

  void append(PlanNode node, const Op& op, const std::string& label) {
    if (plan_.nodes.size() >= most_nodes) {
      give_up(op, fmt::format("the schedule unrolls to more than {} nodes", most_nodes));
    }
    for (const std::string& loop : labels_) node.label += loop + "/";
    node.label += op.label ? *op.label : label;
    node.pointer = op.pointer;
    plan_.nodes.push_back(std::move(node));
  }

  void add(const Op& op, const KernelOp& what) {
    const std::string name = scope_.interpolate(what.kernel);
    PlanNode node;
    node.kernel = kernels_.use(name, what.kernel.pointer);
    for (std::size_t i = 0; i < what.grid.size(); ++i) node.grid[i] = scope_.value(what.grid[i]);
    for (std::size_t i = 0; i < what.block.size(); ++i) node.block[i] = scope_.value(what.block[i]);
    if (what.shared) node.shared = scope_.value(*what.shared);
    for (const Argument& argument : what.args) {
      const std::size_t first = node.arguments.size();
      if (const auto* table = std::get_if<TableArgument>(&argument.value)) {
        add_table(node.arguments, *table, argument.pointer);
      } else {
        node.arguments.push_back(this->argument(argument));
      }
      const auto parameter = static_cast<std::uint32_t>(&argument - what.args.data());
      for (std::size_t i = first; i < node.arguments.size(); ++i) node.arguments[i].parameter = parameter;
    }
    check_shape(what, node);
    set_attributes(what, node);
    append(std::move(node), op, name);
  }

  void set_attributes(const KernelOp& what, PlanNode& node) const {
    LaunchAttributes& attributes = node.attributes;
    if (what.cooperative && scope_.constant(what.cooperative->value, what.cooperative->pointer) != 0) {
      attributes.cooperative = true;
      const auto complain = [&](const char* why, const char* hint) {
        throw Complaint{.pointer = what.cooperative->pointer, .message = why, .hint = hint};
      };
      if (!device_.has_cooperative_launches) {
        complain("this device has no cooperative launches",
                 "\"cooperative\" takes an expression, as \"when\" does: device.has_cooperative_launches.");
      }
      const auto is_fixed = [](const Value& value) { return value.is_fixed(); };
      if (!std::all_of(node.grid.begin(), node.grid.end(), is_fixed) ||
          !std::all_of(node.block.begin(), node.block.end(), is_fixed) || !node.shared.is_fixed()) {
        complain(
            "the grid, block and shared memory of a cooperative op are constants",
            "All its blocks have to be on the device at once, which is checked when the graph is built.");
      }
    }
    if (what.priority) {
      const std::int64_t priority = fixed(*what.priority, "a priority");
      if (priority < INT32_MIN || priority > INT32_MAX) {
        throw Complaint{.pointer = what.priority->pointer,
                        .message = fmt::format("a priority has 32 bits, and this is {}", priority)};
      }
      attributes.priority = static_cast<int>(priority);
    }
    if (!what.cluster.empty()) set_cluster(what, node);
  }

  void set_cluster(const KernelOp& what, PlanNode& node) const {
    const auto complain = [&](std::size_t axis, std::string why, const char* hint = "") {
      throw Complaint{.pointer = what.cluster[axis].pointer, .message = std::move(why), .hint = hint};
    };
    if (device_.max_cluster_blocks == 0) {
      complain(0, "this device has no thread block clusters",
               "An op for such devices beside it takes a \"when\": device.max_cluster_blocks == 0.");
    }
    std::uint32_t sizes[3] = {1, 1, 1};
    std::uint64_t blocks = 1;
    for (std::size_t i = 0; i < what.cluster.size(); ++i) {
      const std::int64_t size = fixed(what.cluster[i], "a cluster's size");
      if (size < 1 || size > device_.max_cluster_blocks ||
          (blocks *= static_cast<std::uint64_t>(size)) > device_.max_cluster_blocks) {
        complain(i, fmt::format("a cluster has 1 to {} blocks in all on this device; this size is {}",
                                device_.max_cluster_blocks, size));
      }
      sizes[i] = static_cast<std::uint32_t>(size);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      if (node.grid[i].is_fixed() && node.grid[i].fixed % sizes[i] != 0) {
        complain(std::min(i, what.cluster.size() - 1),
                 fmt::format("the grid's {} blocks along axis {} are no multiple of the cluster's {}",
                             node.grid[i].fixed, i, sizes[i]));
      }
    }
    node.attributes.cluster = {sizes[0], sizes[1], sizes[2]};
  }

  std::int64_t fixed(const Template& text, const char* what) const {
    const Value value = scope_.value(text);
    if (!value.is_fixed())
      throw Complaint{.pointer = text.pointer, .message = fmt::format("{} can only use constants", what)};
    return value.fixed;
  }

  void check_shape(const KernelOp& what, const PlanNode& node) const {
    const auto check = [](const Value& value, std::uint32_t limit, const std::string& pointer,
                          const char* name, std::size_t axis) {
      if (!value.is_fixed()) return;
      if (value.fixed == 0) {
        throw Complaint{.pointer = pointer,
                        .message = fmt::format("the {} is zero along axis {}", name, axis),
                        .hint = "An op that is not wanted for some constants takes a \"when\"."};
      }
      if (value.fixed < 0 || value.fixed > static_cast<std::int64_t>(limit)) {
        throw Complaint{.pointer = pointer,
                        .message = fmt::format("the {} is {} along axis {}; this device takes 1 to {}", name,
                                               value.fixed, axis, limit)};
      }
    };
    const std::array<std::uint32_t, 3> grid{device_.max_grid.x, device_.max_grid.y, device_.max_grid.z};
    const std::array<std::uint32_t, 3> block{device_.max_block.x, device_.max_block.y, device_.max_block.z};
    for (std::size_t i = 0; i < what.grid.size(); ++i)
      check(node.grid[i], grid[i], what.grid[i].pointer, "grid", i);
    for (std::size_t i = 0; i < what.block.size(); ++i)
      check(node.block[i], block[i], what.block[i].pointer, "block", i);
    const std::string& pointer = what.block.front().pointer;
    if (node.block[0].is_fixed() && node.block[1].is_fixed() && node.block[2].is_fixed()) {
      const std::int64_t threads = node.block[0].fixed * node.block[1].fixed * node.block[2].fixed;
      if (threads > static_cast<std::int64_t>(device_.max_threads_per_block)) {
        throw Complaint{.pointer = pointer,
                        .message = fmt::format("the block has {} threads; this device takes up to {}",
                                               threads, device_.max_threads_per_block)};
      }
    }
    if (what.shared && node.shared.is_fixed() &&
        (node.shared.fixed < 0 || node.shared.fixed > static_cast<std::int64_t>(device_.max_shared_bytes))) {
      throw Complaint{.pointer = what.shared->pointer,
                      .message = fmt::format("{} bytes of shared memory; this device has 0 to {} a block",
                                             node.shared.fixed, device_.max_shared_bytes)};
    }
  }

  PlanArgument argument(const Argument& argument) {
    PlanArgument result;
    result.pointer = argument.pointer;
    if (const auto* buffer = std::get_if<BufferArgument>(&argument.value)) {
      set_buffer(result, buffer->buffer, argument.pointer);
      result.access = buffer->access;
    } else if (const auto* slot = std::get_if<SlotArgument>(&argument.value)) {
      set_slot(result, slot->param, argument.pointer);
    } else {
      set_number(result, std::get<NumberArgument>(argument.value));
    }
    return result;
  }

  void add_table(std::vector<PlanArgument>& arguments, const TableArgument& table,
                 const std::string& pointer) {
    const std::size_t most = device_.max_argument_bytes / sizeof(DevicePointer);
    std::size_t pointers = 0;
    for_each_member(scope_, table.family, [&] {
      pointers += table.pointers.size();
      if (pointers > most) return;
      for (const Placed<BufferArgument>& one : table.pointers) {
        PlanArgument& argument = arguments.emplace_back();
        argument.pointer = one.pointer;
        argument.table_columns = static_cast<std::uint32_t>(table.pointers.size());
        argument.access = one.value.access;
        set_buffer(argument, one.value.buffer, one.pointer);
      }
    });
    if (pointers == 0) {
      throw Complaint{.pointer = pointer,
                      .message = "the table has no pointers: its \"for\" counts to 0",
                      .hint = "An op that is not wanted for some constants takes a \"when\"."};
    }
    if (pointers > most) {
      throw Complaint{
          .pointer = pointer,
          .message = fmt::format("the table has {} pointers, {} bytes; a kernel's arguments have up to {} "
                                 "bytes in all on this device",
                                 pointers, pointers * sizeof(DevicePointer), device_.max_argument_bytes),
          .hint = argument_bytes_hint};
    }
  }

  void set_slot(PlanArgument& argument, const std::string& name, const std::string& pointer) {
    const std::uint32_t* index = scope_.param(name);
    if (index == nullptr || !plan_.params[*index].info.is_step) {
      throw Complaint{.pointer = pointer,
                      .message = fmt::format("a slot holds a step param, and \"{}\" is none", name)};
    }
    if (plan_.params[*index].update == UpdateWay::node) {
      throw Complaint{
          .pointer = pointer,
          .message = fmt::format("a slot of \"{}\", which is declared with \"update\": \"node\"", name)};
    }
    argument.kind = PlanArgument::Kind::slot;
    argument.param = *index;
  }

  void set_number(PlanArgument& argument, const NumberArgument& number) {
    if (const auto* literal = std::get_if<double>(&number.value)) {
      argument.kind = PlanArgument::Kind::literal;
      argument.literal = *literal;
      return;
    }
    const Template& text = std::get<Template>(number.value);
    const std::string plain = scope_.interpolate(text);
    if (const std::uint32_t* buffer = scope_.buffer(plain)) {
      argument.kind = PlanArgument::Kind::buffer;
      argument.buffer = *buffer;
      return;
    }
    if (const std::uint32_t* param = scope_.float_param(plain)) {
      argument.kind = PlanArgument::Kind::float_param;
      argument.param = *param;
      if (plan_.params[*param].info.is_step) argument.named_step = *param;
      return;
    }
    argument.value = scope_.value(text);
    // A loop variable of the name would have made the value fixed.
    const std::uint32_t* param = argument.value.is_fixed() ? nullptr : scope_.param(plain);
    if (param != nullptr) argument.named_step = *param;
  }

  void set_buffer(PlanArgument& argument, const BufferReference& reference, const std::string& pointer) {
    const std::string name = scope_.interpolate(reference.name);
    const std::uint32_t* index = scope_.buffer(name);
    if (index == nullptr) {
      throw Complaint{
          .pointer = pointer,
          .message = fmt::format("there is no buffer \"{}\".{}", name, suggest(name, scope_.names()))};
    }
    argument.kind = PlanArgument::Kind::buffer;
    argument.buffer = *index;
    if (reference.offset) argument.value = scope_.value(*reference.offset);
    if (reference.extent) argument.extent = scope_.value(*reference.extent);
    check_range(argument, pointer);
  }

  // As far as the range is fixed; the rest is checked at each launch (packed_arguments.cpp).
  void check_range(const PlanArgument& argument, const std::string& pointer) const {
    const PlanBuffer& buffer = plan_.buffers[argument.buffer];
    const auto elements = static_cast<std::int64_t>(buffer.elements);
    const auto block = static_cast<std::int64_t>(buffer.type().block_elements);
    const auto complain = [&](const std::string& what) {
      throw Complaint{.pointer = pointer,
                      .message = fmt::format("{} of \"{}\", which has {} elements of type {}", what,
                                             buffer.info.name, elements, name(buffer.info.type))};
    };
    const std::int64_t smallest_extent =
        argument.extent && argument.extent->is_fixed() ? argument.extent->fixed : 1;
    if (smallest_extent < 1 || smallest_extent > elements)
      complain(fmt::format("{} elements", smallest_extent));
    if (!argument.value.is_fixed()) return;
    const std::int64_t offset = argument.value.fixed;
    if (offset < 0 || offset > elements - smallest_extent) {
      complain(smallest_extent == 1 ? fmt::format("element {}", offset)
                                    : fmt::format("elements {} to {}", offset, offset + smallest_extent - 1));
    }
    if (offset % block != 0)
      complain(fmt::format("offset {} is not a whole number of blocks of {} elements", offset, block));
  }

  void add(const Op& op, const CopyOp& what) {
    PlanArgument from, to;
    from.pointer = what.from_pointer;
    to.pointer = what.to_pointer;
    set_buffer(from, what.from, what.from_pointer);
    set_buffer(to, what.to, what.to_pointer);
    to.access = Access::write;
    const PlanBuffer& source = plan_.buffers[from.buffer];
    const PlanBuffer& target = plan_.buffers[to.buffer];
    if (source.info.type != target.info.type) {
      throw Complaint{
          .pointer = op.pointer,
          .message = fmt::format("a copy does not convert: \"{}\" is {}, \"{}\" is {}", source.info.name,
                                 name(source.info.type), target.info.name, name(target.info.type))};
    }
    const Value count = copy_count(op, from, to);
    PlanNode node;
    node.kernel =
        kernels_.use_builtin(make_copy(node, device_, source.type(), std::move(from), std::move(to), count));
    append(std::move(node), op, "copy");
  }

  // How many elements a copy moves: the extent that either side gives, else all of the source from its offset
  // on.
  Value copy_count(const Op& op, PlanArgument& from, PlanArgument& to) const {
    const auto rest = [&](const PlanArgument& argument) {
      if (!argument.value.is_fixed()) {
        throw Complaint{
            .pointer = argument.pointer,
            .message =
                "a copy at an offset that depends on a step param needs an extent, \"x[offset : extent]\""};
      }
      return Value::of(static_cast<std::int64_t>(plan_.buffers[argument.buffer].elements) -
                       argument.value.fixed);
    };
    if (!from.extent && !to.extent) from.extent = rest(from);
    const Value count = from.extent ? *from.extent : *to.extent;
    const Value other = from.extent && to.extent ? *to.extent : count;
    const bool same = count.is_fixed() == other.is_fixed() &&
                      (count.is_fixed() ? count.fixed == other.fixed
                                        : count.expression->text() == other.expression->text());
    if (!same) {
      throw Complaint{.pointer = op.pointer,
                      .message = "the two extents of a copy differ",
                      .hint = "One of them is enough: the other side takes as many elements."};
    }
    from.extent = to.extent = count;
    check_range(from, from.pointer);
    check_range(to, to.pointer);
    if (from.buffer == to.buffer && count.is_fixed() && from.value.is_fixed() && to.value.is_fixed() &&
        std::abs(from.value.fixed - to.value.fixed) < count.fixed) {
      throw Complaint{
          .pointer = op.pointer,
          .message = fmt::format("the two ranges of a copy overlap: {} elements from {} to {} of \"{}\"",
                                 count.fixed, from.value.fixed, to.value.fixed,
                                 plan_.buffers[from.buffer].info.name),
          .hint = "Elements are moved in no particular order; go through another buffer."};
    }
    if (count.is_fixed() &&
        count.fixed % static_cast<std::int64_t>(plan_.buffers[from.buffer].type().block_elements) != 0) {
      throw Complaint{.pointer = op.pointer,
                      .message = fmt::format("{} elements are not a whole number of blocks", count.fixed)};
    }
    return count;
  }

  void add(const Op& op, const FillOp& what) {
    PlanArgument to;
    to.pointer = what.buffer_pointer;
    set_buffer(to, what.buffer, what.buffer_pointer);
    to.access = Access::write;
    const PlanBuffer& buffer = plan_.buffers[to.buffer];
    if (!is_plain(buffer.info.type)) {
      throw Complaint{.pointer = op.pointer,
                      .message = fmt::format("\"{}\" is of the block type {}, which cannot be filled",
                                             buffer.info.name, name(buffer.info.type))};
    }
    if (!to.extent && !to.value.is_fixed()) {
      throw Complaint{
          .pointer = to.pointer,
          .message =
              "a fill at an offset that depends on a step param needs an extent, \"x[offset : extent]\""};
    }
    if (!to.extent) to.extent = Value::of(static_cast<std::int64_t>(buffer.elements) - to.value.fixed);
    PlanArgument value = fill_value(what.value, buffer);
    PlanNode node;
    node.kernel =
        kernels_.use_builtin(make_fill(node, device_, buffer.type(), std::move(to), std::move(value)));
    append(std::move(node), op, "fill");
  }

  PlanArgument fill_value(const PlacedNumber& number, const PlanBuffer& buffer) const {
    PlanArgument value;
    value.pointer = number.pointer;
    value.type = buffer.info.type;
    if (const auto* literal = std::get_if<double>(&number.value)) {
      value.kind = PlanArgument::Kind::literal;
      value.literal = *literal;
    } else if (const std::uint32_t* param = scope_.float_param(std::get<Expression>(number.value).text())) {
      value.kind = PlanArgument::Kind::float_param;
      value.param = *param;
    } else {
      value.value = scope_.value(std::get<Expression>(number.value), number.pointer);
    }
    const bool real = value.kind != PlanArgument::Kind::integer;
    if (real && info(buffer.info.type).is_integer) {
      throw Complaint{.pointer = number.pointer,
                      .message = fmt::format("\"{}\" is of type {} and takes an integer, not a float",
                                             buffer.info.name, name(buffer.info.type))};
    }
    if (!real && !value.value.is_fixed() && info(buffer.info.type).is_float) {
      throw Complaint{.pointer = number.pointer,
                      .message = fmt::format("\"{}\" is of type {}: its fill is a number or a float param",
                                             buffer.info.name, name(buffer.info.type))};
    }
    if (!real && info(buffer.info.type).is_float) {
      value.kind = PlanArgument::Kind::literal;
      value.literal = static_cast<double>(value.value.fixed);
    }
    if (value.kind == PlanArgument::Kind::literal && !fits_float(buffer.info.type, value.literal)) {
      throw Complaint{
          .pointer = number.pointer,
          .message = fmt::format("{} is beyond what {} holds", value.literal, name(buffer.info.type))};
    }
    return value;
  }

  Plan& plan_;
  const Schedule& schedule_;
  const DeviceProperties& device_;
  Scope scope_;
  KernelTable kernels_;
  Complaints complaints_;
  std::vector<std::string> labels_;
  std::int64_t iterations_ = 0;
  int caught_ = 0;
};

}  // namespace

bool PlanNode::may_be_disabled(const Plan& plan) const {
  return std::any_of(grid.begin(), grid.end(), [&](const Value& extent) {
    if (extent.is_fixed()) return false;
    const std::optional<Value::Affine> form = extent.affine(plan);
    if (!form) return true;
    const ParamInfo& param = plan.params[form->param].info;
    return std::min(form->scale * param.smallest, form->scale * param.largest) + form->addend < 1;
  });
}

// A programmatic edge lets the later kernel start early and leaves the waiting to it. That is right because
// - its threads all wait before they touch what any op writes (`pdl`), and what they wait for is that the
//   earlier kernel has ended and its writes can be seen (PTX ISA, griddepcontrol.wait);
// - through it they wait for everything before it too: a kernel whose own edges are full has not started
// before
//   those ended, and one that waits has not ended before they did. So an edge that others imply may go,
//   whatever their kinds.
// A disabled node waits for nothing and is passed at once, and what a cooperative kernel's blocks wait for
// must be resident beside them: such nodes keep full edges.
EdgeKind Plan::edge_kind(std::uint32_t earlier, std::uint32_t later) const {
  const auto may_overlap = [&](const PlanNode& node) {
    return kernels[node.kernel].pdl && !node.attributes.cooperative && !node.may_be_disabled(*this);
  };
  return may_overlap(nodes[earlier]) && may_overlap(nodes[later]) ? EdgeKind::programmatic : EdgeKind::full;
}

void Plan::set_edge_kinds() {
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    for (Dependency& dependency : nodes[i].dependencies) dependency.kind = edge_kind(dependency.node, i);
  }
}

Place Plan::place(const Schedule& schedule, std::size_t node, std::optional<std::size_t> argument) const {
  const PlanNode& at = nodes[node];
  const bool has_argument =
      argument && *argument < at.arguments.size() && !at.arguments[*argument].pointer.empty();
  Place place = schedule.place(has_argument ? at.arguments[*argument].pointer : at.pointer);
  place.op = at.label;
  place.kernel = kernels[at.kernel].name;
  place.argument = argument;
  // Ours have an argument for each parameter.
  if (argument && *argument < at.arguments.size() && !at.is_builtin)
    place.argument = at.arguments[*argument].parameter;
  return place;
}

Plan make_plan(const Schedule& schedule, const DeviceProperties& device, const SessionOptions& options) {
  Plan plan;
  WeightFinder weights(plan, schedule, options);
  resolve_params(plan, schedule, device, options, weights);
  resolve_buffers(plan, schedule, device, options, weights);
  Unroller(plan, schedule, device).run();
  for (rtc::CompileRequest& unit : plan.units) unit.architecture = device.architecture;
  return plan;
}

}  // namespace rondo
