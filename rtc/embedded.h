// Texts that the build compiles into the library (rondo_embed).
#pragma once

#include <string_view>

namespace rondo::rtc::embedded {

extern const std::string_view host_kernel_abi, host_prelude, host_entry, signature_traits, portable;

}  // namespace rondo::rtc::embedded
