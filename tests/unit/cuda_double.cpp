// A libcuda that knows every name and has no device; with RONDO_OLD_DRIVER, one of CUDA 11.8.
#include "cuda/api.h"

#define RONDO_CUDA_DEFINE(name, version, need, parameters) \
  extern "C" int name();                                   \
  extern "C" int name() { return 100; }

#define cuDriverGetVersion cuDriverGetVersion_placeholder
#ifdef RONDO_OLD_DRIVER
#define cuGraphAddKernelNode_v2 cuGraphAddKernelNode
#endif
RONDO_CUDA_FUNCTIONS(RONDO_CUDA_DEFINE)
#undef cuDriverGetVersion

extern "C" int cuDriverGetVersion(int* version);
extern "C" int cuDriverGetVersion(int* version) {
#ifdef RONDO_OLD_DRIVER
  *version = 11080;
#else
  *version = 13000;
#endif
  return 0;
}
