// Rondo for C (C99) and for what calls C: graphs that somebody else captured, copied, retargeted, applied.
//
//     rondo_device* device;
//     rondo_captured_graph* captured;
//     if (rondo_device_open("cuda:0", &device) != 0) puts(rondo_last_error());
//     rondo_captured_graph_adopt(device, graph, NULL, 0, &captured);           // copies; `graph` stays yours
//     rondo_captured_graph_retarget(captured, old_base, bytes, new_base, NULL, NULL);
//     rondo_captured_graph_apply(captured, exec);                              // only nodes that changed
//
// Every function that can fail returns a code, and sets what it gives only when that is 0; rondo_last_error()
// then says what was wrong. What a function gives belongs to the object that it was asked of, and lives until
// that is changed or freed, except where a function that frees it is named. Freeing NULL does nothing. One
// object is used by one thread at a time. What each call means in detail: rondo/kernel_node_params.h,
// rondo/captured_graph.h and rondo/site_map.h, which say the same of C++.
#ifndef RONDO_RONDO_H
#define RONDO_RONDO_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RONDO_API __attribute__((visibility("default")))
#else
#define RONDO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
  RONDO_OK = 0,
  RONDO_FAILED = 1,        // a driver, kernel or file operation failed while running
  RONDO_BAD_ARGUMENT = 2,  // a handle, name, size or file given is wrong
  RONDO_MISSING = 3        // a library, compiler or device is not there
};

// "0.1.0"; lives forever.
RONDO_API const char* rondo_version(void);
// What was wrong in the last call of this thread that did not return 0; "" before the first. Lives until the
// next such call of this thread.
RONDO_API const char* rondo_last_error(void);
// Frees a string that a function gave to be freed.
RONDO_API void rondo_string_free(char* text);

// Devices: "cuda:0", "hip:1", "auto". What was made of a device keeps it alive.
typedef struct rondo_device rondo_device;
RONDO_API int rondo_device_open(const char* spec, rondo_device** device);
RONDO_API void rondo_device_close(rondo_device* device);

// A deep copy of the parameters of a kernel node (CUgraphNode, cudaGraphNode_t, hipGraphNode_t), which holds
// nothing of the driver's. `code_object_files`, of which there are `file_count` (NULL and 0: none): code
// objects and fat binaries that know the argument layouts which the driver cannot be asked for (HIP, CUDA
// before 12.4).
typedef struct rondo_kernel_node_params rondo_kernel_node_params;
typedef struct {
  uint32_t grid[3], block[3];  // blocks; threads a block
  uint32_t shared_bytes;       // dynamic shared memory a block
  uint32_t cluster[3];         // 0, 0, 0: none
  int is_cooperative;          // 0 or 1
} rondo_launch_shape;
RONDO_API int rondo_kernel_node_params_copy(rondo_device* device, void* node,
                                            const char* const* code_object_files, size_t file_count,
                                            rondo_kernel_node_params** params);
RONDO_API void rondo_kernel_node_params_free(rondo_kernel_node_params* params);
// The mangled name.
RONDO_API int rondo_kernel_node_params_name(const rondo_kernel_node_params* params, const char** name);
// The driver's own handle (CUfunction, CUkernel, hipFunction_t), which belongs to its module.
RONDO_API int rondo_kernel_node_params_function(const rondo_kernel_node_params* params, void** function);
RONDO_API int rondo_kernel_node_params_shape(const rondo_kernel_node_params* params,
                                             rondo_launch_shape* shape);
RONDO_API int rondo_kernel_node_params_argument_count(const rondo_kernel_node_params* params, size_t* count);
RONDO_API int rondo_kernel_node_params_argument(const rondo_kernel_node_params* params, size_t argument,
                                                const void** bytes, size_t* size);
// All arguments, in the kernel's own layout: argument i lies at its bytes' distance from these.
RONDO_API int rondo_kernel_node_params_packed(const rondo_kernel_node_params* params, const void** bytes,
                                              size_t* size);

