// Memory, streams and events.
#include "objects.h"
#include "thread_state.h"

namespace rondo::cuda {
namespace {

// The null stream. It and streams made with CU_STREAM_NON_BLOCKING do not wait for each other, so that it
// needs nothing special here; streams that would wait for it are not made.
std::shared_ptr<StreamObject> default_stream() {
  static const auto& stream =
      *new std::shared_ptr<StreamObject>(new StreamObject{doubles::host().create_stream()});
  return stream;
}

template <class Body>
Result on_stream(const char* name, Stream stream, Body body) noexcept {
  return in_context(name, [&] {
    const auto object = find_stream(stream);
    return object == nullptr ? invalid_handle : body(*object);
  });
}

struct HostCall {
  HostFunction* function;
  void* data;
};

void run_host_function(void* data) {
  const std::unique_ptr<HostCall> host_call(static_cast<HostCall*>(data));
  thread_state().in_host_function = true;
  host_call->function(host_call->data);
  thread_state().in_host_function = false;
}

}  // namespace

Objects& objects() {
  static Objects& objects = *new Objects;
  return objects;
}

std::shared_ptr<StreamObject> find_stream(Stream stream) {
  return stream == nullptr ? default_stream() : objects().streams.find(stream);
}

std::pair<DeviceAddress, std::size_t> allocation_of(DeviceAddress address) {
  Objects& all = objects();
  const std::lock_guard lock(all.memory_mutex);
  const auto after = all.memory.upper_bound(address);
  if (after == all.memory.begin()) return {0, 0};
  const auto& [begin, size] = *std::prev(after);
  return address - begin <= size ? std::pair{begin, size} : std::pair<DeviceAddress, std::size_t>{0, 0};
}

bool is_device_memory(DeviceAddress address, std::size_t bytes) {
  const auto [begin, size] = allocation_of(address);
  return size != 0 && bytes <= size - (address - begin);
}

extern "C" {

Result cuMemAlloc_v2(DeviceAddress* address, std::size_t bytes) {
  return in_context("cuMemAlloc_v2", [&] {
    if (address == nullptr || bytes == 0) return Result::invalid_value;
    const DevicePointer memory = doubles::host().allocate(bytes);
    Objects& all = objects();
    const std::lock_guard lock(all.memory_mutex);
    all.memory.emplace(memory, bytes);
    *address = memory;
    return Result::success;
  });
}

Result cuMemFree_v2(DeviceAddress address) {
  return in_context("cuMemFree_v2", [&] {
    Objects& all = objects();
    {
      const std::lock_guard lock(all.memory_mutex);
      if (all.memory.erase(address) == 0) return Result::invalid_value;
    }
    doubles::host().release(address);
    return Result::success;
  });
}

Result cuMemcpyHtoDAsync_v2(DeviceAddress to, const void* from, std::size_t bytes, Stream stream) {
  return on_stream("cuMemcpyHtoDAsync_v2", stream, [&](const StreamObject& on) {
    if (bytes != 0 && (from == nullptr || !is_device_memory(to, bytes))) return Result::invalid_value;
    return to_result(doubles::host().write(to, from, bytes, on.native), out_of_memory);
  });
}

Result cuMemcpyDtoHAsync_v2(void* to, DeviceAddress from, std::size_t bytes, Stream stream) {
  return on_stream("cuMemcpyDtoHAsync_v2", stream, [&](const StreamObject& on) {
    if (bytes != 0 && (to == nullptr || !is_device_memory(from, bytes))) return Result::invalid_value;
    return to_result(doubles::host().read(to, from, bytes, on.native), out_of_memory);
  });
}

Result cuMemsetD8Async(DeviceAddress to, unsigned char value, std::size_t bytes, Stream stream) {
  return on_stream("cuMemsetD8Async", stream, [&](const StreamObject& on) {
    if (bytes != 0 && !is_device_memory(to, bytes)) return Result::invalid_value;
    return to_result(doubles::host().fill_bytes(to, value, bytes, on.native), out_of_memory);
  });
}

Result cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** values,
                              DeviceAddress address) {
  return in_context("cuPointerGetAttributes", [&] {
    if (attributes == nullptr || values == nullptr) return Result::invalid_value;
    const auto [begin, size] = allocation_of(address);
    const bool is_known = size != 0 && address - begin < size;
    for (unsigned i = 0; i < count; ++i) {
      if (values[i] == nullptr) return Result::invalid_value;
      switch (attributes[i]) {  // zeros for what CUDA does not know
        case PointerAttribute::memory_type:
          *static_cast<unsigned*>(values[i]) = is_known ? static_cast<unsigned>(MemoryType::device) : 0;
          break;
        case PointerAttribute::range_start:
          *static_cast<DeviceAddress*>(values[i]) = is_known ? begin : 0;
          break;
        case PointerAttribute::range_bytes:
          *static_cast<std::size_t*>(values[i]) = is_known ? size : 0;
          break;
        default:
          return Result::invalid_value;
      }
    }
    return Result::success;
  });
}

Result cuStreamCreate(Stream* stream, unsigned flags) {
  return in_context("cuStreamCreate", [&] {
    if (stream == nullptr || flags > stream_non_blocking) return Result::invalid_value;
    if (flags != stream_non_blocking) return not_supported;  // it would have to wait for the null stream
    *stream = objects().streams.add(
        std::shared_ptr<StreamObject>(new StreamObject{doubles::host().create_stream()}));
    return Result::success;
  });
}

Result cuStreamDestroy_v2(Stream stream) {
  return in_context("cuStreamDestroy_v2", [&] {
    return objects().streams.take(stream) != nullptr ? Result::success : invalid_handle;
  });
}

Result cuStreamSynchronize(Stream stream) {
  return on_stream("cuStreamSynchronize", stream, [&](const StreamObject& on) {
    return to_result(doubles::host().synchronize(on.native), Result::launch_failed);
  });
}

Result cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  return on_stream("cuStreamWaitEvent", stream, [&](const StreamObject& on) {
    const auto object = objects().events.find(event);
    if (object == nullptr) return invalid_handle;
    if (flags != 0) return Result::invalid_value;
    return to_result(doubles::host().wait(on.native, object->native), out_of_memory);
  });
}

