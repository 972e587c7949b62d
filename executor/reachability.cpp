#include "reachability.h"

#include <algorithm>
#include <functional>

namespace rondo {

// The page with the bits of both; a new one only where neither has them all.
std::uint32_t Reachability::united(std::uint32_t a, std::uint32_t b) {
  if (a == b || b == empty_page) return a;
  if (a == empty_page) return b;
  Page sum;
  bool is_a = true, is_b = true;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = pages_[a][i] | pages_[b][i];
    is_a = is_a && sum[i] == pages_[a][i];
    is_b = is_b && sum[i] == pages_[b][i];
  }
  if (is_a || is_b) return is_a ? a : b;
  if (a >= first_new_page_) {
    pages_[a] = sum;
    return a;
  }
  pages_.push_back(sum);
  return static_cast<std::uint32_t>(pages_.size() - 1);
}

std::size_t Reachability::add(std::vector<std::uint32_t>& waits) {
  const auto node = static_cast<std::uint32_t>(rows_.size());
  std::sort(waits.begin(), waits.end(), std::greater<>());
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
  rows_.push_back(page_of_row_.size());
  page_of_row_.resize(page_of_row_.size() + node / page_nodes + 1, empty_page);
  const std::span own(page_of_row_.data() + rows_.back(), node / page_nodes + 1);
  first_new_page_ = static_cast<std::uint32_t>(pages_.size());
  // From the last wait to the first: what comes before another wait comes before a later one.
  kept_.clear();
  for (const std::uint32_t wait : waits) {
    if (contains(own, wait)) continue;
    kept_.push_back(wait);
    const std::span<const std::uint32_t> before = row(wait);
    for (std::size_t i = 0; i < before.size(); ++i) own[i] = united(own[i], before[i]);
  }
  for (const std::uint32_t wait : kept_) {
    std::uint32_t& page = own[wait / page_nodes];
    if (page < first_new_page_) {
      pages_.push_back(Page(pages_[page]));
      page = static_cast<std::uint32_t>(pages_.size() - 1);
    }
    pages_[page][wait % page_nodes / 64] |= std::uint64_t{1} << (wait % 64);
  }
  const std::size_t redundant = waits.size() - kept_.size();
  waits.assign(kept_.rbegin(), kept_.rend());
  return redundant;
}

}  // namespace rondo
