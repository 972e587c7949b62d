#include "rondo/captured_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "captured_state.h"
#include "code_objects.h"
#include "demangle.h"
#include "driver.h"
#include "rondo/device.h"
#include "rondo/site_map.h"

namespace rondo {

const char* kind_name(ForeignNodeKind kind) noexcept {
  switch (kind) {
    case ForeignNodeKind::kernel:
      return "kernel";
    case ForeignNodeKind::memcpy:
      return "memcpy";
    case ForeignNodeKind::memset:
      return "memset";
    case ForeignNodeKind::child_graph:
      return "child graph";
    case ForeignNodeKind::empty:
      return "empty";
    case ForeignNodeKind::host:
      return "host";
    case ForeignNodeKind::event:
      return "event";
    case ForeignNodeKind::memory:
      return "memory allocation";
    case ForeignNodeKind::conditional:
      return "conditional";
    case ForeignNodeKind::other:
      break;
  }
  return "other";
}

std::string CapturedNode::demangled() const { return demangle(name); }

ForeignGraphs& foreign_graphs(Device& device) {
  ForeignGraphs* const graphs = device.driver().foreign_graphs();
  if (graphs != nullptr) return *graphs;
  throw Error(ErrorCode::bad_argument,
              fmt::format("the device {} has no graphs that others captured", device.spec()),
              "open the device that the graph is of: \"cuda:i\" or \"hip:i\"");
}

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

namespace {

template <class T>
std::span<std::byte> bytes_of(T& value) noexcept {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Whether what runs on this device can take a CUtensorMap.
bool may_take_tensor_maps(const DeviceProperties& device) noexcept {
  if (device.backend != "cuda") return false;
  return !(device.architecture.size() == 5 && device.architecture.starts_with("sm_") &&
           device.architecture[3] < '9');
}

// Graphs nest no deeper in practice; a driver that says otherwise is not followed without end.
constexpr int deepest_child_graph = 64;

}  // namespace

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
    auto kernel = std::make_unique<ForeignKernel>(graphs->read_kernel(node.handle, code_objects));
    note(kernel->fixed);
    info.name = kernel->name;
    node.parameters = KernelNodeParams(std::move(kernel));
  } else if (kind == ForeignNodeKind::memcpy) {
    info.kind = CapturedNodeKind::memcpy;
    auto copy = std::make_unique<ForeignMemcpy>(graphs->read_memcpy(node.handle));
    note(copy->fixed);
    node.parameters = std::move(copy);
  } else if (kind == ForeignNodeKind::memset) {
    info.kind = CapturedNodeKind::memset;
    auto set = std::make_unique<ForeignMemset>(graphs->read_memset(node.handle));
    note(set->fixed);
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
    node.handle = handles[i];
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

CapturedGraph::CapturedGraph(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
CapturedGraph::CapturedGraph(CapturedGraph&&) noexcept = default;
CapturedGraph& CapturedGraph::operator=(CapturedGraph&&) noexcept = default;
CapturedGraph::~CapturedGraph() = default;

CapturedGraph CapturedGraph::adopt(std::shared_ptr<Device> device, void* graph, const AdoptOptions& options) {
  auto state = std::make_unique<State>();
  state->graphs = &foreign_graphs(*device);
  const SearchedCodeObjects code_objects(options.code_object_files, state->graphs->loaded_code_objects());
  if (graph == nullptr) throw Error(ErrorCode::bad_argument, "the graph to adopt is null");
  state->has_opaque_descriptors = may_take_tensor_maps(device->properties());
  state->device = std::move(device);
  {
    const DriverScope scope(state->device->driver());
    check(scope.status(), "adopting a graph");
    state->add_graph(static_cast<GraphHandle>(graph), "", &code_objects, 0);
  }
  std::sort(state->edges.begin(), state->edges.end());
  state->changed.reserve(state->nodes.size());
  state->pending.reserve(state->nodes.size());
  return CapturedGraph(std::move(state));
}

std::span<const CapturedNode> CapturedGraph::nodes() const noexcept { return state_->infos; }

const KernelNodeParams* CapturedGraph::kernel(std::size_t node) const noexcept {
  return node < state_->nodes.size() ? std::get_if<KernelNodeParams>(&state_->nodes[node].parameters)
                                     : nullptr;
}

std::size_t CapturedGraph::arguments(std::size_t node) const noexcept {
  return node < state_->nodes.size() ? state_->arguments(node) : 0;
}

std::span<const std::byte> CapturedGraph::argument(std::size_t node, std::size_t argument) const noexcept {
  return node < state_->nodes.size() ? state_->argument(node, argument) : std::span<std::byte>();
}

std::vector<Site> CapturedGraph::sites(const AddressRange& range) const {
  std::vector<Site> sites;
  for (std::uint32_t node = 0; node < state_->nodes.size(); ++node) {
    state_->for_each_word(node, [&](const Site& site) {
      if (range.contains(site.value)) sites.push_back(site);
    });
  }
  return sites;
}

std::optional<AddressRange> CapturedGraph::State::allocation_of(std::uint64_t address) {
  if (const auto found = known.find(address)) return found;
  const std::optional<AddressRange> range = graphs->allocation(address);
  if (!range || !range->contains(address)) return std::nullopt;
  known.add(*range);
  return range;
}

std::optional<AddressRange> CapturedGraph::allocation(std::uint64_t address) {
  return state_->allocation_of(address);
}

void CapturedGraph::forget_allocations() noexcept { state_->known.clear(); }

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
  if (!std::exchange(node.has_changed, true)) changed.push_back(change.node);
  if (!std::exchange(node.is_pending, true)) pending.push_back(change.node);
}

std::size_t CapturedGraph::retarget(const AddressRange& range, std::uint64_t new_base, const SiteMap* proof) {
  if (range.bytes > 0 && new_base > UINT64_MAX - (range.bytes - 1)) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("{:#x} and {} bytes go beyond the last address", new_base, range.bytes));
  }
  std::vector<Site> found = sites(range);
  bool is_checked = false;
  const auto to_change = [&](Site& site) {
    site.value = new_base + (site.value - range.begin);
    return State::Change{site.node, site.argument, site.offset, bytes_of(site.value)};
  };
  for (Site site : found) {
    if (!site.is_certain && (proof == nullptr || !proof->proves(site))) {
      throw Error(
          ErrorCode::bad_argument,
          fmt::format(
              "{}: {:#x} at byte {} of argument {} may be an address, or part of an opaque descriptor "
              "such as a CUtensorMap, which cannot be retargeted",
              state_->describe(site.node), site.value, site.offset, site.argument),
          "give a site map made by `diff` of two captures, which proves where pointers are, or set the "
          "argument's bytes yourself");
    }
    if (!site.is_certain && !std::exchange(is_checked, true)) proof->check(*this);
    state_->check_change(to_change(site));
  }
  for (Site& site : found) state_->make_change(to_change(site));
  return found.size();
}

