//===- OpTest.cpp - ops against formulas ----------------------------------===//

#include "OpTest.h"

#include "mt/InitAll.h"

#include "mlir/Parser/Parser.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace mt::test;

MLIRContext &mt::test::getContext() {
  static MLIRContext context([] {
    DialectRegistry registry;
    registerAllDialects(registry);
    return registry;
  }());
  return context;
}

OwningOpRef<ModuleOp> mt::test::parse(const std::string &text) {
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, &getContext());
  EXPECT_TRUE(module) << text;
  return module;
}

Values mt::test::makeValues(size_t count, unsigned seed, double scale) {
  std::mt19937 generator(seed);
  Values values(count);
  for (double &value : values)
    value = scale * (double(generator()) / 2147483648.0 - 1.0);
  return values;
}

Values mt::test::rounded(const Values &values, const std::string &type) {
  Values result = values;
  if (type == "f32")
    for (double &value : result)
      value = float(value);
  return result;
}

template <typename T> static Buffer toBuffer(const Values &values) {
  return Buffer::of(std::vector<T>(values.begin(), values.end()));
}
static Buffer toBuffer(const Values &values, Type type) {
  if (type.isF32())
    return toBuffer<float>(values);
  if (type.isF64())
    return toBuffer<double>(values);
  return type.isInteger(32) ? toBuffer<int32_t>(values)
                            : toBuffer<int64_t>(values);
}

template <typename T> static Values toValues(const Buffer &buffer) {
  std::vector<T> values = buffer.as<T>();
  return Values(values.begin(), values.end());
}
static Values toValues(const Buffer &buffer, Type type) {
  if (type.isF32())
    return toValues<float>(buffer);
  if (type.isF64())
    return toValues<double>(buffer);
  return type.isInteger(32) ? toValues<int32_t>(buffer)
                            : toValues<int64_t>(buffer);
}

std::vector<Values> mt::test::runDense(const std::string &text,
                                       const std::vector<Values> &operands) {
  OwningOpRef<ModuleOp> module = parse(text);
  if (!module)
    return {};
  auto step = ExecutableModule::compile(*module);
  if (!step) {
    ADD_FAILURE() << llvm::toString(step.takeError()) << text;
    return {};
  }
  std::vector<RankBuffers> ranks = (*step)->makeBuffers("f");
  ArrayRef<RankedTensorType> types = (*step)->getTypes("f");
  for (size_t i = 0; i < operands.size(); ++i)
    ranks[0][i] = toBuffer(operands[i], types[i].getElementType());
  if (llvm::Error error = (*step)->run("f", ranks)) {
    ADD_FAILURE() << llvm::toString(std::move(error));
    return {};
  }
  std::vector<Values> results;
  for (size_t i = operands.size(); i < types.size(); ++i)
    results.push_back(toValues(ranks[0][i], types[i].getElementType()));
  return results;
}

double mt::test::getError(const Values &found, const Values &expected) {
  if (found.size() != expected.size())
    return INFINITY;
  double difference = 0, magnitude = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) != std::isnan(expected[i]))
      return INFINITY;
    if (found[i] == expected[i])
      continue;
    difference = std::max(difference, std::fabs(found[i] - expected[i]));
    magnitude = std::max(magnitude, std::fabs(expected[i]));
  }
  for (double value : expected)
    if (std::isfinite(value))
      magnitude = std::max(magnitude, std::fabs(value));
  return difference == 0 ? 0 : difference / magnitude;
}

static std::string replaceType(std::string text, const std::string &type) {
  for (size_t at = 0; (at = text.find("xT", at)) != std::string::npos;)
    text.replace(at, 2, "x" + type);
  for (size_t at = 0; (at = text.find("<T>", at)) != std::string::npos;)
    text.replace(at, 3, "<" + type + ">");
  return text;
}

void mt::test::check(const OpCase &test) {
  for (std::string type : {"f32", "f64"}) {
    std::string text = replaceType(
        "func.func @f" + test.signature + " {\n" + test.body + "\n}\n", type);
    std::vector<Values> operands;
    for (const Values &values : test.operands)
      operands.push_back(rounded(values, type));
    std::vector<Values> found = runDense(text, operands);
    std::vector<Values> expected = test.reference(operands);
    ASSERT_EQ(found.size(), expected.size()) << text;
    double tolerance =
        type == "f32" ? test.f32Units * 0x1p-23 : test.f64Units * 0x1p-52;
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_LE(getError(found[i], expected[i]), tolerance)
          << "result " << i << " of " << text;
  }
}
