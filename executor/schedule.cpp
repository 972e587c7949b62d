#include "schedule.h"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

#include "json_text.h"
#include "schedule_parser.h"

namespace rondo {
namespace {

constexpr std::size_t max_bytes = std::size_t{64} << 20;

[[noreturn]] void throw_all(const std::vector<JsonError>& errors, const std::string& text,
                            const std::string& file) {
  std::vector<Diagnostic> diagnostics;
  for (const JsonError& error : errors) {
    const TextPosition position = position_at(text, error.offset);
    Diagnostic diagnostic;
    diagnostic.place.file = file;
    diagnostic.place.line = position.line;
    diagnostic.place.column = position.column;
    diagnostic.place.pointer = error.pointer;
    diagnostic.message = error.message;
    diagnostic.hint = error.hint;
    diagnostics.push_back(std::move(diagnostic));
  }
  throw Error(ErrorCode::bad_schedule, std::move(diagnostics));
}

}  // namespace

Schedule Schedule::parse(std::string text, std::filesystem::path file) {
  Schedule schedule;
  schedule.text_ = std::move(text);
  schedule.file_ = std::move(file);
  if (schedule.text_.size() > max_bytes) {
    Diagnostic diagnostic;
    diagnostic.place.file = schedule.file_.string();
    diagnostic.message =
        fmt::format("a schedule of {} bytes; at most {} are read", schedule.text_.size(), max_bytes);
    throw Error(ErrorCode::bad_schedule, std::move(diagnostic));
  }
  std::vector<JsonError> errors;
  const JsonValue root = parse_json(schedule.text_, errors);
  static const JsonObject nothing;
  const JsonObject* object = root.get<JsonObject>();
  if (object || errors.empty()) {
    ScheduleReader reader(object ? *object : nothing, schedule.text_);
    for (const JsonError& error : errors) reader.report(error);
    ScheduleParser(reader, schedule).parse(root);
    errors = reader.take_errors();
  }
  if (!errors.empty()) throw_all(errors, schedule.text_, schedule.file_.string());
  return schedule;
}

Schedule Schedule::load(const std::filesystem::path& file) {
  const auto fail = [&](const std::string& why) {
    Diagnostic diagnostic;
    diagnostic.place.file = file.string();
    diagnostic.message = fmt::format("the schedule cannot be read: {}", why);
    throw Error(ErrorCode::bad_argument, std::move(diagnostic));
  };
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(file, code);
  if (status.type() == std::filesystem::file_type::not_found) fail("there is no such file");
  if (code) fail(code.message());
  if (status.type() == std::filesystem::file_type::directory) fail("it is a folder");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail("it cannot be opened");
  // One byte more than is allowed, so that parse can tell; a pipe has no size to ask for.
  std::string text;
  constexpr std::size_t chunk = 1 << 16;
  while (stream && text.size() <= max_bytes) {
    const std::size_t before = text.size();
    text.resize(before + chunk);
    stream.read(text.data() + before, chunk);
    text.resize(before + static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) fail("reading failed");
  return parse(std::move(text), file);
}

std::filesystem::path Schedule::directory() const {
  const std::filesystem::path parent = file_.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

Place Schedule::place(const std::string& pointer, std::size_t offset) const {
  const TextPosition position = position_at(text_, locate(text_, pointer, JsonPart::value, offset));
  Place place;
  place.file = file_.string();
  place.line = position.line;
  place.column = position.column;
  place.pointer = pointer;
  return place;
}

}  // namespace rondo
