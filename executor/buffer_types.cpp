#include "buffer_types.h"

#include <fmt/format.h>

#include "name_template.h"

namespace rondo {

const Tensor& WeightFinder::find(const Scope& scope, const BufferDeclaration& declaration,
                                 const std::string& buffer) {
  const WeightFile& file = file_of(declaration);
  std::vector<std::string> tried;
  const Tensor* tensor = nullptr;
  for (const Template& name : declaration.tensors) {
    tried.push_back(scope.interpolate(name));
    tensor = file.find(tried.back());
    if (tensor != nullptr) break;
  }
  if (tensor == nullptr) {
    throw Complaint{.pointer = declaration.pointer,
                    .message = fmt::format("{} has no tensor \"{}\" for the weight \"{}\".{}",
                                           file.path().string(), fmt::join(tried, "\", nor \""), buffer,
                                           suggest(tried.front(), file.tensor_names()))};
  }
  if (!tensor->type) {
    throw Complaint{
        .pointer = declaration.pointer,
        .message = fmt::format("the tensor \"{}\" is of type {}, which Rondo cannot read yet", tensor->name,
                               tensor->type_name),
        .hint = "Types it reads: F16, BF16, F32, F64, I8, I16, I32, I64, Q4_0, Q4_1, Q6_K, Q8_0."};
  }
  return *tensor;
}

bool WeightFinder::is_random(const BufferDeclaration& declaration) const noexcept {
  return declaration.role == Role::weight && options_.random_weights && !declaration.file;
}

DataType WeightFinder::type_of(const Scope& scope, const BufferDeclaration& declaration,
                               const std::string& buffer) {
  if (declaration.type) return *declaration.type;
  if (!is_random(declaration)) return *find(scope, declaration, buffer).type;
  const DataType type = options_.random_weights->type;
  return declaration.shape.size() < 2 && !is_plain(type) ? DataType::f32 : type;
}

const WeightFile& WeightFinder::file_of(const BufferDeclaration& declaration) {
  if (declaration.file) {
    const std::filesystem::path path = schedule_.directory() / declaration.file->value;
    auto& file = files_[path.string()];
    if (!file) {
      file = WeightFile::open(path);
      plan_.files.push_back(file);
    }
    return *file;
  }
  if (!options_.weights) {
    throw Complaint{.pointer = declaration.pointer,
                    .message = fmt::format("the weight \"{}\" comes from a weight file, and none was given",
                                           declaration.name.value),
                    .hint =
                        "Give one with --weights FILE (.gguf, .safetensors, .npy, or a folder), or --weights "
                        "random:f16."};
  }
  return *options_.weights;
}

const DataType* BufferTypes::find(Scope& scope, const std::string& name) {
  for (std::size_t i = 0; i < states_.size() && !types_.contains(name); ++i) {
    const bool may_have = may_be_same_name(schedule_.buffers[i].name.value, name);
    if (may_have && states_[i] != State::known) expand(scope, i);
  }
  const auto found = types_.find(name);
  return found == types_.end() ? nullptr : &found->second;
}

std::vector<std::string> BufferTypes::names() const {
  std::vector<std::string> names;
  for (const auto& [name, type] : types_) names.push_back(name);
  return names;
}

void BufferTypes::expand(Scope& scope, std::size_t index) {
  const BufferDeclaration& declaration = schedule_.buffers[index];
  if (states_[index] == State::under_way) {
    throw Complaint{
        .pointer = declaration.pointer,
        .message = fmt::format("the type of the buffer \"{}\" depends on itself", declaration.name.value)};
  }
  states_[index] = State::under_way;
  try {
    for_each_member(scope, declaration.family, [&] {
      const std::string name = scope.interpolate(declaration.name);
      types_.emplace(name, weights_.type_of(scope, declaration, name));
    });
  } catch (...) {
    states_[index] = State::unknown;
    throw;
  }
  states_[index] = State::known;
}

}  // namespace rondo
