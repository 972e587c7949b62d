// rondo.h, over the C++ interface. No exception leaves a function of it.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "c_interface.h"
#include "rondo/device.h"

namespace {

using rondo::Error;
using rondo::ErrorCode;

thread_local std::string last_error;
thread_local bool out_of_memory = false;  // then there may be none for a message either

int fail(int code, const char* message) noexcept {
  out_of_memory = false;
  try {
    last_error = message;
  } catch (...) {
    out_of_memory = true;
  }
  return code;
}

// Runs `body`, and turns what it throws into a code and this thread's message.
template <class Body>
int guarded(Body body) noexcept {
  try {
    body();
    return RONDO_OK;
  } catch (const Error& error) {
    return fail(error.exit_code(), error.what());
  } catch (const std::bad_alloc&) {
    out_of_memory = true;
    return RONDO_FAILED;
  } catch (const std::exception& error) {
    return fail(RONDO_FAILED, error.what());
  } catch (...) {
    return fail(RONDO_FAILED, "unknown exception");
  }
}

void need(const void* pointer, const char* name) {
  if (pointer == nullptr)
    throw Error(ErrorCode::bad_argument, fmt::format("the argument `{}` is null", name));
}
#define RONDO_NEED(argument) need(argument, #argument)

std::span<const std::byte> bytes_at(const void* bytes, std::size_t size) {
  if (size > 0) RONDO_NEED(bytes);
  return {static_cast<const std::byte*>(bytes), size};
}

rondo::AdoptOptions options(const char* const* code_object_files, std::size_t file_count) {
  rondo::AdoptOptions options;
  if (file_count > 0) RONDO_NEED(code_object_files);
  for (std::size_t i = 0; i < file_count; ++i) {
    need(code_object_files[i], "code_object_files[i]");
    options.code_object_files.emplace_back(code_object_files[i]);
  }
  return options;
}

char* to_c(const std::string& text) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

void give(std::span<const std::byte> found, const void** bytes, std::size_t* size) {
  *bytes = found.data();
  *size = found.size();
}

void to_c(const rondo::Dim3& dim, std::uint32_t (&values)[3]) {
  values[0] = dim.x;
  values[1] = dim.y;
  values[2] = dim.z;
}

void need_index(std::size_t index, std::size_t count, const char* what) {
  if (index < count) return;
  throw Error(ErrorCode::bad_argument, fmt::format("there is no {} {}: there are {}", what, index, count));
}

}  // namespace

