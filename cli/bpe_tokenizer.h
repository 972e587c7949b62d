// Text to tokens and back with the byte-level BPE vocabulary that a GGUF file carries (tokenizer.ggml.model
// "gpt2").
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rondo/weights.h"

namespace rondo::cli {

class BpeTokenizer {
 public:
  // Copies what it needs out of `file`. Throws Error(bad_argument) where the file has no vocabulary, one of
  // another kind, a pre-tokenisation that is not known here (known: "smollm", "gpt-2", "default"), or one
  // that contradicts itself.
  explicit BpeTokenizer(const WeightFile& file);

  // Special tokens in the text ("<|im_start|>": those that the file marks as control or user-defined) become
  // one token each. Any bytes may be given, UTF-8 or not. A byte that the vocabulary has no token for is left
  // out, as llama.cpp does. Starts with the bos token where the file asks for it.
  std::vector<std::int32_t> encode(std::string_view text) const;

  // The bytes of one token: perhaps a part of a UTF-8 sequence. Empty for a number that is no token.
  std::string_view decode(std::int32_t token) const noexcept;

  std::optional<std::int32_t> eos() const noexcept { return eos_; }
  std::optional<std::int32_t> bos() const noexcept { return bos_; }
  std::size_t vocabulary_size() const noexcept { return tokens_.size(); }

 private:
  struct Merge {
    std::uint32_t rank;
    std::int32_t token;
  };
  struct StringHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  void read_tokens(const WeightFile& file);
  void read_merges(const WeightFile& file);
  std::int32_t find_part(const WeightFile& file, std::string_view text, std::size_t merge) const;
  const std::string* special_at(std::string_view text) const;
  void encode_plain(std::string_view text, std::vector<std::int32_t>& to) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>& to) const;
  const Merge* find_merge(std::int32_t left, std::int32_t right) const;

  std::vector<std::string> tokens_;  // by number, as bytes
  std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>>
      numbers_;  // of tokens that are not special
  std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>> specials_;
  std::vector<std::string> specials_by_first_byte_[256];  // longest first
  std::unordered_map<std::uint64_t, Merge>
      merges_;                     // by the two parts' numbers, the left one in the upper half
  std::int32_t byte_tokens_[256];  // -1: the vocabulary lacks it
  std::optional<std::int32_t> eos_, bos_;
  bool add_bos_ = false;
  bool split_digits_ = false;
};

// Turns tokens into text as they come, never ending in the middle of a character.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const BpeTokenizer& tokenizer)
      : tokenizer_(&tokenizer) {}  // kept: the tokenizer must outlive it

  // All whole characters up to and including this token. Bytes that can never become UTF-8 are passed on as
  // they are.
  std::string push(std::int32_t token);
  // What is still held back at the end of the text.
  std::string finish();

 private:
  const BpeTokenizer* tokenizer_;
  std::string held_;
};

}  // namespace rondo::cli
