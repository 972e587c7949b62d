#include "text_digest.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rondo::rtc {

std::string text_digest(const std::vector<std::string_view>& texts) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (const std::string_view text : texts) {
    const std::uint64_t size = text.size();
    XXH3_128bits_update(state.get(), &size, sizeof size);
    XXH3_128bits_update(state.get(), text.data(), text.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace rondo::rtc
