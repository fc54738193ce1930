// An OpenCL program without Python.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>

int main(void) {
  const char* source = "__kernel void twice(__global int *v) { v[get_global_id(0)] *= 2; }";
  cl_platform_id platform;
  cl_device_id device;
  cl_int status;
  int values[256], i;
  for (i = 0; i < 256; ++i) values[i] = i;
  if (clGetPlatformIDs(1, &platform, NULL) ||
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
    return 2;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
  clBuildProgram(program, 1, &device, "", NULL, NULL);
  cl_kernel kernel = clCreateKernel(program, "twice", &status);
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof values,
                                 values, &status);
  clSetKernelArg(kernel, 0, sizeof memory, &memory);
  size_t global = 256, local = 16;
  clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
  clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL);
  printf("%d\n", values[21]);
  clReleaseMemObject(memory);
  clReleaseCommandQueue(queue);
  return values[21] == 42 ? 0 : 3;
}
