// Holds executor/cuda/api.h to the vendor's header. Most of it is settled when this compiles.
//
// Without this the header renames functions to their newest versions, and Rondo calls exact ones.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
// First the vendor's header, so that its types are the ones that ours are compared with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <type_traits>

#include "cuda/api.h"
#include "cuda/driver.h"
#include "dynamic_library.h"
#include "rondo/error.h"

namespace rondo::cuda {
namespace {

// Whether a value of ours is passed and read as the vendor's is.
template <class Ours, class Theirs>
constexpr bool same_type() {
  if constexpr (std::is_same_v<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using A = std::remove_pointer_t<Ours>;
    using B = std::remove_pointer_t<Theirs>;
    return std::is_const_v<A> == std::is_const_v<B> && same_type<std::remove_cv_t<A>, std::remove_cv_t<B>>();
  } else if constexpr (std::is_enum_v<Ours> && std::is_enum_v<Theirs>) {
    return std::is_same_v<std::underlying_type_t<Ours>, std::underlying_type_t<Theirs>>;
  } else if constexpr (std::is_same_v<Ours, KernelNodeParameters>) {
    return std::is_same_v<Theirs, CUDA_KERNEL_NODE_PARAMS_v2>;
  } else if constexpr (std::is_same_v<Ours, LaunchAttributeValue>) {
    return std::is_same_v<Theirs, CUlaunchAttributeValue>;
  } else if constexpr (std::is_same_v<Ours, LaunchConfig>) {
    return std::is_same_v<Theirs, CUlaunchConfig>;
  } else if constexpr (std::is_same_v<Ours, EdgeData>) {
    return std::is_same_v<Theirs, CUgraphEdgeData>;
  } else if constexpr (std::is_same_v<Ours, Memcpy3D>) {
    return std::is_same_v<Theirs, CUDA_MEMCPY3D_v2>;
  } else if constexpr (std::is_same_v<Ours, MemsetNodeParameters>) {
    return std::is_same_v<Theirs, CUDA_MEMSET_NODE_PARAMS_v1>;
  } else if constexpr (std::is_same_v<Ours, void> && std::is_same_v<Theirs, CUarray_st>) {
    return true;
  } else {
    return false;
  }
}

template <class Ours, class Theirs>
struct SameFunction : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameFunction<R(A...), S(B...)>
    : std::bool_constant<same_type<R, S>() && (same_type<A, B>() && ...)> {
};

#define RONDO_CUDA_COMPARE(name, version, need, parameters)                                        \
  static_assert(SameFunction<Result parameters, std::remove_reference_t<decltype(::name)>>::value, \
                #name " differs from cuda.h");                                                     \
  static_assert(version <= CUDA_VERSION, #name " needs a version that this header is older than");
RONDO_CUDA_FUNCTIONS(RONDO_CUDA_COMPARE)
#undef RONDO_CUDA_COMPARE

static_assert(std::is_same_v<DeviceAddress, CUdeviceptr>);
static_assert(std::is_same_v<Device, CUdevice>);

#define RONDO_CUDA_VALUE(ours, theirs) \
  static_assert(static_cast<unsigned>(ours) == static_cast<unsigned>(theirs))
RONDO_CUDA_VALUE(Result::success, CUDA_SUCCESS);
RONDO_CUDA_VALUE(Result::invalid_value, CUDA_ERROR_INVALID_VALUE);
RONDO_CUDA_VALUE(Result::stub_library, CUDA_ERROR_STUB_LIBRARY);
RONDO_CUDA_VALUE(Result::no_device, CUDA_ERROR_NO_DEVICE);
RONDO_CUDA_VALUE(Result::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
RONDO_CUDA_VALUE(Result::assert_failed, CUDA_ERROR_ASSERT);
RONDO_CUDA_VALUE(Result::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
RONDO_CUDA_VALUE(Result::illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
RONDO_CUDA_VALUE(Result::misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
RONDO_CUDA_VALUE(Result::invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
RONDO_CUDA_VALUE(Result::invalid_pc, CUDA_ERROR_INVALID_PC);
RONDO_CUDA_VALUE(Result::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
RONDO_CUDA_VALUE(DeviceAttribute::max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
RONDO_CUDA_VALUE(DeviceAttribute::max_block_x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
RONDO_CUDA_VALUE(DeviceAttribute::max_block_y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
RONDO_CUDA_VALUE(DeviceAttribute::max_block_z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
RONDO_CUDA_VALUE(DeviceAttribute::max_grid_x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
RONDO_CUDA_VALUE(DeviceAttribute::max_grid_y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
RONDO_CUDA_VALUE(DeviceAttribute::max_grid_z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
RONDO_CUDA_VALUE(DeviceAttribute::warp_size, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
RONDO_CUDA_VALUE(DeviceAttribute::multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
RONDO_CUDA_VALUE(DeviceAttribute::capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
RONDO_CUDA_VALUE(DeviceAttribute::capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
RONDO_CUDA_VALUE(DeviceAttribute::max_shared_bytes_optin,
                 CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
RONDO_CUDA_VALUE(DeviceAttribute::pageable_access_by_host_page_tables,
                 CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
RONDO_CUDA_VALUE(FunctionAttribute::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
RONDO_CUDA_VALUE(FunctionAttribute::shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
RONDO_CUDA_VALUE(FunctionAttribute::local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
RONDO_CUDA_VALUE(FunctionAttribute::registers, CU_FUNC_ATTRIBUTE_NUM_REGS);
RONDO_CUDA_VALUE(FunctionAttribute::max_dynamic_shared_bytes,
                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
RONDO_CUDA_VALUE(PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
RONDO_CUDA_VALUE(PointerAttribute::range_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
RONDO_CUDA_VALUE(PointerAttribute::range_bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
RONDO_CUDA_VALUE(MemoryType::host, CU_MEMORYTYPE_HOST);
RONDO_CUDA_VALUE(MemoryType::device, CU_MEMORYTYPE_DEVICE);
RONDO_CUDA_VALUE(MemoryType::array, CU_MEMORYTYPE_ARRAY);
RONDO_CUDA_VALUE(MemoryType::unified, CU_MEMORYTYPE_UNIFIED);
RONDO_CUDA_VALUE(LaunchAttribute::cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
RONDO_CUDA_VALUE(LaunchAttribute::cluster_dimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
RONDO_CUDA_VALUE(LaunchAttribute::priority, CU_LAUNCH_ATTRIBUTE_PRIORITY);
RONDO_CUDA_VALUE(DeviceAttribute::cooperative_launch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
RONDO_CUDA_VALUE(DeviceAttribute::cluster_launch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
RONDO_CUDA_VALUE(use_node_priority, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
RONDO_CUDA_VALUE(programmatic_edge.type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
RONDO_CUDA_VALUE(programmatic_edge.from_port, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
RONDO_CUDA_VALUE(full_edge.type, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
RONDO_CUDA_VALUE(full_edge.from_port, CU_GRAPH_KERNEL_NODE_PORT_DEFAULT);
RONDO_CUDA_VALUE(NodeType::kernel, CU_GRAPH_NODE_TYPE_KERNEL);
RONDO_CUDA_VALUE(NodeType::memcpy, CU_GRAPH_NODE_TYPE_MEMCPY);
RONDO_CUDA_VALUE(NodeType::memset, CU_GRAPH_NODE_TYPE_MEMSET);
RONDO_CUDA_VALUE(NodeType::host, CU_GRAPH_NODE_TYPE_HOST);
RONDO_CUDA_VALUE(NodeType::child_graph, CU_GRAPH_NODE_TYPE_GRAPH);
RONDO_CUDA_VALUE(NodeType::empty, CU_GRAPH_NODE_TYPE_EMPTY);
RONDO_CUDA_VALUE(NodeType::wait_event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
RONDO_CUDA_VALUE(NodeType::event_record, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
RONDO_CUDA_VALUE(NodeType::memory_allocation, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
RONDO_CUDA_VALUE(NodeType::memory_free, CU_GRAPH_NODE_TYPE_MEM_FREE);
RONDO_CUDA_VALUE(NodeType::conditional, CU_GRAPH_NODE_TYPE_CONDITIONAL);
RONDO_CUDA_VALUE(JitOption::error_log, CU_JIT_ERROR_LOG_BUFFER);
RONDO_CUDA_VALUE(JitOption::error_log_bytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
RONDO_CUDA_VALUE(stream_non_blocking, CU_STREAM_NON_BLOCKING);
RONDO_CUDA_VALUE(event_default, CU_EVENT_DEFAULT);

#define RONDO_CUDA_FIELD_OF(Ours, ours, Theirs, theirs)            \
  static_assert(offsetof(Ours, ours) == offsetof(Theirs, theirs)); \
  static_assert(same_type<decltype(Ours::ours), decltype(Theirs::theirs)>())
#define RONDO_CUDA_FIELD(ours, theirs) \
  RONDO_CUDA_FIELD_OF(KernelNodeParameters, ours, CUDA_KERNEL_NODE_PARAMS_v2, theirs)
static_assert(sizeof(KernelNodeParameters) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
RONDO_CUDA_FIELD(function, func);
RONDO_CUDA_FIELD(grid_x, gridDimX);
RONDO_CUDA_FIELD(grid_y, gridDimY);
RONDO_CUDA_FIELD(grid_z, gridDimZ);
RONDO_CUDA_FIELD(block_x, blockDimX);
RONDO_CUDA_FIELD(block_y, blockDimY);
RONDO_CUDA_FIELD(block_z, blockDimZ);
RONDO_CUDA_FIELD(shared_bytes, sharedMemBytes);
RONDO_CUDA_FIELD(kernel_parameters, kernelParams);
RONDO_CUDA_FIELD(extra, extra);
RONDO_CUDA_FIELD(kernel, kern);
RONDO_CUDA_FIELD(context, ctx);

#define RONDO_CUDA_COPY_FIELD(ours, theirs) RONDO_CUDA_FIELD_OF(Memcpy3D, ours, CUDA_MEMCPY3D_v2, theirs)
static_assert(sizeof(Memcpy3D) == sizeof(CUDA_MEMCPY3D_v2));
RONDO_CUDA_COPY_FIELD(from_x_bytes, srcXInBytes);
RONDO_CUDA_COPY_FIELD(from_y, srcY);
RONDO_CUDA_COPY_FIELD(from_z, srcZ);
RONDO_CUDA_COPY_FIELD(from_level, srcLOD);
RONDO_CUDA_COPY_FIELD(from_type, srcMemoryType);
RONDO_CUDA_COPY_FIELD(from_host, srcHost);
RONDO_CUDA_COPY_FIELD(from_device, srcDevice);
RONDO_CUDA_COPY_FIELD(from_array, srcArray);
RONDO_CUDA_COPY_FIELD(reserved_0, reserved0);
RONDO_CUDA_COPY_FIELD(from_pitch, srcPitch);
RONDO_CUDA_COPY_FIELD(from_height, srcHeight);
RONDO_CUDA_COPY_FIELD(to_x_bytes, dstXInBytes);
RONDO_CUDA_COPY_FIELD(to_y, dstY);
RONDO_CUDA_COPY_FIELD(to_z, dstZ);
RONDO_CUDA_COPY_FIELD(to_level, dstLOD);
RONDO_CUDA_COPY_FIELD(to_type, dstMemoryType);
RONDO_CUDA_COPY_FIELD(to_host, dstHost);
RONDO_CUDA_COPY_FIELD(to_device, dstDevice);
RONDO_CUDA_COPY_FIELD(to_array, dstArray);
RONDO_CUDA_COPY_FIELD(reserved_1, reserved1);
RONDO_CUDA_COPY_FIELD(to_pitch, dstPitch);
RONDO_CUDA_COPY_FIELD(to_height, dstHeight);
RONDO_CUDA_COPY_FIELD(width_bytes, WidthInBytes);
RONDO_CUDA_COPY_FIELD(height, Height);
RONDO_CUDA_COPY_FIELD(depth, Depth);

#define RONDO_CUDA_SET_FIELD(ours, theirs) \
  RONDO_CUDA_FIELD_OF(MemsetNodeParameters, ours, CUDA_MEMSET_NODE_PARAMS_v1, theirs)
static_assert(sizeof(MemsetNodeParameters) == sizeof(CUDA_MEMSET_NODE_PARAMS_v1));
RONDO_CUDA_SET_FIELD(to, dst);
RONDO_CUDA_SET_FIELD(pitch, pitch);
RONDO_CUDA_SET_FIELD(value, value);
RONDO_CUDA_SET_FIELD(element_bytes, elementSize);
RONDO_CUDA_SET_FIELD(width, width);
RONDO_CUDA_SET_FIELD(height, height);

static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(LaunchAttributeEntry) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttributeEntry, value) == offsetof(CUlaunchAttribute, value));
static_assert(offsetof(EdgeData, from_port) == offsetof(CUgraphEdgeData, from_port));
static_assert(offsetof(EdgeData, to_port) == offsetof(CUgraphEdgeData, to_port));
static_assert(offsetof(EdgeData, type) == offsetof(CUgraphEdgeData, type));
static_assert(sizeof(EdgeData) == sizeof(CUgraphEdgeData));
static_assert(sizeof(LaunchAttributeValue) == sizeof(CUlaunchAttributeValue));
static_assert(alignof(LaunchAttributeValue) == alignof(CUlaunchAttributeValue));
static_assert(sizeof(LaunchAttributeValue::cluster) == sizeof(CUlaunchAttributeValue::clusterDim));

TEST(CudaApi, NamesTheEntriesOfALaunchAsTheVendorDoes) {
  EXPECT_EQ(launch_end(), CU_LAUNCH_PARAM_END);
  EXPECT_EQ(launch_buffer(), CU_LAUNCH_PARAM_BUFFER_POINTER);
  EXPECT_EQ(launch_buffer_size(), CU_LAUNCH_PARAM_BUFFER_SIZE);
}

}  // namespace
}  // namespace rondo::cuda
