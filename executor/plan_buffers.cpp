// Step 2 of a plan: the buffers, families expanded, weights found in their files.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "buffer_types.h"
#include "random_weights.h"

namespace rondo {
namespace {

// Far above what anyone means and far below what would exhaust memory while planning.
constexpr std::int64_t largest_family = 1 << 20;

class BufferResolver {
 public:
  BufferResolver(Plan& plan, const Schedule& schedule, const DeviceProperties& device,
                 const SessionOptions& options, WeightFinder& weights)
      : plan_(plan),
        schedule_(schedule),
        options_(options),
        weights_(weights),
        scope_(plan, device),
        complaints_(schedule) {}

  void run() {
    if (options_.weights && options_.random_weights) {
      throw Error(ErrorCode::bad_argument,
                  "weights out of a file and random weights were given, and a session has one of the two");
    }
    if (options_.weights) plan_.files.push_back(options_.weights);
    for (const BufferDeclaration& declaration : schedule_.buffers) {
      try {
        for_each_member(scope_, declaration.family, [&] { add(declaration); });
      } catch (const Complaint& complaint) {
        complaints_.add(complaint);
      }
    }
    complaints_.throw_if_any();
  }

 private:
  void add(const BufferDeclaration& declaration) {
    PlanBuffer buffer;
    buffer.pointer = declaration.pointer;
    buffer.info.name = scope_.interpolate(declaration.name);
    buffer.info.role = declaration.role;
    for (const PlacedExpression& extent : declaration.shape) buffer.info.shape.push_back(dimension(extent));
    if (declaration.type) buffer.info.type = *declaration.type;
    if (buffer.info.role == Role::weight) {
      weights_.is_random(declaration) ? make_random(declaration, buffer) : find_tensor(declaration, buffer);
    }
    measure(buffer);
    set_fill(declaration, buffer);
    const auto index = static_cast<std::uint32_t>(plan_.buffers.size());
    if (!plan_.buffer_index.emplace(buffer.info.name, index).second ||
        plan_.param_index.contains(buffer.info.name)) {
      throw Complaint{
          .pointer = declaration.pointer,
          .message = fmt::format("a second buffer, or a param, is called \"{}\" too", buffer.info.name)};
    }
    plan_.buffers.push_back(std::move(buffer));
  }

  std::size_t dimension(const PlacedExpression& extent) const {
    const std::int64_t value = scope_.constant(extent.value, extent.pointer);
    if (value < 1) {
      throw Complaint{.pointer = extent.pointer,
                      .message = fmt::format("a dimension must be at least 1, this one is {}", value)};
    }
    return static_cast<std::size_t>(value);
  }

  // A weight that is left to chance. Of several tensors the last is meant, as where a model shares two
  // weights: two buffers of the same one are one.
  void make_random(const BufferDeclaration& declaration, PlanBuffer& buffer) {
    if (declaration.shape_from_tensor) {
      throw Complaint{.pointer = declaration.pointer,
                      .message = fmt::format(
                          "the weight \"{}\" has its shape from its tensor, and a random one has no tensor",
                          buffer.info.name),
                      .hint = "Declare its \"shape\"."};
    }
    const bool is_vector = buffer.info.shape.size() < 2;
    buffer.info.type = weights_.type_of(scope_, declaration, buffer.info.name);
    if (buffer.type().is_integer || (is_vector && !is_plain(buffer.info.type))) {
      throw Complaint{
          .pointer = declaration.pointer,
          .message = fmt::format("the weight \"{}\" is declared as {}{}, which is not made at random",
                                 buffer.info.name, is_vector ? "a vector of " : "", name(buffer.info.type))};
    }
    const std::string tensor = scope_.interpolate(declaration.tensors.back());
    buffer.random_seed = rondo::random_seed(options_.random_weights->seed, tensor);
    const auto [known, is_new] =
        first_random_.emplace(std::tuple(tensor, buffer.info.type, buffer.info.shape),
                              static_cast<std::uint32_t>(plan_.buffers.size()));
    if (!is_new) buffer.same_as = known->second;
  }

  void find_tensor(const BufferDeclaration& declaration, PlanBuffer& buffer) {
    const Tensor& tensor = weights_.find(scope_, declaration, buffer.info.name);
    buffer.tensor = &tensor;
    if (declaration.type && *declaration.type != *tensor.type && !widens(*tensor.type, *declaration.type)) {
      throw Complaint{
          .pointer = declaration.pointer,
          .message = fmt::format("the weight \"{}\" is declared as {}, and the tensor \"{}\" is {}",
                                 buffer.info.name, name(*declaration.type), tensor.name, name(*tensor.type)),
          .hint = "Leave \"type\" out to take the tensor's own."};
    }
    buffer.info.type = declaration.type.value_or(*tensor.type);
    if (!declaration.shape_from_tensor && buffer.info.shape != tensor.shape) {
      throw Complaint{.pointer = declaration.pointer,
                      .message = fmt::format(
                          "the weight \"{}\" is declared with shape [{}], and the tensor \"{}\" has [{}]",
                          buffer.info.name, fmt::join(buffer.info.shape, ", "), tensor.name,
                          fmt::join(tensor.shape, ", "))};
    }
    buffer.info.shape = tensor.shape;
    const auto [known, is_new] = first_of_tensor_.emplace(std::pair(&tensor, buffer.info.type),
                                                          static_cast<std::uint32_t>(plan_.buffers.size()));
    if (!is_new) buffer.same_as = known->second;
  }

