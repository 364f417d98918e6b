//===- Lowerings.h - the lowerings of all ops -------------------*- C++ -*-===//
//
// One function an op makes its results from its operands, on tensors of one
// device. A file a group of ops.
//
//===----------------------------------------------------------------------===//

#ifndef MT_LIB_CONVERSION_LOWERINGS_H
#define MT_LIB_CONVERSION_LOWERINGS_H

#include "LinalgBuilder.h"
#include "mt/IR/Mt.h"

namespace mt {

template <typename OpTy>
using LowerFn = std::function<llvm::SmallVector<mlir::Value>(
    OpTy op, mlir::ImplicitLocOpBuilder &b)>;

template <typename OpTy> class Lowering : public mlir::OpRewritePattern<OpTy> {
public:
  Lowering(mlir::MLIRContext *context, LowerFn<OpTy> lower)
      : mlir::OpRewritePattern<OpTy>(context), lower(lower) {}

  llvm::LogicalResult
  matchAndRewrite(OpTy op, mlir::PatternRewriter &rewriter) const override {
    mlir::ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOp(op, lower(op, b));
    return llvm::success();
  }

private:
  LowerFn<OpTy> lower;
};

template <typename OpTy>
void addLowering(mlir::RewritePatternSet &patterns, LowerFn<OpTy> lower) {
  patterns.add(std::make_unique<Lowering<OpTy>>(patterns.getContext(), lower));
}

// `onDevice`: for the many threads of a device rather than a host's few.
void addElementwiseLowerings(mlir::RewritePatternSet &patterns);
void addIndexedLowerings(mlir::RewritePatternSet &patterns, bool onDevice);
void addNormLowerings(mlir::RewritePatternSet &patterns);
void addProductLowerings(mlir::RewritePatternSet &patterns);
void addAttentionLowerings(mlir::RewritePatternSet &patterns, bool onDevice);
void addAttentionGradLowerings(mlir::RewritePatternSet &patterns,
                               bool onDevice);
void addPartLowerings(mlir::RewritePatternSet &patterns);
void addHeadLowerings(mlir::RewritePatternSet &patterns);
void addRandomLowerings(mlir::RewritePatternSet &patterns);
void addLossLowerings(mlir::RewritePatternSet &patterns);
/// A sum of squares is taken in at most `sumParts` parts.
void addStepLowerings(mlir::RewritePatternSet &patterns, int64_t sumParts);

/// `offset`, or 0 where there is none, as an index.
Scalar getOffset(mlir::ImplicitLocOpBuilder &b, mlir::Value offset);

/// Which elements a dropout keeps. The key is that of `mt.random_key`; offsets
/// are the global indices of the device's first element, none: all 0.
class DropoutMask {
public:
  DropoutMask(mlir::ImplicitLocOpBuilder &b, mlir::Value key,
              mlir::ValueRange offsets, double rate);

  /// 0, or 1 / (1 - rate), for the element at `indices`, of which the first is
  /// a batch row.
  Scalar getFactor(ScalarArgs indices, mlir::Type type) const;

private:
  std::array<Scalar, 2> key;
  Scalar firstRow;
  double threshold, scale;
  llvm::SmallVector<Scalar> offsets;
};

} // namespace mt

#endif // MT_LIB_CONVERSION_LOWERINGS_H