// A captured graph (CUgraph, cudaGraph_t, hipGraph_t), copied.
typedef struct rondo_captured_graph rondo_captured_graph;
typedef struct rondo_site_map rondo_site_map;
typedef struct {
  const char* path;     // "3", "4/0" in a child graph
  const char* kind;     // "kernel", "memcpy", "memset", "host", …
  const char* name;     // of a kernel, mangled; else ""
  const char* problem;  // why the node cannot be changed; "" where it can
  size_t argument_count;
} rondo_captured_node;
typedef struct {
  uint32_t node, argument, offset;  // offset in bytes, in the argument
  int is_certain;                   // 0: perhaps part of an opaque descriptor; only a site map can prove it
  uint64_t value;                   // the address that is there
} rondo_site;
RONDO_API int rondo_captured_graph_adopt(rondo_device* device, void* graph,
                                         const char* const* code_object_files, size_t file_count,
                                         rondo_captured_graph** captured);
RONDO_API void rondo_captured_graph_free(rondo_captured_graph* captured);
RONDO_API int rondo_captured_graph_node_count(const rondo_captured_graph* captured, size_t* count);
RONDO_API int rondo_captured_graph_node(const rondo_captured_graph* captured, size_t node,
                                        rondo_captured_node* info);
// As it is now.
RONDO_API int rondo_captured_graph_argument(const rondo_captured_graph* captured, size_t node,
                                            size_t argument, const void** bytes, size_t* size);
// The places that point into [begin, begin + bytes): writes the first `capacity` of them, and in any case how
// many there are. `sites` may be NULL where `capacity` is 0.
RONDO_API int rondo_captured_graph_sites(const rondo_captured_graph* captured, uint64_t begin, size_t bytes,
                                         rondo_site* sites, size_t capacity, size_t* count);
// The allocation that an address lies in; 0 and 0 for what is no device memory.
RONDO_API int rondo_captured_graph_allocation(rondo_captured_graph* captured, uint64_t address,
                                              uint64_t* begin, size_t* bytes);
RONDO_API int rondo_captured_graph_forget_allocations(rondo_captured_graph* captured);
// All or nothing. `proof` may be NULL, and so may `count`, how many places there were.
RONDO_API int rondo_captured_graph_retarget(rondo_captured_graph* captured, uint64_t begin, size_t bytes,
                                            uint64_t new_base, const rondo_site_map* proof, size_t* count);
// `size` bytes at `offset` in an argument.
RONDO_API int rondo_captured_graph_set_argument(rondo_captured_graph* captured, size_t node, size_t argument,
                                                size_t offset, const void* bytes, size_t size);
// `exec`: CUgraphExec, cudaGraphExec_t, hipGraphExec_t. After a failure it is to be instantiated anew.
RONDO_API int rondo_captured_graph_apply(rondo_captured_graph* captured, void* exec);
// The next apply is to an exec that was instantiated anew.
RONDO_API int rondo_captured_graph_reset(rondo_captured_graph* captured);
// `*text` is to be freed with rondo_string_free.
RONDO_API int rondo_captured_graph_to_json(const rondo_captured_graph* captured, char** text);
RONDO_API int rondo_captured_graph_to_dot(const rondo_captured_graph* captured, char** text);

// Which bytes are pointers and which are scalars, found by comparing two captures of the same work.
typedef struct {
  const char* name;
  uint64_t first_begin;
  size_t first_bytes;
  uint64_t second_begin;
  size_t second_bytes;
} rondo_named_buffer;
// `buffers` may be NULL where `buffer_count` is 0.
RONDO_API int rondo_site_map_diff(rondo_captured_graph* first, rondo_captured_graph* second,
                                  const rondo_named_buffer* buffers, size_t buffer_count,
                                  rondo_site_map** map);
RONDO_API int rondo_site_map_parse(const char* json, rondo_site_map** map);
RONDO_API void rondo_site_map_free(rondo_site_map* map);
// `*text` is to be freed with rondo_string_free.
RONDO_API int rondo_site_map_to_json(const rondo_site_map* map, char** text);
// Whether `captured` is of the program that the map was made of.
RONDO_API int rondo_site_map_check(const rondo_site_map* map, const rondo_captured_graph* captured);
RONDO_API int rondo_site_map_set_buffer(const rondo_site_map* map, rondo_captured_graph* captured,
                                        const char* name, uint64_t base);
RONDO_API int rondo_site_map_set_scalar(const rondo_site_map* map, rondo_captured_graph* captured,
                                        const char* name, const void* bytes, size_t size);

#ifdef __cplusplus
}
#endif

#endif
