// What a captured graph's nodes are made of, and which changes to them are allowed.
#include "captured_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace rondo {
namespace {

// Graphs nest no deeper in practice; a driver that says otherwise is not followed without end.
constexpr int deepest_child_graph = 64;

}  // namespace

std::optional<AddressRange> KnownAllocations::find(std::uint64_t address) const noexcept {
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), address,
                       [](std::uint64_t a, const AddressRange& range) { return a < range.begin; });
  if (after == ranges_.begin() || !std::prev(after)->contains(address)) return std::nullopt;
  return *std::prev(after);
}

void KnownAllocations::add(const AddressRange& range) {
  // What overlaps it has been freed since.
  std::erase_if(ranges_, [&](const AddressRange& old) {
    return range.contains(old.begin) || old.contains(range.begin);
  });
  if (ranges_.size() >= most) ranges_.clear();
  const auto place = std::upper_bound(ranges_.begin(), ranges_.end(), range.begin,
                                      [](std::uint64_t a, const AddressRange& old) { return a < old.begin; });
  ranges_.insert(place, range);
}

std::size_t CapturedGraph::State::arguments(std::size_t node) const noexcept {
  const auto& parameters = nodes[node].parameters;
  if (const auto* kernel = std::get_if<KernelNodeParams>(&parameters)) return kernel->arguments();
  return std::holds_alternative<std::monostate>(parameters) ? 0 : 2;
}

std::span<std::byte> CapturedGraph::State::argument(std::size_t node, std::size_t argument) noexcept {
  auto& parameters = nodes[node].parameters;
  if (auto* kernel = std::get_if<KernelNodeParams>(&parameters)) {
    if (argument >= kernel->arguments()) return {};
    const ParameterLayout layout = kernel->kernel_->layout[argument];
    return std::span(kernel->kernel_->arguments).subspan(layout.offset, layout.size);
  }
  if (auto* copy = std::get_if<std::unique_ptr<ForeignMemcpy>>(&parameters)) {
    if (argument == 0) return bytes_of((*copy)->from.address);
    if (argument == 1) return bytes_of((*copy)->to.address);
  }
  if (auto* set = std::get_if<std::unique_ptr<ForeignMemset>>(&parameters)) {
    if (argument == 0) return bytes_of((*set)->address);
    if (argument == 1) return bytes_of((*set)->value);
  }
  return {};
}

std::size_t CapturedGraph::State::offset(std::size_t node, std::size_t argument) const noexcept {
  const auto* kernel = std::get_if<KernelNodeParams>(&nodes[node].parameters);
  return kernel != nullptr ? kernel->offset(argument) : 0;
}

bool CapturedGraph::State::has_addresses(std::size_t node, std::size_t argument) const noexcept {
  const auto& parameters = nodes[node].parameters;
  if (const auto* copy = std::get_if<std::unique_ptr<ForeignMemcpy>>(&parameters)) {
    return (argument == 0 ? (*copy)->from : (*copy)->to).is_device;
  }
  return !std::holds_alternative<std::unique_ptr<ForeignMemset>>(parameters) || argument == 0;
}

bool CapturedGraph::State::takes_device_memory_only(std::size_t node) const noexcept {
  return !std::holds_alternative<KernelNodeParams>(nodes[node].parameters);
}

bool CapturedGraph::State::is_certain(std::size_t node, std::size_t argument) const noexcept {
  const auto* kernel = std::get_if<KernelNodeParams>(&nodes[node].parameters);
  if (kernel == nullptr || !has_opaque_descriptors) return true;
  const std::size_t bytes = kernel->argument(argument).size();
  return bytes < 128 || bytes % 64 != 0 || kernel->offset(argument) % 64 != 0;
}

std::string CapturedGraph::State::describe(std::size_t node) const {
  const CapturedNode& info = infos[node];
  if (info.name.empty()) return fmt::format("node {} ({})", info.path, info.kind_name);
  return fmt::format("node {} (kernel \"{}\")", info.path, info.demangled());
}

// Reads what it can; what cannot be read or changed gets a problem.
void CapturedGraph::State::read_node(Node& node, CapturedNode& info, ForeignNodeKind kind,
                                     const CodeObjects* code_objects) {
  const auto note = [&info](const char* fixed) {
    if (fixed != nullptr) info.problem = std::string("it ") + fixed;
  };
  if (kind == ForeignNodeKind::kernel) {
    info.kind = CapturedNodeKind::kernel;
    auto kernel = std::make_unique<ForeignKernel>(graphs->read_kernel(node.update.node, code_objects));
    note(kernel->fixed);
    node.update.kernel = kernel.get();
    node.update.needs_scope = kernel->needs_scope;
    info.name = kernel->name;
    node.parameters = KernelNodeParams(std::move(kernel));
  } else if (kind == ForeignNodeKind::memcpy) {
    info.kind = CapturedNodeKind::memcpy;
    auto copy = std::make_unique<ForeignMemcpy>(graphs->read_memcpy(node.update.node));
    note(copy->fixed);
    node.update.needs_scope = copy->needs_scope;
    node.parameters = std::move(copy);
  } else if (kind == ForeignNodeKind::memset) {
    info.kind = CapturedNodeKind::memset;
    auto set = std::make_unique<ForeignMemset>(graphs->read_memset(node.update.node));
    note(set->fixed);
    node.update.needs_scope = set->needs_scope;
    node.parameters = std::move(set);
  } else {
    info.problem = "it has no arguments that could be changed";
  }
}

