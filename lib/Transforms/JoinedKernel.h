//===- JoinedKernel.h - kernels over neighbours in memory -------*- C++ -*-===//

#ifndef MT_LIB_TRANSFORMS_JOINEDKERNEL_H
#define MT_LIB_TRANSFORMS_JOINEDKERNEL_H

#include "mt/Analysis/Buffers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"

#include <memory>

namespace mt {

/// Builds an `mt.kernel` to which tensors that lie behind each other in memory
/// are one.
class JoinedKernelBuilder {
public:
  JoinedKernelBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc), body(std::make_unique<mlir::Block>()),
        inner(builder.getContext()) {
    inner.setInsertionPointToEnd(body.get());
  }

  /// The parts as they are inside: one value of type `whole`.
  mlir::Value addInput(mlir::ValueRange parts, mlir::Type whole);
  mlir::Value addInput(mlir::Value value) {
    return addInput(value, value.getType());
  }
  /// `whole` of inside, which outside is results of these types.
  void addOutput(mlir::Value whole, mlir::TypeRange parts);
  /// Builds inside.
  mlir::OpBuilder &getInner() { return inner; }
  /// The kernel where the builder stands.
  KernelOp finish();

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
  std::unique_ptr<mlir::Block> body;
  mlir::OpBuilder inner;
  llvm::SmallVector<mlir::Value> inputs, yielded;
  llvm::SmallVector<mlir::Type> outputs;
  llvm::SmallVector<int64_t> joinedInputs, joinedOutputs;
};

/// Which buffer of an entry `value` is, if it is an argument.
std::optional<int64_t> findBuffer(mlir::Value value,
                                  llvm::ArrayRef<int64_t> numbers);

/// The buffer that a value lies in: an argument, or what a collective reduces
/// in place of an argument that is consumed.
std::optional<int64_t> findUpdatedBuffer(mlir::Value value,
                                         mlir::func::FuncOp entry,
                                         llvm::ArrayRef<int64_t> numbers);

/// `parts` behind each other, as one tensor of one dimension.
mlir::RankedTensorType getFlatType(mlir::ValueRange parts);

/// `parts`, of equal trailing dimensions, as one tensor behind each other.
mlir::RankedTensorType joinTypes(mlir::ValueRange parts);

/// Whether each of `second` follows that of `first` without a gap.
bool areNeighbours(llvm::ArrayRef<int64_t> first,
                   llvm::ArrayRef<int64_t> second, const BufferLayout &layout);

/// Calls `join` with every two or more `items` whose `buffers`, as many of
/// each, follow each other; in the order of the buffers.
template <typename Item>
void forEachRun(llvm::MutableArrayRef<Item> items, const BufferLayout &layout,
                llvm::function_ref<void(llvm::ArrayRef<Item>)> join) {
  llvm::sort(items, [](const Item &a, const Item &b) {
    return a.buffers < b.buffers;
  });
  llvm::ArrayRef<Item> rest(items);
  while (!rest.empty()) {
    size_t count = 1;
    while (count < rest.size() &&
           areNeighbours(rest[count - 1].buffers, rest[count].buffers, layout))
      ++count;
    if (count > 1)
      join(rest.take_front(count));
    rest = rest.drop_front(count);
  }
}

} // namespace mt

#endif // MT_LIB_TRANSFORMS_JOINEDKERNEL_H
