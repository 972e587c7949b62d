// What is known of buffers before they are resolved: the tensors that weights stand for, and element types. A
// constant may ask for these, and a family's names and tensors may depend on constants in their turn.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "scope.h"

namespace rondo {

class WeightFinder {
 public:
  // Files that it opens are kept in plan.files.
  WeightFinder(Plan& plan, const Schedule& schedule, const SessionOptions& options)
      : plan_(plan), schedule_(schedule), options_(options) {}

  // The tensor of the weight `buffer`, one of the declaration's family; of a type that Rondo reads. Throws
  // Complaint.
  const Tensor& find(const Scope& scope, const BufferDeclaration& declaration, const std::string& buffer);
  // Whether a buffer is a weight that no file has, but SessionOptions::random_weights.
  bool is_random(const BufferDeclaration& declaration) const noexcept;
  // Of any buffer: as it is declared, else of its tensor, or of random weights. Throws Complaint.
  DataType type_of(const Scope& scope, const BufferDeclaration& declaration, const std::string& buffer);

 private:
  const WeightFile& file_of(const BufferDeclaration& declaration);

  Plan& plan_;
  const Schedule& schedule_;
  const SessionOptions& options_;
  std::map<std::string, std::shared_ptr<const WeightFile>> files_;
};

class BufferTypes {
 public:
  BufferTypes(const Schedule& schedule, WeightFinder& weights)
      : schedule_(schedule), weights_(weights), states_(schedule.buffers.size()) {}

  // nullptr where there is no buffer of that name. Throws Complaint for declarations that are wrong, and for
  // a type that depends on itself.
  const DataType* find(Scope& scope, const std::string& name);
  std::vector<std::string> names() const;  // of those that have been looked at, for suggestions

 private:
  enum class State : std::uint8_t { unknown, under_way, known };

  void expand(Scope& scope, std::size_t declaration);

  const Schedule& schedule_;
  WeightFinder& weights_;
  std::vector<State> states_;  // by declaration
  std::unordered_map<std::string, DataType> types_;
};

}  // namespace rondo
