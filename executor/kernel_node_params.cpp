#include "rondo/kernel_node_params.h"

#include <fmt/format.h>

#include "captured_state.h"
#include "code_objects.h"
#include "demangle.h"
#include "foreign_graphs.h"
#include "rondo/device.h"
#include "rondo/error.h"

namespace rondo {

KernelNodeParams::KernelNodeParams(std::unique_ptr<ForeignKernel> kernel) noexcept
    : kernel_(std::move(kernel)) {}
KernelNodeParams::KernelNodeParams(KernelNodeParams&&) noexcept = default;
KernelNodeParams& KernelNodeParams::operator=(KernelNodeParams&&) noexcept = default;
KernelNodeParams::~KernelNodeParams() = default;

KernelNodeParams KernelNodeParams::copy(Device& device, void* node, const AdoptOptions& options) {
  ForeignGraphs& graphs = foreign_graphs(device);
  const SearchedCodeObjects code_objects(options.code_object_files, graphs.loaded_code_objects());
  if (node == nullptr) throw Error(ErrorCode::bad_argument, "the graph node is null");
  const auto handle = static_cast<NodeHandle>(node);
  const ForeignNodeKind kind = graphs.kind(handle);
  if (kind != ForeignNodeKind::kernel) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("expected a kernel node, the node given is a {} node", kind_name(kind)));
  }
  return KernelNodeParams(std::make_unique<ForeignKernel>(graphs.read_kernel(handle, &code_objects)));
}

const std::string& KernelNodeParams::name() const noexcept { return kernel_->name; }
std::string KernelNodeParams::demangled_name() const { return demangle(kernel_->name); }
void* KernelNodeParams::function() const noexcept { return kernel_->function; }
const LaunchShape& KernelNodeParams::shape() const noexcept { return kernel_->shape; }
bool KernelNodeParams::is_cooperative() const noexcept { return kernel_->is_cooperative; }
Dim3 KernelNodeParams::cluster() const noexcept { return kernel_->cluster; }
std::size_t KernelNodeParams::arguments() const noexcept { return kernel_->layout.size(); }

std::span<const std::byte> KernelNodeParams::argument(std::size_t i) const noexcept {
  if (i >= kernel_->layout.size()) return {};
  return packed().subspan(kernel_->layout[i].offset, kernel_->layout[i].size);
}

std::size_t KernelNodeParams::offset(std::size_t i) const noexcept {
  return i < kernel_->layout.size() ? kernel_->layout[i].offset : 0;
}

std::span<const std::byte> KernelNodeParams::packed() const noexcept { return kernel_->arguments; }

}  // namespace rondo
