// The AMD architectures that the double knows, and how they are spelt: "gfx90a:sramecc+:xnack-".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::doubles::hip {

// $RONDO_DOUBLE_HIP_ARCHITECTURE, "gfx90a:sramecc+:xnack-" by default.
std::string device_architecture();

// "gfx906", "gfx90a", …: what the compiler can be asked for.
const std::vector<std::string>& known_processors();

// A processor that is known, with features that it has, each of them once with '+' or '-'.
bool is_known(std::string_view architecture);

// Whether code for `code` runs on `device`: the same processor, and no feature that the code asks for and the
// device has otherwise.
bool fits(std::string_view code, std::string_view device);

}  // namespace rondo::doubles::hip
