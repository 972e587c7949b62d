#include "signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "elf_symbols.h"
#include "embedded.h"
#include "rondo/error.h"

namespace rondo::rtc {
namespace {

constexpr std::uint32_t table_magic = 0x52534731;
constexpr std::uint8_t no_type = 255;
static_assert(static_cast<int>(DataType::i8) == 1 && static_cast<int>(DataType::u64) == 8 &&
                  static_cast<int>(DataType::f16) == 9 && static_cast<int>(DataType::f64) == 12,
              "signature_traits.h has these numbers");

struct TableHeader {
  std::uint32_t magic, count;
};
struct TableParameter {
  std::uint8_t kind, is_const, type, reserved;
  std::uint32_t element_size, size, alignment;
};

constexpr std::string_view not_a_kernel = "a kernel is a __global__ function that returns void";
constexpr std::string_view too_many = "a kernel may have at most 64 parameters";
constexpr std::string_view not_by_value =
    "a kernel's parameters are passed by value: no references, trivially copyable types only";

Parameter decode(const TableParameter& from) {
  Parameter parameter;
  parameter.kind = static_cast<ParameterKind>(from.kind);
  parameter.is_const = from.is_const != 0;
  if (from.type != no_type) parameter.type = static_cast<DataType>(from.type);
  parameter.element_size = from.element_size;
  parameter.size = from.size;
  parameter.alignment = from.alignment;
  return parameter;
}

bool is_sane(const TableParameter& from) {
  const bool power_of_two = from.alignment != 0 && (from.alignment & (from.alignment - 1)) == 0;
  return from.kind <= 2 && power_of_two && from.size != 0 && (from.type == no_type || from.type <= 12);
}

// One line of a compiler's log that reports an error.
struct LogError {
  std::string file, message;
  std::size_t line = 0, column = 0;
};

std::size_t number_at(const std::string& text, std::size_t& at) {
  std::size_t value = 0;
  while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) && value < 100'000'000) {
    value = value * 10 + static_cast<std::size_t>(text[at++] - '0');
  }
  return value;
}

// With the word "error" at `word`.
std::optional<LogError> parse_log_line(const std::string& line, std::size_t word) {
  const std::size_t colon = line.find(": ", word);
  if (colon == std::string::npos) return std::nullopt;
  // Between the place and the word: "fatal ", "catastrophic "; behind the word: " #20". Anything else is
  // prose with "error" in it.
  const std::size_t place_end = line.rfind(": ", word);
  if (place_end == std::string::npos) return std::nullopt;
  const std::string before = line.substr(place_end + 2, word - place_end - 2);
  if (!before.empty() && before != "fatal " && before != "catastrophic ") return std::nullopt;
  LogError error;
  error.message = line.substr(colon + 2);
  std::string place = line.substr(0, place_end);
  if (!place.empty() && place.back() == ')') {
    const std::size_t open = place.rfind('(');
    if (open == std::string::npos) return std::nullopt;
    std::size_t at = open + 1;
    error.line = number_at(place, at);
    error.file = place.substr(0, open);
    return error;
  }
  for (std::size_t* number : {&error.column, &error.line}) {
    const std::size_t separator = place.rfind(':');
    if (separator == std::string::npos) return std::nullopt;
    std::size_t at = separator + 1;
    *number = number_at(place, at);
    if (at != place.size() || at == separator + 1) return std::nullopt;
    place.resize(separator);
  }
  error.file = place;
  return error;
}

// "file:3:7: error: message" (g++, clang++) or "file(3): error: message" (NVRTC). A file's or an entry's name
// may have the word in it too.
std::optional<LogError> parse_log_line(const std::string& line) {
  for (std::size_t word = line.find("error"); word != std::string::npos;
       word = line.find("error", word + 1)) {
    if (auto error = parse_log_line(line, word)) return error;
  }
  return std::nullopt;
}

std::vector<LogError> parse_log(const std::string& log) {
  std::vector<LogError> errors;
  std::size_t begin = 0;
  while (begin < log.size()) {
    const std::size_t end = std::min(log.find('\n', begin), log.size());
    if (auto error = parse_log_line(log.substr(begin, end - begin))) errors.push_back(std::move(*error));
    begin = end + 1;
  }
  return errors;
}

std::string explain(const std::string& entry, const std::string& message) {
  for (const std::string_view ours : {not_a_kernel, too_many, not_by_value}) {
    if (message.find(ours) != std::string::npos) return fmt::format("entry \"{}\": {}", entry, ours);
  }
  return fmt::format("entry \"{}\" does not name one __global__ function: {}", entry, message);
}

// Where NVRTC looks up the lowered names, at the end of the program.
constexpr std::string_view name_lookup = "__nv_name_map";

