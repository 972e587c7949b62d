// Functions of a vendor's library that Rondo itself does not call.
#pragma once

#include "dynamic_library.h"

namespace rondo::conformance {

// By the library in the environment variable, else by its usual name. Throws std::runtime_error where it is
// not there.
void* vendor_function(const char* variable, const char* usual, const char* name);

// Throws std::runtime_error unless the result is 0.
void check_vendor(int result, const char* call);

}  // namespace rondo::conformance
