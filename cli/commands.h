// The subcommands. Each adds itself to the program, and stores into *action what is to be done when it is the
// one chosen: a function that returns the exit code or throws.
#pragma once

#include <functional>

#include "session_arguments.h"

namespace rondo::cli {

using Action = std::function<int(Environment&)>;

void add_run(CLI::App& program, Action& action);
void add_verify(CLI::App& program, Action& action);
void add_captured(CLI::App& program, Action& action);
void add_check(CLI::App& program, Action& action);
void add_explain(CLI::App& program, Action& action);
void add_devices(CLI::App& program, Action& action);
void add_generate(CLI::App& program, Action& action);

}  // namespace rondo::cli
