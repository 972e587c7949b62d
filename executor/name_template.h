// Texts in which `{…}` stands for something that the plan knows: "wq.{layer}", "gemv_{wq.{layer}.type}".
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "schedule.h"

namespace rondo {

// Replaces every `{…}`, innermost first, by what `resolve` gives for the text between the braces (spaces at
// its ends removed). What `resolve` gives is not looked at again. Throws ExpressionError, with the byte
// offset in the template, for braces that do not match or enclose nothing; one that `resolve` throws gets the
// offset of its text added.
std::string interpolate(const Template& text,
                        const std::function<std::string(std::string_view inner)>& resolve);

// Whether two templates can become the same name, `{…}` standing for any text. Both must have matching
// braces.
bool may_be_same_name(std::string_view a, std::string_view b);

// Whether a name is [A-Za-z_][A-Za-z0-9_]* with further parts [A-Za-z0-9_]+ after dots; with `braces`, each
// `{…}` stands for a part or a piece of one.
bool is_valid_name(std::string_view name, bool braces);

}  // namespace rondo
