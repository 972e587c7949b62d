#include "rondo/captured_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "captured_state.h"
#include "code_objects.h"
#include "demangle.h"
#include "driver.h"
#include "rondo/device.h"
#include "rondo/site_map.h"

namespace rondo {

std::string CapturedNode::demangled() const { return demangle(name); }

ForeignGraphs& foreign_graphs(Device& device) {
  ForeignGraphs* const graphs = device.driver().foreign_graphs();
  if (graphs != nullptr) return *graphs;
  throw Error(ErrorCode::bad_argument,
              fmt::format("the device {} has no graphs that others captured", device.spec()),
              "open the device that the graph is of: \"cuda:i\" or \"hip:i\"");
}

namespace {

// Whether what runs on this device can take a CUtensorMap.
bool may_take_tensor_maps(const DeviceProperties& device) noexcept {
  if (device.backend != "cuda") return false;
  return !(device.architecture.size() == 5 && device.architecture.starts_with("sm_") &&
           device.architecture[3] < '9');
}

}  // namespace

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

std::optional<AddressRange> CapturedGraph::allocation(std::uint64_t address) {
  return state_->allocation_of(address);
}

void CapturedGraph::forget_allocations() noexcept { state_->known.clear(); }

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

Status CapturedGraph::State::update(ExecHandle handle, const Updates& due) noexcept {
  const Update* const end = due.data() + due.size();
  for (const Update* next = due.data(); next != end; ++next) {
    // Kernels lie apart in memory, and a driver call leaves little of them in the caches. The bytes of the
    // arguments are found through what was fetched one update before.
    if (end - next > 1 && next[1].kernel != nullptr) __builtin_prefetch(next[1].kernel->arguments.data());
    if (end - next > 2) __builtin_prefetch(next[2].kernel);
    const Status status = next->kernel != nullptr ? graphs->update(handle, next->node, *next->kernel)
                                                  : update_no_kernel(handle, *next);
    if (status.ok()) continue;
    failed = true;
    failed_node = next->index;
    return status;
  }
  return {};
}

Status CapturedGraph::State::update_no_kernel(ExecHandle handle, const Update& due) noexcept {
  const auto& parameters = nodes[due.index].parameters;
  if (const auto* copy = std::get_if<std::unique_ptr<ForeignMemcpy>>(&parameters))
    return graphs->update(handle, due.node, **copy);
  return graphs->update(handle, due.node, *std::get<std::unique_ptr<ForeignMemset>>(parameters));
}

[[gnu::noinline]] Status CapturedGraph::State::update_in_scope(ExecHandle handle,
                                                               const Updates& due) noexcept {
  const DriverScope scope(device->driver());
  return scope.status().ok() ? update(handle, due) : scope.status();
}

[[gnu::cold]] [[gnu::noinline]] Status CapturedGraph::State::refusal(ExecHandle handle) const noexcept {
  if (handle == nullptr) return {ErrorCode::bad_argument, 0, "", "the exec is null"};
  return {ErrorCode::run_time, 0, "",
          "an earlier apply failed part of the way: instantiate the graph again, and reset()"};
}

Status CapturedGraph::apply(void* exec, ThreadContext context) noexcept {
  State& state = *state_;
  const auto handle = static_cast<ExecHandle>(exec);
  if (handle == nullptr || state.failed) return state.refusal(handle);
  const bool is_of_last_apply = handle == state.exec;
  const State::Updates& due = is_of_last_apply ? state.pending : state.changed;
  const bool needs_scope = is_of_last_apply ? state.pending_needs_scope : state.changed_needs_scope;
  const Status status = needs_scope && context == ThreadContext::unknown ? state.update_in_scope(handle, due)
                                                                         : state.update(handle, due);
  if (!status.ok()) return status;
  state.pending.clear();
  state.pending_needs_scope = false;
  ++state.round;
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
