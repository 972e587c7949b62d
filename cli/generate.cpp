// rondo generate: text from a language model. A small program on top of the public API: every token is one
// launch of a schedule that has a step param "pos" and a buffer "token", which it reads and writes the next
// token into.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "bpe_tokenizer.h"
#include "buffers.h"
#include "commands.h"
#include "interrupt.h"
#include "report.h"

namespace rondo::cli {
namespace {

using Token = std::int32_t;

struct GenerateArguments {
  SessionArguments session;
  std::string prompt;
  std::uint64_t tokens = 64;
  bool chat = false, raw = false;  // raw is the default, spelled out
  bool json = false;
};

struct Generation {
  std::vector<Token> prompt, tokens;
  std::uint64_t fed = 0;  // tokens of the prompt that were launched
  std::string text;
  std::string stopped;  // why: "end of text", "tokens", "context full", "interrupted", "output closed"
  double first_launch_ms = 0, prompt_seconds = 0, seconds = 0;

  double prompt_rate() const { return static_cast<double>(fed) / prompt_seconds; }
  // The launch of the last prompt token gave the first new token, so n tokens took n - 1 launches.
  double rate() const { return tokens.size() > 1 ? static_cast<double>(tokens.size() - 1) / seconds : 0; }
};

// The schedule's side of the agreement: one token in, the next one out.
struct Decoder {
  Session& session;
  ParamHandle position;
  BufferHandle token;
  std::uint64_t context;  // how many positions there are

  explicit Decoder(Session& with)
      : session(with), position(with.param("pos")), token(with.buffer("token")), context(0) {
    const ParamInfo& pos = session.params()[position.index];
    const BufferInfo& buffer = session.buffers()[token.index];
    if (!pos.is_step || !info(pos.type).is_integer || buffer.type != DataType::i32 ||
        buffer.bytes != sizeof(Token)) {
      throw Error(ErrorCode::bad_schedule,
                  "this schedule cannot generate: expected an integer step param \"pos\" and an i32 buffer "
                  "\"token\" of one "
                  "element");
    }
    context = pos.largest < 0 ? 0 : static_cast<std::uint64_t>(pos.largest) + 1;
  }

