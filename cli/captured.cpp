// rondo captured: a saved picture of a graph that somebody else captured.
#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <sstream>

#include "commands.h"
#include "rondo/captured_picture.h"

namespace rondo::cli {
namespace {

struct CapturedArguments {
  std::string file;
  bool dot = false, json = false;
};

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.is_open() && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.is_open() && !file.bad()) return text.str();
  Diagnostic diagnostic;
  diagnostic.place.file = path;
  diagnostic.message = "cannot be read";
  diagnostic.hint = "expected a file that CapturedGraph::to_json or rondo_captured_graph_to_json wrote";
  throw Error(ErrorCode::bad_argument, std::move(diagnostic));
}

int show(const CapturedArguments& arguments, Environment& environment) {
  const CapturedPicture picture = CapturedPicture::parse(read_text(arguments.file), arguments.file);
  environment.console.print(arguments.dot    ? picture.to_dot()
                            : arguments.json ? picture.to_json()
                                             : picture.to_text());
  return 0;
}

}  // namespace

void add_captured(CLI::App& program, Action& action) {
  CLI::App& command = *program.add_subcommand(
      "captured", "Show a graph that somebody else captured: nodes, arguments, sites");
  const auto arguments = std::make_shared<CapturedArguments>();
  command.add_option("file", arguments->file, "What CapturedGraph::to_json wrote")->required();
  CLI::Option* const dot = command.add_flag("--dot", arguments->dot, "As a graph for Graphviz");
  command.add_flag("--json", arguments->json, "As JSON, which is what was read, checked")->excludes(dot);
  command.callback([&action, arguments] {
    action = [arguments](Environment& environment) { return show(*arguments, environment); };
  });
}

}  // namespace rondo::cli
