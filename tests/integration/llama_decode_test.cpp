// configs/llama/decode.json against a float64 reference of the same weights, on every device there is.
//
// make_references.py has made one folder for each model: model.gguf (or model.path, which names it, or a folder of safetensors, from there), and for each prompt p tokens_p.npy
// (int32 [steps + 1]) and logits_p.npy (float32 [steps, vocab]), the reference's logits after each token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "must_be_there.h"
#include "rondo/device.h"
#include "rondo/session.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

fs::path references() { return fs::path(RONDO_BINARY_DIR) / "references"; }

struct Prompt {
  std::vector<std::int32_t> tokens;  // steps + 1
  std::vector<float> logits;         // steps × vocab
  std::size_t vocab = 0;
  std::size_t steps() const { return tokens.size() - 1; }
};

template <typename T>
std::vector<T> load(const fs::path& file, std::vector<std::size_t>* shape = nullptr) {
  const auto opened = WeightFile::open(file);
  const Tensor& tensor = opened->tensors().front();
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  if (shape != nullptr) *shape = tensor.shape;
  return values;
}

std::vector<Prompt> load_prompts(const fs::path& folder) {
  std::vector<Prompt> prompts;
  for (int p = 0; fs::exists(folder / ("tokens_" + std::to_string(p) + ".npy")); ++p) {
    Prompt prompt;
    std::vector<std::size_t> shape;
    prompt.tokens = load<std::int32_t>(folder / ("tokens_" + std::to_string(p) + ".npy"));
    prompt.logits = load<float>(folder / ("logits_" + std::to_string(p) + ".npy"), &shape);
    prompt.vocab = shape.at(1);
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

std::size_t context_of(const std::vector<Prompt>& prompts) {
  std::size_t context = 128;
  for (const Prompt& prompt : prompts) context = std::max(context, prompt.steps());
  return context;
}

fs::path model_of(const fs::path& folder) {
  std::ifstream link(folder / "model.path");
  std::string path;
  return folder / (std::getline(link, path) ? path : "model.gguf");
}

double relative_error(const float* out, const float* reference, std::size_t count) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < count; ++i) {
    error += (double{out[i]} - reference[i]) * (double{out[i]} - reference[i]);
    norm += double{reference[i]} * reference[i];
  }
  return std::sqrt(error / norm);
}

// Whether the reference's first two tokens are so close that rounding may decide between them.
bool is_tie(const float* logits, std::size_t count) {
  std::vector<float> sorted(logits, logits + count);
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
  return sorted[0] - sorted[1] < 1e-3 * (sorted[0] - *std::min_element(logits, logits + count));
}

// A decode session with its handles.
class Decoder {
 public:
  Decoder(const std::shared_ptr<Device>& device, const fs::path& model, std::string by_slot, Mode mode, std::size_t context = 128,
          std::vector<std::pair<std::string, std::string>> constants = {})
      : session(Session::load(fs::path(RONDO_SOURCE_DIR) / "configs/llama/decode.json", device,
                              {.mode = mode,
                               .constants = with(std::move(constants), {{"kv_by_slot", std::move(by_slot)}, {"context", std::to_string(context)}}),
                               .weights = WeightFile::open(model),
                               .separate_buffers = false,
                               .cache_directory = fs::path(RONDO_BINARY_DIR) / "test_cache",
                               .compile_threads = 0,
                               .progress = {},
                               .notice = {}})),
        pos_(session.param("pos")),
        token_(session.buffer("token")),
        logits_(session.buffer("logits")),
        vocab_(session.buffers()[logits_.index].shape[0]) {}

  void feed(std::int32_t token) { check(session.write(token_, std::as_bytes(std::span(&token, 1))), "writing the token"); }

  std::vector<float> step(std::size_t position) {
    check(session.fill_bytes(logits_, 0xff), "poisoning the logits");
    check(session.set(pos_, static_cast<std::int64_t>(position)), "setting the position");
    if (const Status status = session.launch(); !status.ok()) throw session.error(status);
    std::vector<float> logits(vocab_);
    check(session.read(logits_, std::as_writable_bytes(std::span(logits))), "reading the logits");
    return logits;
  }

  std::int32_t next_token() {
    std::int32_t token = -1;
    check(session.read(token_, std::as_writable_bytes(std::span(&token, 1))), "reading the token");
    return token;
  }

  bool is_persistent() const { return session.params()[session.param("persistent").index].integer != 0; }

  Session session;

 private:
  using Constants = std::vector<std::pair<std::string, std::string>>;
  static Constants with(Constants constants, const Constants& more) {
    constants.insert(constants.end(), more.begin(), more.end());
    return constants;
  }

  ParamHandle pos_;
  BufferHandle token_, logits_;
  std::size_t vocab_;
};

class LlamaDecode : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!fs::exists(references())) GTEST_SKIP() << "no references; tests/integration/make_references.py makes them";
    open_or_skip(GetParam(), device_);
  }

  static std::vector<fs::path> models() {
    std::vector<fs::path> folders;
    // The doubles run the host's code, slowly: the large models show nothing there that they do not show on the
    // host.
    const bool on_a_double = std::getenv("RONDO_TEST_DOUBLES") != nullptr;
    for (const auto& entry : fs::directory_iterator(references())) {
      const std::string name = entry.path().filename().string();
      if (on_a_double && (name.starts_with("wide") || name.ends_with("long"))) continue;
      if (fs::exists(entry.path() / "tokens_0.npy")) folders.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
    return folders;
  }

  static void expect_same_bits(std::span<Decoder> decoders, std::span<const std::int32_t> tokens) {
    for (std::size_t i = 0; i < 24; ++i) {
      std::vector<float> first;
      for (Decoder& decoder : decoders) {
        decoder.feed(tokens[i]);
        const std::vector<float> logits = decoder.step(i);
        if (first.empty()) first = logits;
        ASSERT_EQ(std::memcmp(first.data(), logits.data(), first.size() * sizeof(float)), 0)
            << "step " << i << ", form " << &decoder - decoders.data();
      }
    }
  }

  std::shared_ptr<Device> device_;
};

