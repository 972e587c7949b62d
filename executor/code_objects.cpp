#include "code_objects.h"

#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>

#include "amd_code_object.h"
#include "cubin.h"
#include "fat_binary.h"
#include "mapped_file.h"
#include "rondo/error.h"

namespace rondo {
namespace {

bool are_same(const std::vector<ParameterLayout>& a, const std::vector<ParameterLayout>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.offset == y.offset && x.size == y.size; });
}

template <class Parameters>
std::vector<ParameterLayout> to_layout(const Parameters& parameters) {
  std::vector<ParameterLayout> layout;
  for (const auto& parameter : parameters) layout.push_back({parameter.offset, parameter.size});
  return layout;
}

[[noreturn]] void refuse(const std::string& kernel, const std::string& one, const std::string& other) {
  throw Error(
      ErrorCode::bad_argument,
      fmt::format("the layout of kernel \"{}\" is not certain: {} and {} both have one of this name, with "
                  "different parameters",
                  kernel, one, other),
      "name the file with the one that is meant, which is then taken before all others");
}

std::string describe(const LayoutIndex::LeftOut& left_out) {
  if (left_out.empty()) return "";
  constexpr std::size_t shown = 3;
  std::string text;
  std::size_t i = 0;
  for (const auto& [what, count] : left_out) {
    if (i++ == shown) break;
    text += text.empty() ? " Not searched: " : ", ";
    text += count == 1 ? what : fmt::format("{} (and {} more there)", what, count - 1);
  }
  return left_out.size() <= shown ? text + "."
                                  : fmt::format("{}, and {} more.", text, left_out.size() - shown);
}

// How often this process has loaded and unloaded something.
struct Generation {
  unsigned long long loads = 0, unloads = 0;
  bool operator==(const Generation&) const = default;

  static Generation now() {
    Generation generation;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
          *static_cast<Generation*>(data) = {info->dlpi_adds, info->dlpi_subs};
          return 1;  // the same in all of them
        },
        &generation);
    return generation;
  }
};

std::vector<std::string> loaded_files() {
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        const std::string_view name = info->dlpi_name != nullptr ? info->dlpi_name : "";
        static_cast<std::vector<std::string>*>(data)->emplace_back(name.empty() ? "/proc/self/exe" : name);
        return 0;
      },
      &files);
  return files;
}

// What tells a file from another one that has taken its name.
struct Identity {
  dev_t device;
  ino_t inode;
  off_t bytes;
  time_t seconds;
  long nanoseconds;
  bool operator==(const Identity&) const = default;

  static std::optional<Identity> of(const std::string& file) {
    struct stat found {};
    if (stat(file.c_str(), &found) != 0) return std::nullopt;
    return Identity{found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
  }
};

}  // namespace

bool LayoutIndex::read(std::span<const std::byte> content, const std::string& name) {
  bool has_code = false;
  const auto put = [&](const std::string& kernel, std::vector<ParameterLayout> layout) {
    if (const auto known = kernels_.find(kernel); known == kernels_.end()) {
      kernels_.emplace(kernel, Found{std::move(layout), name, {}});
    } else if (!are_same(known->second.layout, layout)) {
      known->second.other = name;
    }
  };
  const auto leave_out = [&](const std::string& why) {
    has_code = true;
    ++left_out_[fmt::format("{} in {}", why, name)];
  };
  const auto read_code = [&](rtc::CodeKind kind, std::span<const std::byte> code) {
    has_code = true;
    try {
      if (kind == rtc::CodeKind::cubin) {
        for (const auto& kernel : rtc::read_cubin(code)) put(kernel.name, to_layout(kernel.parameters));
      } else {
        for (const auto& kernel : rtc::read_amd_code_object(code).kernels)
          put(kernel.name, to_layout(kernel.arguments));
      }
    } catch (const Error& error) {
      leave_out(fmt::format("a damaged code object ({})", error.what()));
    }
  };
  rtc::visit_code(content, {read_code, leave_out});
  return has_code;
}