  static void measure(PlanBuffer& buffer) {
    const DataTypeInfo& type = buffer.type();
    std::size_t elements = 1;
    bool overflow = false;
    for (const std::size_t extent : buffer.info.shape)
      overflow = overflow || __builtin_mul_overflow(elements, extent, &elements);
    std::size_t bytes = 0;
    overflow = overflow || __builtin_mul_overflow(elements / type.block_elements, type.block_bytes, &bytes) ||
               bytes > static_cast<std::size_t>(INT64_MAX);
    if (overflow) {
      throw Complaint{.pointer = buffer.pointer,
                      .message = fmt::format(
                          "\"{}\" of shape [{}] and type {} has more bytes than 63 bits count",
                          buffer.info.name, fmt::join(buffer.info.shape, ", "), name(buffer.info.type))};
    }
    const std::size_t row = buffer.info.shape.empty() ? 1 : buffer.info.shape.back();
    if (row % type.block_elements != 0) {
      throw Complaint{
          .pointer = buffer.pointer,
          .message = fmt::format("a row of \"{}\" has {} elements, not a whole number of {} blocks of {}",
                                 buffer.info.name, row, name(buffer.info.type), type.block_elements)};
    }
    buffer.elements = elements;
    buffer.info.bytes = bytes;
  }

  void set_fill(const BufferDeclaration& declaration, PlanBuffer& buffer) const {
    if (!declaration.fill) return;
    buffer.fill = declaration.fill;
    if (!is_plain(buffer.info.type)) {
      throw Complaint{.pointer = declaration.pointer,
                      .message = fmt::format("\"{}\" is of the block type {}, which cannot be filled",
                                             buffer.info.name, name(buffer.info.type))};
    }
    const auto* number = std::get_if<PlacedNumber>(&*declaration.fill);
    if (number == nullptr) return;
    buffer.fill_value = constant_number(scope_, plan_, *number);
    if (info(buffer.info.type).is_float && !fits_float(buffer.info.type, buffer.fill_value)) {
      throw Complaint{.pointer = number->pointer,
                      .message = fmt::format("the fill {} of \"{}\" is beyond what {} holds",
                                             buffer.fill_value, buffer.info.name, name(buffer.info.type))};
    }
    if (info(buffer.info.type).is_integer) {
      const IntegerRange range = integer_range(buffer.info.type);
      const double value = buffer.fill_value;
      if (value != std::trunc(value) || value < static_cast<double>(range.smallest) ||
          value > static_cast<double>(range.largest)) {
        throw Complaint{.pointer = number->pointer,
                        .message = fmt::format("the fill {} of \"{}\" is no value of type {}", value,
                                               buffer.info.name, name(buffer.info.type))};
      }
    }
  }

  Plan& plan_;
  const Schedule& schedule_;
  const SessionOptions& options_;
  WeightFinder& weights_;
  Scope scope_;
  Complaints complaints_;
  std::map<std::pair<const Tensor*, DataType>, std::uint32_t> first_of_tensor_;
  std::map<std::tuple<std::string, DataType, std::vector<std::size_t>>, std::uint32_t> first_random_;
};

}  // namespace

double constant_number(const Scope& scope, const Plan& plan, const PlacedNumber& number) {
  if (const auto* real = std::get_if<double>(&number.value)) return *real;
  const Expression& expression = std::get<Expression>(number.value);
  if (const std::uint32_t* index = scope.float_param(expression.text())) {
    const ParamInfo& param = plan.params[*index].info;
    if (!param.is_step) return param.real;
  }
  return static_cast<double>(scope.constant(expression, number.pointer));
}

void for_each_member(Scope& scope, const std::optional<ForClause>& family,
                     const std::function<void()>& visit) {
  if (!family) {
    visit();
    return;
  }
  const auto with = [&](std::variant<std::int64_t, std::string> value) {
    scope.push(family->variable, std::move(value));
    try {
      visit();
    } catch (...) {
      scope.pop();
      throw;
    }
    scope.pop();
  };
  if (const auto* names = std::get_if<std::vector<std::string>>(&family->values)) {
    for (const std::string& text : *names) with(text);
    return;
  }
  const std::int64_t count = scope.constant(std::get<Expression>(family->values), family->pointer);
  if (count < 0 || count > largest_family) {
    throw Complaint{
        .pointer = family->pointer,
        .message = fmt::format("\"for\" may count 0 to {} values, this one {}", largest_family, count)};
  }
  for (std::int64_t i = 0; i < count; ++i) with(i);
}

void resolve_buffers(Plan& plan, const Schedule& schedule, const DeviceProperties& device,
                     const SessionOptions& options, WeightFinder& weights) {
  BufferResolver(plan, schedule, device, options, weights).run();
}

}  // namespace rondo
