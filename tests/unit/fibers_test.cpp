#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "host/block_runner.h"
#include "host/pool.h"

namespace rondo::host {
namespace {

// What the kernels of these tests write to.
struct Trace {
  std::vector<int> order;
  std::vector<unsigned> wrong;
};

KernelWork make_work(rondo_host_entry entry, const Trace* const* trace, Dim3 grid, Dim3 block) {
  return {entry, reinterpret_cast<const unsigned char*>(trace), grid, block};
}

Trace& trace_of(const unsigned char* arguments) {
  Trace* trace = nullptr;
  std::memcpy(&trace, arguments, sizeof trace);
  return *trace;
}

template <class Thread>
void for_each_thread(rondo_host_block* block, Thread thread) {
  while (block->next_thread < block->thread_count) {
    const unsigned i = block->next_thread++;
    block->thread_idx = {i % block->block_dim.x, i / block->block_dim.x % block->block_dim.y,
                         i / (block->block_dim.x * block->block_dim.y)};
    thread(i);
  }
}

void two_phases(rondo_host_block* block, const unsigned char* arguments) {
  Trace& trace = trace_of(arguments);
  for_each_thread(block, [&](unsigned i) {
    trace.order.push_back(static_cast<int>(i));
    block->barrier(block);
    trace.order.push_back(static_cast<int>(100 + i));
    const auto& t = block->thread_idx;
    if ((t.z * block->block_dim.y + t.y) * block->block_dim.x + t.x != i) trace.wrong.push_back(i);
  });
}

TEST(BlockRunner, AllThreadsReachTheBarrierBeforeAnyPassesItAndKeepTheirIndex) {
  BlockRunner runner;
  Trace trace;
  const Trace* pointer = &trace;
  ASSERT_TRUE(runner.run(make_work(two_phases, &pointer, {}, {2, 3, 2}), 0, 1));
  std::vector<int> expected;
  for (int i = 0; i < 12; ++i) expected.push_back(i);
  for (int i = 0; i < 12; ++i) expected.push_back(100 + i);
  EXPECT_EQ(trace.order, expected);
  EXPECT_TRUE(trace.wrong.empty());
}

void early_exit(rondo_host_block* block, const unsigned char* arguments) {
  Trace& trace = trace_of(arguments);
  for_each_thread(block, [&](unsigned i) {
    if (i % 3 == 0) return;
    for (int round = 0; round < 3; ++round) {
      block->barrier(block);
      if (i % 3 == 1 && round == 1) return;
    }
    trace.order.push_back(static_cast<int>(i));
  });
}

TEST(BlockRunner, ThreadsThatReturnedCountAsArrived) {
  BlockRunner runner;
  Trace trace;
  const Trace* pointer = &trace;
  ASSERT_TRUE(runner.run(make_work(early_exit, &pointer, {}, {11}), 0, 1));
  EXPECT_EQ(trace.order, (std::vector<int>{2, 5, 8}));
}

void without_barrier(rondo_host_block* block, const unsigned char* arguments) {
  for_each_thread(block, [&](unsigned i) {
    trace_of(arguments).order.push_back(
        static_cast<int>(1000 * block->block_idx.x + 100 * block->block_idx.y + i));
  });
}

TEST(BlockRunner, RunsTheBlocksOfARangeWithXFastest) {
  BlockRunner runner;
  Trace trace;
  const Trace* pointer = &trace;
  ASSERT_TRUE(runner.run(make_work(without_barrier, &pointer, {2, 3}, {2}), 1, 4));
  EXPECT_EQ(trace.order, (std::vector<int>{1000, 1001, 100, 101, 1100, 1101}));
}

TEST(BlockRunner, RunsABlockOfAThousandWaitingThreadsAgainAndAgain) {
  BlockRunner runner;
  for (int repeat = 0; repeat < 3; ++repeat) {
    Trace trace;
    const Trace* pointer = &trace;
    ASSERT_TRUE(runner.run(make_work(two_phases, &pointer, {}, {1024}), 0, 1));
    ASSERT_EQ(trace.order.size(), 2048U);
    EXPECT_EQ(trace.order.front(), 0);
    EXPECT_EQ(trace.order[1024], 100);
    EXPECT_EQ(trace.order.back(), 1123);
    EXPECT_TRUE(trace.wrong.empty());
  }
}

void count(rondo_host_block* block, const unsigned char* arguments) {
  std::atomic<int>* counts = nullptr;
  std::memcpy(&counts, arguments, sizeof counts);
  for_each_thread(block, [&](unsigned) {
    const auto& i = block->block_idx;
    counts[(i.z * block->grid_dim.y + i.y) * block->grid_dim.x + i.x].fetch_add(1);
  });
}

TEST(Pool, RunsEveryBlockExactlyOnceFromSeveralStreamsAtOnce) {
  Pool pool(4);
  const auto stream = [&pool] {
    BlockRunner runner;
    for (std::uint32_t repeat = 0; repeat < 500; ++repeat) {
      const Dim3 grid{1 + repeat % 37, 1 + repeat % 3, 1 + repeat % 2};
      std::vector<std::atomic<int>> counts(std::size_t{grid.x} * grid.y * grid.z);
      std::atomic<int>* pointer = counts.data();
      ASSERT_TRUE(pool.run({count, reinterpret_cast<const unsigned char*>(&pointer), grid, {}}, runner));
      for (const std::atomic<int>& blocks : counts) ASSERT_EQ(blocks.load(), 1);
    }
  };
  std::thread first(stream), second(stream);
  first.join();
  second.join();
}

}  // namespace
}  // namespace rondo::host
