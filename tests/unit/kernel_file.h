// Kernels on the host device, for tests of what they compute.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler.h"
#include "host/driver.h"
#include "rondo/error.h"

namespace rondo {

// One source file compiled for the host, and launched with plain vectors for buffers.
class KernelFile {
 public:
  KernelFile(const char* file, std::vector<std::string> entries)
      : KernelFile(std::string(RONDO_SOURCE_DIR) + "/kernels/" + file, std::move(entries), {}) {}
  // Of a source that is no file.
  KernelFile(std::string name, std::vector<std::string> entries, std::string source)
      : driver_(host::make_driver()) {
    rtc::CompileRequest request;
    request.file = std::move(name);
    request.source = std::move(source);
    if (request.source.empty()) {
      std::ifstream stream(request.file);
      request.source.assign(std::istreambuf_iterator<char>(stream), {});
    }
    request.headers = rtc::collect_headers(request.file, request.source);
    request.entries = std::move(entries);
    request.architecture = driver_->properties().architecture;
    binary_ = rtc::make_host_compiler()->compile(request);
    EXPECT_EQ(binary_.log, "");
    module_ = driver_->load_module(binary_.code);
    stream_ = driver_->create_stream();
  }
  ~KernelFile() {
    driver_->destroy_stream(stream_);
    driver_->unload_module(module_);
  }

  // On the host a device address is a pointer's value, so that the tests' own memory will do.
  template <typename... Arguments>
  void launch(const std::string& entry, std::uint32_t grid, std::uint32_t block, std::size_t shared,
              Arguments... arguments) {
    const rtc::Entry* found = nullptr;
    for (const rtc::Entry& candidate : binary_.entries) {
      if (candidate.expression == entry) found = &candidate;
    }
    ASSERT_NE(found, nullptr) << entry;
    const std::vector<std::size_t> offsets = found->offsets();
    ASSERT_EQ(offsets.size(), sizeof...(arguments)) << entry;
    std::vector<std::byte> packed(found->argument_bytes());
    std::size_t at = 0;
    const auto store = [&](auto argument) {
      ASSERT_EQ(found->parameters[at].size, sizeof argument) << entry << ", argument " << at;
      std::memcpy(packed.data() + offsets[at++], &argument, sizeof argument);
    };
    (store(arguments), ...);
    const LaunchShape shape = {{grid, 1, 1}, {block, 1, 1}, static_cast<std::uint32_t>(shared)};
    const KernelLaunch launch = {driver_->function(module_, found->lowered), shape, packed.data(),
                                 packed.size()};
    check(driver_->launch(launch, stream_), "launching");
    check(driver_->synchronize(stream_), "synchronizing");
  }

 private:
  std::unique_ptr<Driver> driver_;
  rtc::Binary binary_;
  ModuleHandle module_ = nullptr;
  StreamHandle stream_ = nullptr;
};

}  // namespace rondo
