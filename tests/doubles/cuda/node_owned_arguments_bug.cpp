// The bug that Rondo began with, written out. An engine updates a captured graph's kernel node: it asks the
// driver for the node's parameters, puts a pointer of its own into the kernelParams array that it gets, and
// hands that back. The array belongs to the driver: with "wrong" this program does so, and the double's
// pages, which are read-only because cuda.h says that they "should not be modified directly", end it. With
// "right" the parameters are assembled in memory of its own.
//
//     node_owned_arguments_bug wrong|right libcuda.so.1 libnvrtc.so.13
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/api.h"
#include "nvrtc_api.h"

namespace {

using namespace rondo::cuda;  // NOLINT: a program of one page
namespace nvrtc = rondo::rtc::nvrtc;

constexpr const char* source = "__global__ void put(int* out, int value) { *out = value; }";

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    std::fprintf(stderr, "no %s\n", name);
    std::exit(2);
  }
}

void check(int result, const char* call) {
  if (result == 0) return;
  std::fprintf(stderr, "%s failed with %d\n", call, result);
  std::exit(2);
}
#define CHECK(call) check(static_cast<int>(call), #call)

void* open(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(2);
  }
  return library;
}

struct Engine {
  Api api;
  Result (*get_parameters)(Node, KernelNodeParameters*) = nullptr;
  Result (*set_parameters)(Node, const KernelNodeParameters*) = nullptr;

  explicit Engine(void* library) {
#define FIND(name, version, need, parameters) find(library, #name, api.name);
    RONDO_CUDA_FUNCTIONS(FIND)
#undef FIND
    find(library, "cuGraphKernelNodeGetParams_v2", get_parameters);
    find(library, "cuGraphKernelNodeSetParams_v2", set_parameters);
  }

  void update_wrongly(Node node, int* value) const {
    KernelNodeParameters parameters;
    CHECK(get_parameters(node, &parameters));
    parameters.kernel_parameters[1] = value;  // the driver's array
    CHECK(set_parameters(node, &parameters));
  }
  void update_rightly(Node node, DeviceAddress* out, int* value) const {
    KernelNodeParameters parameters;
    CHECK(get_parameters(node, &parameters));
    void* values[] = {out, value};
    parameters.kernel_parameters = values;
    parameters.extra = nullptr;
    CHECK(set_parameters(node, &parameters));
  }
};

std::vector<char> compile(void* library, std::vector<char>& lowered) {
  nvrtc::Api api;
  nvrtc::for_each_symbol(
      api, [&](const std::string& name, auto& function) { find(library, name.c_str(), function); });
  nvrtc::Program program = nullptr;
  CHECK(api.create_program(&program, source, "put.cu", 0, nullptr, nullptr));
  CHECK(api.add_name_expression(program, "put"));
  const char* const options[] = {"--gpu-architecture=sm_90"};
  CHECK(api.compile_program(program, 1, options));
  const char* name = nullptr;
  CHECK(api.get_lowered_name(program, "put", &name));
  lowered.assign(name, name + std::strlen(name) + 1);
  std::size_t size = 0;
  CHECK(api.get_cubin_size(program, &size));
  std::vector<char> cubin(size);
  CHECK(api.get_cubin(program, cubin.data()));
  CHECK(api.destroy_program(&program));
  return cubin;
}

int run(const Engine& engine, const std::vector<char>& cubin, const std::vector<char>& lowered, bool wrong) {
  const Api& api = engine.api;
  CHECK(api.cuInit(0));
  Context context = nullptr;
  CHECK(api.cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(api.cuCtxPushCurrent_v2(context));
  Module module = nullptr;
  CHECK(api.cuModuleLoadDataEx(&module, cubin.data(), 0, nullptr, nullptr));
  Function put = nullptr;
  CHECK(api.cuModuleGetFunction(&put, module, lowered.data()));
  Stream stream = nullptr;
  CHECK(api.cuStreamCreate(&stream, stream_non_blocking));
  DeviceAddress out = 0;
  CHECK(api.cuMemAlloc_v2(&out, sizeof(int)));

  Graph graph = nullptr;
  CHECK(api.cuGraphCreate(&graph, 0));
  int value = 1;
  void* values[] = {&out, &value};
  const KernelNodeParameters parameters{put, 1, 1, 1, 1, 1, 1, 0, values, nullptr, nullptr, nullptr};
  Node node = nullptr;
  CHECK(api.cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &parameters));

  int next_value = 2;
  if (wrong) {
    engine.update_wrongly(node, &next_value);
  } else {
    engine.update_rightly(node, &out, &next_value);
  }
  Exec exec = nullptr;
  CHECK(api.cuGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK(api.cuGraphLaunch(exec, stream));
  int result = 0;
  CHECK(api.cuMemcpyDtoHAsync_v2(&result, out, sizeof result, stream));
  CHECK(api.cuStreamSynchronize(stream));
  CHECK(api.cuGraphExecDestroy(exec));
  CHECK(api.cuGraphDestroy(graph));
  CHECK(api.cuMemFree_v2(out));
  CHECK(api.cuStreamDestroy_v2(stream));
  CHECK(api.cuModuleUnload(module));
  CHECK(api.cuCtxPopCurrent_v2(&context));
  CHECK(api.cuDevicePrimaryCtxRelease_v2(0));
  std::printf("the kernel put %d\n", result);
  return result == next_value ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  std::vector<char> lowered;
  const std::vector<char> cubin = compile(open(arguments[3]), lowered);
  return run(Engine(open(arguments[2])), cubin, lowered, std::strcmp(arguments[1], "wrong") == 0);
}
