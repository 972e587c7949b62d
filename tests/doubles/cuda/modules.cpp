// Modules and the kernels in them.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "objects.h"

namespace rondo::cuda {
namespace {

template <class T>
T read_at(const std::byte* image, std::size_t offset) {
  T value;
  std::memcpy(&value, image + offset, sizeof value);
  return value;
}

// cuModuleLoadDataEx is given an address and no size: the headers say how far the file goes.
std::size_t size_of(const std::byte* image, const Elf64_Ehdr& header) {
  std::size_t size = std::max(header.e_phoff + std::size_t{header.e_phnum} * header.e_phentsize,
                              header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(image, header.e_phoff + i * sizeof(Elf64_Phdr));
    size = std::max<std::size_t>(size, segment.p_offset + segment.p_filesz);
  }
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS)
      size = std::max<std::size_t>(size, section.sh_offset + section.sh_size);
  }
  return size;
}

// The buffer that the caller gave for messages.
struct ErrorLog {
  char* text = nullptr;
  std::size_t bytes = 0;

  void write(const char* message) const {
    if (text == nullptr || bytes == 0) return;
    const std::size_t copied = std::min(std::strlen(message), bytes - 1);
    std::memcpy(text, message, copied);
    text[copied] = '\0';
  }
};

bool read_options(unsigned count, const JitOption* options, void* const* values, ErrorLog& log) {
  if (count != 0 && (options == nullptr || values == nullptr)) return false;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == JitOption::error_log) {
      log.text = static_cast<char*>(values[i]);
    } else if (options[i] == JitOption::error_log_bytes) {
      log.bytes = reinterpret_cast<std::uintptr_t>(values[i]);
    } else {
      return false;
    }
  }
  return true;
}

Result load(Module* module, const std::byte* image, const ErrorLog& log) {
  if (std::strncmp(reinterpret_cast<const char*>(image), ELFMAG, SELFMAG) != 0) {
    log.write("not one of the double's own cubins");
    return invalid_image;
  }
  const auto header = read_at<Elf64_Ehdr>(image, 0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN) {
    log.write("a cubin of a real GPU: the double takes those that its own libnvrtc makes");
    return no_binary_for_gpu;
  }
  auto object = std::make_shared<ModuleObject>();
  try {
    object->native = doubles::host().load_module(std::span(image, size_of(image, header)));
  } catch (const Error& error) {
    log.write(error.what());
    return invalid_image;
  }
  *module = objects().modules.add(std::move(object));
  return Result::success;
}

Result unload(Module module) {
  const auto object = objects().modules.take(module);
  if (object == nullptr) return invalid_handle;
  object->loaded = false;
  {
    const std::lock_guard lock(object->mutex);
    for (const auto& [name, function] : object->functions) objects().functions.take(function);
  }
  doubles::host().unload_module(object->native);
  return Result::success;
}

// Null where the module has no such kernel.
Function make_function(const std::shared_ptr<ModuleObject>& module, const char* name) {
  Driver& host = doubles::host();
  FunctionHandle native = nullptr;
  try {
    native = host.function(module->native, name);
  } catch (const Error&) {
    return nullptr;
  }
  auto parameters = host.function_info(native, 0).parameters;
  return objects().functions.add(
      std::shared_ptr<FunctionObject>(new FunctionObject{name, native, module, std::move(parameters)}));
}

Result find_function(Function* function, Module module, const char* name) {
  if (function == nullptr || name == nullptr) return Result::invalid_value;
  const auto object = objects().modules.find(module);
  if (object == nullptr) return invalid_handle;
  const std::lock_guard lock(object->mutex);
  Function& known = object->functions[name];
  if (known == nullptr) known = make_function(object, name);
  if (known == nullptr) return not_found;
  *function = known;
  return Result::success;
}

Result give_name(const FunctionObject& function, const char** name) {
  if (name == nullptr) return Result::invalid_value;
  *name = function.name.c_str();
  return Result::success;
}

Result give_parameter(const FunctionObject& function, std::size_t index, std::size_t* offset,
                      std::size_t* size) {
  if (offset == nullptr || index >= function.parameters.size()) return Result::invalid_value;
  *offset = function.parameters[index].offset;
  if (size != nullptr) *size = function.parameters[index].size;
  return Result::success;
}

template <class Body>
Result with_function(const char* name, Function function, Body body) noexcept {
  return in_context(name, [&] {
    const auto object = objects().functions.find(function);
    return object == nullptr ? invalid_handle : body(*object);
  });
}

template <class Body>
Result with_kernel(const char* name, Kernel kernel, Body body) noexcept {
  return in_context(name, [&] {
    const auto object = objects().kernels.find(kernel);
    const auto function = object == nullptr ? nullptr : objects().functions.find(object->function);
    return function == nullptr ? invalid_handle : body(*function);
  });
}

int largest_shared() { return static_cast<int>(doubles::host().properties().max_shared_bytes); }

}  // namespace

