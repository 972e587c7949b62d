#include "rondo/session.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "buffer_fill.h"
#include "session_state.h"
#include "slots.h"

namespace rondo {
namespace {

// Bound memory may be copied 16 bytes at a time (builtin.cpp), and vector loads of kernels ask for no more.
constexpr std::uint64_t bind_alignment = 16;

constexpr const char* no_such_param = "a param handle that is not of this session";

Status refuse(const char* why) noexcept { return {ErrorCode::bad_argument, 0, "", why}; }

template <typename Items>
std::uint32_t index_of(std::string_view name, const std::unordered_map<std::string, std::uint32_t>& index,
                       const Items& items, const char* what) {
  const auto found = index.find(std::string(name));
  if (found != index.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.name);
  throw Error(ErrorCode::bad_argument,
              fmt::format("the schedule has no {} \"{}\".{}", what, name, suggest(std::string(name), names)));
}

}  // namespace

Session::Session(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const std::string& Session::name() const noexcept { return state_->schedule.name; }
std::span<const ParamInfo> Session::params() const noexcept {
  State& state = *state_;
  for (std::size_t i = 0; i < state.params.size(); ++i) {
    ParamInfo& param = state.params[i];
    if (rondo::info(param.type).is_float) {
      param.real = std::bit_cast<double>(state.values[i]);
    } else {
      param.integer = state.values[i];
    }
  }
  return state.params;
}
std::span<const BufferInfo> Session::buffers() const noexcept { return state_->buffers; }
const Counters& Session::counters() const noexcept { return state_->counters; }
const BuildSummary& Session::summary() const noexcept { return state_->summary; }
bool Session::failed() const noexcept { return state_->has_failed; }
Mode Session::mode() const noexcept { return state_->mode; }

ParamHandle Session::param(std::string_view name) const {
  return {index_of(name, state_->plan.param_index, state_->params, "param")};
}

BufferHandle Session::buffer(std::string_view name) const {
  return {index_of(name, state_->plan.buffer_index, state_->buffers, "buffer")};
}

void Session::State::mark(std::uint32_t node) noexcept {
  if (is_marked[node]) return;
  is_marked[node] = true;
  marked.push_back(node);  // reserved for every node
}

bool Session::State::is_safe(std::uint32_t param, std::int64_t value) const noexcept {
  const IntegerRange range = arguments->safe_range(param);
  return range.smallest <= value && value <= range.largest;
}

void Session::State::tell_nodes(std::uint32_t param, std::int64_t before) noexcept {
  const Settable& at = settable[param];
  if (at.may_be_unsafe) {
    unsafe_params -= is_safe(param, before) ? 0 : 1;
    unsafe_params += is_safe(param, values[param]) ? 0 : 1;
  }
  if (is_pending[param]) return;
  is_pending[param] = true;
  pending_is_plain = pending_is_plain && at.is_plain;
  pending.push_back(param);  // reserved for every param
}

void Session::State::take(std::uint32_t param, std::int64_t value) noexcept {
  const Settable& at = settable[param];
  const std::int64_t before = std::exchange(values[param], value);
  if (before == value) return;
  if (at.slot != nullptr) {
    const std::uint64_t bits = slot_bits(at.type, value);
    std::memcpy(at.slot, &bits, sizeof bits);
    slots_have_changed = true;
  }
  if (at.has_nodes) tell_nodes(param, before);
}

const char* Session::State::refuse_set(std::uint32_t param, double value, const char* why) noexcept {
  refused_set = {.call = why, .param = param, .value = value};
  return why;
}

const char* Session::put(ParamHandle param, std::int64_t value) noexcept {
  State& state = *state_;
  if (param.index >= state.settable.size()) return no_such_param;
  const Settable& at = state.settable[param.index];
  if (at.form == Settable::Form::constant || at.form == Settable::Form::real) [[unlikely]]
    return put(param, static_cast<double>(value));
  if (value < at.smallest || value > at.largest) {
    return state.refuse_set(param.index, static_cast<double>(value),
                            "the value is outside the param's range");
  }
  if (at.form == Settable::Form::slot) {
    // Whether anything has changed is seen when the slots are published.
    state.values[param.index] = value;
    std::memcpy(at.slot, &value, sizeof value);
    state.slots_have_changed = true;
  } else {
    state.take(param.index, value);
  }
  return nullptr;
}

const char* Session::put(ParamHandle param, double value) noexcept {
  State& state = *state_;
  if (param.index >= state.settable.size()) return no_such_param;
  const Settable& at = state.settable[param.index];
  if (at.form == Settable::Form::constant)
    return state.refuse_set(param.index, value, "it is a constant, fixed when the session is built");
  if (at.form != Settable::Form::real)
    return state.refuse_set(param.index, value, "the param is of an integer type");
  if (!fits_float(at.type, value))
    return state.refuse_set(param.index, value, "the value is beyond what its type holds");
  // Bits, not values: -0 and 0 differ, a NaN is itself.
  state.take(param.index, std::bit_cast<std::int64_t>(value));
  return nullptr;
}

namespace {

[[noreturn]] void complain_of_value(const ParamInfo& info, std::string_view text, const std::string& why) {
  throw Error(ErrorCode::bad_argument, fmt::format("\"{}\" is no value for the param \"{}\" of type {}: {}",
                                                   text, info.name, rondo::name(info.type), why));
}

}  // namespace

std::variant<std::int64_t, double> parse_value(const ParamInfo& info, std::string_view text) {
  const char* const end = text.data() + text.size();
  if (rondo::info(info.type).is_float) {
    double value = 0;
    const auto [rest, code] = std::from_chars(text.data(), end, value);
    if (code != std::errc() || rest != end) complain_of_value(info, text, "it is not a number");
    return value;
  }
  std::int64_t value = text == "true" ? 1 : 0;
  if (text != "true" && text != "false") {
    const auto [rest, code] = std::from_chars(text.data(), end, value);
    if (code != std::errc() || rest != end) complain_of_value(info, text, "it is not an integer of 64 bits");
  }
  if (info.is_step && (value < info.smallest || value > info.largest))
    complain_of_value(info, text, fmt::format("its range is {} to {}", info.smallest, info.largest));
  return value;
}

void Session::set(std::string_view name, std::string_view text) {
  const ParamHandle handle = param(name);
  const ParamInfo& info = state_->params[handle.index];
  const Status status = std::visit([&](auto value) { return set(handle, value); }, parse_value(info, text));
  if (!status.ok()) complain_of_value(info, text, status.call);
}

bool Session::State::can_refresh() const noexcept {
  return marked.empty() && unsafe_params == 0 && pending_is_plain;
}

Status Session::State::refresh_pending() noexcept {
  // How many nodes before its own a node is fetched: an update takes about as long as a fetch from memory.
  constexpr std::size_t fetched_ahead = 2;
  ++step;
  for (const std::uint32_t param : pending) {
    is_pending[param] = false;
    const std::vector<std::uint32_t>& nodes = nodes_of_param[param];
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (i + fetched_ahead < nodes.size()) arguments->fetch(nodes[i + fetched_ahead]);
      if (!arguments->refresh(nodes[i], step) || !graph) continue;
      if (const Status status = graph->update(arguments->current(nodes[i])); !status.ok()) return status;
    }
  }
  pending.clear();
  return {};
}

void Session::State::mark_pending() noexcept {
  for (const std::uint32_t param : pending) {
    is_pending[param] = false;
    for (const std::uint32_t node : nodes_of_param[param]) mark(node);
  }
  pending.clear();
  pending_is_plain = true;
}

Status Session::State::stage_marked() noexcept {
  for (const std::uint32_t node : marked) {
    if (const Status status = arguments->stage(node); !status.ok()) return status;
  }
  return {};
}

Status Session::State::apply_marked() noexcept {
  for (const std::uint32_t node : marked) {
    is_marked[node] = false;
    const NodeUpdate& next = arguments->next(node);
    if (graph) {
      if (arguments->arguments_or_shape_changed(node)) {
        if (const Status status = graph->update(next); !status.ok()) return status;
      }
      if (arguments->enabled_changed(node)) {
        if (const Status status = graph->enable(node, next.enabled); !status.ok()) return status;
      }
    }
    arguments->accept(node);
  }
  marked.clear();
  return {};
}

Status Session::State::publish_slots() noexcept {
  slots_have_changed = false;
  if (!arguments->refresh_slots() || !graph) return {};
  const Status status = graph->update(arguments->current(publish_node));
  if (!status.ok()) has_failed = true;
  return status;
}

Status Session::State::launch_eagerly(StreamHandle on) noexcept {
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    const NodeUpdate& node = arguments->current(i);
    if (!node.enabled) continue;
    if (const Status status = driver.launch(node.launch, on); !status.ok()) return status;
    ++counters.kernel_launches;
  }
  return {};
}

