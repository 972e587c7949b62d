#include "bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <utility>

#include "pre_tokenizer.h"
#include "rondo/error.h"

namespace rondo::cli {
namespace {

[[noreturn]] void fail(const WeightFile& file, const std::string& what, const std::string& hint = "") {
  Diagnostic diagnostic;
  diagnostic.place.file = file.path().string();
  diagnostic.message = what;
  diagnostic.hint = hint;
  throw Error(ErrorCode::bad_argument, std::move(diagnostic));
}

// The metadata value of `key` if it is there; throws if it is of another kind.
template <typename T>
const T* find(const WeightFile& file, const char* key, const char* expected) {
  const MetadataValue* value = file.metadata(key);
  if (value == nullptr) return nullptr;
  const T* wanted = std::get_if<T>(value);
  if (wanted == nullptr) fail(file, fmt::format("metadata \"{}\": expected {}", key, expected));
  return wanted;
}

template <typename T>
const T& get(const WeightFile& file, const char* key, const char* expected) {
  const T* value = find<T>(file, key, expected);
  if (value == nullptr) {
    fail(file, fmt::format("no metadata \"{}\", which the vocabulary needs", key),
         "Use a GGUF file that carries its tokenizer.");
  }
  return *value;
}

std::optional<std::int32_t> find_token(const WeightFile& file, const char* key, std::size_t vocabulary_size) {
  const std::uint64_t* number = find<std::uint64_t>(file, key, "a token's number");
  if (number == nullptr) return std::nullopt;
  if (*number >= vocabulary_size) {
    fail(file, fmt::format("metadata \"{}\" is {}, and the vocabulary has {} tokens", key, *number,
                           vocabulary_size));
  }
  return static_cast<std::int32_t>(*number);
}

// GPT-2's alphabet writes each byte as a printable character: itself where it is one, else one from U+0100
// on, in order.
std::array<std::int16_t, 512> bytes_of_alphabet() {
  std::array<std::int16_t, 512> bytes;
  bytes.fill(-1);
  std::size_t next = 256;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    bytes[printable ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}

// From GPT-2's alphabet to bytes. Text with any other character in it stands for itself.
std::string to_bytes(const std::string& text) {
  static const std::array<std::int16_t, 512> alphabet = bytes_of_alphabet();
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = static_cast<unsigned char>(text[i]);
    // All of the alphabet lies below U+0200: one or two bytes of UTF-8.
    if (code >= 0x80) {
      if ((code & 0xe0) != 0xc0 || i + 1 == text.size()) return text;
      code = (code & 0x1f) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f);
    }
    if (code >= alphabet.size() || alphabet[code] < 0) return text;
    bytes += static_cast<char>(alphabet[code]);
  }
  return bytes;
}

bool is_special(std::int64_t token_type) {
  constexpr std::int64_t control = 3, user_defined = 4;  // llama_token_type in llama.h
  return token_type == control || token_type == user_defined;
}

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// How many bytes at the end of `text` are the start of a UTF-8 sequence whose rest is still to come.
std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const unsigned byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t length = byte >= 0xf5 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

BpeTokenizer::BpeTokenizer(const WeightFile& file) {
  const std::string& model = get<std::string>(file, "tokenizer.ggml.model", "a string");
  if (model != "gpt2") {
    fail(file, fmt::format("a tokenizer of the kind \"{}\"; only byte-level BPE, \"gpt2\", is known", model),
         "Use a model with such a vocabulary, or give token numbers.");
  }
  const std::string* pre = find<std::string>(file, "tokenizer.ggml.pre", "a string");
  if (pre != nullptr && *pre != "smollm" && *pre != "gpt-2" && *pre != "default") {
    fail(file, fmt::format("pre-tokenisation \"{}\"; \"smollm\", \"gpt-2\" and \"default\" are known", *pre),
         "Use a model with such a vocabulary, or give token numbers.");
  }
  split_digits_ = pre != nullptr && *pre == "smollm";
  read_tokens(file);
  read_merges(file);
  eos_ = find_token(file, "tokenizer.ggml.eos_token_id", tokens_.size());
  bos_ = find_token(file, "tokenizer.ggml.bos_token_id", tokens_.size());
  const bool* add_bos = find<bool>(file, "tokenizer.ggml.add_bos_token", "a bool");
  add_bos_ = add_bos != nullptr && *add_bos && bos_.has_value();
}

void BpeTokenizer::read_tokens(const WeightFile& file) {
  const auto& texts = get<std::vector<std::string>>(file, "tokenizer.ggml.tokens", "an array of strings");
  const auto* types =
      find<std::vector<std::int64_t>>(file, "tokenizer.ggml.token_type", "an array of integers");
  if (texts.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    fail(file, fmt::format("a vocabulary of {} tokens; their numbers have 31 bits", texts.size()));
  }
  if (types != nullptr && types->size() != texts.size()) {
    fail(file, fmt::format("{} tokens, but {} token types", texts.size(), types->size()));
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto number = static_cast<std::int32_t>(i);
    const bool special = types != nullptr && is_special((*types)[i]);
    tokens_.push_back(special ? texts[i] : to_bytes(texts[i]));
    if (tokens_.back().empty()) continue;
    const bool added = (special ? specials_ : numbers_).emplace(tokens_.back(), number).second;
    if (special && added)
      specials_by_first_byte_[static_cast<unsigned char>(texts[i][0])].push_back(texts[i]);
  }
  for (std::vector<std::string>& list : specials_by_first_byte_) {
    std::sort(list.begin(), list.end(),
              [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto found = numbers_.find(std::string(1, static_cast<char>(byte)));
    byte_tokens_[byte] = found == numbers_.end() ? -1 : found->second;
  }
}

std::int32_t BpeTokenizer::find_part(const WeightFile& file, std::string_view text, std::size_t merge) const {
  const auto found = numbers_.find(to_bytes(std::string(text)));
  if (found == numbers_.end())
    fail(file, fmt::format("merge {} needs the token \"{}\", which the vocabulary lacks", merge, text));
  return found->second;
}

void BpeTokenizer::read_merges(const WeightFile& file) {
  const auto& merges = get<std::vector<std::string>>(file, "tokenizer.ggml.merges", "an array of strings");
  if (merges.size() > std::numeric_limits<std::uint32_t>::max())
    fail(file, fmt::format("{} merges", merges.size()));
  merges_.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::size_t space = merges[i].find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == merges[i].size()) {
      fail(file,
           fmt::format("merge {}: expected two tokens with a space between them, got \"{}\"", i, merges[i]));
    }
    const std::string left = merges[i].substr(0, space), right = merges[i].substr(space + 1);
    const std::uint64_t key = pair_key(find_part(file, left, i), find_part(file, right, i));
    merges_.emplace(key, Merge{static_cast<std::uint32_t>(i), find_part(file, left + right, i)});
  }
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> to;
  if (add_bos_) to.push_back(*bos_);
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::string* special = special_at(text.substr(i));
    if (special == nullptr) {
      ++i;
      continue;
    }
    encode_plain(text.substr(start, i - start), to);
    to.push_back(specials_.find(*special)->second);
    i += special->size();
    start = i;
  }
  encode_plain(text.substr(start), to);
  return to;
}

