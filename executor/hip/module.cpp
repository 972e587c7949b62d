#include "module.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "context.h"
#include "rondo/error.h"

namespace rondo::hip {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t end = text.find(':'); end != std::string_view::npos; end = text.find(':')) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

void check_architecture(const rtc::AmdCodeObject& code_object, const std::string& device) {
  if (code_object.target.empty() || runs_on(code_object.target, device)) return;
  throw Error(ErrorCode::run_time,
              fmt::format("loading a HIP module: a code object for {}, and the device is {}",
                          code_object.target, device));
}

}  // namespace

bool runs_on(const std::string& target, const std::string& device) {
  const std::vector<std::string_view> wanted = split(target), given = split(device);
  if (wanted[0] != given[0]) return false;
  return std::all_of(wanted.begin() + 1, wanted.end(), [&](std::string_view feature) {
    // A device that does not say whether it has the feature is not held against the code.
    const std::string_view name = feature.substr(0, feature.size() - 1);
    return std::none_of(given.begin() + 1, given.end(), [&](std::string_view has) {
      return has != feature && has.substr(0, has.size() - 1) == name;
    });
  });
}

LoadedModule::LoadedModule(const Api& api, std::span<const std::byte> binary, const std::string& architecture)
    : api_(api), code_object_(rtc::read_amd_code_object(binary)) {
  check_architecture(code_object_, architecture);
  const Status status = RONDO_HIP(api_, hipModuleLoadData, &module_, binary.data());
  if (!status.ok()) {
    throw Error(status, fmt::format("loading a HIP module for {} on {}",
                                    code_object_.target.empty() ? "an unnamed target" : code_object_.target,
                                    architecture));
  }
}

LoadedModule::~LoadedModule() { static_cast<void>(api_.hipModuleUnload(module_)); }

Function& LoadedModule::function(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = functions_.find(name);
  if (found != functions_.end()) return *found->second;
  auto function = std::make_unique<Function>();
  const Status status = RONDO_HIP(api_, hipModuleGetFunction, &function->native, module_, name.c_str());
  if (!status.ok()) throw Error(status, fmt::format("looking up kernel \"{}\"", name));
  const rtc::AmdKernel* kernel = code_object_.find(name);
  if (kernel == nullptr) {
    throw Error(ErrorCode::run_time,
                fmt::format("looking up kernel \"{}\": the code object's metadata does not list it", name));
  }
  if (kernel->arguments.size() > max_parameters) {
    throw Error(ErrorCode::run_time, fmt::format("kernel \"{}\" has {} parameters; at most {} are supported",
                                                 name, kernel->arguments.size(), max_parameters));
  }
  function->kernel = *kernel;
  for (const rtc::AmdArgument& argument : kernel->arguments)
    function->argument_end = std::max(function->argument_end, argument.offset + argument.size);
  return *functions_.emplace(name, std::move(function)).first->second;
}

FunctionInfo function_info(const Function& function) {
  FunctionInfo info;
  for (const rtc::AmdArgument& argument : function.kernel.arguments)
    info.parameters.push_back({argument.offset, argument.size});
  info.layout_known = true;
  info.static_shared_bytes = function.kernel.static_shared_bytes;
  info.max_threads_per_block = function.kernel.max_threads_per_block;
  return info;
}

}  // namespace rondo::hip
