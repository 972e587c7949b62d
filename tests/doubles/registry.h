// The objects behind a double's handles. A handle is an object's address, and nothing of an object is touched
// before its handle has been found here: a handle that is unknown, or destroyed already, is an error and not
// a crash.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace rondo::doubles {

template <class Object>
class Registry {
 public:
  Object* add(std::unique_ptr<Object> object) {
    Object* raw = object.get();
    const std::lock_guard lock(mutex_);
    objects_.emplace(raw, std::move(object));
    return raw;
  }
  // Null for what is not here.
  Object* find(const void* handle) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second.get();
  }
  std::unique_ptr<Object> take(const void* handle) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::unique_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  std::size_t size() noexcept {
    const std::lock_guard lock(mutex_);
    return objects_.size();
  }

 private:
  std::mutex mutex_;
  std::map<const void*, std::unique_ptr<Object>> objects_;
};

}  // namespace rondo::doubles
