// Step 1 of a plan: what every param's value is.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "buffer_types.h"

namespace rondo {
namespace {

constexpr int most_depth = 1000;

// A constant's value before it is converted to the param's type.
using Number = std::variant<std::int64_t, double>;

class ParamResolver {
 public:
  ParamResolver(Plan& plan, const Schedule& schedule, const DeviceProperties& device,
                const SessionOptions& options, WeightFinder& weights)
      : plan_(plan),
        schedule_(schedule),
        options_(options),
        types_(schedule, weights),
        scope_(plan, device,
               {.resolve_param = [this](const std::string& name) { resolve_named(name); },
                .type_of = [this](const std::string& buffer) { return types_.find(scope_, buffer); }}),
        complaints_(schedule) {
    for (std::size_t i = 0; i < schedule.params.size(); ++i) index_of_.emplace(schedule.params[i].name, i);
  }

  void run() {
    check_overrides();
    state_.resize(schedule_.params.size(), State::unknown);
    plan_.params.resize(schedule_.params.size());
    for (std::size_t i = 0; i < schedule_.params.size(); ++i) {
      try {
        resolve(i);
      } catch (const Complaint& complaint) {
        // An empty one: something that this constant depends on has complained already.
        if (!complaint.message.empty()) {
          complaints_.add(complaint);
        }
      }
    }
    if (!missing_.empty()) {
      complaints_.add(Complaint{
          .pointer = schedule_.params[missing_.front()].pointer,
          .message =
              fmt::format("random weights have no metadata and no tensors to take these constants from: {}",
                          fmt::join(names_of(missing_), ", ")),
          .hint = fmt::format("Give each with --const NAME=VALUE: --const {}=…",
                              fmt::join(names_of(missing_), "=… --const "))});
    }
    complaints_.throw_if_any();
  }

 private:
  std::vector<std::string> names_of(const std::vector<std::size_t>& params) const {
    std::vector<std::string> names;
    for (const std::size_t i : params) names.push_back(schedule_.params[i].name);
    return names;
  }

  enum class State : std::uint8_t { unknown, under_way, known, failed };

  void check_overrides() const {
    std::vector<std::string> constants;
    for (const ParamDeclaration& param : schedule_.params) {
      if (!param.is_step) constants.push_back(param.name);
    }
    for (const auto& [name, text] : options_.constants) {
      bool found = false;
      for (const ParamDeclaration& param : schedule_.params) {
        if (param.name != name) continue;
        found = true;
        if (param.is_step) {
          throw Error(ErrorCode::bad_argument,
                      fmt::format("\"{}\" is a step param of this schedule, not a constant", name),
                      "Set it for a launch instead (--set on the command line).");
        }
      }
      if (!found) {
        throw Error(ErrorCode::bad_argument,
                    fmt::format("the schedule has no constant \"{}\".{}", name, suggest(name, constants)),
                    constants.empty() ? "It has no constants at all."
                                      : fmt::format("Its constants: {}.", fmt::join(constants, ", ")));
      }
    }
  }

  void resolve(std::size_t index) {
    if (state_[index] == State::known) return;
    const ParamDeclaration& declaration = schedule_.params[index];
    if (state_[index] == State::failed) {
      throw Complaint{.pointer = declaration.pointer, .message = ""};
    }
    if (state_[index] == State::under_way) {
      throw Complaint{.pointer = declaration.pointer,
                      .message = fmt::format("the constant \"{}\" depends on itself", declaration.name)};
    }
    if (depth_ == most_depth) {
      throw Complaint{
          .pointer = declaration.pointer,
          .message = fmt::format("constants that depend on each other more than {} deep", most_depth)};
    }
    state_[index] = State::under_way;
    ++depth_;
    try {
      define(index);
      state_[index] = State::known;
    } catch (...) {
      state_[index] = State::failed;
      --depth_;
      throw;
    }
    --depth_;
  }

  void define(std::size_t index) {
    const ParamDeclaration& declaration = schedule_.params[index];
    PlanParam param;
    param.pointer = declaration.pointer;
    param.info.name = declaration.name;
    param.info.type = declaration.type;
    param.info.is_step = declaration.is_step;
    param.update = declaration.update;
    const Number number = number_of(declaration);
    if (info(declaration.type).is_float) {
      param.info.real = std::holds_alternative<double>(number)
                            ? std::get<double>(number)
                            : static_cast<double>(std::get<std::int64_t>(number));
    } else {
      param.info.integer = to_integer(declaration, number);
      set_range(declaration, param.info);
    }
    plan_.params[index] = std::move(param);
    plan_.param_index.emplace(declaration.name, static_cast<std::uint32_t>(index));
  }

