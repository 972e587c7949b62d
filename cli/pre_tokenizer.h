// Splits text into the words that byte-level BPE works within, as GPT-2's regular expression does:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
#pragma once

#include <string_view>
#include <vector>

namespace rondo::cli {

// The words in order; together they are `text` exactly. With `split_digits`, every \p{N} is first split off
// as a word of its own and what is between them is split as if it stood alone (llama.cpp's "smollm"). A byte
// that is not UTF-8 counts as a character that is neither letter, number nor space.
std::vector<std::string_view> split_words(std::string_view text, bool split_digits);

}  // namespace rondo::cli
