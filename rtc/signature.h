// Kernel signatures: the tables that follow the user's source, and their way back out of the binary.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler.h"
#include "rondo/error.h"

namespace rondo::rtc {

Place in_file(const std::string& file, std::size_t line = 0, std::size_t column = 0);

// Throws bad_schedule for an entry that cannot be a C++ expression naming a kernel: empty, several lines,
// statements in it.
void check_entries(const CompileRequest& request);

// The name under which errors in entry's own lines appear in the compiler's log: entry "saxpy<float>".
std::string entry_file_name(const std::string& entry);

// `#line 1 "name"`, escaped.
std::string line_directive(const std::string& name);

// The request's definitions as lines that go in front of the user's source. As options they would hold for
// what the compiler puts in front of it too, which a name as short as T ruins.
std::string definitions(const CompileRequest& request);

// A text of Rondo's that goes behind the user's source, read without the request's definitions.
std::string own_text(const CompileRequest& request, const std::string& name, std::string_view text);

// What goes behind the user's source: the traits, then for each entry its checks and its table
// rondo_signature_<i>. `qualifiers` go in front of each table's definition ("__device__"); `more(i)` is put
// behind each table.
std::string signature_source(const CompileRequest& request, std::string_view qualifiers,
                             const std::function<std::string(std::size_t)>& more = {});

// The table of the request's i-th entry. Throws run_time where the binary does not have it.
std::vector<Parameter> read_signature(std::span<const std::byte> elf, std::size_t i,
                                      const std::string& entry);

// What to throw for a compilation that failed: one diagnostic for each entry that is wrong; else one with the
// whole log, its place the first error in the user's text. `compiler` is Compiler::description().
Error compile_failure(const CompileRequest& request, const std::string& compiler, const std::string& log);

// Nothing on the host tells a __global__ function from another one, so the text is asked: whether `entry`'s
// name is declared behind
// __global__ in it. True where macros make kernels.
bool declares_kernel(const CompileRequest& request, const std::string& entry);

}  // namespace rondo::rtc
