// A libamdhip64 that knows names and does nothing: what is there, and which version it is of, decides whether
// Rondo goes on. ROCM_VERSION: as hipRuntimeGetVersion gives it. With LACKS_INSTANTIATE, one name is missing.
#include "hip/api.h"

#define RONDO_INCOMPLETE(name, version, need, parameters) \
  extern "C" int name();                                  \
  extern "C" int name() { return 100; }

#define hipRuntimeGetVersion hipRuntimeGetVersion_placeholder
#ifdef LACKS_INSTANTIATE
#define hipGraphInstantiateWithFlags hipGraphInstantiate
#endif
RONDO_HIP_FUNCTIONS(RONDO_INCOMPLETE)
#undef hipRuntimeGetVersion

extern "C" const char* hipGetErrorName(int);
extern "C" const char* hipGetErrorName(int) { return "hipErrorNoDevice"; }

extern "C" int hipRuntimeGetVersion(int* version);
extern "C" int hipRuntimeGetVersion(int* version) {
  *version = ROCM_VERSION;
  return 0;
}
