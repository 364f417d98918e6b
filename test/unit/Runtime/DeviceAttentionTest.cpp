//===- DeviceAttentionTest.cpp - how attention reaches cuDNN --------------===//
//
// On the simulated library, which runs the operations that it is handed one by
// one: what is checked here is that together they are attention.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"
#include "Elements.h"
#include "Simulated.h"
#include "Support.h"
#include "cuda/CudaRank.h"

#include <gtest/gtest.h>

using namespace mt::runtime;
using namespace mt::runtime::cuda;

namespace {

/// An element of an attention's tensor, by batch, row, head and column.
struct Place {
  int64_t batch, row, head, column;
};

/// Memory of the host that an attention's tensors lie in.
class Tensors {
public:
  Tensors(const AttentionSizes &sizes, bool isGradient)
      : sizes(sizes), attention(makeAttention(sizes, isGradient)) {
    begins.resize(attention.strides.size());
    for (size_t i = 0; i < begins.size(); ++i) {
      auto tensor = AttentionTensor(i);
      int64_t width = sizes.width;
      bool isSecond = tensor == Key || tensor == KeyGrad;
      bool isThird = tensor == Value || tensor == ValueGrad;
      if (sizes.isJoined && isSecond)
        begins[i] = begins[i - 1] + sizes.heads * width * 2;
      else if (sizes.isJoined && isThird)
        begins[i] = begins[i - 1] + sizes.keyHeads * width * 2;
      else
        begins[i] = end;
      end = std::max(end, begins[i] + bytesOf(tensor));
      end = (end + 63) / 64 * 64;
    }
    bytes.resize(size_t(end));
  }

  double get(AttentionTensor tensor, const Place &place) const {
    return loadFloat(type(tensor), bytes.data() + begins[size_t(tensor)],
                     index(tensor, place));
  }
  void set(AttentionTensor tensor, const Place &place, double value) {
    storeFloat(type(tensor), bytes.data() + begins[size_t(tensor)],
               index(tensor, place), value);
  }
  template <typename ActionFn>
  void forEach(AttentionTensor tensor, ActionFn action) const {
    for (int64_t b = 0; b < sizes.batch; ++b)
      for (int64_t r = 0; r < rows(tensor); ++r)
        for (int64_t h = 0; h < heads(tensor); ++h)
          for (int64_t c = 0; c < columns(tensor); ++c)
            action(Place{b, r, h, c});
  }
  /// Numbers between -1 and 1 without a pattern.
  void fill(AttentionTensor tensor) {
    forEach(tensor, [&](const Place &place) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      set(tensor, place, double(state >> 40) / (1 << 23) - 1);
    });
  }

  AttentionSizes sizes;
  DeviceAttention attention;
  std::vector<int64_t> begins;
  std::vector<char> bytes;

private:
  bool isOfKeys(AttentionTensor tensor) const {
    return tensor == Key || tensor == Value || tensor == KeyGrad ||
           tensor == ValueGrad;
  }
  int64_t rows(AttentionTensor tensor) const {
    return isOfKeys(tensor) ? sizes.keys : sizes.queries;
  }
  int64_t heads(AttentionTensor tensor) const {
    return isOfKeys(tensor) ? sizes.keyHeads : sizes.heads;
  }
  int64_t columns(AttentionTensor tensor) const {
    return tensor == LogSumExp ? 1 : sizes.width;
  }
  mt_dtype type(AttentionTensor tensor) const {
    return tensor == LogSumExp ? MT_F32 : MT_BF16;
  }
  int64_t index(AttentionTensor tensor, const Place &place) const {
    const AttentionStrides &strides = attention.strides[size_t(tensor)];
    return place.batch * strides.batch + place.row * strides.sequence +
           place.head * strides.head + place.column;
  }
  int64_t bytesOf(AttentionTensor tensor) const {
    return (index(tensor, {sizes.batch - 1, rows(tensor) - 1, heads(tensor) - 1,
                           columns(tensor) - 1}) +
            1) *
           elementBytes(type(tensor));
  }

  int64_t end = 0;
  uint64_t state = 1;
};

/// Attention by its definition, one row of one head at a time.
class Reference {
public:
  explicit Reference(const Tensors &tensors) : t(tensors), s(tensors.sizes) {}

