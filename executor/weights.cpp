#include "rondo/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "file_error.h"
#include "gguf.h"
#include "mapped_file.h"
#include "npy.h"
#include "safetensors.h"

namespace rondo {
namespace {

constexpr const char* accepted =
    "Give a .gguf, .safetensors or .npy file, or a folder of a safetensors model or of .npy files.";

}  // namespace

struct WeightFile::State {
  std::filesystem::path path;
  std::vector<MappedFile> files;
  std::vector<Tensor> tensors;
  std::vector<std::pair<std::string, MetadataValue>> metadata;
  // Keys are views into the two lists above, which no longer change when these are filled.
  std::map<std::string_view, std::size_t> tensor_index;
  std::map<std::string_view, std::size_t> metadata_index;

  void open_file() {
    if (path.string().ends_with(".index.json")) return open_safetensors_index(path);
    files.emplace_back(path);
    const std::span<const std::byte> bytes = files.back().bytes();
    if (looks_like_gguf(bytes)) {
      GgufContents contents = read_gguf(bytes, path.string());
      tensors = std::move(contents.tensors);
      metadata = std::move(contents.metadata);
    } else if (looks_like_npy(bytes)) {
      tensors.push_back(read_npy(bytes, path.string(), path.stem().string()));
    } else if (looks_like_safetensors(path, bytes)) {
      tensors = read_safetensors(bytes, path.string());
      metadata = read_config(path.parent_path() / "config.json");
    } else {
      throw_file_error(ErrorCode::bad_argument, path.string(),
                       "at byte 0: neither a GGUF nor an .npy nor a safetensors file: it begins with neither "
                       "\"GGUF\" nor \"\\x93NUMPY\" nor a header's length and \"{\"",
                       accepted);
    }
  }

  void open_safetensors_index(const std::filesystem::path& index) {
    tensors = read_safetensors_index(index, files);
    metadata = read_config(index.parent_path() / "config.json");
  }

  void open_folder() {
    std::vector<std::filesystem::path> paths, safetensors;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->path().extension() == ".npy") paths.push_back(entry->path());
      if (entry->path().extension() == ".safetensors") safetensors.push_back(entry->path());
    }
    if (error) {
      throw_file_error(ErrorCode::bad_argument, path.string(),
                       fmt::format("the folder cannot be read: {}", error.message()),
                       "Check its permissions.");
    }
    const std::filesystem::path index = path / "model.safetensors.index.json";
    if (std::filesystem::exists(index, error)) return open_safetensors_index(index);
    if (safetensors.size() > 1) {
      throw_file_error(
          ErrorCode::bad_argument, path.string(),
          fmt::format("a folder with {} .safetensors files and no model.safetensors.index.json that says "
                      "which tensor is in which",
                      safetensors.size()),
          "Give the index, or one of the files.");
    }
    if (!safetensors.empty()) {
      path = safetensors.front();
      return open_file();
    }
    if (paths.empty()) {
      throw_file_error(ErrorCode::bad_argument, path.string(),
                       "a folder with no .safetensors and no .npy file in it", accepted);
    }
    // A folder lists its files in no order of its own.
    std::sort(paths.begin(), paths.end());
    for (const std::filesystem::path& each : paths) {
      files.emplace_back(each);
      tensors.push_back(read_npy(files.back().bytes(), each.string(), each.stem().string()));
    }
  }
};

WeightFile::WeightFile() : state_(std::make_unique<State>()) {}
WeightFile::~WeightFile() = default;

std::shared_ptr<const WeightFile> WeightFile::open(const std::filesystem::path& path) {
  const std::shared_ptr<WeightFile> file(new WeightFile);
  State& state = *file->state_;
  state.path = path;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    state.open_folder();
  } else {
    state.open_file();
  }
  for (std::size_t i = 0; i < state.tensors.size(); ++i) state.tensor_index.emplace(state.tensors[i].name, i);
  for (std::size_t i = 0; i < state.metadata.size(); ++i)
    state.metadata_index.emplace(state.metadata[i].first, i);
  return file;
}

const std::filesystem::path& WeightFile::path() const noexcept { return state_->path; }
const std::vector<Tensor>& WeightFile::tensors() const noexcept { return state_->tensors; }

const Tensor* WeightFile::find(std::string_view name) const noexcept {
  const auto found = state_->tensor_index.find(name);
  return found == state_->tensor_index.end() ? nullptr : &state_->tensors[found->second];
}

const MetadataValue* WeightFile::metadata(std::string_view key) const noexcept {
  const auto found = state_->metadata_index.find(key);
  return found == state_->metadata_index.end() ? nullptr : &state_->metadata[found->second].second;
}

std::vector<std::string> WeightFile::tensor_names() const {
  std::vector<std::string> names;
  for (const Tensor& tensor : state_->tensors) names.push_back(tensor.name);
  return names;
}

std::vector<std::string> WeightFile::metadata_keys() const {
  std::vector<std::string> keys;
  for (const auto& pair : state_->metadata) keys.push_back(pair.first);
  return keys;
}

}  // namespace rondo
