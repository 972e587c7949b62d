// Graphs as others make them: by the vendor's own calls, past Rondo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "driver.h"

namespace rondo::conformance {

// How a kernel node is given its arguments.
enum class ArgumentForm { pointers, packed };

// Nodes of one device, in graphs of Driver::create_graph. All calls throw std::runtime_error with the
// vendor's code where it refuses.
class GraphMaker {
 public:
  virtual ~GraphMaker() = default;
  GraphMaker(const GraphMaker&) = delete;
  GraphMaker& operator=(const GraphMaker&) = delete;

  // `backend`: "cuda", "hip". Keeps a context current on the calling thread, where the vendor needs one.
  static std::unique_ptr<GraphMaker> make(const std::string& backend);

  // `layout`: of the kernel's parameters in the packed arguments. What was given is overwritten afterwards.
  virtual NodeHandle add_kernel(GraphHandle graph, const KernelLaunch& launch,
                                std::span<const ParameterLayout> layout, ArgumentForm form) = 0;
  // Rows of `width` bytes, `pitch` apart.
  virtual NodeHandle add_copy(GraphHandle graph, DevicePointer to, DevicePointer from, std::size_t width,
                              std::size_t height = 1, std::size_t pitch = 0) = 0;
  // `offset`: in bytes, as the vendor's own field for it.
  virtual NodeHandle add_copy_from_host(GraphHandle graph, DevicePointer to, std::size_t offset,
                                        const void* from, std::size_t bytes) = 0;
  virtual NodeHandle add_fill(GraphHandle graph, DevicePointer to, std::uint32_t value,
                              std::uint32_t element_bytes, std::size_t width) = 0;
  virtual NodeHandle add_child(GraphHandle graph, GraphHandle child) = 0;  // copied
  virtual NodeHandle add_empty(GraphHandle graph) = 0;

 protected:
  GraphMaker() = default;
};

}  // namespace rondo::conformance
