// The table of functions that an OpenCL loader hands from layer to layer, and the two calls by
// which it asks a layer. Khronos fixes the order and only appends. The types come from CL/cl.h;
// CL/cl_layer.h, which declares the table, is not packaged for Python.
#pragma once
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#include <CL/cl.h>

namespace cutaway::opencl {

// X is a function of CL/cl.h, SKIP a number of entries we
// have no use for (sharing with GL, Direct3D and EGL).
// clang-format off
#define CUTAWAY_OPENCL_TABLE(X, SKIP)                                                                              \
  X(clGetPlatformIDs) X(clGetPlatformInfo) X(clGetDeviceIDs) X(clGetDeviceInfo)                                    \
  X(clCreateContext) X(clCreateContextFromType) X(clRetainContext) X(clReleaseContext) X(clGetContextInfo)         \
  X(clCreateCommandQueue) X(clRetainCommandQueue) X(clReleaseCommandQueue) X(clGetCommandQueueInfo)                \
  SKIP(clSetCommandQueueProperty, 1)                                                                               \
  X(clCreateBuffer) X(clCreateImage2D) X(clCreateImage3D) X(clRetainMemObject) X(clReleaseMemObject)               \
  X(clGetSupportedImageFormats) X(clGetMemObjectInfo) X(clGetImageInfo)                                            \
  X(clCreateSampler) X(clRetainSampler) X(clReleaseSampler) X(clGetSamplerInfo)                                    \
  X(clCreateProgramWithSource) X(clCreateProgramWithBinary) X(clRetainProgram) X(clReleaseProgram)                 \
  X(clBuildProgram) X(clUnloadCompiler) X(clGetProgramInfo) X(clGetProgramBuildInfo)                               \
  X(clCreateKernel) X(clCreateKernelsInProgram) X(clRetainKernel) X(clReleaseKernel) X(clSetKernelArg)             \
  X(clGetKernelInfo) X(clGetKernelWorkGroupInfo)                                                                   \
  X(clWaitForEvents) X(clGetEventInfo) X(clRetainEvent) X(clReleaseEvent) X(clGetEventProfilingInfo)               \
  X(clFlush) X(clFinish)                                                                                           \
  X(clEnqueueReadBuffer) X(clEnqueueWriteBuffer) X(clEnqueueCopyBuffer)                                            \
  X(clEnqueueReadImage) X(clEnqueueWriteImage) X(clEnqueueCopyImage)                                               \
  X(clEnqueueCopyImageToBuffer) X(clEnqueueCopyBufferToImage)                                                      \
  X(clEnqueueMapBuffer) X(clEnqueueMapImage) X(clEnqueueUnmapMemObject)                                            \
  X(clEnqueueNDRangeKernel) X(clEnqueueTask) X(clEnqueueNativeKernel)                                              \
  X(clEnqueueMarker) X(clEnqueueWaitForEvents) X(clEnqueueBarrier) X(clGetExtensionFunctionAddress)                \
  SKIP(clCreateFromGLBuffer, 9) SKIP(clGetDeviceIDsFromD3D10KHR, 6)                                                \
  X(clSetEventCallback) X(clCreateSubBuffer) X(clSetMemObjectDestructorCallback)                                   \
  X(clCreateUserEvent) X(clSetUserEventStatus)                                                                     \
  X(clEnqueueReadBufferRect) X(clEnqueueWriteBufferRect) X(clEnqueueCopyBufferRect)                                \
  SKIP(clCreateSubDevicesEXT, 3) SKIP(clCreateEventFromGLsyncKHR, 1)                                               \
  X(clCreateSubDevices) X(clRetainDevice) X(clReleaseDevice) X(clCreateImage)                                      \
  X(clCreateProgramWithBuiltInKernels) X(clCompileProgram) X(clLinkProgram) X(clUnloadPlatformCompiler)            \
  X(clGetKernelArgInfo) X(clEnqueueFillBuffer) X(clEnqueueFillImage) X(clEnqueueMigrateMemObjects)                 \
  X(clEnqueueMarkerWithWaitList) X(clEnqueueBarrierWithWaitList) X(clGetExtensionFunctionAddressForPlatform)       \
  SKIP(clCreateFromGLTexture, 1) SKIP(clGetDeviceIDsFromD3D11KHR, 7)                                               \
  SKIP(clGetDeviceIDsFromDX9MediaAdapterKHR, 3) SKIP(clCreateFromEGLImageKHR, 3)                                   \
  SKIP(clCreateEventFromEGLSyncKHR, 1)                                                                             \
  X(clCreateCommandQueueWithProperties) X(clCreatePipe) X(clGetPipeInfo) X(clSVMAlloc) X(clSVMFree)                \
  X(clEnqueueSVMFree) X(clEnqueueSVMMemcpy) X(clEnqueueSVMMemFill) X(clEnqueueSVMMap) X(clEnqueueSVMUnmap)        \
  SKIP(clCreateSamplerWithProperties, 16)
// clang-format on

struct Dispatch {
#define CUTAWAY_TYPED(function) decltype(&::function) function;
#define CUTAWAY_SKIPPED(first, count) void* first[count];
  CUTAWAY_OPENCL_TABLE(CUTAWAY_TYPED, CUTAWAY_SKIPPED)
#undef CUTAWAY_TYPED
#undef CUTAWAY_SKIPPED
};

constexpr cl_uint kLayerApiVersion = 0x4240,
                  kLayerName = 0x4241;  // what clGetLayerInfo is asked for
constexpr cl_uint kLayerVersion = 100;

}  // namespace cutaway::opencl
