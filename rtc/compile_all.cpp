#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "cache.h"
#include "compiler.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

Binary compile_one(Compiler& compiler, BinaryCache* cache, const CompileRequest& request) {
  if (!cache) return compiler.compile(request);
  const std::string key = BinaryCache::key(compiler, request);
  if (std::optional<Binary> found = cache->find(key)) return std::move(*found);
  Binary binary = compiler.compile(request);
  cache->store(key, binary);
  return binary;
}

// The first failure's code, and everything that any of them had to say, once each.
void throw_collected(const std::vector<std::exception_ptr>& failures) {
  std::optional<ErrorCode> code;
  std::vector<Diagnostic> diagnostics;
  std::vector<std::string> said;
  for (const std::exception_ptr& failure : failures) {
    if (!failure) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (!code) code = error.code();
      for (const Diagnostic& diagnostic : error.diagnostics()) {
        const std::string text = diagnostic.to_string();
        if (std::find(said.begin(), said.end(), text) != said.end()) continue;
        said.push_back(text);
        diagnostics.push_back(diagnostic);
      }
    }
  }
  if (code) throw Error(*code, std::move(diagnostics));
}

}  // namespace

std::vector<Binary> compile_all(Compiler& compiler, BinaryCache* cache,
                                std::span<const CompileRequest> requests, unsigned threads,
                                const std::function<void(std::size_t, std::size_t)>& progress) {
  std::vector<Binary> results(requests.size());
  std::vector<std::exception_ptr> failures(requests.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t done = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < requests.size(); i = next++) {
      try {
        results[i] = compile_one(compiler, cache, requests[i]);
      } catch (...) {
        failures[i] = std::current_exception();
      }
      if (!progress) continue;
      const std::lock_guard lock(mutex);
      progress(++done, requests.size());
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t count = std::min<std::size_t>(std::max(threads, 1u), requests.size());
    for (std::size_t i = 1; i < count; ++i) helpers.emplace_back(work);
    work();
  }
  throw_collected(failures);
  return results;
}

}  // namespace rondo::rtc
