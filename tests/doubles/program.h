// The run-time compiler of a double: the host's compiler, behind what NVRTC and hipRTC have in common.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "compiler.h"

namespace rondo::doubles {

// nvrtcProgram, hiprtcProgram.
class Program {
 public:
  Program(std::string source, std::string name, std::vector<rtc::Header> headers);

  void add_name_expression(std::string expression) { entries_.push_back(std::move(expression)); }

  // Compiles for the host. True: code() and lowered() are there; false: log() says why not. Where the source
  // is one of Rondo's own compilers', what Rondo put behind the user's text is cut off first: the host
  // compiler adds the same.
  bool compile(const std::vector<std::pair<std::string, std::string>>& defines);

  const std::vector<std::byte>& code() const { return code_; }  // a shared object
  std::vector<std::byte>& code() { return code_; }              // for a vendor's own marks in it
  const std::string& log() const { return log_; }
  // The symbol of a name expression; nullptr where it was not added or not compiled. Lives as long as the
  // program.
  const char* lowered(const std::string& expression) const;
  const std::vector<rtc::Entry>& entries() const { return compiled_; }

 private:
  rtc::CompileRequest request_;
  std::vector<std::string> entries_;
  std::vector<rtc::Entry> compiled_;
  std::vector<std::byte> code_;
  std::string log_;
};

}  // namespace rondo::doubles
