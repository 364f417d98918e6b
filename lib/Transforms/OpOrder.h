//===- OpOrder.h - the order of ops that a pass moves -----------*- C++ -*-===//

#ifndef MT_LIB_TRANSFORMS_OPORDER_H
#define MT_LIB_TRANSFORMS_OPORDER_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace mt {

/// Which of two ops of a block comes first, while ops are moved. The block's
/// own numbers are void after every move and made again by the next question,
/// all of them: a pass that asks after each move would take quadratic time.
/// Here a moved op gets a number between its neighbours'. No op may be created
/// or erased meanwhile.
class OpOrder {
public:
  explicit OpOrder(mlir::Block &block) : block(block) { number(); }

  bool isBefore(mlir::Operation *a, mlir::Operation *b) const {
    return numbers.at(a) < numbers.at(b);
  }
  void moveAfter(mlir::Operation *op, mlir::Operation *anchor) {
    op->moveAfter(anchor);
    place(op);
  }
  void moveBefore(mlir::Operation *op, mlir::Operation *anchor) {
    op->moveBefore(anchor);
    place(op);
  }

private:
  /// Between neighbours there is room for so many halvings.
  static constexpr int64_t stride = int64_t(1) << 32;

  void number() {
    int64_t next = 0;
    for (mlir::Operation &op : block)
      numbers[&op] = next += stride;
  }
  void place(mlir::Operation *op) {
    mlir::Operation *previous = op->getPrevNode(), *next = op->getNextNode();
    int64_t low = previous ? numbers.at(previous) : 0;
    int64_t high = next ? numbers.at(next) : low + 2 * stride;
    if (high - low < 2)
      return number();
    numbers[op] = low + (high - low) / 2;
  }

  mlir::Block &block;
  llvm::DenseMap<mlir::Operation *, int64_t> numbers;
};

} // namespace mt

#endif // MT_LIB_TRANSFORMS_OPORDER_H
