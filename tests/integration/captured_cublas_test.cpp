// A matrix product of cuBLASLt, captured from a stream and adopted: its matrices and its workspace are
// retargeted, and the result is, bit for bit, what a fresh capture gives. For every algorithm that the
// heuristic offers.
#include <cublasLt.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "rondo/error.h"
#include "rondo/site_map.h"
#include "runtime_test.h"

namespace rondo::integration {
namespace {

void check_blas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(call) + ": " + cublasLtGetStatusName(status));
}
#define BLAS_CHECK(call) check_blas((call), #call)

template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct Destroy {
  using pointer = Handle;
  void operator()(Handle handle) const { destroy(handle); }
};
template <class Handle, cublasStatus_t (*destroy)(Handle)>
using Owned = std::unique_ptr<Handle, Destroy<Handle, destroy>>;

struct Problem {
  const char* name;
  cudaDataType_t type;
  std::uint64_t m, n, k;
};
void PrintTo(const Problem& problem, std::ostream* out) { *out << problem.name; }

constexpr std::size_t workspace_bytes = 32 << 20;
constexpr int most_algorithms = 8;

// output (m × n, by columns) = weights (k × m, transposed) · input (k × n).
class Product {
 public:
  explicit Product(const Problem& problem) : problem_(problem) {
    BLAS_CHECK(cublasLtCreate(out(handle_)));
    BLAS_CHECK(cublasLtMatmulDescCreate(out(operation_), CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    BLAS_CHECK(cublasLtMatmulDescSetAttribute(operation_.get(), CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                              sizeof transposed));
    const auto [name, type, m, n, k] = problem;
    BLAS_CHECK(cublasLtMatrixLayoutCreate(out(weights_), type, k, m, static_cast<std::int64_t>(k)));
    BLAS_CHECK(cublasLtMatrixLayoutCreate(out(input_), type, k, n, static_cast<std::int64_t>(k)));
    BLAS_CHECK(cublasLtMatrixLayoutCreate(out(output_), type, m, n, static_cast<std::int64_t>(m)));
    Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
    BLAS_CHECK(cublasLtMatmulPreferenceCreate(out(preference)));
    BLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference.get(),
                                                    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &workspace_bytes, sizeof workspace_bytes));
    algorithms_.resize(most_algorithms);
    int found = 0;
    BLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(handle_.get(), operation_.get(), weights_.get(), input_.get(),
                                              output_.get(), output_.get(), preference.get(), most_algorithms,
                                              algorithms_.data(), &found));
    algorithms_.resize(static_cast<std::size_t>(found));
  }

  std::size_t algorithms() const { return algorithms_.size(); }
  void run(std::size_t algorithm, const Memory& weights, const Memory& input, const Memory& output,
           const Memory& workspace, cudaStream_t stream) const {
    const float one = 1, zero = 0;
    BLAS_CHECK(cublasLtMatmul(handle_.get(), operation_.get(), &one, weights.get(), weights_.get(),
                              input.get(), input_.get(), &zero, output.get(), output_.get(), output.get(),
                              output_.get(), &algorithms_[algorithm].algo, workspace.get(), workspace_bytes,
                              stream));
  }

  std::size_t element_bytes() const { return problem_.type == CUDA_R_32F ? 4 : 2; }

 private:
  // For a call that makes a handle.
  template <class T>
  class Out {
   public:
    explicit Out(T& owner) : owner_(owner) {}
    ~Out() { owner_.reset(handle_); }
    operator typename T::pointer *() { return &handle_; }

   private:
    T& owner_;
    typename T::pointer handle_ = nullptr;
  };
  template <class T>
  static Out<T> out(T& owner) {
    return Out<T>(owner);
  }

  const Problem problem_;
  Owned<cublasLtHandle_t, cublasLtDestroy> handle_;
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> operation_;
  Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> weights_, input_, output_;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;
};