  /// The weights of a query's keys, and the log-sum-exp.
  std::vector<double> weights(const Place &query, double &logSumExp) const {
    std::vector<double> scores;
    int64_t seen = s.isCausal ? std::min(query.row + 1, s.keys) : s.keys;
    double sum = 0;
    for (int64_t key = 0; key < seen; ++key) {
      scores.push_back(
          t.attention.scale *
          dot(Query, query, Key, {query.batch, key, of(query), 0}));
      sum += std::exp(scores.back());
    }
    logSumExp = std::log(sum);
    for (double &score : scores)
      score = std::exp(score - logSumExp);
    return scores;
  }
  double dot(AttentionTensor a, Place placeA, AttentionTensor b,
             Place placeB) const {
    double sum = 0;
    for (int64_t c = 0; c < s.width; ++c) {
      placeA.column = placeB.column = c;
      sum += t.get(a, placeA) * t.get(b, placeB);
    }
    return sum;
  }
  /// The keys' head of a query's.
  int64_t of(const Place &query) const {
    return query.head / (s.heads / s.keyHeads);
  }

  void addForward(Tensors &result) const {
    t.forEach(LogSumExp, [&](const Place &query) {
      double logSumExp = 0;
      std::vector<double> weights = this->weights(query, logSumExp);
      result.set(LogSumExp, query, logSumExp);
      for (int64_t c = 0; c < s.width; ++c) {
        double sum = 0;
        for (size_t key = 0; key < weights.size(); ++key)
          sum += weights[key] *
                 t.get(Value, {query.batch, int64_t(key), of(query), c});
        result.set(Output, {query.batch, query.row, query.head, c}, sum);
      }
    });
  }

  /// The gradients in f64, by tensor and in forEach's order.
  std::map<AttentionTensor, std::vector<double>> gradients() const {
    std::map<AttentionTensor, std::vector<double>> result;
    auto at = [&](AttentionTensor tensor, const Place &p) -> double & {
      bool isQuery = tensor == QueryGrad;
      int64_t rows = isQuery ? s.queries : s.keys;
      int64_t heads = isQuery ? s.heads : s.keyHeads;
      std::vector<double> &values = result[tensor];
      values.resize(size_t(s.batch * rows * heads * s.width));
      return values[size_t(
          ((p.batch * rows + p.row) * heads + p.head) * s.width + p.column)];
    };
    t.forEach(LogSumExp, [&](Place query) {
      double logSumExp = 0;
      std::vector<double> weights = this->weights(query, logSumExp);
      double inner = dot(Cotangent, query, Output, query);
      for (size_t i = 0; i < weights.size(); ++i) {
        Place key{query.batch, int64_t(i), of(query), 0};
        double grad = t.attention.scale * weights[i] *
                      (dot(Cotangent, query, Value, key) - inner);
        for (int64_t c = 0; c < s.width; ++c) {
          key.column = query.column = c;
          at(ValueGrad, key) += weights[i] * t.get(Cotangent, query);
          at(KeyGrad, key) += grad * t.get(Query, query);
          at(QueryGrad, query) += grad * t.get(Key, key);
        }
      }
    });
    return result;
  }

private:
  const Tensors &t;
  const AttentionSizes &s;
};

class DeviceAttentionTest : public testing::Test {
protected:
  DeviceAttentionTest() {
    environment.simulate();
    driver.emplace();
    context.emplace(*driver, 0);
    streams.emplace(*driver);
    library.emplace();
  }

  Owned<CUdeviceptr> allocate(size_t bytes) {
    CUdeviceptr address = 0;
    MT_CHECK(*driver, MemAlloc, &address, bytes);
    return {address, driver->MemFree};
  }
  Owned<CUdeviceptr> upload(const Tensors &tensors) {
    Owned<CUdeviceptr> memory = allocate(tensors.bytes.size());
    MT_CHECK(*driver, MemcpyHtoDAsync, memory.get(), tensors.bytes.data(),
             tensors.bytes.size(), streams->compute());
    streams->awaitCompute();
    return memory;
  }
  std::vector<int64_t> addresses(const Tensors &tensors,
                                 const Owned<CUdeviceptr> &memory) {
    std::vector<int64_t> result;
    for (int64_t begin : tensors.begins)
      result.push_back(int64_t(memory.get()) + begin);
    return result;
  }
  /// Runs it and takes what is in memory then; false: the library does not.
  bool run(Tensors &tensors) {
    FusedAttention fused(*library, *driver, streams->compute(),
                         {tensors.attention});
    Owned<CUdeviceptr> memory = upload(tensors);
    // No byte more than it says.
    Owned<CUdeviceptr> workspace =
        allocate(size_t(std::max<int64_t>(fused.workspaceBytes(), 1)));
    if (!fused.run(0, addresses(tensors, memory).data(), workspace.get()))
      return false;
    MT_CHECK(*driver, MemcpyDtoHAsync, tensors.bytes.data(), memory.get(),
             tensors.bytes.size(), streams->compute());
    streams->awaitCompute();
    return true;
  }

