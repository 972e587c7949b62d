#include "rondo/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "printable.h"

namespace rondo {
namespace {

std::string join(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += diagnostic.to_string();
  }
  return text;
}

std::string describe(const Status& status, const std::string& doing) {
  if (status.driver_code == 0) return fmt::format("{}: {}", doing, status.call);
  return fmt::format("{}: {} failed with {} ({})", doing, status.call, status.driver_name, status.driver_code);
}

// Damerau-Levenshtein distance (adjacent swaps count once), case-insensitive.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string Diagnostic::to_string() const {
  std::string text;
  if (!place.file.empty()) {
    text += place.file;
    if (place.line != 0) text += fmt::format(":{}", place.line);
    if (place.line != 0 && place.column != 0) text += fmt::format(":{}", place.column);
    text += ": ";
  }
  std::vector<std::string> parts;
  if (!place.op.empty()) parts.push_back(fmt::format("op \"{}\"", place.op));
  if (!place.kernel.empty()) parts.push_back(fmt::format("kernel \"{}\"", place.kernel));
  if (place.argument) parts.push_back(fmt::format("argument {}", *place.argument));
  if (!parts.empty()) text += fmt::format("{}: ", fmt::join(parts, ", "));
  text += message;
  if (!place.pointer.empty()) text += fmt::format(" [{}]", place.pointer);
  if (!hint.empty()) text += fmt::format("\n  {}", hint);
  return printable(text, "\n\t");
}

Error::Error(ErrorCode code, Diagnostic diagnostic) : Error(code, std::vector<Diagnostic>{std::move(diagnostic)}) {}

Error::Error(ErrorCode code, std::vector<Diagnostic> diagnostics)
    : std::runtime_error(join(diagnostics)), code_(code), diagnostics_(std::move(diagnostics)) {}

Error::Error(ErrorCode code, std::string message, std::string hint)
    : Error(code, Diagnostic{.place = {}, .message = std::move(message), .hint = std::move(hint)}) {}

Error::Error(const Status& status, std::string doing, Place place)
    : Error(status.code, Diagnostic{.place = std::move(place), .message = describe(status, doing), .hint = ""}) {
  driver_code_ = status.driver_code;
}

void throw_error(const Status& status, const char* doing) { throw Error(status, doing); }

std::string suggest(const std::string& given, const std::vector<std::string>& known) {
  std::size_t best = std::max<std::size_t>(1, given.size() / 3) + 1;
  const std::string* nearest = nullptr;
  // A name hundreds of bytes long is near nothing; the table would be large.
  if (given.size() > 200) return "";
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(given, name);
    if (distance < best && distance < name.size()) {
      best = distance;
      nearest = &name;
    }
  }
  return nearest ? fmt::format(" Did you mean \"{}\"?", *nearest) : "";
}

}  // namespace rondo
