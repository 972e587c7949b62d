// What the programs here have in common beside what they measure.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdio>
#include <exception>

#include "rondo/device.h"
#include "rondo/error.h"

namespace bench {

// Which device and driver, in what is printed and in the JSON.
inline void tell_device(const rondo::Device& device) {
  benchmark::AddCustomContext("device", device.properties().name);
  benchmark::AddCustomContext("driver", device.properties().driver);
}

// Sets up and runs what is registered then. Gives the program's exit code: what is thrown is told in one
// line.
int run(const auto& set_up) {
  try {
    set_up();
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace bench
