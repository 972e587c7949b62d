// Holds executor/hip/api.h to the vendor's header. Most of it is settled when this compiles.
#define __HIP_PLATFORM_AMD__
#define __HIP_DISABLE_CPP_FUNCTIONS__  // templates of the same names
#include <hip/hip_runtime_api.h>
// First the vendor's header, so that its types are the ones that ours are compared with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "hip/api.h"

namespace rondo::hip {

// Functions of the table that the installed header is too old for. Whoever names one of them unqualified in
// this namespace gets the header's where there is one, for these are not declared then.
namespace in_header {

struct Absent {};
#if HIP_VERSION_MAJOR < 6
Absent hipGetDevicePropertiesR0600();
#endif
#if HIP_VERSION < 50300000
Absent hipGraphUpload();
#endif
#if HIP_VERSION < 50500000
Absent hipGraphNodeSetEnabled();
#endif

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
  } else if constexpr (std::is_same_v<Theirs, hipGraphNodeType>) {  // numbered in two ways
    return std::is_same_v<Ours, std::underlying_type_t<Theirs>>;
  } else if constexpr (std::is_same_v<Ours, Memcpy3D>) {
    return std::is_same_v<Theirs, hipMemcpy3DParms>;
  } else if constexpr (std::is_same_v<Ours, MemsetNodeParameters>) {
    return std::is_same_v<Theirs, hipMemsetParams>;
  } else if constexpr (std::is_same_v<Ours, KernelNodeParameters>) {
    return std::is_same_v<Theirs, hipKernelNodeParams>;
#if HIP_VERSION_MAJOR < 6
  } else if constexpr (std::is_same_v<Ours, DevicePropertiesR0000>) {
    return std::is_same_v<Theirs, hipDeviceProp_t>;
#else
  } else if constexpr (std::is_same_v<Ours, DevicePropertiesR0600>) {
    return std::is_same_v<Theirs, hipDeviceProp_t>;
#endif
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
template <class Ours>
struct SameFunction<Ours, Absent()> : std::true_type {};

#define RONDO_HIP_COMPARE(name, version, need, parameters)                                       \
  static_assert(SameFunction<Result parameters, std::remove_reference_t<decltype(name)>>::value, \
                #name " differs from hip_runtime_api.h");
#if HIP_VERSION_MAJOR >= 6
#undef hipGetDeviceProperties  // a macro for the R0600 one
Absent hipGetDeviceProperties();
#endif
RONDO_HIP_FUNCTIONS(RONDO_HIP_COMPARE)
#undef RONDO_HIP_COMPARE
static_assert(SameFunction<const char*(Result), decltype(hipGetErrorName)>::value);
static_assert(std::is_same_v<decltype(Api::hipKernelNameRef), decltype(&::hipKernelNameRef)>);
static_assert(std::is_same_v<decltype(Api::hipKernelNameRefByPtr), decltype(&::hipKernelNameRefByPtr)>);

#define RONDO_HIP_VALUE(ours, theirs) \
  static_assert(static_cast<unsigned>(ours) == static_cast<unsigned>(theirs))
RONDO_HIP_VALUE(Result::success, hipSuccess);
RONDO_HIP_VALUE(Result::invalid_value, hipErrorInvalidValue);
RONDO_HIP_VALUE(Result::out_of_memory, hipErrorOutOfMemory);
RONDO_HIP_VALUE(Result::invalid_device_function, hipErrorInvalidDeviceFunction);
RONDO_HIP_VALUE(Result::no_device, hipErrorNoDevice);
RONDO_HIP_VALUE(Result::invalid_device, hipErrorInvalidDevice);
RONDO_HIP_VALUE(Result::no_binary_for_gpu, hipErrorNoBinaryForGpu);
RONDO_HIP_VALUE(Result::not_found, hipErrorNotFound);
RONDO_HIP_VALUE(Result::illegal_address, hipErrorIllegalAddress);
RONDO_HIP_VALUE(Result::assert_failed, hipErrorAssert);
RONDO_HIP_VALUE(Result::launch_failure, hipErrorLaunchFailure);
RONDO_HIP_VALUE(stream_non_blocking, hipStreamNonBlocking);
RONDO_HIP_VALUE(event_default, hipEventDefault);
static_assert(std::is_same_v<std::underlying_type_t<Result>, std::underlying_type_t<hipError_t>>);

RONDO_HIP_VALUE(CopyKind::host_to_host, hipMemcpyHostToHost);
RONDO_HIP_VALUE(CopyKind::host_to_device, hipMemcpyHostToDevice);
RONDO_HIP_VALUE(CopyKind::device_to_host, hipMemcpyDeviceToHost);
RONDO_HIP_VALUE(CopyKind::device_to_device, hipMemcpyDeviceToDevice);
RONDO_HIP_VALUE(CopyKind::by_address, hipMemcpyDefault);
// The types of nodes are numbered from 1 or from 0, in the order that foreign_graphs.cpp counts on.
RONDO_HIP_VALUE(hipGraphNodeTypeMemcpy - hipGraphNodeTypeKernel, 1);
RONDO_HIP_VALUE(hipGraphNodeTypeMemset - hipGraphNodeTypeKernel, 2);
RONDO_HIP_VALUE(hipGraphNodeTypeHost - hipGraphNodeTypeKernel, 3);
RONDO_HIP_VALUE(hipGraphNodeTypeGraph - hipGraphNodeTypeKernel, 4);
RONDO_HIP_VALUE(hipGraphNodeTypeEmpty - hipGraphNodeTypeKernel, 5);
RONDO_HIP_VALUE(hipGraphNodeTypeWaitEvent - hipGraphNodeTypeKernel, 6);
RONDO_HIP_VALUE(hipGraphNodeTypeEventRecord - hipGraphNodeTypeKernel, 7);

#define RONDO_HIP_FIELD_OF(Ours, ours, Theirs, theirs)             \
  static_assert(offsetof(Ours, ours) == offsetof(Theirs, theirs)); \
  static_assert(sizeof(Ours::ours) == sizeof(Theirs::theirs))
static_assert(sizeof(Memcpy3D) == sizeof(hipMemcpy3DParms));
RONDO_HIP_FIELD_OF(Memcpy3D, from_array, hipMemcpy3DParms, srcArray);
RONDO_HIP_FIELD_OF(Memcpy3D, from_position, hipMemcpy3DParms, srcPos);
RONDO_HIP_FIELD_OF(Memcpy3D, from, hipMemcpy3DParms, srcPtr);
RONDO_HIP_FIELD_OF(Memcpy3D, to_array, hipMemcpy3DParms, dstArray);
RONDO_HIP_FIELD_OF(Memcpy3D, to_position, hipMemcpy3DParms, dstPos);
RONDO_HIP_FIELD_OF(Memcpy3D, to, hipMemcpy3DParms, dstPtr);
RONDO_HIP_FIELD_OF(Memcpy3D, kind, hipMemcpy3DParms, kind);
static_assert(offsetof(Memcpy3D, width) == offsetof(hipMemcpy3DParms, extent) + offsetof(hipExtent, width));
static_assert(offsetof(Memcpy3D, height) == offsetof(hipMemcpy3DParms, extent) + offsetof(hipExtent, height));
static_assert(offsetof(Memcpy3D, depth) == offsetof(hipMemcpy3DParms, extent) + offsetof(hipExtent, depth));
RONDO_HIP_FIELD_OF(Position, x, hipPos, x);
RONDO_HIP_FIELD_OF(Position, y, hipPos, y);
RONDO_HIP_FIELD_OF(Position, z, hipPos, z);
RONDO_HIP_FIELD_OF(PitchedPointer, pointer, hipPitchedPtr, ptr);
RONDO_HIP_FIELD_OF(PitchedPointer, pitch, hipPitchedPtr, pitch);
RONDO_HIP_FIELD_OF(PitchedPointer, x_bytes, hipPitchedPtr, xsize);
RONDO_HIP_FIELD_OF(PitchedPointer, y_rows, hipPitchedPtr, ysize);
static_assert(sizeof(MemsetNodeParameters) == sizeof(hipMemsetParams));
RONDO_HIP_FIELD_OF(MemsetNodeParameters, to, hipMemsetParams, dst);
RONDO_HIP_FIELD_OF(MemsetNodeParameters, element_bytes, hipMemsetParams, elementSize);
RONDO_HIP_FIELD_OF(MemsetNodeParameters, height, hipMemsetParams, height);
RONDO_HIP_FIELD_OF(MemsetNodeParameters, pitch, hipMemsetParams, pitch);
RONDO_HIP_FIELD_OF(MemsetNodeParameters, value, hipMemsetParams, value);
RONDO_HIP_FIELD_OF(MemsetNodeParameters, width, hipMemsetParams, width);

#define RONDO_HIP_FIELD(ours, theirs)                                                           \
  static_assert(offsetof(KernelNodeParameters, ours) == offsetof(hipKernelNodeParams, theirs)); \
  static_assert(sizeof(KernelNodeParameters::ours) == sizeof(hipKernelNodeParams::theirs))
static_assert(sizeof(KernelNodeParameters) == sizeof(hipKernelNodeParams));
RONDO_HIP_FIELD(block, blockDim);
RONDO_HIP_FIELD(extra, extra);
RONDO_HIP_FIELD(function, func);
RONDO_HIP_FIELD(grid, gridDim);
RONDO_HIP_FIELD(kernel_parameters, kernelParams);
RONDO_HIP_FIELD(shared_bytes, sharedMemBytes);
static_assert(sizeof(Dimensions) == sizeof(dim3) && offsetof(Dimensions, y) == offsetof(dim3, y) &&
              offsetof(Dimensions, z) == offsetof(dim3, z));

#if HIP_VERSION_MAJOR < 6
using Properties = DevicePropertiesR0000;
#else
using Properties = DevicePropertiesR0600;
#endif
#define RONDO_HIP_PROPERTY(ours, theirs)                                          \
  static_assert(offsetof(Properties, ours) == offsetof(hipDeviceProp_t, theirs)); \
  static_assert(std::is_same_v<decltype(Properties::ours), decltype(hipDeviceProp_t::theirs)>)
static_assert(sizeof(Properties) >= sizeof(hipDeviceProp_t), "the runtime fills all of its own");
RONDO_HIP_PROPERTY(name, name);
RONDO_HIP_PROPERTY(total_global_memory, totalGlobalMem);
RONDO_HIP_PROPERTY(shared_memory_per_block, sharedMemPerBlock);
RONDO_HIP_PROPERTY(warp_size, warpSize);
RONDO_HIP_PROPERTY(max_threads_per_block, maxThreadsPerBlock);
RONDO_HIP_PROPERTY(max_threads_dimension, maxThreadsDim);
RONDO_HIP_PROPERTY(max_grid_size, maxGridSize);
RONDO_HIP_PROPERTY(major, major);
RONDO_HIP_PROPERTY(minor, minor);
RONDO_HIP_PROPERTY(multiprocessor_count, multiProcessorCount);
RONDO_HIP_PROPERTY(architecture_name, gcnArchName);

TEST(HipApi, KnowsEveryFunctionThatTheHeaderDoes) {
  std::size_t absent = 0, all = 0;
#define RONDO_HIP_COUNT(name, version, need, parameters) \
  ++all, absent += std::is_same_v<decltype(name), Absent()> ? 1 : 0;
  RONDO_HIP_FUNCTIONS(RONDO_HIP_COUNT)
#undef RONDO_HIP_COUNT
  EXPECT_LE(absent, 3u);
  EXPECT_GT(all, 30u);
}

}  // namespace in_header
}  // namespace rondo::hip