INSTANTIATE_TEST_SUITE_P(Devices, LlamaDecode, ::testing::Values("host", "cuda", "hip"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(LlamaDecode, LogitsFollowTheReferenceFedItsOwnTokens) {
  ASSERT_FALSE(models().empty());
  for (const fs::path& folder : models()) {
    SCOPED_TRACE(folder.filename().string());
    const std::vector<Prompt> prompts = load_prompts(folder);
    Decoder decoder(device_, model_of(folder), "0", Mode::graph, context_of(prompts));
    double worst = 0;
    for (const Prompt& prompt : prompts) {
      ASSERT_TRUE(decoder.session.reset().ok());
      for (std::size_t i = 0; i < prompt.steps(); ++i) {
        decoder.feed(prompt.tokens[i]);
        const std::vector<float> logits = decoder.step(i);
        ASSERT_EQ(logits.size(), prompt.vocab);
        const double error = relative_error(logits.data(), &prompt.logits[i * prompt.vocab], prompt.vocab);
        ASSERT_LT(error, 1e-3) << "step " << i;  // a NaN fails too
        worst = std::max(worst, error);
        // The argmax on the device is that of the logits it saw: the first of the largest.
        ASSERT_EQ(decoder.next_token(), std::max_element(logits.begin(), logits.end()) - logits.begin()) << "step " << i;
      }
    }
    const Counters& counters = decoder.session.counters();
    EXPECT_EQ(counters.graph_launches, counters.launches);
    EXPECT_EQ(counters.instantiations, 1u + counters.renewals);
    EXPECT_EQ(counters.failed_renewals, 0u);
    EXPECT_EQ(counters.captures, 0u);
    // Where the persistent kernel can be had, it is what was tested.
    const DeviceProperties& properties = device_->properties();
    const std::string name = folder.filename().string();
    if (name.starts_with("wide") && !name.ends_with("safetensors") && properties.compute_capability >= 90 && properties.warp_size == 32 && properties.processors <= 160) {
      EXPECT_TRUE(decoder.is_persistent());
    }
    std::printf("%s, %s%s: worst relative error of the logits %.2e\n", GetParam(), folder.filename().c_str(),
                decoder.is_persistent() ? ", persistent" : "", worst);
  }
}

TEST_P(LlamaDecode, GreedyTokensAreTheReferencesUpToATie) {
  for (const fs::path& folder : models()) {
    SCOPED_TRACE(folder.filename().string());
    const std::vector<Prompt> prompts = load_prompts(folder);
    Decoder decoder(device_, model_of(folder), "1", Mode::graph, context_of(prompts));
    for (const Prompt& prompt : prompts) {
      ASSERT_TRUE(decoder.session.reset().ok());
      bool free_running = false;
      for (std::size_t i = 0; i < prompt.steps(); ++i) {
        const float* reference = &prompt.logits[i * prompt.vocab];
        // Inside the prompt its tokens are given; from the first that the reference chose itself on, each step reads what the last wrote.
        const auto chosen = std::max_element(reference, reference + prompt.vocab) - reference;
        if (!free_running) decoder.feed(prompt.tokens[i]);
        decoder.step(i);
        if (is_tie(reference, prompt.vocab)) break;
        free_running = i + 1 < prompt.tokens.size() && chosen == prompt.tokens[i + 1];
        ASSERT_EQ(decoder.next_token(), chosen) << "step " << i;
      }
    }
  }
}

// The same kernels, pointer and slot form, graph and eager replay: the same bits.
TEST_P(LlamaDecode, AllFormsGiveTheSameBits) {
  for (const fs::path& folder : models()) {
    SCOPED_TRACE(folder.filename().string());
    const fs::path model = model_of(folder);
    const std::vector<std::pair<std::string, std::string>> kernels = {{"persistent", "0"}};
    Decoder decoders[] = {{device_, model, "0", Mode::graph, 128, kernels},
                          {device_, model, "1", Mode::graph, 128, kernels},
                          {device_, model, "0", Mode::eager, 128, kernels},
                          {device_, model, "1", Mode::eager, 128, kernels}};
    expect_same_bits(decoders, load_prompts(folder).front().tokens);
    // By slot one node changes with the step, whatever the number of layers.
    EXPECT_EQ(decoders[1].session.counters().node_updates, 23u);
  }
}

// The persistent kernel: blocks finish in any order, and what they give does not depend on it.
TEST_P(LlamaDecode, ThePersistentKernelGivesTheSameBitsAgain) {
  bool found = false;
  for (const fs::path& folder : models()) {
    SCOPED_TRACE(folder.filename().string());
    const fs::path model = model_of(folder);
    Decoder decoders[] = {{device_, model, "0", Mode::graph}, {device_, model, "0", Mode::eager}, {device_, model, "0", Mode::graph}};
    if (!decoders[0].is_persistent()) continue;
    found = true;
    // Its words are tagged by how many steps there were, which must not show either.
    for (int i = 0; i < 5; ++i) {
      decoders[2].feed(1);
      decoders[2].step(static_cast<std::size_t>(i));
    }
    expect_same_bits(decoders, load_prompts(folder).front().tokens);
  }
  if (!found) GTEST_SKIP() << "the persistent kernel is not for this device";
}

}  // namespace
}  // namespace rondo
