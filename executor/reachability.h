// Which nodes come before which, however many others lie between: exact, and cheap enough to keep for all
// nodes of a large plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rondo {

// Each node has one bit for every earlier node. Bits lie in pages, and nodes that share a page's content
// share the page: along a chain each node adds one page and a row of page numbers.
class Reachability {
 public:
  Reachability() : pages_(1) {}

  // The next node, behind all of `waits`, which are earlier nodes in any order, some perhaps twice. Leaves in
  // `waits`, ascending, those that do not come before another of them, and gives how many others there were.
  std::size_t add(std::vector<std::uint32_t>& waits);
  // Whether `earlier` comes before `later`. Both have been added, earlier <= later.
  bool is_before(std::uint32_t earlier, std::uint32_t later) const noexcept {
    return contains(row(later), earlier);
  }
  std::size_t size() const noexcept { return rows_.size(); }

 private:
  static constexpr std::uint32_t page_nodes = 2048;
  using Page = std::array<std::uint64_t, page_nodes / 64>;
  static constexpr std::uint32_t empty_page = 0;

  std::span<const std::uint32_t> row(std::uint32_t node) const noexcept {
    return {page_of_row_.data() + rows_[node], node / page_nodes + 1};
  }
  bool contains(std::span<const std::uint32_t> row, std::uint32_t node) const noexcept {
    const Page& page = pages_[row[node / page_nodes]];
    return (page[node % page_nodes / 64] >> (node % 64) & 1) != 0;
  }
  std::uint32_t united(std::uint32_t a, std::uint32_t b);

  std::vector<Page> pages_;  // the first one is empty
  std::vector<std::uint32_t> page_of_row_;
  std::vector<std::size_t> rows_;     // by node: where its row begins in page_of_row_
  std::uint32_t first_new_page_ = 1;  // pages from here on belong to the node that is being added alone
  std::vector<std::uint32_t> kept_;
};

}  // namespace rondo
