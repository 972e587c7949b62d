#include "pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace rondo::cli {
namespace {

struct CodePointRange {
  std::uint32_t first, last;
};

#include "unicode_ranges.inc"

// Unicode's White_Space property.
constexpr CodePointRange spaces[] = {{0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                     {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                     {0x205f, 0x205f}, {0x3000, 0x3000}};

bool contains(std::span<const CodePointRange> ranges, std::uint32_t code) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), code,
                       [](std::uint32_t value, const CodePointRange& range) { return value < range.first; });
  return after != ranges.begin() && code <= std::prev(after)->last;
}

enum class Kind { letter, number, space, other };

struct Character {
  std::size_t begin, end;  // bytes in the text
  Kind kind;
};

Kind kind_of(std::uint32_t code) {
  if (contains(letters, code)) return Kind::letter;
  if (contains(numbers, code)) return Kind::number;
  return contains(spaces, code) ? Kind::space : Kind::other;
}

// The character at `begin`; a byte that starts no well-formed UTF-8 sequence (RFC 3629) is one of its own.
Character character_at(std::string_view text, std::size_t begin) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[begin + i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {begin, begin + 1, kind_of(lead)};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  const Character invalid{begin, begin + 1, Kind::other};
  if (lead < 0xc2 || lead > 0xf4 || length > text.size() - begin) return invalid;
  std::uint32_t code = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return invalid;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return invalid;
  return {begin, begin + length, kind_of(code)};
}

// Length in bytes of the contraction that the text begins with; 0: none.
std::size_t contraction_length(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  return 0;
}

// Index of the first character of another kind, at or after `from`.
std::size_t run_end(std::span<const Character> characters, std::size_t from) {
  std::size_t i = from;
  while (i < characters.size() && characters[i].kind == characters[from].kind) ++i;
  return i;
}

// The number of characters in the first word of `characters`, which is not empty.
std::size_t word_length(std::string_view text, std::span<const Character> characters) {
  const std::size_t begin = characters.front().begin;
  const std::string_view rest = text.substr(begin, characters.back().end - begin);
  // A contraction is ASCII, so its bytes are its characters.
  if (const std::size_t length = contraction_length(rest); length != 0) return length;
  const std::size_t skip = rest[0] == ' ' && characters.size() > 1 ? 1 : 0;
  if (characters[skip].kind != Kind::space) return run_end(characters, skip);
  const std::size_t end = run_end(characters, 0);
  // The last space before a word is left to that word, unless it is the only one.
  return end == characters.size() || end == 1 ? end : end - 1;
}

}  // namespace

std::vector<std::string_view> split_words(std::string_view text, bool split_digits) {
  std::vector<Character> characters;
  for (std::size_t at = 0; at < text.size(); at = characters.back().end)
    characters.push_back(character_at(text, at));
  std::vector<std::string_view> words;
  const auto split_part = [&](std::span<const Character> part) {
    while (!part.empty()) {
      const std::size_t length = word_length(text, part);
      words.push_back(text.substr(part.front().begin, part[length - 1].end - part.front().begin));
      part = part.subspan(length);
    }
  };
  const std::span<const Character> all = characters;
  std::size_t start = 0;
  for (std::size_t i = 0; split_digits && i < all.size(); ++i) {
    if (all[i].kind != Kind::number) continue;
    split_part(all.subspan(start, i - start));
    split_part(all.subspan(i, 1));
    start = i + 1;
  }
  split_part(all.subspan(start));
  return words;
}

}  // namespace rondo::cli