Result cuEventCreate(Event* event, unsigned flags) {
  return in_context("cuEventCreate", [&] {
    if (event == nullptr || flags != event_default) return Result::invalid_value;
    *event =
        objects().events.add(std::shared_ptr<EventObject>(new EventObject{doubles::host().create_event()}));
    return Result::success;
  });
}

Result cuEventDestroy_v2(Event event) {
  return in_context("cuEventDestroy_v2", [&] {
    return objects().events.take(event) != nullptr ? Result::success : invalid_handle;
  });
}

Result cuEventRecord(Event event, Stream stream) {
  return on_stream("cuEventRecord", stream, [&](const StreamObject& on) {
    const auto object = objects().events.find(event);
    if (object == nullptr) return invalid_handle;
    const Result result = to_result(doubles::host().record(object->native, on.native), out_of_memory);
    if (result == Result::success) object->recorded = true;
    return result;
  });
}

Result cuEventSynchronize(Event event) {
  return in_context("cuEventSynchronize", [&] {
    const auto object = objects().events.find(event);
    if (object == nullptr) return invalid_handle;
    return to_result(doubles::host().synchronize_event(object->native), Result::launch_failed);
  });
}

Result cuEventElapsedTime(float* milliseconds, Event from, Event to) {
  return in_context("cuEventElapsedTime", [&] {
    const auto begin = objects().events.find(from), end = objects().events.find(to);
    if (begin == nullptr || end == nullptr || !begin->recorded || !end->recorded) return invalid_handle;
    if (milliseconds == nullptr) return Result::invalid_value;
    return to_result(doubles::host().elapsed_ms(begin->native, end->native, milliseconds), not_ready);
  });
}

Result cuLaunchHostFunc(Stream stream, HostFunction* function, void* data) {
  return on_stream("cuLaunchHostFunc", stream, [&](const StreamObject& on) {
    if (function == nullptr) return Result::invalid_value;
    auto host_call = std::make_unique<HostCall>(HostCall{function, data});
    const Status status = doubles::host().launch_host_function(on.native, run_host_function, host_call.get());
    if (status.ok()) static_cast<void>(host_call.release());
    return to_result(status, out_of_memory);
  });
}

std::size_t rondo_double_live_handles() {
  Objects& all = objects();
  const std::lock_guard lock(all.memory_mutex);
  return all.streams.size() + all.events.size() + all.modules.size() + all.graphs.size() + all.execs.size() +
         all.libraries.size() + all.contexts.size() + all.memory.size();
}
}

}  // namespace rondo::cuda
