// Where the layout of a kernel's arguments comes from when the driver cannot be asked (HIP, CUDA
// before 12.4): code objects, by the kernel's mangled name.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver.h"

namespace rondo {

class CodeObjects {
 public:
  virtual ~CodeObjects() = default;
  // Throws Error(bad_argument) where several have a kernel of this name, with different parameters.
  virtual std::optional<std::vector<ParameterLayout>> layout(const std::string& kernel) const = 0;
  // For people: what was there and could not be searched, a sentence with a space in front; "" for none.
  virtual std::string left_out() const { return ""; }
};

// Names and layouts of the kernels in files, of which nothing else is kept.
class LayoutIndex {
 public:
  struct Found {
    std::vector<ParameterLayout> layout;
    std::string where;  // the first file that has it
    std::string other;  // one that has it with other parameters
  };
  using LeftOut = std::map<std::string, std::size_t>;  // "a compressed cubin in libx.so": how many

  // Whether there is any code in `content`; `name` is what errors call it. Throws Error(bad_argument) for
  // what is damaged.
  bool read(std::span<const std::byte> content, const std::string& name);
  const Found* find(const std::string& kernel) const;
  const LeftOut& left_out() const noexcept { return left_out_; }

 private:
  std::map<std::string, Found> kernels_;
  LeftOut left_out_;
};

// The GPU code in the ELF files that this process has loaded (sections .nv_fatbin and .hip_fatbin). They are
// read when a kernel is first looked for, and again only what has been loaded, unloaded or replaced since.
// May be used by several threads.
class LoadedCodeObjects final : public CodeObjects {
 public:
  LoadedCodeObjects();
  ~LoadedCodeObjects() override;

  std::optional<std::vector<ParameterLayout>> layout(const std::string& kernel) const override;
  std::string left_out() const override;
  LayoutIndex::LeftOut all_left_out() const;

 private:
  struct State;
  void refresh() const;  // under the mutex

  mutable std::mutex mutex_;
  const std::unique_ptr<State> state_;
};

// The caller's files, and then those of the process. May be used by several threads.
class SearchedCodeObjects final : public CodeObjects {
 public:
  // Throws Error(bad_argument) that names the file for one that is missing or has no GPU code in it.
  explicit SearchedCodeObjects(
      std::span<const std::string> files = {},
      std::shared_ptr<const LoadedCodeObjects> loaded = std::make_shared<LoadedCodeObjects>());

  // The same for what is in memory; `name` is what errors call it. Not while another thread uses this.
  void add(std::span<const std::byte> content, const std::string& name);

  std::optional<std::vector<ParameterLayout>> layout(const std::string& kernel) const override;
  std::string left_out() const override;

 private:
  LayoutIndex given_;
  const std::shared_ptr<const LoadedCodeObjects> loaded_;
};

}  // namespace rondo
