// Cubins and PTX, and the kernels in them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "../driver.h"
#include "api.h"

namespace rondo::cuda {

// These need a current context, and throw Error with the driver's code.
Module load_module(const Api& api,
                   std::span<const std::byte> binary);  // with the driver's own log in the error
Function find_function(const Api& api, Module module, const std::string& name);
FunctionInfo function_info(const Api& api, Function function, std::size_t parameters);
void allow_dynamic_shared(const Api& api, Function function, std::size_t bytes, std::size_t device_limit);

}  // namespace rondo::cuda
