#include "bpe_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "gguf_bytes.h"
#include "pre_tokenizer.h"
#include "rondo/error.h"

namespace rondo::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The character that stands for a byte in GPT-2's alphabet, for bytes that the tests use.
std::string alphabet(unsigned byte) {
  if (byte >= 0x21 && byte <= 0x7e) return std::string(1, static_cast<char>(byte));
  const bool printable = byte >= 0xa1 && byte != 0xad;
  const unsigned code = printable      ? byte
                        : byte <= 0x20 ? 0x100 + byte
                        : byte <= 0xa0 ? 0x100 + 33 + byte - 0x7f
                                       : 0x100 + 67;
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// A vocabulary of all bytes in order, some merged tokens from 256 on, and special ones at the end.
class Vocabulary {
 public:
  std::vector<std::string> tokens, merges = {"a b", "ab c", "Ġ a", "b c", "c c", "cc cc"};
  std::vector<std::int32_t> types;
  std::string model = "gpt2", pre = "gpt-2";
  std::uint32_t eos = 262, bos = 263;
  bool add_bos = false;

  Vocabulary() {
    for (unsigned byte = 0; byte < 256; ++byte) tokens.push_back(alphabet(byte));
    for (const char* merged : {"ab", "abc", "Ġa", "bc", "cc", "cccc"}) tokens.push_back(merged);
    types.assign(tokens.size(), 1);
    for (const char* special : {"<|end|>", "<|end|>>", "<|my tag|>"}) tokens.push_back(special);
    types.insert(types.end(), {3, 3, 4});
  }

  BpeTokenizer load() const {
    test::GgufBytes bytes;
    bytes.header(3, 0, 8)
        .key("tokenizer.ggml.model", 8)
        .string(model)
        .key("tokenizer.ggml.pre", 8)
        .string(pre);
    bytes.strings("tokenizer.ggml.tokens", tokens).strings("tokenizer.ggml.merges", merges);
    bytes.integers("tokenizer.ggml.token_type", types);
    bytes.key("tokenizer.ggml.eos_token_id", 4).value(eos).key("tokenizer.ggml.bos_token_id", 4).value(bos);
    bytes.key("tokenizer.ggml.add_bos_token", 7).value(static_cast<std::uint8_t>(add_bos));
    return load(bytes);
  }

  static BpeTokenizer load(const test::GgufBytes& bytes) {
    const auto path =
        std::filesystem::temp_directory_path() / ("rondo_bpe_test_" + std::to_string(::getpid()) + ".gguf");
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.bytes().data()),
               static_cast<std::streamsize>(bytes.bytes().size()));
    const auto file = WeightFile::open(path);
    std::filesystem::remove(path);
    return BpeTokenizer(*file);
  }

  std::string complaint() const {
    try {
      (void)load();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_argument);
      return error.what();
    }
    return "loaded without complaint";
  }
};

std::string decode_all(const BpeTokenizer& tokenizer, const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += tokenizer.decode(token);
  return text;
}

TEST(SplitWords, FollowsGpt2sExpression) {
  EXPECT_THAT(split_words("Hello, world's  end 12x\n", false),
              ElementsAre("Hello", ",", " world", "'s", " ", " end", " 12", "x", "\n"));
  EXPECT_THAT(split_words("a  ", false), ElementsAre("a", "  "));
  EXPECT_THAT(split_words("\n\n a", false), ElementsAre("\n\n", " a"));
  EXPECT_THAT(split_words("x\n\ny", false), ElementsAre("x", "\n", "\n", "y"));
  EXPECT_THAT(split_words("'ll'LL 're!'t", false), ElementsAre("'ll", "'", "LL", " '", "re", "!'", "t"));
  EXPECT_THAT(split_words(" !? .", false), ElementsAre(" !?", " ."));
  EXPECT_THAT(split_words("", false), ElementsAre());
}

TEST(SplitWords, SplitsDigitsFirstWhereAsked) {
  EXPECT_THAT(split_words("a 12  3b", true), ElementsAre("a", " ", "1", "2", "  ", "3", "b"));
  EXPECT_THAT(split_words("½²", true), ElementsAre("½", "²"));
}

TEST(SplitWords, KnowsUnicodesLettersNumbersAndSpaces) {
  EXPECT_THAT(split_words("één Ωя中文١٢😀!", false), ElementsAre("één", " Ωя中文", "١٢", "😀!"));
  EXPECT_THAT(split_words("a\u00a0\u3000b", false), ElementsAre("a", "\u00a0", "\u3000", "b"));
  EXPECT_THAT(split_words("𝔘𝟘", false), ElementsAre("𝔘", "𝟘"));
}

TEST(SplitWords, TakesBadUtf8ByteByByte) {
  EXPECT_THAT(split_words("a\xff\xfe"
                          "b\xe4\xb8",
                          false),
              ElementsAre("a", "\xff\xfe", "b", "\xe4\xb8"));
  // Over-long, a surrogate, beyond U+10FFFF: none is a character, so each byte is "other".
  EXPECT_THAT(split_words("\xc1\x81"
                          "a\xed\xa0\x80"
                          "a\xf4\x90\x80\x80",
                          false),
              ElementsAre("\xc1\x81", "a", "\xed\xa0\x80", "a", "\xf4\x90\x80\x80"));
}