void CapturedGraph::set_argument(std::size_t node, std::size_t argument, std::span<const std::byte> bytes) {
  const std::size_t size = this->argument(node, argument).size();
  if (argument < arguments(node) && bytes.size() != size) {
    throw Error(ErrorCode::bad_argument, fmt::format("argument {} of {} has {} bytes, {} were given",
                                                     argument, state_->describe(node), size, bytes.size()));
  }
  set_argument(node, argument, 0, bytes);
}

void CapturedGraph::set_argument(std::size_t node, std::size_t argument, std::size_t offset,
                                 std::span<const std::byte> bytes) {
  if (node >= state_->nodes.size()) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("there is no node {}: the graph has {}", node, state_->nodes.size()));
  }
  const std::size_t size = this->argument(node, argument).size();
  if (argument >= arguments(node) && state_->infos[node].problem.empty()) {
    throw Error(ErrorCode::bad_argument, fmt::format("there is no argument {} of {}, which has {}", argument,
                                                     state_->describe(node), arguments(node)));
  }
  if (argument < arguments(node) && (offset > size || bytes.size() > size - offset)) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("argument {} of {} has {} bytes: {} bytes at {} are not in it", argument,
                            state_->describe(node), size, bytes.size(), offset));
  }
  const State::Change change{static_cast<std::uint32_t>(node), static_cast<std::uint32_t>(argument),
                             static_cast<std::uint32_t>(offset), bytes};
  state_->check_change(change);
  state_->make_change(change);
}

