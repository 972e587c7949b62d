// The libcuda of CUDA 11.8, as far as its names go.
#include "cuda/api.h"

#define RONDO_CUDA_DEFINE(name, version, need, parameters) \
  extern "C" int name();                                   \
  extern "C" int name() { return 100; }

#define cuDriverGetVersion cuDriverGetVersion_placeholder
#define cuGraphAddKernelNode_v2 cuGraphAddKernelNode
RONDO_CUDA_FUNCTIONS(RONDO_CUDA_DEFINE)
#undef cuDriverGetVersion

extern "C" int cuDriverGetVersion(int* version);
extern "C" int cuDriverGetVersion(int* version) {
  *version = 11080;
  return 0;
}