TEST(BpeTokenizer, MergesTheLowestRankFirst) {
  const BpeTokenizer tokenizer = Vocabulary().load();
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(257));
  EXPECT_THAT(tokenizer.encode("bc"), ElementsAre(259));
  EXPECT_THAT(tokenizer.encode("b abc"), ElementsAre('b', ' ', 257));
  EXPECT_THAT(tokenizer.encode("b ac"), ElementsAre('b', 258, 'c'));
  EXPECT_THAT(tokenizer.encode("cccccc"), ElementsAre(261, 260));
  EXPECT_THAT(tokenizer.encode("ccccccc"), ElementsAre(261, 260, 'c'));
  EXPECT_THAT(tokenizer.encode(""), ElementsAre());
}

TEST(BpeTokenizer, FindsSpecialTokensTheLongestFirst) {
  const BpeTokenizer tokenizer = Vocabulary().load();
  EXPECT_THAT(tokenizer.encode("x<|end|>abc<|end|>>"), ElementsAre('x', 262, 257, 263));
  EXPECT_THAT(tokenizer.encode("<|my tag|>"), ElementsAre(264));
  EXPECT_THAT(tokenizer.encode("<|x"), ElementsAre('<', '|', 'x'));
  EXPECT_EQ(tokenizer.decode(264), "<|my tag|>");
}

TEST(BpeTokenizer, EveryByteComesBack) {
  const BpeTokenizer tokenizer = Vocabulary().load();
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(decode_all(tokenizer, tokenizer.encode(bytes)), bytes);
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (auto left = random() % 40; left > 0; --left)
      text += static_cast<char>(random() % 3 ? "abc <|end"[random() % 9] : random() & 0xff);
    ASSERT_EQ(decode_all(tokenizer, tokenizer.encode(text)), text);
  }
  EXPECT_EQ(tokenizer.encode(std::string(200000, 'c')).size(), 50000);
}

TEST(BpeTokenizer, LeavesOutBytesThatTheVocabularyLacks) {
  Vocabulary vocabulary;
  vocabulary.tokens['x'] = "unused";
  EXPECT_THAT(vocabulary.load().encode("xabxc"), ElementsAre(257));
}

TEST(BpeTokenizer, ReadsEosAndBos) {
  Vocabulary vocabulary;
  EXPECT_EQ(vocabulary.load().eos(), 262);
  EXPECT_EQ(vocabulary.load().bos(), 263);
  vocabulary.add_bos = true;
  EXPECT_THAT(vocabulary.load().encode("a"), ElementsAre(263, 'a'));
  EXPECT_EQ(vocabulary.load().vocabulary_size(), 265);
}

TEST(BpeTokenizer, DecodesNothingForWhatIsNoToken) {
  const BpeTokenizer tokenizer = Vocabulary().load();
  EXPECT_EQ(tokenizer.decode(-1), "");
  EXPECT_EQ(tokenizer.decode(265), "");
}

TEST(BpeTokenizer, RefusesVocabulariesItDoesNotKnow) {
  const auto changed = [](const auto& change) {
    Vocabulary vocabulary;
    change(vocabulary);
    return vocabulary.complaint();
  };
  EXPECT_THAT(changed([](Vocabulary& v) { v.model = "llama"; }),
              HasSubstr("a tokenizer of the kind \"llama\"; only byte-level BPE"));
  EXPECT_THAT(changed([](Vocabulary& v) { v.pre = "qwen2"; }), HasSubstr("pre-tokenisation \"qwen2\""));
  EXPECT_THAT(changed([](Vocabulary& v) { v.types.pop_back(); }),
              HasSubstr("265 tokens, but 264 token types"));
  EXPECT_THAT(changed([](Vocabulary& v) { v.eos = 265; }),
              HasSubstr("eos_token_id\" is 265, and the vocabulary has 265 tokens"));
  EXPECT_THAT(changed([](Vocabulary& v) { v.merges.push_back("ab"); }),
              HasSubstr("merge 6: expected two tokens"));
  EXPECT_THAT(changed([](Vocabulary& v) { v.merges.push_back("x y"); }),
              HasSubstr("merge 6 needs the token \"xy\", which the vocabulary lacks"));
  try {
    (void)Vocabulary::load(test::GgufBytes().header(3, 0, 0));
    ADD_FAILURE() << "loaded without a vocabulary";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no metadata \"tokenizer.ggml.model\""));
  }
}

TEST(StreamingDecoder, HoldsBackHalfCharacters) {
  const BpeTokenizer tokenizer = Vocabulary().load();
  StreamingDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(257), "abc");
  EXPECT_EQ(decoder.push(0xf0), "");
  EXPECT_EQ(decoder.push(0x9f), "");
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "😀");
  EXPECT_EQ(decoder.push(0xc3), "");
  EXPECT_EQ(decoder.push('a'),
            "\xc3"
            "a");
  EXPECT_EQ(decoder.push(0xff), "\xff");
  EXPECT_EQ(decoder.push(0xe4), "");
  EXPECT_EQ(decoder.finish(), "\xe4");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(BpeTokenizer, AgreesWithTheReferenceOnARealVocabulary) {
  const char* model = std::getenv("RONDO_TEST_MODEL");
  if (model == nullptr)
    GTEST_SKIP() << "set RONDO_TEST_MODEL to SmolLM2-135M-Instruct as GGUF to run this test";
  const BpeTokenizer tokenizer(*WeightFile::open(model));
  std::ifstream stream(RONDO_SOURCE_DIR "/tests/data/bpe_golden.json");
  const auto cases = nlohmann::json::parse(stream);
  ASSERT_GT(cases.size(), 30);
  for (const auto& each : cases) {
    const auto text = each.at("text").get<std::string>();
    EXPECT_EQ(tokenizer.encode(text), each.at("tokens").get<std::vector<std::int32_t>>()) << text;
  }
}

}  // namespace
}  // namespace rondo::cli
