#include "random_weights.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace rondo {
namespace {

constexpr std::string_view prefix = "random:";

// Both kernels' parameters as they lie.
struct Arguments {
  DevicePointer to;
  std::int64_t count;
  std::uint64_t seed;
  float scale, addend;  // addend: of floats the center, of q4_1 the minimum
};
static_assert(sizeof(Arguments) == 32);

void set_scale(Arguments& arguments, const PlanBuffer& buffer) {
  if (buffer.info.shape.size() < 2) {
    arguments.scale = 0.5f;
    arguments.addend = 1.0f;
    return;
  }
  const double largest = std::sqrt(3.0 / static_cast<double>(buffer.info.shape.back()));
  double scale = largest, minimum = 0;
  switch (buffer.info.type) {
    case DataType::q4_0:
      scale = largest / 8;
      break;
    case DataType::q4_1:
      scale = largest * 2 / 15;
      minimum = -largest;
      break;
    case DataType::q6_k:
      scale = largest / (32 * 96);  // of quants up to 32 and scales of 96 in the mean
      break;
    case DataType::q8_0:
      scale = largest / 128;
      break;
    default:
      break;
  }
  arguments.scale = static_cast<float>(scale);
  arguments.addend = static_cast<float>(minimum);
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  std::vector<std::string> types;
  for (std::size_t i = 0; i < data_type_count; ++i) {
    if (const DataTypeInfo& each = info(static_cast<DataType>(i)); !each.is_integer)
      types.emplace_back(each.name);
  }
  throw Error(ErrorCode::bad_argument,
              fmt::format("random weights are spelled random:TYPE or random:TYPE:SEED, and \"{}\" is not: {}",
                          text, why),
              fmt::format("TYPE is one of {}; SEED is an integer from 0. A file of such a name is ./{}.",
                          fmt::join(types, ", "), text));
}

}  // namespace

std::optional<RandomWeights> parse_random_weights(std::string_view text) {
  if (text == "random") refuse(text, "there is no type");
  if (!text.starts_with(prefix)) return std::nullopt;
  std::string_view rest = text.substr(prefix.size());
  RandomWeights result;
  if (const std::size_t colon = rest.find(':'); colon != std::string_view::npos) {
    const std::string_view seed = rest.substr(colon + 1);
    const auto [end, code] = std::from_chars(seed.data(), seed.data() + seed.size(), result.seed);
    if (code != std::errc() || end != seed.data() + seed.size())
      refuse(text, fmt::format("\"{}\" is no seed of 64 bits", seed));
    rest = rest.substr(0, colon);
  }
  const std::optional<DataType> type = parse_data_type(rest);
  if (!type) refuse(text, fmt::format("\"{}\" is no type", rest));
  if (info(*type).is_integer) refuse(text, fmt::format("{} is a type of integers", rest));
  result.type = *type;
  return result;
}

rtc::CompileRequest random_weights_unit() {
  rtc::CompileRequest unit;
  unit.file = "random_weights.cu";
  unit.source = std::string(random_weights_source);
  unit.headers = rtc::collect_headers(unit.file, unit.source);
  return unit;
}

std::uint64_t random_seed(std::uint64_t seed, std::string_view tensor) {
  return XXH3_64bits_withSeed(tensor.data(), tensor.size(), seed);
}

std::string random_weights_entry(DataType type) {
  switch (type) {
    case DataType::f16:
      return "rondo_random::elements<__half>";
    case DataType::bf16:
      return "rondo_random::elements<rondo_bf16>";
    case DataType::f32:
      return "rondo_random::elements<float>";
    case DataType::f64:
      return "rondo_random::elements<double>";
    default:
      return fmt::format("rondo_random::blocks<rondo_{}_block>", name(type));
  }
}

Status launch_random_weights(Driver& driver, FunctionHandle function, const PlanBuffer& buffer,
                             DevicePointer to, StreamHandle stream) noexcept {
  Arguments arguments{.to = to,
                      .count = static_cast<std::int64_t>(buffer.elements / buffer.type().block_elements),
                      .seed = *buffer.random_seed,
                      .scale = 0,
                      .addend = 0};
  set_scale(arguments, buffer);
  const DeviceProperties& device = driver.properties();
  const bool is_host = device.warp_size == 1;
  const std::int64_t threads = is_host ? 1 : 256;
  const std::int64_t most = std::int64_t{device.processors} * (is_host ? 1 : 32);
  const std::int64_t blocks = std::clamp<std::int64_t>((arguments.count - 1) / threads + 1, 1, most);
  const KernelLaunch launch = {.function = function,
                               .shape = {.grid = {static_cast<std::uint32_t>(blocks), 1, 1},
                                         .block = {static_cast<std::uint32_t>(threads), 1, 1}},
                               .arguments = reinterpret_cast<const std::byte*>(&arguments),
                               .argument_bytes = sizeof arguments};
  return driver.launch(launch, stream);
}

}  // namespace rondo
