// Code objects by their files: what the caller names, and what this process has loaded.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "foreign_graphs.h"

namespace rondo {

// The caller's files come first. The ELF files that the process has loaded (dl_iterate_phdr) are read when a
// kernel is first looked for that those do not have, once more after others have been loaded, and searched
// for sections .nv_fatbin and .hip_fatbin. Nothing of a file is kept but names and layouts. May be used by
// several threads.
class SearchedCodeObjects final : public CodeObjects {
 public:
  // Throws Error(bad_argument) that names the file for one that is missing or has no GPU code in it.
  explicit SearchedCodeObjects(std::span<const std::string> files = {});

  // The same for what is in memory; `name` is what errors call it.
  void add(std::span<const std::byte> content, const std::string& name);

  std::optional<std::vector<ParameterLayout>> layout(const std::string& kernel) const override;
  std::string left_out() const override;

 private:
  struct Found {
    std::vector<ParameterLayout> layout;
    std::string where;  // the first file that has it
    std::string other;  // one that has it with other parameters
  };
  using Index = std::map<std::string, Found, std::less<>>;

  // Whether there was any code in it.
  bool read(std::span<const std::byte> content, const std::string& name, Index& index) const;
  void search_process() const;

  mutable std::mutex mutex_;
  mutable Index given_, loaded_;
  mutable std::set<std::string> searched_;               // files of the process
  mutable std::map<std::string, std::size_t> left_out_;  // "a compressed cubin in libx.so": how many
};

}  // namespace rondo
