// The double's objects by the handles that it hands out. A handle is a number that is never used twice: what
// a real runtime would do with a stale one is anything, the double refuses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace rondo::doubles::hip {

template <class Handle, class Object>
class HandleRegistry {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    objects_.emplace(++last_, std::move(object));
    return to_handle(last_);
  }
  // Null for what is no handle of a live object.
  std::shared_ptr<Object> find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(to_number(handle));
    return found == objects_.end() ? nullptr : found->second;
  }
  // The same, and from now on the handle is stale. What is returned is destroyed outside the lock.
  std::shared_ptr<Object> take(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(to_number(handle));
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return objects_.size();
  }

 private:
  static constexpr std::uintptr_t spacing = 16;  // handles look aligned, as pointers do

  static Handle to_handle(std::uintptr_t number) { return reinterpret_cast<Handle>(number * spacing); }
  static std::uintptr_t to_number(Handle handle) {
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    return value % spacing == 0 ? value / spacing : 0;
  }

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::shared_ptr<Object>> objects_;
  std::uintptr_t last_ = 0;
};

}  // namespace rondo::doubles::hip
