// The HIP runtime API as far as Rondo uses it, without the vendor's header. tests/unit/hip_api_test.cpp holds
// every line of it to <hip/hip_runtime_api.h>, as far as the header that is installed knows it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

// The vendor's own tags, so that handles have the same types where both headers are seen.
struct ihipStream_t;
struct ihipEvent_t;
struct ihipModule_t;
struct ihipModuleSymbol_t;
struct ihipGraph;
struct hipGraphNode;
struct hipGraphExec;

namespace rondo::hip {

using Module = ihipModule_t*;
using NativeFunction = ihipModuleSymbol_t*;
using Stream = ihipStream_t*;
using Event = ihipEvent_t*;
using Graph = ihipGraph*;
using Node = hipGraphNode*;
using Exec = hipGraphExec*;
using HostFunction = void(void*);

// hipError_t, as far as Rondo tells its values apart.
enum class Result : unsigned {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  invalid_device_function = 98,
  no_device = 100,
  invalid_device = 101,
  no_binary_for_gpu = 209,
  not_found = 500,
  illegal_address = 700,
  assert_failed = 710,
  launch_failure = 719,
};

inline constexpr unsigned stream_non_blocking = 1;  // hipStreamNonBlocking
inline constexpr unsigned event_default = 0;        // hipEventDefault: with timing

struct Dimensions {  // the vendor's dim3
  unsigned x, y, z;
};

// hipKernelNodeParams. Not the order of CUDA's: always assigned by name.
struct KernelNodeParameters {
  Dimensions block;
  void** extra;
  void* function;
  Dimensions grid;
  void** kernel_parameters;
  unsigned shared_bytes;
};

// hipMemcpyKind, as far as Rondo tells its values apart.
enum class CopyKind : unsigned {
  host_to_host = 0,
  host_to_device = 1,
  device_to_host = 2,
  device_to_device = 3,
  by_address = 4
};

struct Position {  // the vendor's hipPos
  std::size_t x, y, z;
};
struct PitchedPointer {  // the vendor's hipPitchedPtr
  void* pointer;
  std::size_t pitch, x_bytes, y_rows;
};

// hipMemcpy3DParms
struct Memcpy3D {
  void* from_array;
  Position from_position;
  PitchedPointer from;
  void* to_array;
  Position to_position;
  PitchedPointer to;
  std::size_t width, height, depth;  // hipExtent
  CopyKind kind;
};

// hipMemsetParams. Not the order of CUDA's.
struct MemsetNodeParameters {
  void* to;
  unsigned element_bytes;
  std::size_t height, pitch;
  unsigned value;
  std::size_t width;
};

// hipDeviceProp_t as ROCm 6 and later have it (hipDeviceProp_tR0600, 1,472 bytes): the fields up to the last
// that Rondo reads, at their places, and room for what newer ones may add.
struct DevicePropertiesR0600 {
  char name[256];
  char skipped_1[32];  // uuid, luid, luidDeviceNodeMask
  std::size_t total_global_memory;
  std::size_t shared_memory_per_block;
  int registers_per_block;
  int warp_size;
  std::size_t memory_pitch;
  int max_threads_per_block;
  int max_threads_dimension[3];
  int max_grid_size[3];
  int clock_rate;
  std::size_t total_constant_memory;
  int major, minor;
  std::size_t texture_alignment, texture_pitch_alignment;
  int device_overlap;
  int multiprocessor_count;
  char skipped_2[768];
  char architecture_name[256];  // gcnArchName: "gfx90a:sramecc+:xnack-"
  char room[2680];
};
static_assert(offsetof(DevicePropertiesR0600, total_global_memory) == 288);
static_assert(offsetof(DevicePropertiesR0600, multiprocessor_count) == 388);
static_assert(offsetof(DevicePropertiesR0600, architecture_name) == 1160);

// The same before ROCm 6 (hipDeviceProp_t of R0000).
struct DevicePropertiesR0000 {
  char name[256];
  std::size_t total_global_memory;
  std::size_t shared_memory_per_block;
  int registers_per_block;
  int warp_size;
  int max_threads_per_block;
  int max_threads_dimension[3];
  int max_grid_size[3];
  int clock_rate, memory_clock_rate, memory_bus_width;
  std::size_t total_constant_memory;
  int major, minor;
  int multiprocessor_count;
  char skipped[56];
  char architecture_name[256];
  char room[3400];
};

// Every function that is called: its exact name in the library, the ROCm version (major * 100 + minor) that
// Rondo expects it in, whether Rondo can do without it, and its parameters. Versions: the symbol map of HIP
// 5.2.3 for what it exports; "505" for the rest, the oldest version whose graphs take module functions again.
#define RONDO_HIP_FUNCTIONS(F)                                                                           \
  F(hipInit, 402, required, (unsigned flags))                                                            \
  F(hipRuntimeGetVersion, 402, required, (int* version))                                                 \
  F(hipGetDeviceCount, 402, required, (int* count))                                                      \
  F(hipGetDevice, 402, required, (int* device))                                                          \
  F(hipSetDevice, 402, required, (int device))                                                           \
  F(hipGetDevicePropertiesR0600, 600, optional, (DevicePropertiesR0600 * properties, int device))        \
  F(hipGetDeviceProperties, 402, optional, (DevicePropertiesR0000 * properties, int device))             \
  F(hipMalloc, 402, required, (void** address, std::size_t bytes))                                       \
  F(hipFree, 402, required, (void* address))                                                             \
  F(hipMemcpyHtoDAsync, 402, required, (void* to, void* from, std::size_t bytes, Stream stream))         \
  F(hipMemcpyDtoHAsync, 402, required, (void* to, void* from, std::size_t bytes, Stream stream))         \
  F(hipMemsetD8Async, 402, required, (void* to, unsigned char value, std::size_t bytes, Stream stream))  \
  F(hipStreamCreateWithFlags, 402, required, (Stream * stream, unsigned flags))                          \
  F(hipStreamDestroy, 402, required, (Stream stream))                                                    \
  F(hipStreamSynchronize, 402, required, (Stream stream))                                                \
  F(hipStreamWaitEvent, 402, required, (Stream stream, Event event, unsigned flags))                     \
  F(hipEventCreateWithFlags, 402, required, (Event * event, unsigned flags))                             \
  F(hipEventDestroy, 402, required, (Event event))                                                       \
  F(hipEventRecord, 402, required, (Event event, Stream stream))                                         \
  F(hipEventSynchronize, 402, required, (Event event))                                                   \
  F(hipEventElapsedTime, 402, required, (float* milliseconds, Event from, Event to))                     \
  F(hipLaunchHostFunc, 505, optional, (Stream stream, HostFunction * function, void* data))              \
  F(hipModuleLoadData, 402, required, (Module * module, const void* image))                              \
  F(hipModuleUnload, 402, required, (Module module))                                                     \
  F(hipModuleGetFunction, 402, required, (NativeFunction * function, Module module, const char* name))   \
  F(hipModuleLaunchKernel, 402, required,                                                                \
    (NativeFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** kernel_parameters, \
     void** extra))                                                                                      \
  F(hipGraphCreate, 403, required, (Graph * graph, unsigned flags))                                      \
  F(hipGraphDestroy, 403, required, (Graph graph))                                                       \
  F(hipGraphAddKernelNode, 403, required,                                                                \
    (Node * node, Graph graph, const Node* dependencies, std::size_t count,                              \
     const KernelNodeParameters* parameters))                                                            \
  F(hipGraphAddDependencies, 404, required,                                                              \
    (Graph graph, const Node* from, const Node* to, std::size_t count))                                  \
  F(hipGraphInstantiateWithFlags, 405, required, (Exec * exec, Graph graph, unsigned long long flags))   \
  F(hipGraphExecDestroy, 403, required, (Exec exec))                                                     \
  F(hipGraphUpload, 505, optional, (Exec exec, Stream stream))                                           \
  F(hipGraphExecKernelNodeSetParams, 404, required,                                                      \
    (Exec exec, Node node, const KernelNodeParameters* parameters))                                      \
  F(hipGraphNodeSetEnabled, 505, optional, (Exec exec, Node node, unsigned enabled))                     \
  F(hipGraphLaunch, 403, required, (Exec exec, Stream stream))                                           \
  F(hipGraphGetNodes, 404, optional, (Graph graph, Node * nodes, std::size_t * count))                   \
  F(hipGraphGetEdges, 405, optional, (Graph graph, Node * from, Node * to, std::size_t * count))         \
  F(hipGraphNodeGetType, 405, optional, (Node node, unsigned* type))                                     \
  F(hipGraphAddEmptyNode, 405, optional,                                                                 \
    (Node * node, Graph graph, const Node* dependencies, std::size_t count))                             \
  F(hipGraphChildGraphNodeGetGraph, 405, optional, (Node node, Graph * graph))                           \
  F(hipGraphKernelNodeGetParams, 403, optional, (Node node, KernelNodeParameters * parameters))          \
  F(hipGraphMemcpyNodeGetParams, 405, optional, (Node node, Memcpy3D * parameters))                      \
  F(hipGraphMemsetNodeGetParams, 405, optional, (Node node, MemsetNodeParameters * parameters))          \
  F(hipGraphExecMemcpyNodeSetParams, 405, optional, (Exec exec, Node node, Memcpy3D * parameters))       \
  F(hipGraphExecMemsetNodeSetParams, 405, optional,                                                      \
    (Exec exec, Node node, const MemsetNodeParameters* parameters))                                      \
  F(hipMemGetAddressRange, 402, optional, (void** begin, std::size_t* bytes, void* address))

// The table. An optional function that the runtime does not have is null.
struct Api {
#define RONDO_HIP_MEMBER(name, version, need, parameters) Result(*name) parameters = nullptr;
  RONDO_HIP_FUNCTIONS(RONDO_HIP_MEMBER)
#undef RONDO_HIP_MEMBER
  const char* (*hipGetErrorName)(Result result) = nullptr;
  // The mangled name of a module function, and of a kernel by the address of the host function that stands
  // for it; null where the address is none's. Strings of the runtime's. Optional; since ROCm 4.2.
  const char* (*hipKernelNameRef)(NativeFunction function) = nullptr;
  const char* (*hipKernelNameRefByPtr)(const void* host_function, Stream stream) = nullptr;

  int runtime_version = 0;  // as hipRuntimeGetVersion: major * 10,000,000 + minor * 100,000 + patch
  std::string path;         // of the library
};

// $RONDO_HIP_LIBRARY; else the first that opens of libamdhip64.so.7, .6, .5 in $ROCM_PATH/lib, then as the
// loader finds them, then in /opt/rocm/lib. With hipInit called. Loaded once a path and never closed: the
// runtime runs threads of its own. Throws Error(missing_backend) that says what is missing: the library, a
// function and the version that has it, or a device.
std::shared_ptr<const Api> load_api();

// The runtime's own name of a result; a string that lives forever.
const char* name(const Api& api, Result result) noexcept;

}  // namespace rondo::hip