  static std::int64_t to_integer(const ParamDeclaration& declaration, const Number& number) {
    if (const auto* integer = std::get_if<std::int64_t>(&number)) return *integer;
    const double real = std::get<double>(number);
    // 2^63 is a double; everything below it and integral fits.
    if (real != std::trunc(real) || !(std::abs(real) < 9223372036854775808.0)) {
      throw Complaint{.pointer = declaration.pointer,
                      .message = fmt::format("\"{}\" is of type {}, and {} is not an integer",
                                             declaration.name, name(declaration.type), real)};
    }
    return static_cast<std::int64_t>(real);
  }

  void set_range(const ParamDeclaration& declaration, ParamInfo& param) {
    const IntegerRange range = integer_range(declaration.type);
    param.smallest = declaration.smallest ? constant(*declaration.smallest) : range.smallest;
    param.largest = declaration.largest ? constant(*declaration.largest) : range.largest;
    if (param.smallest < range.smallest || param.largest > range.largest || param.smallest > param.largest) {
      throw Complaint{
          .pointer = declaration.pointer,
          .message = fmt::format(
              "the range {} to {} of \"{}\" is empty, or wider than {}, which holds {} to {}", param.smallest,
              param.largest, param.name, name(param.type), range.smallest, range.largest)};
    }
    if (param.integer < param.smallest || param.integer > param.largest) {
      throw Complaint{.pointer = declaration.pointer,
                      .message = fmt::format("\"{}\" is {}, outside its range {} to {}", param.name,
                                             param.integer, param.smallest, param.largest)};
    }
  }

  const std::string* override_of(const std::string& name) const {
    const std::string* text = nullptr;
    for (const auto& [constant, value] : options_.constants) {
      if (constant == name) text = &value;
    }
    return text;
  }

  Number number_of(const ParamDeclaration& declaration) {
    if (const std::string* text = override_of(declaration.name)) return overridden(declaration, *text);
    if (const auto* number = std::get_if<PlacedNumber>(&declaration.value)) return evaluate(*number);
    if (const auto* source = std::get_if<MetadataSource>(&declaration.value))
      return metadata(declaration, *source);
    if (const auto* source = std::get_if<TypesSource>(&declaration.value)) return types(*source);
    return tensor(declaration, std::get<TensorSource>(declaration.value));
  }

  Number overridden(const ParamDeclaration& declaration, const std::string& text) {
    double real = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), real);
    const bool is_real = code == std::errc() && end == text.data() + text.size();
    if (info(declaration.type).is_float && is_real && std::isfinite(real)) return real;
    try {
      if (info(declaration.type).is_float) throw ExpressionError("not a number", 0);
      return constant({Expression::parse(text), declaration.pointer});
    } catch (const ExpressionError& error) {
      throw Error(ErrorCode::bad_argument,
                  fmt::format("the constant \"{}\" is of type {}, and \"{}\" is no value for it: {}",
                              declaration.name, name(declaration.type), text, error.what()));
    }
  }

  std::int64_t constant(const PlacedExpression& expression) {
    return scope_.constant(expression.value, expression.pointer);
  }

  void resolve_named(const std::string& name) {
    if (const auto found = index_of_.find(name); found != index_of_.end()) resolve(found->second);
  }

  Number evaluate(const PlacedNumber& number) {
    if (const auto* real = std::get_if<double>(&number.value)) return *real;
    const Expression& expression = std::get<Expression>(number.value);
    // A float constant named alone.
    if (const std::uint32_t* index = scope_.float_param(expression.text())) {
      const ParamInfo& param = plan_.params[*index].info;
      if (!param.is_step) return param.real;
    }
    return scope_.constant(expression, number.pointer);
  }

  const WeightFile& weights(const ParamDeclaration& declaration) {
    if (options_.random_weights) {
      missing_.push_back(static_cast<std::size_t>(&declaration - schedule_.params.data()));
      throw Complaint{.pointer = declaration.pointer, .message = ""};
    }
    if (!options_.weights) {
      throw Complaint{
          .pointer = declaration.pointer,
          .message = fmt::format("the constant \"{}\" comes from the weight file, and none was given",
                                 declaration.name),
          .hint =
              fmt::format("Give one with --weights FILE, or the value with --const {}=…", declaration.name)};
    }
    return *options_.weights;
  }

