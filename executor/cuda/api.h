// The CUDA driver API as far as Rondo uses it, without the vendor's header. tests/unit/cuda_api_test.cpp
// holds every line of it to <cuda.h>.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

// The vendor's own tags, so that handles have the same types where both headers are seen.
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUkern_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;

namespace rondo::cuda {

using Context = CUctx_st*;
using Module = CUmod_st*;
using Function = CUfunc_st*;
using Kernel = CUkern_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using Graph = CUgraph_st*;
using Node = CUgraphNode_st*;
using Exec = CUgraphExec_st*;
using Device = int;
using DeviceAddress = unsigned long long;
using HostFunction = void(void*);

// CUresult, as far as Rondo tells its values apart.
enum class Result : unsigned {
  success = 0,
  invalid_value = 1,
  stub_library = 34,
  no_device = 100,
  illegal_address = 700,
  assert_failed = 710,
  hardware_stack_error = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
};

enum class DeviceAttribute : unsigned {
  max_threads_per_block = 1,
  max_block_x = 2,
  max_block_y = 3,
  max_block_z = 4,
  max_grid_x = 5,
  max_grid_y = 6,
  max_grid_z = 7,
  warp_size = 10,
  multiprocessors = 16,
  capability_major = 75,
  capability_minor = 76,
  cooperative_launch = 95,
  max_shared_bytes_optin = 97,
  pageable_access_by_host_page_tables = 100,
  cluster_launch = 120,
};

enum class FunctionAttribute : unsigned {
  max_threads_per_block = 0,
  shared_bytes = 1,
  local_bytes = 3,
  registers = 4,
  max_dynamic_shared_bytes = 8
};
enum class PointerAttribute : unsigned { memory_type = 2, range_start = 11, range_bytes = 12 };
enum class MemoryType : unsigned { host = 1, device = 2, array = 3, unified = 4 };
enum class LaunchAttribute : unsigned { cooperative = 2, cluster_dimension = 4, priority = 8 };
enum class NodeType : unsigned {
  kernel = 0,
  memcpy = 1,
  memset = 2,
  host = 3,
  child_graph = 4,
  empty = 5,
  wait_event = 6,
  event_record = 7,
  memory_allocation = 10,
  memory_free = 11,
  conditional = 13,
};
enum class JitOption : unsigned { error_log = 5, error_log_bytes = 6 };

inline constexpr unsigned stream_non_blocking = 1;  // CU_STREAM_NON_BLOCKING
inline constexpr unsigned event_default = 0;        // CU_EVENT_DEFAULT: with timing
inline constexpr unsigned long long use_node_priority = 8;  // CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY

// The names in the `extra` list of a launch.
inline void* launch_end() noexcept { return nullptr; }  // CU_LAUNCH_PARAM_END
inline void* launch_buffer() noexcept {
  return reinterpret_cast<void*>(1);
}  // CU_LAUNCH_PARAM_BUFFER_POINTER
inline void* launch_buffer_size() noexcept {
  return reinterpret_cast<void*>(2);
}  // CU_LAUNCH_PARAM_BUFFER_SIZE

// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNodeParameters {
  Function function;
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  void** kernel_parameters;
  void** extra;
  Kernel kernel;
  Context context;
};

// CUlaunchAttributeValue
union LaunchAttributeValue {
  alignas(8) char room[64];
  int cooperative;
  struct {
    unsigned x, y, z;
  } cluster;
  int priority;
};

// CUlaunchAttribute
struct LaunchAttributeEntry {
  LaunchAttribute id;
  char padding[8 - sizeof(LaunchAttribute)];
  LaunchAttributeValue value;
};

// CUlaunchConfig
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttributeEntry* attributes;
  unsigned attribute_count;
};

// CUgraphEdgeData; programmatic: CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC from CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
struct EdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};
inline constexpr EdgeData full_edge{0, 0, 0, {}}, programmatic_edge{1, 0, 1, {}};

// CUDA_MEMCPY3D_v2
struct Memcpy3D {
  std::size_t from_x_bytes, from_y, from_z, from_level;
  MemoryType from_type;
  const void* from_host;
  DeviceAddress from_device;
  void* from_array;
  void* reserved_0;
  std::size_t from_pitch, from_height;
  std::size_t to_x_bytes, to_y, to_z, to_level;
  MemoryType to_type;
  void* to_host;
  DeviceAddress to_device;
  void* to_array;
  void* reserved_1;
  std::size_t to_pitch, to_height;
  std::size_t width_bytes, height, depth;
};