Status Session::State::update_nodes() noexcept {
  Status status;
  if (can_refresh()) {
    status = refresh_pending();
  } else {
    mark_pending();
    if (status = stage_marked(); !status.ok()) {
      staging_refusal = status.call;
      return status;
    }
    status = apply_marked();
  }
  // Some nodes have the new arguments, some the old ones.
  if (!status.ok()) has_failed = true;
  return status;
}

Status Session::launch(Stream stream) noexcept {
  State& state = *state_;
  if (state.has_failed)
    return {ErrorCode::run_time, 0, "", "this session has failed before and launches nothing; rebuild it"};
  const DriverScope scope(state.driver);
  if (!scope.status().ok()) return scope.status();
  if (!state.pending.empty() || !state.marked.empty()) {
    if (const Status status = state.update_nodes(); !status.ok()) return status;
  }
  if (state.slots_have_changed) {
    if (const Status status = state.publish_slots(); !status.ok()) return status;
  }
  const StreamHandle on = state.stream_of(stream);
  const Status status = state.graph ? state.graph->launch(on) : state.launch_eagerly(on);
  if (!status.ok()) {
    state.has_failed = !state.graph;  // eagerly, some ops of the step may have run
    return status;
  }
  ++state.counters.launches;
  return {};
}

void Session::rebuild() { state_->rebuild(); }

