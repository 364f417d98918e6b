//===- mt-golden-check.cpp - a run against the reference data -------------===//
//
//   mt-golden-check GOLDEN --log LOG [--gradients FILE]
//   mt-golden-check --same-loss LOG OTHER TOLERANCE
//   mt-golden-check --same-gradients FILE OTHER TOLERANCE
//
// Compares what mt-run wrote with a folder of reference data: the first loss
// within 1e-6, every loss of the curve within 1e-5, the gradient norm likewise,
// every gradient within 1e-5 of its norm or of 1e-4 times the global norm where
// that is larger (some gradients are zero in exact arithmetic). Or two logs, or
// two files of gradients, with each other. Prints the worst of each and exits
// with 1 beyond them.
//
//===----------------------------------------------------------------------===//

#include "Json.h"
#include "Safetensors.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

using namespace mt::runtime;

static constexpr double firstLossTolerance = 1e-6;
static constexpr double curveTolerance = 1e-5;
static constexpr double gradientTolerance = 1e-5;
static constexpr double gradientFloor = 1e-4;

static std::string readFile(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error(path + ": cannot be read");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

static std::vector<nlohmann::json> readLog(const std::string &path) {
  std::istringstream lines(readFile(path));
  std::vector<nlohmann::json> log;
  for (std::string line; std::getline(lines, line);)
    log.push_back(nlohmann::json::parse(line));
  return log;
}

static double relativeError(double value, double reference) {
  double error = std::abs(value - reference) / std::abs(reference);
  return std::isnan(error) ? INFINITY : error;
}

static bool report(const char *what, double error, double tolerance) {
  bool fine = error <= tolerance;
  std::printf("%-16s error %.1e, at most %.0e%s\n", what, error, tolerance,
              fine ? "" : "  <-- too large");
  return fine;
}

static bool checkCurve(const std::string &golden, const std::string &logPath) {
  nlohmann::json expected =
      nlohmann::json::parse(readFile(golden + "/expected.json"));
  std::vector<nlohmann::json> log = readLog(logPath);
  if (log.size() != expected["loss"].size())
    throw std::runtime_error(logPath + ": expected " +
                             std::to_string(expected["loss"].size()) +
                             " steps, found " + std::to_string(log.size()));
  double curve = 0, norm = 0;
  bool counts = true;
  for (size_t step = 0; step < log.size(); ++step) {
    curve = std::max(curve,
                     relativeError(log[step]["loss"], expected["loss"][step]));
    norm = std::max(norm, relativeError(log[step]["gradient_norm"],
                                        expected["gradient_norm"][step]));
    counts &= log[step]["valid_tokens"].get<double>() ==
              expected["valid_tokens"][step].get<double>();
  }
  bool fine =
      report("first loss", relativeError(log[0]["loss"], expected["loss"][0]),
             firstLossTolerance);
  fine &= report("loss curve", curve, curveTolerance);
  fine &= report("gradient norm", norm, curveTolerance);
  if (!counts)
    std::printf("the numbers of valid tokens differ\n");
  return fine && counts;
}

static bool checkGradients(const std::string &reference,
                           const std::string &path, double tolerance) {
  SafetensorsFile found(path), expected(reference);
  auto square = [](double x) { return x * x; };
  double global = 0;
  for (auto &[name, tensor] : expected.tensors())
    for (int64_t i = 0, size = elementCount(tensor.shape); i < size; ++i)
      global += square(tensor.loadFloat(i));
  double worst = 0;
  std::string worstName = "none";
  for (auto &[name, tensor] : expected.tensors()) {
    const FileTensor *mine = found.find(name);
    if (!mine || mine->shape != tensor.shape)
      throw std::runtime_error(path + ": gradient '" + name +
                               "' is missing or has another shape");
    double difference = 0, norm = 0;
    for (int64_t i = 0, size = elementCount(tensor.shape); i < size; ++i) {
      difference += square(double(mine->loadFloat(i)) - tensor.loadFloat(i));
      norm += square(tensor.loadFloat(i));
    }
    double error = std::sqrt(difference) /
                   std::max(std::sqrt(norm), gradientFloor * std::sqrt(global));
    if (!(error <= worst)) {
      worst = error;
      worstName = name;
    }
  }
  if (found.tensors().size() != expected.tensors().size())
    throw std::runtime_error(path + ": holds other tensors than the reference");
  std::printf("worst gradient   %s\n", worstName.c_str());
  return report("gradients", worst, tolerance);
}

static bool checkSameLoss(const std::string &a, const std::string &b,
                          double tolerance) {
  std::vector<nlohmann::json> first = readLog(a), second = readLog(b);
  if (first.size() != second.size() || first.empty())
    throw std::runtime_error("the logs have " + std::to_string(first.size()) +
                             " and " + std::to_string(second.size()) +
                             " steps");
  double worst = 0;
  for (size_t step = 0; step < first.size(); ++step)
    worst = std::max(worst,
                     relativeError(first[step]["loss"], second[step]["loss"]));
  return report("every loss", worst, tolerance);
}

int main(int argc, char **argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() == 4 && arguments[0] == "--same-loss")
      return !checkSameLoss(arguments[1], arguments[2],
                            std::stod(arguments[3]));
    if (arguments.size() == 4 && arguments[0] == "--same-gradients")
      return !checkGradients(arguments[1], arguments[2],
                             std::stod(arguments[3]));
    std::string golden, log, gradients;
    for (size_t i = 0; i < arguments.size(); ++i) {
      std::string *option = arguments[i] == "--log"         ? &log
                            : arguments[i] == "--gradients" ? &gradients
                                                            : nullptr;
      if (option && i + 1 < arguments.size())
        *option = arguments[++i];
      else
        golden = arguments[i];
    }
    bool fine = checkCurve(golden, log);
    if (!gradients.empty())
      fine &= checkGradients(golden + "/gradients.safetensors", gradients,
                             gradientTolerance);
    return !fine;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "mt-golden-check: error: %s\n", error.what());
    return 1;
  }
}