const std::string* BpeTokenizer::special_at(std::string_view text) const {
  for (const std::string& special : specials_by_first_byte_[static_cast<unsigned char>(text[0])]) {
    if (text.starts_with(special)) return &special;
  }
  return nullptr;
}

void BpeTokenizer::encode_plain(std::string_view text, std::vector<std::int32_t>& to) const {
  for (const std::string_view word : split_words(text, split_digits_)) encode_word(word, to);
}

const BpeTokenizer::Merge* BpeTokenizer::find_merge(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

// Merges the pair of the lowest rank, the leftmost of equals, until none is left. A queue keeps this n log n:
// a word can be as long as the text.
void BpeTokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& to) const {
  constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  struct Symbol {
    std::int32_t token;  // -1: merged into the one on its left
    std::size_t previous, next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::size_t left;
    std::int32_t left_token, right_token, merged;
    bool operator>(const Candidate& other) const {
      return std::pair(rank, left) > std::pair(other.rank, other.left);
    }
  };
  std::vector<Symbol> symbols;
  for (const char byte : word) {
    const std::int32_t token = byte_tokens_[static_cast<unsigned char>(byte)];
    if (token < 0) continue;
    const std::size_t i = symbols.size();
    symbols.push_back({token, i == 0 ? none : i - 1, none});
    if (i > 0) symbols[i - 1].next = i;
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::size_t left) {
    if (left == none || symbols[left].next == none) return;
    const std::int32_t right_token = symbols[symbols[left].next].token;
    const Merge* merge = find_merge(symbols[left].token, right_token);
    if (merge != nullptr) queue.push({merge->rank, left, symbols[left].token, right_token, merge->token});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.left];
    // What was queued before a neighbour changed no longer holds.
    if (left.token != best.left_token || left.next == none || symbols[left.next].token != best.right_token)
      continue;
    Symbol& right = symbols[left.next];
    left.token = best.merged;
    right.token = -1;
    left.next = right.next;
    if (left.next != none) symbols[left.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (std::size_t i = symbols.empty() ? none : 0; i != none; i = symbols[i].next)
    to.push_back(symbols[i].token);
}

std::string_view BpeTokenizer::decode(std::int32_t token) const noexcept {
  if (token < 0 || static_cast<std::size_t>(token) >= tokens_.size()) return {};
  return tokens_[static_cast<std::size_t>(token)];
}

std::string StreamingDecoder::push(std::int32_t token) {
  std::string text = std::exchange(held_, {});
  text += tokenizer_->decode(token);
  const std::size_t tail = incomplete_tail(text);
  held_ = text.substr(text.size() - tail);
  text.resize(text.size() - tail);
  return text;
}

std::string StreamingDecoder::finish() { return std::exchange(held_, {}); }

}  // namespace rondo::cli
