// The cache of compiled binaries: content-addressed files, safe with many processes without locks.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "compiler.h"

namespace rondo::rtc {

class BinaryCache {
 public:
  // Of nullopt: $RONDO_CACHE_DIR, else $XDG_CACHE_HOME/rondo, else ~/.cache/rondo. A directory that cannot be made or written makes
  // this a cache in memory, for this object's life; `problem()` then says why, in one line.
  explicit BinaryCache(std::optional<std::filesystem::path> directory = std::nullopt);
  ~BinaryCache();

  // The full key of a request: a 128-bit hash over everything the result depends on, in hexadecimal.
  static std::string key(const Compiler& compiler, const CompileRequest& request);

  // nullopt for a miss; an entry whose checksum or content is wrong is a miss, and is deleted.
  std::optional<Binary> find(const std::string& key);
  // Written to a unique temporary name, then renamed. Never throws for a full or read-only directory: it keeps the entry in memory.
  void store(const std::string& key, const Binary& binary);

  std::string problem() const;
  std::size_t hits() const noexcept;
  std::size_t misses() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rondo::rtc
