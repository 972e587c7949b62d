// Weights without a file: random ones, made on the device.
#pragma once

#include <string>
#include <string_view>

#include "compiler.h"
#include "driver.h"
#include "plan.h"

namespace rondo {

extern const std::string_view random_weights_source;  // executor/random_weights.cu
rtc::CompileRequest random_weights_unit();            // with no entry and for no architecture yet

// The seed of one tensor.
std::uint64_t random_seed(std::uint64_t seed, std::string_view tensor);

// The kernel that makes a tensor of this type: an entry of random_weights_source. Of floats and block types.
std::string random_weights_entry(DataType type);

// Queues it for one buffer. A matrix is uniform in ±sqrt(3 / K) with K the last dimension, so that a product
// with it keeps a vector's size; a vector, or a single element, in [0.5, 1.5). Quantised blocks have random
// quants, and scales to fit. `function` is that entry's. The same bytes on every device.
Status launch_random_weights(Driver& driver, FunctionHandle function, const PlanBuffer& buffer,
                             DevicePointer to, StreamHandle stream) noexcept;

}  // namespace rondo
