#include "code_objects.h"

#include <fmt/format.h>
#include <link.h>

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

int add_name(dl_phdr_info* info, std::size_t, void* data) {
  const std::string_view name = info->dlpi_name != nullptr ? info->dlpi_name : "";
  static_cast<std::vector<std::string>*>(data)->emplace_back(name.empty() ? "/proc/self/exe" : name);
  return 0;
}

}  // namespace

SearchedCodeObjects::SearchedCodeObjects(std::span<const std::string> files) {
  for (const std::string& file : files) add(MappedFile(file).bytes(), file);
}

void SearchedCodeObjects::add(std::span<const std::byte> content, const std::string& name) {
  const std::lock_guard lock(mutex_);
  bool has_code = false;
  try {
    has_code = read(content, name, given_);
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_argument, fmt::format("\"{}\": {}", name, error.what()));
  }
  if (has_code) return;
  throw Error(ErrorCode::bad_argument, fmt::format("\"{}\" has no kernels for a GPU", name),
              "a cubin, an AMD code object, a fat binary, an offload bundle, or a program or library with "
              "such in it was expected");
}

bool SearchedCodeObjects::read(std::span<const std::byte> content, const std::string& name,
                               Index& index) const {
  bool has_code = false;
  const auto put = [&](const std::string& kernel, std::vector<ParameterLayout> layout) {
    if (const auto known = index.find(kernel); known == index.end()) {
      index.emplace(kernel, Found{std::move(layout), name, {}});
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

void SearchedCodeObjects::search_process() const {
  std::vector<std::string> files;
  dl_iterate_phdr(add_name, &files);
  for (const std::string& file : files) {
    if (!searched_.insert(file).second) continue;
    try {
      static_cast<void>(read(MappedFile(file).bytes(), file, loaded_));
    } catch (const Error&) {
      // No file, as the kernel's own library, or one that the loader read otherwise: nothing of it is known,
      // as before.
    }
  }
}

std::optional<std::vector<ParameterLayout>> SearchedCodeObjects::layout(const std::string& kernel) const {
  const std::lock_guard lock(mutex_);
  const Index* index = &given_;
  auto found = given_.find(kernel);
  if (found == given_.end()) {
    index = &loaded_;
    found = loaded_.find(kernel);
  }
  if (found == index->end()) {
    search_process();
    found = loaded_.find(kernel);
  }
  if (found == index->end()) return std::nullopt;
  if (!found->second.other.empty()) {
    throw Error(
        ErrorCode::bad_argument,
        fmt::format("the layout of kernel \"{}\" is not certain: {} and {} both have one of this name, with "
                    "different parameters",
                    kernel, found->second.where, found->second.other),
        "name the file with the one that is meant, which is then taken before all others");
  }
  return found->second.layout;
}

std::string SearchedCodeObjects::left_out() const {
  const std::lock_guard lock(mutex_);
  if (left_out_.empty()) return "";
  constexpr std::size_t shown = 3;
  std::string text;
  std::size_t i = 0;
  for (const auto& [what, count] : left_out_) {
    if (i++ == shown) break;
    text += text.empty() ? " Not searched: " : ", ";
    text += count == 1 ? what : fmt::format("{} (and {} more there)", what, count - 1);
  }
  return left_out_.size() <= shown ? text + "."
                                   : fmt::format("{}, and {} more.", text, left_out_.size() - shown);
}

}  // namespace rondo