  Number metadata(const ParamDeclaration& declaration, const MetadataSource& source) {
    const MetadataValue* value = nullptr;
    std::string found;
    for (const std::string& key : source.keys) {
      if (value != nullptr || !options_.weights) break;
      value = options_.weights->metadata(key);
      found = key;
    }
    if (value == nullptr) {
      if (source.fallback) return evaluate(*source.fallback);
      weights(declaration);
      throw Complaint{.pointer = declaration.pointer,
                      .message = fmt::format(
                          "{} has no metadata \"{}\" for the constant \"{}\".{}",
                          options_.weights->path().string(), fmt::join(source.keys, "\", nor \""),
                          declaration.name, suggest(source.keys.front(), options_.weights->metadata_keys()))};
    }
    if (source.equals) {
      const auto* text = std::get_if<std::string>(value);
      return std::int64_t{text != nullptr && *text == *source.equals};
    }
    if (const auto* boolean = std::get_if<bool>(value)) return std::int64_t{*boolean};
    if (const auto* integer = std::get_if<std::int64_t>(value)) return *integer;
    if (const auto* real = std::get_if<double>(value)) return *real;
    if (const auto* natural = std::get_if<std::uint64_t>(value)) {
      if (*natural <= static_cast<std::uint64_t>(INT64_MAX)) return static_cast<std::int64_t>(*natural);
      throw Complaint{.pointer = declaration.pointer,
                      .message = fmt::format("the metadata \"{}\" is {}, above what 64 signed bits hold",
                                             found, *natural)};
    }
    throw Complaint{
        .pointer = declaration.pointer,
        .message = fmt::format("the metadata \"{}\" is {}, and \"{}\" needs a number", found,
                               std::holds_alternative<std::string>(*value) ? "a text" : "an array",
                               declaration.name)};
  }

  Number tensor(const ParamDeclaration& declaration, const TensorSource& source) {
    if (!source.dimension && options_.random_weights) return std::int64_t{0};
    const WeightFile& file = weights(declaration);
    const Tensor* found = nullptr;
    for (const std::string& name : source.tensors) {
      if (found == nullptr) found = file.find(name);
    }
    if (!source.dimension) return std::int64_t{found != nullptr};
    if (found == nullptr) {
      throw Complaint{
          .pointer = declaration.pointer,
          .message = fmt::format("{} has no tensor \"{}\" for the constant \"{}\".{}", file.path().string(),
                                 fmt::join(source.tensors, "\", nor \""), declaration.name,
                                 suggest(source.tensors.front(), file.tensor_names()))};
    }
    if (*source.dimension >= found->shape.size()) {
      throw Complaint{.pointer = declaration.pointer,
                      .message = fmt::format(
                          "the tensor \"{}\" has {} dimensions, [{}]; there is no dimension {}", found->name,
                          found->shape.size(), fmt::join(found->shape, ", "), *source.dimension)};
    }
    return static_cast<std::int64_t>(found->shape[*source.dimension]);
  }

  Number types(const TypesSource& source) {
    std::optional<DataType> one;
    bool are_same = true;
    for_each_member(scope_, source.family, [&] {
      for (const Template& buffer : source.buffers) {
        const std::string name = scope_.interpolate(buffer);
        const DataType* type = types_.find(scope_, name);
        if (type == nullptr) {
          throw Complaint{
              .pointer = buffer.pointer,
              .message = fmt::format("there is no buffer \"{}\".{}", name, suggest(name, types_.names()))};
        }
        if (!one) one = *type;
        are_same = are_same && *type == *one;
      }
    });
    const auto is_one = [&](DataType type) { return one == type; };
    return std::int64_t{are_same && std::any_of(source.types.begin(), source.types.end(), is_one)};
  }

  Plan& plan_;
  const Schedule& schedule_;
  const SessionOptions& options_;
  std::unordered_map<std::string, std::size_t> index_of_;  // of the schedule's params
  BufferTypes types_;
  Scope scope_;
  Complaints complaints_;
  std::vector<State> state_;
  std::vector<std::size_t> missing_;  // constants that only a file would have
  int depth_ = 0;                     // of resolve() within resolve()
};

}  // namespace

void resolve_params(Plan& plan, const Schedule& schedule, const DeviceProperties& device,
                    const SessionOptions& options, WeightFinder& weights) {
  ParamResolver(plan, schedule, device, options, weights).run();
  const Scope scope(plan, device);
  Complaints complaints(schedule);
  for (const Requirement& requirement : schedule.requirements) {
    try {
      if (scope.constant(requirement.that.value, requirement.that.pointer) == 0) {
        complaints.add(Complaint{.pointer = requirement.that.pointer, .message = requirement.otherwise});
      }
    } catch (const Complaint& complaint) {
      complaints.add(complaint);
    }
  }
  complaints.throw_if_any();
}

}  // namespace rondo