  static void expectNear(const std::vector<double> &found,
                         const std::vector<double> &expected, double tolerance,
                         const char *what) {
    ASSERT_EQ(found.size(), expected.size());
    double most = 0;
    for (double value : expected)
      most = std::max(most, std::abs(value));
    ASSERT_GT(most, 0);
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], tolerance * most) << what << " " << i;
  }
  static std::vector<double> values(const Tensors &tensors,
                                    AttentionTensor tensor) {
    std::vector<double> result;
    tensors.forEach(tensor, [&](const Place &place) {
      result.push_back(tensors.get(tensor, place));
    });
    return result;
  }

  void checkForward(const AttentionSizes &sizes) {
    Tensors tensors(sizes, /*isGradient=*/false);
    for (AttentionTensor input : {Query, Key, Value})
      tensors.fill(input);
    Tensors expected = tensors, found = tensors;
    Reference(tensors).addForward(expected);
    ASSERT_TRUE(run(found));
    expectNear(values(found, Output), values(expected, Output), 0.01, "output");
    expectNear(values(found, LogSumExp), values(expected, LogSumExp), 1e-5,
               "log_sum_exp");
    // Nothing else is written.
    for (AttentionTensor output : {Output, LogSumExp})
      found.forEach(output,
                    [&](const Place &place) { found.set(output, place, 0); });
    EXPECT_EQ(found.bytes, tensors.bytes);
  }

  void checkGradient(const AttentionSizes &sizes) {
    Tensors tensors(sizes, /*isGradient=*/true);
    for (AttentionTensor input : {Query, Key, Value, Cotangent})
      tensors.fill(input);
    Reference(Tensors(tensors)).addForward(tensors);
    Tensors found = tensors;
    ASSERT_TRUE(run(found));
    for (const auto &[tensor, expected] : Reference(tensors).gradients()) {
      expectNear(values(found, tensor), expected, 0.015,
                 tensor == QueryGrad ? "query_grad"
                 : tensor == KeyGrad ? "key_grad"
                                     : "value_grad");
      found.forEach(tensor, [&, tensor = tensor](const Place &place) {
        found.set(tensor, place, 0);
      });
    }
    EXPECT_EQ(found.bytes, tensors.bytes);
  }

  Environment environment;
  std::optional<Driver> driver;
  std::optional<PrimaryContext> context;
  std::optional<Streams> streams;
  std::optional<Cudnn> library;
};

const AttentionSizes cases[] = {
    {1, 64, 64, 2, 2, 8, /*isCausal=*/true},
    {2, 33, 33, 3, 3, 24, /*isCausal=*/false},
    {2, 70, 70, 4, 2, 16, /*isCausal=*/true, /*isJoined=*/true},
    {2, 19, 19, 6, 2, 8, /*isCausal=*/false, /*isJoined=*/true},
    // Queries of other numbers than keys.
    {1, 5, 9, 4, 1, 8, /*isCausal=*/true},
    {2, 9, 5, 4, 4, 8, /*isCausal=*/false},
    {1, 1, 1, 1, 1, 8, /*isCausal=*/true},
};

TEST_F(DeviceAttentionTest, ForwardIsRight) {
  for (const AttentionSizes &sizes : cases)
    checkForward(sizes);
}

TEST_F(DeviceAttentionTest, GradientIsRight) {
  // Of one key the gradients of queries and keys are zero.
  for (const AttentionSizes &sizes : cases)
    if (sizes.keys > 1)
      checkGradient(sizes);
}

// It is then mt that zeroes what is summed, and no score is infinite.
TEST_F(DeviceAttentionTest, IsRightWithAnOlderLibrary) {
  environment.set("MT_SIMULATED_CUDNN_VERSION", "90100");
  checkForward(cases[2]);
  checkGradient(cases[2]);
}

TEST_F(DeviceAttentionTest, LeavesWhatTheLibraryHasNoPlanFor) {
  for (int64_t width : {20, 264})
    for (bool isGradient : {false, true}) {
      Tensors tensors({1, 8, 8, 1, 1, width, /*isCausal=*/true}, isGradient);
      EXPECT_FALSE(run(tensors)) << width;
    }
}

