// Pieces of JSON and text that several commands print.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "rondo/device_properties.h"
#include "rondo/error.h"
#include "rondo/session.h"

namespace rondo::cli {

using Json = nlohmann::ordered_json;

// One object and a newline. Bytes that are no UTF-8 become U+FFFD; NaN and infinities become null.
std::string to_text(const Json& json);

Json to_json(const DeviceProperties& properties);
Json to_json(const Counters& counters);
Json to_json(const BuildSummary& summary);
Json to_json(const Diagnostic& diagnostic);

// "host (Intel Xeon …)", "cuda:0 (NVIDIA H200)".
std::string describe(const DeviceProperties& properties);

}  // namespace rondo::cli
