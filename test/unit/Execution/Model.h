//===- Model.h - small models around one op ---------------------*- C++ -*-===//

#ifndef MT_TEST_UNIT_EXECUTION_MODEL_H
#define MT_TEST_UNIT_EXECUTION_MODEL_H

#include "Microbatch.h"

#include <random>

namespace mt::test {

/// An argument of a model: `type` as in `2x3xf64`, and what annotates it.
struct ModelArgument {
  std::string name, type;
  bool trained = true;
  std::string sharding = {};
};

/// A module whose loss is the sum of `result` times fixed random weights: every
/// element of the result counts differently. `body` computes `%result`, of type
/// `resultType`; the weights are the input `weights`.
inline std::string makeModel(llvm::ArrayRef<ModelArgument> arguments,
                             llvm::StringRef body, llvm::StringRef resultType,
                             llvm::StringRef mesh = "",
                             llvm::StringRef weightsSharding = "") {
  std::string list;
  auto add = [&](const ModelArgument &argument) {
    list += "%" + argument.name + ": tensor<" + argument.type +
            "> {mt.name = \"" + argument.name + "\"";
    if (argument.trained)
      list += ", mt.role = \"parameter\", mt.parameter = #mt.parameter<name = "
              "\"" +
              argument.name + "\", trained = true, init = <constant, 0.0>>";
    else
      list += ", mt.role = \"input\"";
    if (!argument.sharding.empty())
      list += ", mt.sharding = #mt.sharding<" + mesh.str() + ", " +
              argument.sharding + ">";
    list += "}, ";
  };
  for (const ModelArgument &argument : arguments)
    add(argument);
  add({"weights", resultType.str(), false, weightsSharding.str()});
  list.resize(list.size() - 2);
  std::string type = "tensor<" + resultType.str() + ">";
  return "func.func private @forward(" + list +
         ") -> (tensor<f64>, tensor<f64>) {\n" + body.str() +
         "%weighted = mt.mul %result, %weights : (" + type + ", " + type +
         ") -> " + type + "\n%loss = mt.sum_leading %weighted : (" + type +
         ") -> tensor<f64>\n%count = mt.sum_leading %weights : (" + type +
         ") -> tensor<f64>\nreturn %loss, %count : tensor<f64>, "
         "tensor<f64>\n}\n";
}

/// Random values for all arguments; integers are below `limit`.
struct ModelValues {
  ModelValues(const Microbatch &model, int32_t limit, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> real(-1, 1);
    for (const Microbatch::Argument &argument : model.getArguments()) {
      if (argument.role != "input" && argument.role != "parameter")
        continue;
      int64_t count = 1;
      for (int64_t size : argument.shape)
        count *= size;
      for (int64_t i = 0; i < count; ++i) {
        if (argument.integer)
          integers[argument.name].push_back(random() % limit);
        else
          reals[argument.name].push_back(real(random));
      }
    }
  }

  void set(Microbatch &model) const {
    for (auto &[name, values] : reals)
      model.set(name, values);
    for (auto &[name, values] : integers)
      model.setIntegers(name, values);
  }

  std::map<std::string, std::vector<double>> reals;
  std::map<std::string, std::vector<int32_t>> integers;
};

} // namespace mt::test

#endif // MT_TEST_UNIT_EXECUTION_MODEL_H