TEST_F(DeviceAttentionTest, LeavesAddressesThatAreNotAligned) {
  Tensors tensors({1, 8, 8, 1, 1, 8, /*isCausal=*/true}, false);
  tensors.begins[Output] += 2;
  EXPECT_FALSE(run(tensors));
}

TEST_F(DeviceAttentionTest, SaysWhichAttentionThereIsNot) {
  Tensors tensors({1, 8, 8, 1, 1, 8, /*isCausal=*/true}, false);
  FusedAttention fused(*library, *driver, streams->compute(),
                       {tensors.attention});
  EXPECT_EQ(errorOf([&] { fused.run(1, nullptr, 0); }),
            "mt_attention: expected an attention below 1, found 1");
}

TEST_F(DeviceAttentionTest, NeedsMemoryForTheLargest) {
  DeviceAttention forward = makeAttention({1, 64, 64, 2, 2, 8, true}, false);
  DeviceAttention gradient = makeAttention({1, 64, 64, 2, 2, 8, true}, true);
  auto bytes = [&](const std::vector<DeviceAttention> &attentions) {
    return FusedAttention(*library, *driver, streams->compute(), attentions)
        .workspaceBytes();
  };
  EXPECT_EQ(bytes({}), 0);
  // 256 bytes an operation.
  EXPECT_EQ(bytes({forward}), 14 * 256);
  EXPECT_EQ(bytes({forward, gradient}), 22 * 256 + 2 * 64 * 4 + 2 * 64 * 8 * 4);
}

/// Of a graph that does not fit the library says why.
TEST_F(DeviceAttentionTest, SaysWhatIsWrongWithAGraph) {
  CudnnGraph graph(*library);
  CudnnTensor a =
      graph.inMemory(0, CUDNN_DATA_FLOAT, {1, 1, 8, 8}, {64, 64, 8, 1});
  CudnnTensor b =
      graph.inMemory(1, CUDNN_DATA_FLOAT, {1, 1, 16, 8}, {128, 128, 8, 1});
  EXPECT_EQ(errorOf([&] { graph.multiply(a, b, a); }),
            "cudnn: cudnnBackendFinalize: expected success, found error 2008: "
            "expected shapes that fit a product");
}

// Without an event between them.
TEST_F(DeviceAttentionTest, RacesAreFound) {
  Tensors tensors({1, 8, 8, 1, 1, 8, /*isCausal=*/true}, false);
  for (AttentionTensor input : {Query, Key, Value})
    tensors.fill(input);
  FusedAttention fused(*library, *driver, streams->compute(),
                       {tensors.attention});
  Owned<CUdeviceptr> memory = upload(tensors);
  Owned<CUdeviceptr> workspace = allocate(size_t(fused.workspaceBytes()));
  MT_CHECK(*driver, MemsetD8Async,
           memory.get() + CUdeviceptr(tensors.begins[Value]), 0, 16,
           streams->communication());
  fused.run(0, addresses(tensors, memory).data(), workspace.get());
  std::string message = errorOf([&] {
    streams->awaitCompute();
    MT_CHECK(*driver, StreamSynchronize, streams->communication());
  });
  expectContains(message, "simulated device: race: ");
  expectContains(message, "fused operations");
}

// What lies between the rows of a tensor may be another stream's.
TEST_F(DeviceAttentionTest, UsesNothingBesideItsRows) {
  Tensors tensors({2, 8, 8, 1, 1, 8, /*isCausal=*/true}, false);
  for (AttentionTensor input : {Query, Key, Value})
    tensors.fill(input);
  Tensors found = tensors;
  // Rows of the output are as far apart as if they were of two tensors.
  found.attention.strides[Output] = {8 * 16, 16, 16};
  FusedAttention fused(*library, *driver, streams->compute(),
                       {found.attention});
  Owned<CUdeviceptr> memory = upload(tensors);
  Owned<CUdeviceptr> workspace = allocate(size_t(fused.workspaceBytes()));
  Owned<CUdeviceptr> output = allocate(2 * 8 * 16 * 2);
  std::vector<int64_t> tensorAddresses = addresses(tensors, memory);
  tensorAddresses[Output] = int64_t(output.get());
  for (int row = 0; row < 2 * 8; ++row)
    MT_CHECK(*driver, MemsetD8Async, output.get() + CUdeviceptr(row * 32 + 16),
             0, 16, streams->communication());
  EXPECT_TRUE(fused.run(0, tensorAddresses.data(), workspace.get()));
  streams->awaitCompute();
  MT_CHECK(*driver, StreamSynchronize, streams->communication());
  EXPECT_EQ(simulatedProblem(), "");
}

} // namespace