Status Session::synchronize(Stream stream) noexcept {
  return state_->driver.synchronize(state_->stream_of(stream));
}

Diagnostic Session::State::staging_diagnostic(const Status& status, const char* before,
                                              const char* hint) const {
  const StagingFault& fault = arguments->fault();
  const std::string value = fault.has_value ? fmt::format(" ({}, at most {})", fault.value, fault.limit) : "";
  return {.place = plan.place(schedule, fault.node, fault.argument),
          .message = fmt::format("{}{}{}", before, status.call, value),
          .hint = hint};
}

Error Session::error(const Status& status) const {
  const State& state = *state_;
  if (status.code == ErrorCode::bad_argument && status.call == state.staging_refusal) {
    return Error(status.code, state.staging_diagnostic(status, "",
                                                       "This step was not launched, and nothing was changed "
                                                       "for it; set other values and launch again."));
  }
  if (status.code == ErrorCode::bad_argument && status.call == state.refused_set.call) {
    const ParamInfo& param = state.params[state.refused_set.param];
    const std::string range =
        rondo::info(param.type).is_float ? "" : fmt::format(", {} to {}", param.smallest, param.largest);
    return Error(
        ErrorCode::bad_argument,
        {.place = state.schedule.place(state.plan.params[state.refused_set.param].pointer),
         .message = fmt::format("the param \"{}\" ({}{}) was not set to {}: {}", param.name,
                                rondo::name(param.type), range, state.refused_set.value, status.call),
         .hint = ""});
  }
  return Error(status, state.schedule.name);
}

Status Session::bind(BufferHandle buffer, std::uint64_t address, std::size_t bytes) noexcept {
  State& state = *state_;
  if (buffer.index >= state.buffers.size()) return refuse("a buffer handle that is not of this session");
  const BufferInfo& info = state.buffers[buffer.index];
  if (!info.readable || info.role == Role::temporary)
    return refuse("a temporary, which lies in the session's own memory");
  if (address == 0) return refuse("a null address; unbind gives a buffer its own memory back");
  if (address % bind_alignment != 0) return refuse("an address that is not a multiple of 16 bytes");
  if (bytes < info.bytes) return refuse("memory smaller than the buffer");
  if (address > UINT64_MAX - bytes) return refuse("memory that ends beyond the address space");
  for (std::size_t i = 0; i < state.buffers.size(); ++i) {
    if (i == buffer.index || !(state.is_written[i] || state.is_written[buffer.index])) continue;
    const std::uint64_t begin = state.addresses[i], end = begin + state.buffers[i].bytes;
    if (begin < address + info.bytes && address < end)
      return refuse("memory that another buffer uses, and one of the two is written");
  }
  state.point(buffer.index, address);
  return {};
}

