// The calls of the CUDA runtime that programs of the tests make.
#pragma once
#include <cupti_runtime_cbid.h>

enum {
  LAUNCH = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
  LAUNCH_GRAPH = CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
  COPY = CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
  COPY_PEER = CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000,
  SET = CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
  SYNCHRONIZE = CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020
};