extern "C" {

Result cuModuleLoadDataEx(Module* module, const void* image, unsigned option_count, JitOption* options,
                          void** values) {
  return in_context("cuModuleLoadDataEx", [&] {
    ErrorLog log;
    if (module == nullptr || image == nullptr || !read_options(option_count, options, values, log))
      return Result::invalid_value;
    return load(module, static_cast<const std::byte*>(image), log);
  });
}

Result cuModuleUnload(Module module) {
  return in_context("cuModuleUnload", [&] { return unload(module); });
}

Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  return in_context("cuModuleGetFunction", [&] { return find_function(function, module, name); });
}

Result cuFuncLoad(Function function) {
  return with_function("cuFuncLoad", function, [](const FunctionObject&) { return Result::success; });
}

// A multiprocessor is one thread of the host's, which runs one block after another.
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function function, int threads,
                                                   std::size_t shared_bytes) {
  return with_function("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, [&](const FunctionObject&) {
    const DeviceProperties& host = doubles::host().properties();
    if (blocks == nullptr || threads <= 0) return Result::invalid_value;
    *blocks = static_cast<std::size_t>(threads) <= host.max_threads_per_block &&
                      shared_bytes <= host.max_shared_bytes
                  ? 1
                  : 0;
    return Result::success;
  });
}

Result cuFuncGetAttribute(int* value, FunctionAttribute attribute, Function function) {
  return with_function("cuFuncGetAttribute", function, [&](const FunctionObject& object) {
    if (value == nullptr) return Result::invalid_value;
    switch (attribute) {
      case FunctionAttribute::max_threads_per_block:
        *value = static_cast<int>(doubles::host().properties().max_threads_per_block);
        return Result::success;
      case FunctionAttribute::shared_bytes:
      case FunctionAttribute::local_bytes:
        *value = 0;
        return Result::success;
      case FunctionAttribute::registers:
        *value = 32;  // the host tells none
        return Result::success;
      case FunctionAttribute::max_dynamic_shared_bytes:
        *value = object.max_dynamic_shared;
        return Result::success;
    }
    return Result::invalid_value;
  });
}

Result cuFuncSetAttribute(Function function, FunctionAttribute attribute, int value) {
  return with_function("cuFuncSetAttribute", function, [&](FunctionObject& object) {
    if (attribute != FunctionAttribute::max_dynamic_shared_bytes || value < 0 || value > largest_shared())
      return Result::invalid_value;
    doubles::host().allow_dynamic_shared(object.native, static_cast<std::size_t>(value));
    object.max_dynamic_shared = value;
    return Result::success;
  });
}

Result cuFuncGetParamInfo(Function function, std::size_t index, std::size_t* offset, std::size_t* size) {
  return with_function("cuFuncGetParamInfo", function, [&](const FunctionObject& object) {
    return give_parameter(object, index, offset, size);
  });
}

Result cuFuncGetName(const char** name, Function function) {
  return with_function("cuFuncGetName", function,
                       [&](const FunctionObject& object) { return give_name(object, name); });
}

Result cuLibraryLoadData(Library* library, const void* code, JitOption*, void**, unsigned option_count, void*,
                         void**, unsigned library_option_count) {
  return in_context("cuLibraryLoadData", [&] {
    if (library == nullptr || code == nullptr || option_count != 0 || library_option_count != 0)
      return Result::invalid_value;
    Module module = nullptr;
    const Result result = load(&module, static_cast<const std::byte*>(code), {});
    if (result == Result::success)
      *library = objects().libraries.add(std::make_shared<LibraryObject>(LibraryObject{module, {}}));
    return result;
  });
}

Result cuLibraryUnload(Library library) {
  return in_context("cuLibraryUnload", [&] {
    const auto object = objects().libraries.take(library);
    if (object == nullptr) return invalid_handle;
    for (Kernel kernel : object->kernels) objects().kernels.take(kernel);
    return unload(object->module);
  });
}

Result cuLibraryGetKernel(Kernel* kernel, Library library, const char* name) {
  return in_context("cuLibraryGetKernel", [&] {
    const auto object = objects().libraries.find(library);
    if (object == nullptr) return invalid_handle;
    if (kernel == nullptr) return Result::invalid_value;
    Function function = nullptr;
    if (const Result result = find_function(&function, object->module, name); result != Result::success)
      return result;
    *kernel = objects().kernels.add(std::make_shared<KernelObject>(KernelObject{function}));
    object->kernels.push_back(*kernel);
    return Result::success;
  });
}

Result cuKernelGetName(const char** name, Kernel kernel) {
  return with_kernel("cuKernelGetName", kernel,
                     [&](const FunctionObject& object) { return give_name(object, name); });
}

Result cuKernelGetParamInfo(Kernel kernel, std::size_t index, std::size_t* offset, std::size_t* size) {
  return with_kernel("cuKernelGetParamInfo", kernel, [&](const FunctionObject& object) {
    return give_parameter(object, index, offset, size);
  });
}
}

}  // namespace rondo::cuda
