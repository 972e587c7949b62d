// A library with GPU code, to be loaded and unloaded.
#include "gpu_code_section.h"

namespace {

[[gnu::section(".nv_fatbin"), gnu::used]] constinit const rondo::GpuCodeSection code =
    rondo::gpu_code_section("kernel_in_a_plugin");

}  // namespace
