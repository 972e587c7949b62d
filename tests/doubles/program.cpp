#include "program.h"

#include "rondo/error.h"
#include "signature.h"

namespace rondo::doubles {
namespace {

rtc::Compiler& host_compiler() {
  static auto& compiler = *new std::shared_ptr<rtc::Compiler>(rtc::make_host_compiler());
  return *compiler;
}

// What signature_source begins with.
std::string without_signatures(std::string source) {
  const std::size_t at = source.rfind(rtc::line_directive("rondo/signature_traits.h"));
  if (at != std::string::npos) source.resize(at);
  return source;
}

}  // namespace

Program::Program(std::string source, std::string name, std::vector<rtc::Header> headers) {
  request_.file = std::move(name);
  request_.source = without_signatures(std::move(source));
  request_.headers = std::move(headers);
}

bool Program::compile(const std::vector<std::pair<std::string, std::string>>& defines) {
  request_.defines = defines;
  request_.entries = entries_;
  compiled_.clear();
  code_.clear();
  try {
    rtc::Binary binary = host_compiler().compile(request_);
    compiled_ = std::move(binary.entries);
    code_ = std::move(binary.code);
    log_ = std::move(binary.log);
    return true;
  } catch (const Error& error) {
    log_.clear();
    for (const Diagnostic& diagnostic : error.diagnostics()) log_ += diagnostic.message + "\n";
    return false;
  }
}

const char* Program::lowered(const std::string& expression) const {
  for (const rtc::Entry& entry : compiled_) {
    if (entry.expression == expression) return entry.lowered.c_str();
  }
  return nullptr;
}

}  // namespace rondo::doubles
