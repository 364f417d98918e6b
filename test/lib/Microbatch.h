//===- Microbatch.h - run a model's microbatch on any mesh ------*- C++ -*-===//
//
//   auto model = Microbatch::create(context, text, options);
//   model->set("x", {...});                  // global values
//   cantFail(model->run());
//   model->getLoss(); model->getGradient("w");   // global values
//
// The text is a module with a forward function, dense or annotated; the whole
// pipeline makes a step of it. All floating-point values are f64.
//
//===----------------------------------------------------------------------===//

#ifndef MT_TEST_LIB_MICROBATCH_H
#define MT_TEST_LIB_MICROBATCH_H

#include "Execution.h"

#include "mt/Pipelines/Pipelines.h"

namespace mt::test {

class Microbatch {
public:
  static llvm::Expected<std::unique_ptr<Microbatch>>
  create(mlir::MLIRContext &context, llvm::StringRef text,
         const PipelineOptions &options);

  /// Sets an argument of the forward function by its name.
  void set(llvm::StringRef name, llvm::ArrayRef<double> values);
  void setIntegers(llvm::StringRef name, llvm::ArrayRef<int32_t> values);
  llvm::Error run();

  double getLoss() const { return getGlobal("loss_sum", "loss_sum").front(); }
  std::vector<double> getGradient(llvm::StringRef name) const {
    return getGlobal("gradient", name);
  }

  struct Argument {
    std::string role, name;
    llvm::SmallVector<int64_t> shape;
    bool integer;
    /// Null: the same on the one device.
    ShardingAttr layout;
  };
  llvm::ArrayRef<Argument> getArguments() const { return arguments; }

private:
  template <typename T>
  void scatter(llvm::StringRef name, llvm::ArrayRef<T> values);
  std::vector<double> getGlobal(llvm::StringRef role,
                                llvm::StringRef name) const;
  const Argument &find(llvm::StringRef role, llvm::StringRef name,
                       unsigned &number) const;

  std::unique_ptr<ExecutableModule> step;
  std::vector<Argument> arguments;
  std::vector<RankBuffers> buffers;
};

} // namespace mt::test

#endif // MT_TEST_LIB_MICROBATCH_H