bool is_about_an_entry(const LogError& error) {
  return error.file.starts_with("entry '") || error.file == name_lookup;
}

bool is_about(const LogError& error, const std::string& entry) {
  if (error.file == name_lookup) return error.message.find("\" " + entry + "\"") != std::string::npos;
  return error.file == entry_file_name(entry);
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The position of the identifier `word` in `text` from `at` on.
std::size_t find_word(std::string_view text, std::string_view word, std::size_t at) {
  for (at = text.find(word, at); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return at;
  }
  return at;
}

bool has_extern_shared(std::string_view text) {
  for (std::size_t at = find_word(text, "extern", 0); at != std::string_view::npos;
       at = find_word(text, "extern", at + 1)) {
    std::size_t next = at + 6;
    while (next < text.size() && std::isspace(static_cast<unsigned char>(text[next]))) ++next;
    if (text.substr(next, 10) == "__shared__") return true;
  }
  return false;
}

std::string source_hint(const CompileRequest& request, const std::string& log) {
  // The host prelude makes __shared__ `static`, which `extern` contradicts: the words of g++ and of clang++.
  if (log.find("conflicting specifiers") == std::string::npos && log.find("'extern'") == std::string::npos)
    return "";
  bool found = has_extern_shared(request.source);
  for (const Header& header : request.headers) found = found || has_extern_shared(header.text);
  return found
             ? "extern __shared__ arrays exist on a GPU only: use rondo_dynamic_shared<T>() from portable.cuh"
             : "";
}

// The unqualified name in "space::gemv<rondo_q4_1>".
std::string_view base_name(std::string_view entry) {
  entry = entry.substr(0, entry.find('<'));
  while (!entry.empty() && !is_word(entry.back())) entry.remove_suffix(1);
  std::size_t begin = entry.size();
  while (begin > 0 && is_word(entry[begin - 1])) --begin;
  return entry.substr(begin);
}

enum class Declared { no, yes, by_macro };

Declared declared_in(std::string_view text, std::string_view name) {
  for (std::size_t at = find_word(text, "__global__", 0); at != std::string_view::npos;
       at = find_word(text, "__global__", at + 1)) {
    const std::size_t line = text.rfind('\n', at) + 1;  // npos + 1 is 0
    const std::string_view before = text.substr(line, at - line);
    if (before.find("#") != std::string_view::npos || (line >= 2 && text[line - 2] == '\\'))
      return Declared::by_macro;
    const std::size_t end = std::min(text.find_first_of(";{", at), text.size());
    const std::size_t named = find_word(text.substr(0, end), name, at);
    if (named != std::string_view::npos) return Declared::yes;
  }
  return Declared::no;
}

}  // namespace

std::vector<std::size_t> Entry::offsets() const {
  std::vector<std::size_t> result;
  std::size_t end = 0;
  for (const Parameter& parameter : parameters) {
    const std::size_t alignment = std::max<std::size_t>(parameter.alignment, 1);
    end = (end + alignment - 1) / alignment * alignment;
    result.push_back(end);
    end += parameter.size;
  }
  return result;
}

std::size_t Entry::argument_bytes() const {
  return parameters.empty() ? 0 : offsets().back() + parameters.back().size;
}

Place in_file(const std::string& file, std::size_t line, std::size_t column) {
  Place place;
  place.file = file;
  place.line = line;
  place.column = column;
  return place;
}

void check_entries(const CompileRequest& request) {
  for (const std::string& entry : request.entries) {
    const bool comment = entry.find("//") != std::string::npos || entry.find("/*") != std::string::npos;
    const bool control =
        std::any_of(entry.begin(), entry.end(), [](char c) { return static_cast<unsigned char>(c) < 32; });
    if (!base_name(entry).empty() && !comment && !control &&
        entry.find_first_of(";{}#\"\\") == std::string::npos)
      continue;
    throw Error(ErrorCode::bad_schedule,
                Diagnostic{.place = in_file(request.file),
                           .message = fmt::format("expected an entry that names a kernel, got \"{}\"", entry),
                           .hint = "write it as in C++: \"saxpy<float>\", \"name_space::kernel\""});
  }
}

std::string entry_file_name(const std::string& entry) { return "entry '" + entry + "'"; }

std::string line_directive(const std::string& name) {
  std::string escaped;
  for (const char c : name) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c == '\n' || c == '\r' ? ' ' : c;
  }
  return "\n#line 1 \"" + escaped + "\"\n";
}

namespace {

std::string define_lines(const CompileRequest& request) {
  std::string lines;
  for (const auto& [name, value] : request.defines) {
    std::string line = fmt::format("#define {} {}", name, value);
    std::replace(line.begin(), line.end(), '\n', ' ');
    lines += line + "\n";
  }
  return lines;
}

}  // namespace