void CapturedGraph::State::add_graph(GraphHandle graph, const std::string& prefix,
                                     const CodeObjects* code_objects, int depth) {
  if (depth > deepest_child_graph) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("child graphs are nested more than {} deep", deepest_child_graph));
  }
  std::unordered_map<NodeHandle, std::uint32_t> indices;
  const std::vector<NodeHandle> handles = graphs->nodes(graph);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(nodes.size());
    indices.emplace(handles[i], index);
    const ForeignNodeKind kind = graphs->kind(handles[i]);
    Node node;
    node.update.node = handles[i];
    node.update.index = index;
    CapturedNode info;
    info.path = prefix + std::to_string(i);
    info.kind_name = kind_name(kind);
    try {
      read_node(node, info, kind, code_objects);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_argument) throw;
      info.problem = error.what();
    }
    nodes.push_back(std::move(node));
    infos.push_back(std::move(info));
    if (kind != ForeignNodeKind::child_graph) continue;
    add_graph(graphs->child_graph(handles[i]), infos[index].path + "/", code_objects, depth + 1);
  }
  for (const auto& [from, to] : graphs->edges(graph)) {
    const auto first = indices.find(from), second = indices.find(to);
    if (first != indices.end() && second != indices.end()) edges.emplace_back(first->second, second->second);
  }
}

std::optional<AddressRange> CapturedGraph::State::allocation_of(std::uint64_t address) {
  if (const auto found = known.find(address)) return found;
  const std::optional<AddressRange> range = graphs->allocation(address);
  if (!range || !range->contains(address)) return std::nullopt;
  known.add(*range);
  return range;
}

void CapturedGraph::State::check_change(const Change& change) {
  const CapturedNode& info = infos[change.node];
  if (!info.problem.empty()) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("{} cannot be changed: {}", describe(change.node), info.problem));
  }
  if (!has_addresses(change.node, change.argument)) {
    // A memset's value may be changed; a memcpy's end in host memory may not.
    if (info.kind == CapturedNodeKind::memset) return;
    throw Error(ErrorCode::bad_argument,
                fmt::format("argument {} of {} cannot be changed: it is no device memory", change.argument,
                            describe(change.node)));
  }
  if (!takes_device_memory_only(change.node)) return;
  std::uint64_t address = 0;
  if (change.offset != 0 || change.bytes.size() != sizeof address) {
    throw Error(ErrorCode::bad_argument, fmt::format("an address is changed as a whole: argument {} of {}",
                                                     change.argument, describe(change.node)));
  }
  std::memcpy(&address, change.bytes.data(), sizeof address);
  const auto [bytes, alignment] = touched_by(change.node);
  // Not in one allocation: memory that was mapped in parts is several of them.
  if (bytes > UINT64_MAX - address || !allocation_of(address) || !allocation_of(address + (bytes - 1))) {
    throw Error(
        ErrorCode::bad_argument,
        fmt::format(
            "{:#x} and the {} bytes from there are no device memory, which argument {} of {} has to be",
            address, bytes, change.argument, describe(change.node)));
  }
  if (address % alignment != 0) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("{:#x} is no multiple of {}, the bytes of an element of {}", address, alignment,
                            describe(change.node)));
  }
}

// Of a memcpy or memset node.
CapturedGraph::State::Touched CapturedGraph::State::touched_by(std::size_t node) const noexcept {
  if (const auto* copy = std::get_if<std::unique_ptr<ForeignMemcpy>>(&nodes[node].parameters)) {
    // Beyond one row, only the vendor knows how far apart they lie.
    return {std::max<std::size_t>(1, (*copy)->width_bytes), 1};
  }
  const ForeignMemset& set = *std::get<std::unique_ptr<ForeignMemset>>(nodes[node].parameters);
  const std::size_t row = set.width * set.element_bytes,
                    pitch = set.height > 1 ? set.pitch * (set.height - 1) : 0;
  return {std::max<std::size_t>(1, pitch + row), std::max<std::uint32_t>(1, set.element_bytes)};
}

void CapturedGraph::State::make_change(const Change& change) noexcept {
  const std::span<std::byte> bytes =
      argument(change.node, change.argument).subspan(change.offset, change.bytes.size());
  if (std::equal(bytes.begin(), bytes.end(), change.bytes.begin())) return;
  std::copy(change.bytes.begin(), change.bytes.end(), bytes.begin());
  Node& node = nodes[change.node];
  if (!std::exchange(node.has_changed, true)) {
    changed.push_back(node.update);
    changed_needs_scope = changed_needs_scope || node.update.needs_scope;
  }
  if (std::exchange(node.pending_since, round) != round) {
    pending.push_back(node.update);
    pending_needs_scope = pending_needs_scope || node.update.needs_scope;
  }
}

}  // namespace rondo