Status Session::unbind(BufferHandle buffer) noexcept {
  State& state = *state_;
  if (buffer.index >= state.buffers.size()) return refuse("a buffer handle that is not of this session");
  state.point(buffer.index, state.own_addresses[buffer.index]);
  return {};
}

void Session::State::point(std::uint32_t buffer, DevicePointer address) noexcept {
  if (addresses[buffer] == address) return;
  addresses[buffer] = address;
  for (const std::uint32_t node : nodes_of_buffer[buffer]) {
    arguments->touch(node);
    mark(node);
  }
}

std::uint64_t Session::address(BufferHandle buffer) const noexcept {
  const State& state = *state_;
  return buffer.index < state.buffers.size() && state.buffers[buffer.index].readable
             ? state.addresses[buffer.index]
             : 0;
}

Status Session::State::check_access(BufferHandle buffer, std::size_t offset,
                                    std::size_t bytes) const noexcept {
  if (buffer.index >= buffers.size()) return refuse("a buffer handle that is not of this session");
  const BufferInfo& info = buffers[buffer.index];
  if (!info.readable)
    return refuse("a temporary in the arena; SessionOptions::separate_buffers keeps them apart");
  if (offset > info.bytes || bytes > info.bytes - offset) return refuse("bytes beyond the end of the buffer");
  return {};
}

Status Session::read(BufferHandle buffer, std::span<std::byte> to, std::size_t offset,
                     Stream stream) noexcept {
  State& state = *state_;
  if (const Status status = state.check_access(buffer, offset, to.size()); !status.ok()) return status;
  if (to.empty()) return {};
  const StreamHandle on = state.stream_of(stream);
  if (const Status status =
          state.driver.read(to.data(), state.addresses[buffer.index] + offset, to.size(), on);
      !status.ok()) {
    return status;
  }
  return state.driver.synchronize(on);
}

Status Session::write(BufferHandle buffer, std::span<const std::byte> from, std::size_t offset,
                      Stream stream) noexcept {
  State& state = *state_;
  if (const Status status = state.check_access(buffer, offset, from.size()); !status.ok()) return status;
  if (from.empty()) return {};
  if (state.buffers[buffer.index].role == Role::weight && state.plan.buffers[buffer.index].same_as) {
    return refuse("a weight that shares its tensor with another; write that one");
  }
  return state.driver.write(state.addresses[buffer.index] + offset, from.data(), from.size(),
                            state.stream_of(stream));
}

Status Session::fill_bytes(BufferHandle buffer, std::uint8_t value, Stream stream) noexcept {
  State& state = *state_;
  const std::size_t bytes = buffer.index < state.buffers.size() ? state.buffers[buffer.index].bytes : 0;
  if (const Status status = state.check_access(buffer, 0, bytes); !status.ok()) return status;
  return state.driver.fill_bytes(state.addresses[buffer.index], value, bytes, state.stream_of(stream));
}

Status Session::State::apply_fills(StreamHandle on) {
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer& buffer = plan.buffers[i];
    if (!buffer.fill) continue;
    const auto* random = std::get_if<RandomFill>(&*buffer.fill);
    Status status;
    if (random == nullptr && buffer.fill_value == 0 && !std::signbit(buffer.fill_value)) {
      status = driver.fill_bytes(addresses[i], 0, buffer.info.bytes, on);
    } else {
      const std::vector<std::byte> bytes =
          random != nullptr ? random_elements(buffer.info.type, buffer.elements, random->seed)
                            : equal_elements(buffer.info.type, buffer.elements, buffer.fill_value);
      status = driver.write(addresses[i], bytes.data(), bytes.size(), on);
    }
    if (!status.ok()) return status;
  }
  return {};
}

Status Session::reset(Stream stream) noexcept {
  State& state = *state_;
  for (std::uint32_t i = 0; i < state.settable.size(); ++i) {
    const std::int64_t initial = state.initial_values[i];
    Status status;
    const Settable::Form form = state.settable[i].form;
    if (form == Settable::Form::real) {
      status = set(ParamHandle{i}, std::bit_cast<double>(initial));
    } else if (form != Settable::Form::constant) {
      status = set(ParamHandle{i}, initial);
    }
    if (!status.ok()) return status;
  }
  try {
    return state.apply_fills(state.stream_of(stream));
  } catch (const std::bad_alloc&) {
    return {ErrorCode::run_time, 0, "", "no memory on the host for the initial fills"};
  }
}

}  // namespace rondo
