// What the hot path of a captured graph asks of the heap: nothing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "fake_foreign_graphs.h"
#include "rondo/captured_graph.h"

namespace {
std::size_t allocations = 0;
}

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace rondo {
namespace {

TEST(CapturedApply, ChangingAndApplyingAllocatesNothing) {
  constexpr std::uint64_t begin = 0x7f0000100000;
  const FakeDevice fake;
  fake.graphs().allocations = {{begin, 0x1000}};
  fake.graphs().keeps_updates = false;
  FakeGraph graph;
  for (int i = 0; i < 100; ++i) graph.add_kernel("k", {argument_of(begin), argument_of(i)});
  graph.add_copy(begin, true, begin + 64, true);
  graph.add_set(begin, 0);
  auto captured = CapturedGraph::adopt(fake.device, graph.handle());
  captured.allocation(begin);  // from here on it is known
  int exec = 0, other_exec = 0;

  const std::size_t before = allocations;
  for (int step = 0; step < 50; ++step) {
    const std::uint64_t address = begin + 256 + 8 * static_cast<std::uint64_t>(step);
    for (std::size_t node = 0; node < 102; ++node) {
      captured.set_argument(node, 0, std::as_bytes(std::span(&address, 1)));
    }
    ASSERT_TRUE(captured.apply(step % 2 == 0 ? &exec : &other_exec).ok());
  }
  EXPECT_EQ(allocations - before, 0U);
  EXPECT_EQ(fake.graphs().update_count, 50U * 102);
}

}  // namespace
}  // namespace rondo