  void give(Token value) { require(session, session.write(token, std::as_bytes(std::span(&value, 1)))); }
  void step(std::uint64_t at) {
    require(session, session.set(position, static_cast<std::int64_t>(at)));
    require(session, session.launch());
  }
  Token next() {
    Token value = 0;
    require(session, session.read(token, std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }
};

// RONDO_CONFIGS, else configs/ beside the program's folder (a build tree, an installation), else the source
// tree's.
std::string default_schedule() {
  const std::filesystem::path inside = std::filesystem::path("llama") / "decode.json";
  if (const char* folder = std::getenv("RONDO_CONFIGS"); folder != nullptr && *folder != '\0') {
    return (std::filesystem::path(folder) / inside).string();
  }
  std::error_code fault;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", fault);
  if (!fault) {
    for (const char* relative : {"../configs", "../share/rondo/configs"}) {
      const auto candidate = (program.parent_path() / relative / inside).lexically_normal();
      if (std::filesystem::exists(candidate, fault)) return candidate.string();
    }
  }
  return (std::filesystem::path(RONDO_SOURCE_CONFIGS) / inside).string();
}

// The conversation format that models with <|im_start|> in their vocabulary were trained on (ChatML).
std::string as_chat(const std::string& prompt, const WeightFile& weights) {
  const MetadataValue* text = weights.metadata("tokenizer.chat_template");
  const auto* form = text ? std::get_if<std::string>(text) : nullptr;
  if (form == nullptr || form->find("<|im_start|>") == std::string::npos) {
    throw Error(ErrorCode::bad_argument, "--chat: the model's own template is not of the <|im_start|> kind",
                "write the conversation out in the prompt");
  }
  return "<|im_start|>user\n" + prompt + "<|im_end|>\n<|im_start|>assistant\n";
}

// "12 7,300" → 12, 7, 300.
std::vector<Token> parse_tokens(const std::string& prompt) {
  std::vector<Token> tokens;
  const char* at = prompt.data();
  const char* const end = at + prompt.size();
  const auto is_separator = [](char c) { return c == ' ' || c == ',' || c == '\n' || c == '\t'; };
  while (true) {
    while (at != end && is_separator(*at)) ++at;
    if (at == end) return tokens;
    Token token = -1;
    const auto [rest, code] = std::from_chars(at, end, token);
    if (code != std::errc() || token < 0 || (rest != end && !is_separator(*rest))) {
      throw Error(ErrorCode::bad_argument,
                  fmt::format("these weights come without a vocabulary, so that the prompt is tokens' "
                              "numbers: \"{}\" is none",
                              std::string(at, std::find_if(at, end, is_separator))),
                  "give numbers from 0, with spaces between them");
    }
    tokens.push_back(token);
    at = rest;
  }
}

// Tokens as text, by the vocabulary that comes with the weights; by their numbers where none does.
class Words {
 public:
  explicit Words(const WeightFile* weights) : weights_(weights) {
    if (weights == nullptr) return;
    if (weights->metadata("tokenizer.ggml.model") != nullptr) {
      tokenizer_.emplace(*weights);
      decoder_.emplace(*tokenizer_);
      eos_ = tokenizer_->eos();
    } else if (const MetadataValue* eos = weights->metadata("eos_token_id")) {
      if (const auto* number = std::get_if<std::int64_t>(eos);
          number != nullptr && *number == static_cast<Token>(*number))
        eos_ = static_cast<Token>(*number);
    }
  }

  std::optional<Token> eos() const noexcept { return eos_; }

  std::vector<Token> encode(const GenerateArguments& arguments) const {
    if (arguments.prompt.empty())
      throw Error(ErrorCode::bad_argument, "the prompt is empty", "give some text to go on from");
    if (!tokenizer_ && arguments.chat)
      throw Error(ErrorCode::bad_argument, "--chat: these weights come without a vocabulary",
                  "give tokens' numbers");
    auto tokens = tokenizer_ ? tokenizer_->encode(arguments.chat ? as_chat(arguments.prompt, *weights_)
                                                                 : arguments.prompt)
                             : parse_tokens(arguments.prompt);
    if (tokens.empty() && tokenizer_)
      throw Error(ErrorCode::bad_argument, "the model's vocabulary has no token for anything in the prompt");
    if (tokens.empty())
      throw Error(ErrorCode::bad_argument, "the prompt has no token in it", "give tokens' numbers");
    return tokens;
  }

  std::string push(Token token) { return decoder_ ? decoder_->push(token) : fmt::format(" {}", token); }
  std::string finish() { return decoder_ ? decoder_->finish() : ""; }

 private:
  const WeightFile* weights_;
  std::optional<BpeTokenizer> tokenizer_;
  std::optional<StreamingDecoder> decoder_;
  std::optional<Token> eos_;
};

// Where the schedule has a constant "vocab": a token that is none would be taken for another.
void check_tokens(const Session& session, const std::vector<Token>& tokens) {
  for (const ParamInfo& param : session.params()) {
    if (param.name != "vocab" || param.is_step || !info(param.type).is_integer) continue;
    const auto bad =
        std::find_if(tokens.begin(), tokens.end(), [&](Token token) { return token >= param.integer; });
    if (bad == tokens.end()) return;
    throw Error(
        ErrorCode::bad_argument,
        fmt::format("the prompt has the token {}, and the model's are 0 to {}", *bad, param.integer - 1));
  }
}

void feed_prompt(Decoder& decoder, Generation& generation, const InterruptGuard& interrupt,
                 const Environment& environment) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t at = 0; at < generation.prompt.size() && !interrupt.requested(); ++at) {
    decoder.give(generation.prompt[at]);
    decoder.step(at);
    ++generation.fed;
    if (at == 0) generation.first_launch_ms = milliseconds_since(environment.start);
  }
  require(decoder.session, decoder.session.synchronize());
  generation.prompt_seconds = milliseconds_since(begin) / 1e3;
}

void generate_tokens(Decoder& decoder, Words& words, const GenerateArguments& arguments,
                     const InterruptGuard& interrupt, Console& console, Generation& generation) {
  const auto begin = std::chrono::steady_clock::now();
  const auto show = [&](const std::string& piece) {
    generation.text += piece;
    if (!arguments.json) console.print(piece);
  };
  std::uint64_t position = generation.prompt.size();
  while (generation.stopped.empty()) {
    const Token token = decoder.next();
    if (token == words.eos()) {
      generation.stopped = "end of text";
      break;
    }
    generation.tokens.push_back(token);
    show(words.push(token));
    if (generation.tokens.size() == arguments.tokens) {
      generation.stopped = "tokens";
    } else if (interrupt.requested()) {
      generation.stopped = "interrupted";
    } else if (console.output_closed()) {
      generation.stopped = "output closed";
    } else if (position == decoder.context) {
      generation.stopped = "context full";
    } else {
      try {
        decoder.step(position++);
      } catch (...) {
        if (!arguments.json) console.print("\n");  // the error begins a line of its own
        throw;
      }
    }
  }
  generation.seconds = milliseconds_since(begin) / 1e3;
  show(words.finish());
  if (!arguments.json) console.print("\n");
}

std::string json_report(const Session& session, const DeviceProperties& device,
                        const GenerateArguments& arguments, double build_ms, const Generation& generation) {
  Json json = {
      {"model", arguments.session.weights}, {"device", to_json(device)}, {"mode", name(session.mode())}};
  json["prompt"] = arguments.prompt;
  json["prompt_tokens"] = generation.prompt;
  json["tokens"] = generation.tokens;
  json["text"] = generation.text;
  json["stopped"] = generation.stopped;
  json["prompt_tokens_per_second"] = generation.prompt_rate();
  json["tokens_per_second"] = generation.rate();
  json["first_launch_ms"] = generation.first_launch_ms;
  json["build"] = to_json(session.summary());
  json["build"]["milliseconds"] = build_ms;
  json["counters"] = to_json(session.counters());
  return to_text(json);
}

int generate(GenerateArguments arguments, Environment& environment) {
  Console& console = environment.console;
  if (arguments.session.schedule.empty()) arguments.session.schedule = default_schedule();
  SessionBuilder builder(arguments.session, console);
  Words words(builder.options().weights.get());
  Generation generation;
  generation.prompt = words.encode(arguments);

  const auto device = open_device(arguments.session.device);
  const auto begin = std::chrono::steady_clock::now();
  Session session = builder.build(device);
  const double build_ms = milliseconds_since(begin);
  Decoder decoder(session);
  check_tokens(session, generation.prompt);
  if (generation.prompt.size() > decoder.context) {
    throw Error(ErrorCode::bad_argument,
                fmt::format("the prompt has {} tokens, but the context has room for {}",
                            generation.prompt.size(), decoder.context),
                "shorten it, or give --const context=N where the model allows it");
  }
  const InterruptGuard interrupt;
  if (!arguments.json && !arguments.chat) console.print(arguments.prompt);
  feed_prompt(decoder, generation, interrupt, environment);
  if (interrupt.requested()) {
    generation.stopped = "interrupted";
  } else {
    generate_tokens(decoder, words, arguments, interrupt, console, generation);
  }
  if (arguments.json) {
    console.print(json_report(session, device->properties(), arguments, build_ms, generation));
  } else {
    console.notice(fmt::format(
        "{}, {} mode: prompt {} tokens, {:.1f} tokens/s; generated {} tokens, {:.1f} tokens/s; stopped: {}",
        describe(device->properties()), name(session.mode()), generation.prompt.size(),
        generation.prompt_rate(), generation.tokens.size(), generation.rate(), generation.stopped));
  }
  return generation.stopped == "interrupted" ? interrupted_exit_code : 0;
}

}  // namespace

void add_generate(CLI::App& program, Action& action) {
  CLI::App& command =
      *program.add_subcommand("generate", "Go on from a prompt with a language model, greedily");
  const auto arguments = std::make_shared<GenerateArguments>();
  command
      .add_option("prompt", arguments->prompt,
                  "The text to go on from; tokens' numbers where the weights have no vocabulary")
      ->required()
      ->type_name("PROMPT");
  add_build_options(command, arguments->session);
  command.get_option("--weights")->required();
  add_mode_option(command, arguments->session);
  command.add_option("-n,--tokens", arguments->tokens, "How many tokens at most")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 31))
      ->capture_default_str();
  command
      .add_option("--schedule", arguments->session.schedule,
                  "One decode step. Without it llama/decode.json, in $RONDO_CONFIGS or the folder that came "
                  "with the program")
      ->type_name("FILE");
  auto* chat = command.add_flag("--chat", arguments->chat, "Put the prompt to the model as a user's message");
  command.add_flag("--raw", arguments->raw, "Give the prompt to the model as it is (the default)")
      ->excludes(chat);
  command.add_flag("--json", arguments->json, "Report as one JSON object, the text in it");
  command.callback([&action, arguments] {
    action = [arguments](Environment& environment) { return generate(*arguments, environment); };
  });
}

}  // namespace rondo::cli