class CapturedCublas : public RuntimeTest, public ::testing::WithParamInterface<Problem> {
 protected:
  struct Choice {
    std::size_t weights, input, output, workspace;
  };
  static constexpr std::size_t copies = 3;  // of every buffer

  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    const Problem& problem = GetParam();
    product_ = std::make_unique<Product>(problem);
    const std::size_t element = product_->element_bytes();
    for (std::size_t i = 0; i < copies; ++i) {
      weights_.push_back(random_matrix(problem.k * problem.m));
      inputs_.push_back(random_matrix(problem.k * problem.n));
      outputs_.emplace_back(problem.m * problem.n * element);
      workspaces_.emplace_back(workspace_bytes);
    }
  }
  Memory random_matrix(std::size_t elements) {
    std::uniform_real_distribution<float> value(-1, 1);
    std::vector<std::uint32_t> words(elements);
    Memory memory(elements * product_->element_bytes());
    std::vector<std::byte> bytes(elements * product_->element_bytes());
    for (std::size_t i = 0; i < elements; ++i) {
      const float drawn = value(random_);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &drawn, sizeof bits);
      if (GetParam().type == CUDA_R_32F) {
        std::memcpy(bytes.data() + 4 * i, &bits, 4);
      } else {
        const auto upper = static_cast<std::uint16_t>(bits >> 16);  // bfloat16
        std::memcpy(bytes.data() + 2 * i, &upper, 2);
      }
    }
    memory.write(bytes.data());
    return memory;
  }
  // Whatever is loaded at first use cannot be while a stream captures.
  void run_once(std::size_t algorithm, const Choice& choice) {
    product_->run(algorithm, weights_[choice.weights], inputs_[choice.input], outputs_[choice.output],
                  workspaces_[choice.workspace], stream_);
    RUNTIME_CHECK(cudaStreamSynchronize(stream_));
  }
  Captured capture_product(std::size_t algorithm, const Choice& choice) {
    return Captured(capture(stream_, [&] {
      product_->run(algorithm, weights_[choice.weights], inputs_[choice.input], outputs_[choice.output],
                    workspaces_[choice.workspace], stream_);
    }));
  }
  std::vector<std::byte> fresh(std::size_t algorithm, const Choice& choice) {
    const Captured captured = capture_product(algorithm, choice);
    outputs_[choice.output].poison();
    captured.launch(stream_);
    EXPECT_FALSE(outputs_[choice.output].is_poisoned());
    return outputs_[choice.output].read();
  }
  SiteMap map_of(std::size_t algorithm, CapturedGraph& captured, const Choice& first, const Choice& second) {
    const Captured other = capture_product(algorithm, second);
    CapturedGraph adopted = CapturedGraph::adopt(device_, other.graph());
    const std::vector<NamedBuffer> named{
        {"weights", weights_[first.weights].range(), weights_[second.weights].range()},
        {"input", inputs_[first.input].range(), inputs_[second.input].range()},
        {"output", outputs_[first.output].range(), outputs_[second.output].range()},
        {"workspace", workspaces_[first.workspace].range(), workspaces_[second.workspace].range()}};
    return SiteMap::diff(captured, adopted, named);
  }
  void retarget_at_random(std::size_t algorithm, int rounds);

  std::unique_ptr<Product> product_;
  std::vector<Memory> weights_, inputs_, outputs_, workspaces_;
};

void CapturedCublas::retarget_at_random(std::size_t algorithm, int rounds) {
  Choice now{0, 0, 0, 0};
  run_once(algorithm, now);
  const Captured captured = capture_product(algorithm, now);
  CapturedGraph adopted = CapturedGraph::adopt(device_, captured.graph());
  expect_all(adopted, captured.graph());
  ASSERT_FALSE(adopted.nodes().empty());
  const SiteMap map = map_of(algorithm, adopted, now, {1, 1, 1, 1});
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const Choice then{below(copies), below(copies), below(copies), below(copies)};
    const std::vector<std::byte> wanted = fresh(algorithm, then);
    const auto move = [&](const Memory& from, const Memory& to) {
      return adopted.retarget(from.range(), to.range().begin, &map);
    };
    EXPECT_GT(move(weights_[now.weights], weights_[then.weights]), 0U);
    EXPECT_GT(move(inputs_[now.input], inputs_[then.input]), 0U);
    EXPECT_GT(move(outputs_[now.output], outputs_[then.output]), 0U);
    move(workspaces_[now.workspace], workspaces_[then.workspace]);  // not all algorithms use one
    now = then;
    for (Memory& output : outputs_) output.poison();
    apply(adopted, captured);
    captured.launch(stream_);
    ASSERT_TRUE(outputs_[now.output].read() == wanted) << "not what a fresh capture gives";
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      ASSERT_TRUE(i == now.output || outputs_[i].is_poisoned()) << "output " << i << " was written";
  }
}

TEST_P(CapturedCublas, RandomRetargetsGiveWhatAFreshCaptureGives) {
  ASSERT_GT(product_->algorithms(), 0U);
  for (std::size_t algorithm = 0; algorithm < product_->algorithms(); ++algorithm) {
    SCOPED_TRACE("algorithm " + std::to_string(algorithm));
    ASSERT_NO_FATAL_FAILURE(retarget_at_random(algorithm, 25));
  }
}

// The last one is deep and narrow: split along k, its parts are summed through the workspace.
INSTANTIATE_TEST_SUITE_P(Product, CapturedCublas,
                         ::testing::Values(Problem{"bf16", CUDA_R_16BF, 512, 256, 384},
                                           Problem{"f32", CUDA_R_32F, 256, 128, 256},
                                           Problem{"bf16_deep", CUDA_R_16BF, 64, 64, 16384}),
                         [](const auto& problem) { return problem.param.name; });

}  // namespace
}  // namespace rondo::integration