// CUDA_MEMSET_NODE_PARAMS_v1
struct MemsetNodeParameters {
  DeviceAddress to;
  std::size_t pitch;
  unsigned value, element_bytes;
  std::size_t width, height;
};

// Every function that is called: its exact name in the library (an unsuffixed name is an old interface where
// a suffixed one exists), the CUDA version whose driver first has it, whether Rondo can do without it, and
// its parameters.
#define RONDO_CUDA_FUNCTIONS(F)                                                                             \
  F(cuInit, 2000, required, (unsigned flags))                                                               \
  F(cuDriverGetVersion, 2020, required, (int* version))                                                     \
  F(cuGetErrorName, 6000, required, (Result result, const char** name))                                     \
  F(cuDeviceGetCount, 2000, required, (int* count))                                                         \
  F(cuDeviceGet, 2000, required, (Device * device, int ordinal))                                            \
  F(cuDeviceGetName, 2000, required, (char* name, int bytes, Device device))                                \
  F(cuDeviceTotalMem_v2, 3020, required, (std::size_t * bytes, Device device))                              \
  F(cuDeviceGetAttribute, 2000, required, (int* value, DeviceAttribute attribute, Device device))           \
  F(cuDevicePrimaryCtxRetain, 7000, required, (Context * context, Device device))                           \
  F(cuDevicePrimaryCtxRelease_v2, 11000, required, (Device device))                                         \
  F(cuCtxPushCurrent_v2, 4000, required, (Context context))                                                 \
  F(cuCtxPopCurrent_v2, 4000, required, (Context * context))                                                \
  F(cuMemAlloc_v2, 3020, required, (DeviceAddress * address, std::size_t bytes))                            \
  F(cuMemFree_v2, 3020, required, (DeviceAddress address))                                                  \
  F(cuMemcpyHtoDAsync_v2, 3020, required,                                                                   \
    (DeviceAddress to, const void* from, std::size_t bytes, Stream stream))                                 \
  F(cuMemcpyDtoHAsync_v2, 3020, required, (void* to, DeviceAddress from, std::size_t bytes, Stream stream)) \
  F(cuMemsetD8Async, 3020, required,                                                                        \
    (DeviceAddress to, unsigned char value, std::size_t bytes, Stream stream))                              \
  F(cuPointerGetAttributes, 7000, required,                                                                 \
    (unsigned count, PointerAttribute* attributes, void** values, DeviceAddress address))                   \
  F(cuStreamCreate, 2000, required, (Stream * stream, unsigned flags))                                      \
  F(cuStreamDestroy_v2, 4000, required, (Stream stream))                                                    \
  F(cuStreamSynchronize, 2000, required, (Stream stream))                                                   \
  F(cuStreamWaitEvent, 3020, required, (Stream stream, Event event, unsigned flags))                        \
  F(cuEventCreate, 2000, required, (Event * event, unsigned flags))                                         \
  F(cuEventDestroy_v2, 4000, required, (Event event))                                                       \
  F(cuEventRecord, 2000, required, (Event event, Stream stream))                                            \
  F(cuEventSynchronize, 2000, required, (Event event))                                                      \
  F(cuEventElapsedTime, 2000, required, (float* milliseconds, Event from, Event to))                        \
  F(cuLaunchHostFunc, 10000, required, (Stream stream, HostFunction * function, void* data))                \
  F(cuModuleLoadDataEx, 2010, required,                                                                     \
    (Module * module, const void* image, unsigned option_count, JitOption* options, void** values))         \
  F(cuModuleUnload, 2000, required, (Module module))                                                        \
  F(cuModuleGetFunction, 2000, required, (Function * function, Module module, const char* name))            \
  F(cuFuncGetAttribute, 2020, required, (int* value, FunctionAttribute attribute, Function function))       \
  F(cuFuncSetAttribute, 9000, required, (Function function, FunctionAttribute attribute, int value))        \
  F(cuFuncLoad, 12040, optional, (Function function))                                                       \
  F(cuFuncGetParamInfo, 12040, optional,                                                                    \
    (Function function, std::size_t index, std::size_t * offset, std::size_t * size))                       \
  F(cuLaunchKernel, 4000, required,                                                                         \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,                \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** kernel_parameters,    \
     void** extra))                                                                                         \
  F(cuGraphCreate, 10000, required, (Graph * graph, unsigned flags))                                        \
  F(cuGraphDestroy, 10000, required, (Graph graph))                                                         \
  F(cuGraphAddKernelNode_v2, 12000, required,                                                               \
    (Node * node, Graph graph, const Node* dependencies, std::size_t count,                                 \
     const KernelNodeParameters* parameters))                                                               \
  F(cuGraphAddDependencies, 10000, required,                                                                \
    (Graph graph, const Node* from, const Node* to, std::size_t count))                                     \
  F(cuGraphAddDependencies_v2, 12030, optional,                                                             \
    (Graph graph, const Node* from, const Node* to, const EdgeData* data, std::size_t count))               \
  F(cuGraphKernelNodeSetAttribute, 11000, optional,                                                         \
    (Node node, LaunchAttribute attribute, const LaunchAttributeValue* value))                              \
  F(cuLaunchKernelEx, 11080, optional,                                                                      \
    (const LaunchConfig* config, Function function, void** kernel_parameters, void** extra))                \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, optional,                                            \
    (int* blocks, Function function, int threads, std::size_t shared_bytes))                                \
  F(cuGraphInstantiateWithFlags, 11040, required, (Exec * exec, Graph graph, unsigned long long flags))     \
  F(cuGraphExecDestroy, 10000, required, (Exec exec))                                                       \
  F(cuGraphUpload, 11010, required, (Exec exec, Stream stream))                                             \
  F(cuGraphExecKernelNodeSetParams_v2, 12000, required,                                                     \
    (Exec exec, Node node, const KernelNodeParameters* parameters))                                         \
  F(cuGraphNodeSetEnabled, 11060, required, (Exec exec, Node node, unsigned enabled))                       \
  F(cuGraphLaunch, 10000, required, (Exec exec, Stream stream))                                             \
  F(cuCtxGetCurrent, 4000, required, (Context * context))                                                   \
  F(cuGraphGetNodes, 10000, optional, (Graph graph, Node * nodes, std::size_t * count))                     \
  F(cuGraphGetEdges_v2, 12030, optional,                                                                    \
    (Graph graph, Node * from, Node * to, EdgeData * data, std::size_t * count))                            \
  F(cuGraphNodeGetType, 10000, optional, (Node node, NodeType * type))                                      \
  F(cuGraphChildGraphNodeGetGraph, 10000, optional, (Node node, Graph * graph))                             \
  F(cuGraphKernelNodeGetParams_v2, 12000, optional, (Node node, KernelNodeParameters * parameters))         \
  F(cuGraphKernelNodeGetAttribute, 11000, optional,                                                         \
    (Node node, LaunchAttribute attribute, LaunchAttributeValue * value))                                   \
  F(cuKernelGetParamInfo, 12040, optional,                                                                  \
    (Kernel kernel, std::size_t index, std::size_t * offset, std::size_t * size))                           \
  F(cuFuncGetName, 12030, optional, (const char** name, Function function))                                 \
  F(cuKernelGetName, 12030, optional, (const char** name, Kernel kernel))                                   \
  F(cuGraphMemcpyNodeGetParams, 10000, optional, (Node node, Memcpy3D * parameters))                        \
  F(cuGraphMemsetNodeGetParams, 10000, optional, (Node node, MemsetNodeParameters * parameters))            \
  F(cuGraphExecMemcpyNodeSetParams, 10020, optional,                                                        \
    (Exec exec, Node node, const Memcpy3D* parameters, Context context))                                    \
  F(cuGraphExecMemsetNodeSetParams, 10020, optional,                                                        \
    (Exec exec, Node node, const MemsetNodeParameters* parameters, Context context))

// The table. An optional function that the driver does not have is null.
struct Api {
#define RONDO_CUDA_MEMBER(name, version, need, parameters) Result(*name) parameters = nullptr;
  RONDO_CUDA_FUNCTIONS(RONDO_CUDA_MEMBER)
#undef RONDO_CUDA_MEMBER

  int driver_version = 0;  // as cuDriverGetVersion: 13000
  std::string path;        // of the library
};

// $RONDO_CUDA_LIBRARY, else libcuda.so.1, with cuInit called. Loaded once a path and never closed: the driver
// runs threads of its own. Throws Error(missing_backend) that says what is missing: the library, a function
// and the version that has it, or a device.
std::shared_ptr<const Api> load_api();

// The driver's own name of a result; a string that lives forever.
const char* name(const Api& api, Result result) noexcept;

}  // namespace rondo::cuda