std::string definitions(const CompileRequest& request) {
  return line_directive("rondo/defines") + define_lines(request);
}

std::string own_text(const CompileRequest& request, const std::string& name, std::string_view text) {
  std::string result = line_directive(name);
  for (const auto& [macro, value] : request.defines)
    result += "#undef " + macro.substr(0, macro.find('(')) + "\n";
  return result.append(text).append("\n").append(define_lines(request));
}

std::string signature_source(const CompileRequest& request, std::string_view qualifiers,
                             const std::function<std::string(std::size_t)>& more) {
  std::string text = own_text(request, "rondo/signature_traits.h", embedded::signature_traits);
  for (std::size_t i = 0; i < request.entries.size(); ++i) {
    const std::string& entry = request.entries[i];
    text += line_directive(entry_file_name(entry));
    text += fmt::format("using rondo_function_{} = decltype(&{});\n", i, entry);
    text += fmt::format("using rondo_parameters_{0} = rondo_signature::signature<rondo_function_{0}>;\n", i);
    text += fmt::format("static_assert(rondo_parameters_{}::is_kernel, \"{}\");\n", i, not_a_kernel);
    text += fmt::format("static_assert(rondo_parameters_{}::few, \"{}\");\n", i, too_many);
    text += fmt::format("static_assert(rondo_parameters_{}::by_value, \"{}\");\n", i, not_by_value);
    text += fmt::format(
        "extern \"C\" {{ extern __device__ {1} const decltype(rondo_parameters_{0}::value) "
        "rondo_signature_{0};\n"
        "__device__ const decltype(rondo_parameters_{0}::value) rondo_signature_{0} = "
        "rondo_parameters_{0}::value; }}\n",
        i, qualifiers);
    if (more) text += more(i);
  }
  return text;
}

std::vector<Parameter> read_signature(std::span<const std::byte> elf, std::size_t i,
                                      const std::string& entry) {
  const std::optional<ElfSymbol> symbol = find_elf_symbol(elf, fmt::format("rondo_signature_{}", i));
  const auto fail = [&](const char* why) -> Error {
    return Error(ErrorCode::run_time,
                 fmt::format("the compiled binary of entry \"{}\" has {} signature table", entry, why),
                 "this compiler is not one that Rondo knows; please report it with its version");
  };
  TableHeader header{};
  if (!symbol || symbol->content.size() < sizeof header) throw fail("no");
  std::memcpy(&header, symbol->content.data(), sizeof header);
  if (header.magic != table_magic || header.count > 64 ||
      symbol->content.size() < sizeof header + header.count * sizeof(TableParameter)) {
    throw fail("a damaged");
  }
  std::vector<Parameter> parameters;
  for (std::uint32_t p = 0; p < header.count; ++p) {
    TableParameter parameter;
    std::memcpy(&parameter, symbol->content.data() + sizeof header + p * sizeof parameter, sizeof parameter);
    if (!is_sane(parameter)) throw fail("a damaged");
    parameters.push_back(decode(parameter));
  }
  return parameters;
}

Error compile_failure(const CompileRequest& request, const std::string& compiler, const std::string& log) {
  const std::vector<LogError> errors = parse_log(log);
  std::vector<Diagnostic> wrong_entries;
  const LogError* first = nullptr;
  for (const LogError& error : errors) {
    if (!first && !is_about_an_entry(error) && !error.file.starts_with("rondo/")) first = &error;
  }
  if (!first) {
    for (const std::string& entry : request.entries) {
      const auto error =
          std::find_if(errors.begin(), errors.end(), [&](const LogError& e) { return is_about(e, entry); });
      if (error == errors.end()) continue;
      wrong_entries.push_back(
          {.place = in_file(request.file), .message = explain(entry, error->message), .hint = ""});
    }
  }
  if (!wrong_entries.empty()) return Error(ErrorCode::bad_schedule, std::move(wrong_entries));
  Place place = first ? in_file(first->file, first->line, first->column) : in_file(request.file);
  return Error(ErrorCode::bad_schedule,
               Diagnostic{.place = std::move(place),
                          .message = fmt::format("does not compile with {}:\n{}", compiler, log),
                          .hint = source_hint(request, log)});
}

bool declares_kernel(const CompileRequest& request, const std::string& entry) {
  const std::string_view name = base_name(entry);
  for (const auto& [macro, value] : request.defines) {
    if (value.find("__global__") != std::string::npos) return true;
  }
  if (declared_in(request.source, name) != Declared::no) return true;
  return std::any_of(request.headers.begin(), request.headers.end(),
                     [&](const Header& header) { return declared_in(header.text, name) != Declared::no; });
}

}  // namespace rondo::rtc