// Nodes lie apart in memory, and a driver call leaves little of them in the caches. The bytes of the
// arguments are found through what was fetched one update before.
void CapturedGraph::State::fetch(std::span<const std::uint32_t> next) const noexcept {
  constexpr std::size_t cache_line = 64;
  if (next.size() > 1) {
    if (const auto* kernel = std::get_if<KernelNodeParams>(&nodes[next[1]].parameters)) {
      const auto* const begin = reinterpret_cast<const std::byte*>(kernel->kernel_.get());
      __builtin_prefetch(begin);
      __builtin_prefetch(begin + cache_line);
    }
  }
  if (next.empty()) return;
  if (const auto* kernel = std::get_if<KernelNodeParams>(&nodes[next[0]].parameters))
    __builtin_prefetch(kernel->kernel_->arguments.data());
}

Status CapturedGraph::State::update(ExecHandle handle, std::uint32_t index) noexcept {
  const Node& node = nodes[index];
  if (const auto* kernel = std::get_if<KernelNodeParams>(&node.parameters)) {
    return graphs->update(handle, node.handle, *kernel->kernel_);
  }
  if (const auto* copy = std::get_if<std::unique_ptr<ForeignMemcpy>>(&node.parameters)) {
    return graphs->update(handle, node.handle, **copy);
  }
  return graphs->update(handle, node.handle, *std::get<std::unique_ptr<ForeignMemset>>(node.parameters));
}

Status CapturedGraph::apply(void* exec) noexcept {
  State& state = *state_;
  const auto handle = static_cast<ExecHandle>(exec);
  if (handle == nullptr) return {ErrorCode::bad_argument, 0, "", "the exec is null"};
  if (state.failed) {
    return {ErrorCode::run_time, 0, "",
            "an earlier apply failed part of the way: instantiate the graph again, and reset()"};
  }
  const std::vector<std::uint32_t>& due = handle == state.exec ? state.pending : state.changed;
  if (!due.empty()) {
    std::optional<DriverScope> scope;
    if (state.graphs->updates_in_scope()) {
      scope.emplace(state.device->driver());
      if (!scope->status().ok()) return scope->status();
    }
    for (std::size_t i = 0; i < due.size(); ++i) {
      const std::uint32_t index = due[i];
      state.fetch(std::span(due).subspan(i + 1));
      const Status status = state.update(handle, index);
      if (status.ok()) continue;
      state.failed = true;
      state.failed_node = index;
      return status;
    }
  }
  for (const std::uint32_t index : state.pending) state.nodes[index].is_pending = false;
  state.pending.clear();
  state.exec = handle;
  return {};
}

bool CapturedGraph::has_failed() const noexcept { return state_->failed; }

void CapturedGraph::reset() noexcept {
  state_->exec = nullptr;
  state_->failed = false;
  state_->failed_node.reset();
}

Error CapturedGraph::error(const Status& status) const {
  if (!state_->failed_node || status.driver_code == 0)
    return Error(status, "applying the changes to a captured graph");
  Place place;
  place.kernel = state_->infos[*state_->failed_node].demangled();
  return Error(status, "updating node " + state_->infos[*state_->failed_node].path, std::move(place));
}

}  // namespace rondo