const LayoutIndex::Found* LayoutIndex::find(const std::string& kernel) const {
  const auto found = kernels_.find(kernel);
  return found != kernels_.end() ? &found->second : nullptr;
}

struct LoadedCodeObjects::State {
  struct File {
    Identity identity;
    LayoutIndex index;
  };
  std::optional<Generation> generation;  // of the last search
  std::map<std::string, File> files;
};

LoadedCodeObjects::LoadedCodeObjects() : state_(std::make_unique<State>()) {}
LoadedCodeObjects::~LoadedCodeObjects() = default;

void LoadedCodeObjects::refresh() const {
  const Generation now = Generation::now();
  if (state_->generation == now) return;
  std::map<std::string, State::File> files;
  for (const std::string& name : loaded_files()) {
    const auto identity = Identity::of(name);
    const auto known = state_->files.find(name);
    // One that has gone meanwhile is what it was.
    if (known != state_->files.end() && (!identity || known->second.identity == *identity)) {
      files.insert(state_->files.extract(known));
      continue;
    }
    if (!identity) continue;  // no file, as the kernel's own library
    State::File& file = files[name];
    file.identity = *identity;
    try {
      static_cast<void>(file.index.read(MappedFile(name).bytes(), name));
    } catch (const Error&) {
      // One that the loader read otherwise: nothing of it is known, as before.
    }
  }
  state_->files = std::move(files);
  state_->generation = now;
}

std::optional<std::vector<ParameterLayout>> LoadedCodeObjects::layout(const std::string& kernel) const {
  const std::lock_guard lock(mutex_);
  refresh();
  const LayoutIndex::Found* first = nullptr;
  for (const auto& [name, file] : state_->files) {
    const LayoutIndex::Found* const found = file.index.find(kernel);
    if (found == nullptr) continue;
    if (!found->other.empty()) refuse(kernel, found->where, found->other);
    if (first != nullptr && !are_same(first->layout, found->layout))
      refuse(kernel, first->where, found->where);
    first = found;
  }
  if (first == nullptr) return std::nullopt;
  return first->layout;
}

LayoutIndex::LeftOut LoadedCodeObjects::all_left_out() const {
  const std::lock_guard lock(mutex_);
  LayoutIndex::LeftOut all;
  for (const auto& [name, file] : state_->files)
    all.insert(file.index.left_out().begin(), file.index.left_out().end());
  return all;
}

std::string LoadedCodeObjects::left_out() const { return describe(all_left_out()); }

SearchedCodeObjects::SearchedCodeObjects(std::span<const std::string> files,
                                         std::shared_ptr<const LoadedCodeObjects> loaded)
    : loaded_(std::move(loaded)) {
  for (const std::string& file : files) add(MappedFile(file).bytes(), file);
}

void SearchedCodeObjects::add(std::span<const std::byte> content, const std::string& name) {
  bool has_code = false;
  try {
    has_code = given_.read(content, name);
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_argument, fmt::format("\"{}\": {}", name, error.what()));
  }
  if (has_code) return;
  throw Error(ErrorCode::bad_argument, fmt::format("\"{}\" has no kernels for a GPU", name),
              "a cubin, an AMD code object, a fat binary, an offload bundle, or a program or library with "
              "such in it was expected");
}

std::optional<std::vector<ParameterLayout>> SearchedCodeObjects::layout(const std::string& kernel) const {
  const LayoutIndex::Found* const found = given_.find(kernel);
  if (found == nullptr) return loaded_->layout(kernel);
  if (!found->other.empty()) refuse(kernel, found->where, found->other);
  return found->layout;
}

std::string SearchedCodeObjects::left_out() const {
  LayoutIndex::LeftOut all = loaded_->all_left_out();
  all.insert(given_.left_out().begin(), given_.left_out().end());
  return describe(all);
}

}  // namespace rondo
