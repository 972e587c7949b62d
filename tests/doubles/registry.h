// The objects behind a double's handles. A handle is a number that is never used twice, by any registry: what
// a real driver would do with one that is unknown, stale or of another kind is anything, a double refuses it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace rondo::doubles {

// Aligned as pointers are.
inline std::uintptr_t new_handle() noexcept {
  static std::atomic<std::uintptr_t> last{0};
  return 16 * ++last;
}

template <class Handle, class Object>
class Registry {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const auto handle = reinterpret_cast<Handle>(new_handle());
    const std::lock_guard lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  // Null for what is no handle of a live object here.
  std::shared_ptr<Object> find(Handle handle) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  // The same, and from now on the handle is stale. What is returned is destroyed outside the lock.
  std::shared_ptr<Object> take(Handle handle) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  std::size_t size() const noexcept {
    const std::lock_guard lock(mutex_);
    return objects_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace rondo::doubles