extern "C" {

const char* rondo_version(void) { return RONDO_VERSION; }
const char* rondo_last_error(void) { return out_of_memory ? "out of memory" : last_error.c_str(); }
void rondo_string_free(char* text) { std::free(text); }

int rondo_device_open(const char* spec, rondo_device** device) {
  return guarded([&] {
    RONDO_NEED(spec);
    RONDO_NEED(device);
    *device = new rondo_device{rondo::open_device(spec)};
  });
}

void rondo_device_close(rondo_device* device) { delete device; }

int rondo_kernel_node_params_copy(rondo_device* device, void* node, const char* const* code_object_files,
                                  size_t file_count, rondo_kernel_node_params** params) {
  return guarded([&] {
    RONDO_NEED(device);
    RONDO_NEED(params);
    *params = new rondo_kernel_node_params{
        rondo::KernelNodeParams::copy(*device->device, node, options(code_object_files, file_count))};
  });
}

void rondo_kernel_node_params_free(rondo_kernel_node_params* params) { delete params; }

int rondo_kernel_node_params_name(const rondo_kernel_node_params* params, const char** name) {
  return guarded([&] {
    RONDO_NEED(params);
    RONDO_NEED(name);
    *name = params->params.name().c_str();
  });
}

int rondo_kernel_node_params_function(const rondo_kernel_node_params* params, void** function) {
  return guarded([&] {
    RONDO_NEED(params);
    RONDO_NEED(function);
    *function = params->params.function();
  });
}

int rondo_kernel_node_params_shape(const rondo_kernel_node_params* params, rondo_launch_shape* shape) {
  return guarded([&] {
    RONDO_NEED(params);
    RONDO_NEED(shape);
    to_c(params->params.shape().grid, shape->grid);
    to_c(params->params.shape().block, shape->block);
    shape->shared_bytes = params->params.shape().shared_bytes;
    to_c(params->params.cluster(), shape->cluster);
    shape->is_cooperative = params->params.is_cooperative() ? 1 : 0;
  });
}

int rondo_kernel_node_params_argument_count(const rondo_kernel_node_params* params, size_t* count) {
  return guarded([&] {
    RONDO_NEED(params);
    RONDO_NEED(count);
    *count = params->params.arguments();
  });
}

int rondo_kernel_node_params_argument(const rondo_kernel_node_params* params, size_t argument,
                                      const void** bytes, size_t* size) {
  return guarded([&] {
    RONDO_NEED(params);
    RONDO_NEED(bytes);
    RONDO_NEED(size);
    need_index(argument, params->params.arguments(), "argument");
    give(params->params.argument(argument), bytes, size);
  });
}

int rondo_kernel_node_params_packed(const rondo_kernel_node_params* params, const void** bytes,
                                    size_t* size) {
  return guarded([&] {
    RONDO_NEED(params);
    RONDO_NEED(bytes);
    RONDO_NEED(size);
    give(params->params.packed(), bytes, size);
  });
}

int rondo_captured_graph_adopt(rondo_device* device, void* graph, const char* const* code_object_files,
                               size_t file_count, rondo_captured_graph** captured) {
  return guarded([&] {
    RONDO_NEED(device);
    RONDO_NEED(captured);
    *captured = new rondo_captured_graph{
        rondo::CapturedGraph::adopt(device->device, graph, options(code_object_files, file_count))};
  });
}

void rondo_captured_graph_free(rondo_captured_graph* captured) { delete captured; }

int rondo_captured_graph_node_count(const rondo_captured_graph* captured, size_t* count) {
  return guarded([&] {
    RONDO_NEED(captured);
    RONDO_NEED(count);
    *count = captured->graph.nodes().size();
  });
}

int rondo_captured_graph_node(const rondo_captured_graph* captured, size_t node, rondo_captured_node* info) {
  return guarded([&] {
    RONDO_NEED(captured);
    RONDO_NEED(info);
    need_index(node, captured->graph.nodes().size(), "node");
    const rondo::CapturedNode& found = captured->graph.nodes()[node];
    *info = {found.path.c_str(), found.kind_name.c_str(), found.name.c_str(), found.problem.c_str(),
             captured->graph.arguments(node)};
  });
}

int rondo_captured_graph_argument(const rondo_captured_graph* captured, size_t node, size_t argument,
                                  const void** bytes, size_t* size) {
  return guarded([&] {
    RONDO_NEED(captured);
    RONDO_NEED(bytes);
    RONDO_NEED(size);
    need_index(node, captured->graph.nodes().size(), "node");
    need_index(argument, captured->graph.arguments(node), "argument");
    give(captured->graph.argument(node, argument), bytes, size);
  });
}

int rondo_captured_graph_sites(const rondo_captured_graph* captured, uint64_t begin, size_t bytes,
                               rondo_site* sites, size_t capacity, size_t* count) {
  return guarded([&] {
    RONDO_NEED(captured);
    RONDO_NEED(count);
    if (capacity > 0) RONDO_NEED(sites);
    const std::vector<rondo::Site> found = captured->graph.sites({begin, bytes});
    for (std::size_t i = 0; i < found.size() && i < capacity; ++i) {
      const rondo::Site& site = found[i];
      sites[i] = {site.node, site.argument, site.offset, site.is_certain ? 1 : 0, site.value};
    }
    *count = found.size();
  });
}

int rondo_captured_graph_allocation(rondo_captured_graph* captured, uint64_t address, uint64_t* begin,
                                    size_t* bytes) {
  return guarded([&] {
    RONDO_NEED(captured);
    RONDO_NEED(begin);
    RONDO_NEED(bytes);
    const rondo::AddressRange range = captured->graph.allocation(address).value_or(rondo::AddressRange());
    *begin = range.begin;
    *bytes = range.bytes;
  });
}

int rondo_captured_graph_forget_allocations(rondo_captured_graph* captured) {
  return guarded([&] {
    RONDO_NEED(captured);
    captured->graph.forget_allocations();
  });
}

int rondo_captured_graph_retarget(rondo_captured_graph* captured, uint64_t begin, size_t bytes,
                                  uint64_t new_base, const rondo_site_map* proof, size_t* count) {
  return guarded([&] {
    RONDO_NEED(captured);
    const std::size_t places =
        captured->graph.retarget({begin, bytes}, new_base, proof == nullptr ? nullptr : &proof->map);
    if (count != nullptr) *count = places;
  });
}

int rondo_captured_graph_set_argument(rondo_captured_graph* captured, size_t node, size_t argument,
                                      size_t offset, const void* bytes, size_t size) {
  return guarded([&] {
    RONDO_NEED(captured);
    captured->graph.set_argument(node, argument, offset, bytes_at(bytes, size));
  });
}

int rondo_captured_graph_apply(rondo_captured_graph* captured, void* exec) {
  return guarded([&] {
    RONDO_NEED(captured);
    const rondo::Status status = captured->graph.apply(exec);
    if (!status.ok()) throw captured->graph.error(status);
  });
}

int rondo_captured_graph_reset(rondo_captured_graph* captured) {
  return guarded([&] {
    RONDO_NEED(captured);
    captured->graph.reset();
  });
}

int rondo_captured_graph_to_json(const rondo_captured_graph* captured, char** text) {
  return guarded([&] {
    RONDO_NEED(captured);
    RONDO_NEED(text);
    *text = to_c(captured->graph.to_json());
  });
}

int rondo_captured_graph_to_dot(const rondo_captured_graph* captured, char** text) {
  return guarded([&] {
    RONDO_NEED(captured);
    RONDO_NEED(text);
    *text = to_c(captured->graph.to_dot());
  });
}

int rondo_site_map_diff(rondo_captured_graph* first, rondo_captured_graph* second,
                        const rondo_named_buffer* buffers, size_t buffer_count, rondo_site_map** map) {
  return guarded([&] {
    RONDO_NEED(first);
    RONDO_NEED(second);
    RONDO_NEED(map);
    if (buffer_count > 0) RONDO_NEED(buffers);
    std::vector<rondo::NamedBuffer> named;
    for (const rondo_named_buffer& buffer : std::span(buffers, buffer_count)) {
      need(buffer.name, "buffers[i].name");
      named.push_back({buffer.name,
                       {buffer.first_begin, buffer.first_bytes},
                       {buffer.second_begin, buffer.second_bytes}});
    }
    *map = new rondo_site_map{rondo::SiteMap::diff(first->graph, second->graph, named)};
  });
}

int rondo_site_map_parse(const char* json, rondo_site_map** map) {
  return guarded([&] {
    RONDO_NEED(json);
    RONDO_NEED(map);
    *map = new rondo_site_map{rondo::SiteMap::parse(json)};
  });
}

void rondo_site_map_free(rondo_site_map* map) { delete map; }

int rondo_site_map_to_json(const rondo_site_map* map, char** text) {
  return guarded([&] {
    RONDO_NEED(map);
    RONDO_NEED(text);
    *text = to_c(map->map.to_json());
  });
}

int rondo_site_map_check(const rondo_site_map* map, const rondo_captured_graph* captured) {
  return guarded([&] {
    RONDO_NEED(map);
    RONDO_NEED(captured);
    map->map.check(captured->graph);
  });
}

int rondo_site_map_set_buffer(const rondo_site_map* map, rondo_captured_graph* captured, const char* name,
                              uint64_t base) {
  return guarded([&] {
    RONDO_NEED(map);
    RONDO_NEED(captured);
    RONDO_NEED(name);
    map->map.set_buffer(captured->graph, name, base);
  });
}

int rondo_site_map_set_scalar(const rondo_site_map* map, rondo_captured_graph* captured, const char* name,
                              const void* bytes, size_t size) {
  return guarded([&] {
    RONDO_NEED(map);
    RONDO_NEED(captured);
    RONDO_NEED(name);
    map->map.set_scalar(captured->graph, name, bytes_at(bytes, size));
  });
}

}  // extern "C"
