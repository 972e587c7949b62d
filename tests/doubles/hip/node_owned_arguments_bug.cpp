// The bug that Rondo began with, as an inference engine had it: it took a kernel node's parameters from the
// runtime, put a pointer to its own memory into the array that it got, and handed that to SetParams. The
// array and all that it points to belong to the node: when the graph is destroyed, the runtime frees memory
// that it never allocated. The program is built with AddressSanitizer, and run three ways:
//   own-array       the bug
//   own-elements    its other form: an array of ours whose elements are still the node's
//   from-scratch    the way inside the contract: parameters from our own memory alone
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "loaded.h"

namespace {

using namespace rondo::hip;
using rondo::doubles::hip::LoadedDouble;

void check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(2);
}

void check(Result result, const char* what) { check(result == Result::success, what); }

constexpr const char* source = R"(extern "C" __global__ void store(int value, int* to) { *to = value; })";

// The program's code, from the double of hipRTC.
std::vector<char> compile(const char* library, std::string& lowered) {
  void* rtc = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  check(rtc != nullptr, "loading hipRTC");
  using Program = void*;
  const auto call = [&](const char* name, auto... arguments) {
    const auto function = reinterpret_cast<int (*)(decltype(arguments)...)>(dlsym(rtc, name));
    check(function != nullptr && function(arguments...) == 0, name);
  };
  Program program = nullptr;
  const char* const* none = nullptr;
  call("hiprtcCreateProgram", &program, source, "store.cu", 0, none, none);
  call("hiprtcAddNameExpression", program, "store");
  const char* option = "--offload-arch=gfx90a";
  call("hiprtcCompileProgram", program, 1, static_cast<const char* const*>(&option));
  std::size_t size = 0;
  call("hiprtcGetCodeSize", program, &size);
  std::vector<char> code(size);
  call("hiprtcGetCode", program, code.data());
  const char* name = nullptr;
  call("hiprtcGetLoweredName", program, "store", &name);
  lowered = name;
  call("hiprtcDestroyProgram", &program);
  return code;
}

// Makes the node write `value`.
void retarget(const LoadedDouble& hip, std::string_view how, Node node, int* value) {
  KernelNodeParameters parameters{};
  check(hip.hipGraphKernelNodeGetParams(node, &parameters), "hipGraphKernelNodeGetParams");
  void* fresh[] = {value, parameters.kernel_parameters[1]};
  int* target = *static_cast<int**>(parameters.kernel_parameters[1]);
  if (how == "own-array") {
    parameters.kernel_parameters[0] = value;
  } else if (how == "own-elements") {
    parameters.kernel_parameters = fresh;
  } else {
    fresh[1] = &target;
    parameters.kernel_parameters = fresh;
  }
  check(hip.set_parameters(node, &parameters), "hipGraphKernelNodeSetParams");
}

}  // namespace

int main(int count, char** arguments) {
  check(count == 4, "usage: libamdhip64 libhiprtc own-array|own-elements|from-scratch");
  const LoadedDouble hip(arguments[1]);
  std::string lowered;
  const std::vector<char> code = compile(arguments[2], lowered);

  check(hip.hipInit(0), "hipInit");
  Module module = nullptr;
  check(hip.hipModuleLoadData(&module, code.data()), "hipModuleLoadData");
  NativeFunction store = nullptr;
  check(hip.hipModuleGetFunction(&store, module, lowered.c_str()), "hipModuleGetFunction");
  Stream stream = nullptr;
  check(hip.hipStreamCreateWithFlags(&stream, stream_non_blocking), "hipStreamCreateWithFlags");
  void* to = nullptr;
  check(hip.hipMalloc(&to, sizeof(int)), "hipMalloc");

  Graph graph = nullptr;
  check(hip.hipGraphCreate(&graph, 0), "hipGraphCreate");
  int first = 1, second = 2;
  void* values[] = {&first, &to};
  KernelNodeParameters parameters{};
  parameters.function = store;
  parameters.grid = parameters.block = {1, 1, 1};
  parameters.kernel_parameters = values;
  Node node = nullptr;
  check(hip.hipGraphAddKernelNode(&node, graph, nullptr, 0, &parameters), "hipGraphAddKernelNode");
  retarget(hip, arguments[3], node, &second);

  Exec exec = nullptr;
  check(hip.hipGraphInstantiateWithFlags(&exec, graph, 0), "hipGraphInstantiateWithFlags");
  check(hip.hipGraphLaunch(exec, stream), "hipGraphLaunch");
  int result = 0;
  check(hip.hipMemcpyDtoHAsync(&result, to, sizeof result, stream), "hipMemcpyDtoHAsync");
  check(hip.hipStreamSynchronize(stream), "hipStreamSynchronize");
  check(result == 2, "the node wrote what it was told to");

  check(hip.hipGraphExecDestroy(exec), "hipGraphExecDestroy");
  check(hip.hipGraphDestroy(graph), "hipGraphDestroy");
  check(hip.hipFree(to), "hipFree");
  check(hip.hipStreamDestroy(stream), "hipStreamDestroy");
  check(hip.hipModuleUnload(module), "hipModuleUnload");
  std::puts("the node wrote what it was told to, and nobody freed what was not theirs");
}
