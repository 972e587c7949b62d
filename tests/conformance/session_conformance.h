// What a session promises, on every device there is: "host" always, "cuda" and "hip" where one is found.
#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "must_be_there.h"
#include "rondo/device.h"
#include "rondo/session.h"

namespace rondo::conformance {

class SessionConformance : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { open_or_skip(GetParam(), device_); }

  Session make(const std::string& text, SessionOptions options = {}) {
    return Session::parse(text, std::filesystem::path(RONDO_SOURCE_DIR) / "configs" / "test.json", device_,
                          options);
  }

  template <typename T>
  static std::vector<T> read(Session& session, const char* name) {
    const BufferHandle buffer = session.buffer(name);
    std::vector<T> values(session.buffers()[buffer.index].bytes / sizeof(T));
    check(session.read(buffer, std::as_writable_bytes(std::span(values))), "reading");
    return values;
  }

  template <typename T>
  static void write(Session& session, const char* name, const std::vector<T>& values) {
    check(session.write(session.buffer(name), std::as_bytes(std::span(values))), "writing");
  }

  static void launch(Session& session) {
    const Status status = session.launch();
    if (!status.ok()) throw session.error(status);
  }

  std::shared_ptr<Device> device_;
};

}  // namespace rondo::conformance
