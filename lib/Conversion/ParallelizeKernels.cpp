//===- ParallelizeKernels.cpp - loops on the threads of a rank ------------===//

#include "PartInputs.h"
#include "mt/Conversion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_PARALLELIZEKERNELS
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "parallelize-kernels"

/// A dimension of at least so many iterations is long enough to be cut.
static constexpr int64_t longDimension = 16;
/// Pieces of an innermost dimension: a multiple of every vector register, also
/// where a loop uses several at once.
static constexpr int64_t innermostPiece = 64;

static constexpr StringLiteral noAlias = "llvm.noalias";

namespace {

/// Moves one op of a kernel into a function of its own.
class PartBuilder {
public:
  PartBuilder(Operation *op, Value rankContext, SymbolTable &symbols);

  /// Ends the kernel's side: the op is replaced.
  void finish(int64_t count);

  /// Inside the part: what stands for the kernel's values, and the range.
  ImplicitLocOpBuilder &getBuilder() { return b; }
  IRMapping &getMapping() { return mapping; }
  Value getFirst() { return part.getArgument(inputs.get().size()); }
  Value getLast() { return part.getArgument(inputs.get().size() + 1); }

private:
  Operation *op;
  Value rankContext;
  func::FuncOp kernel, part;
  ImplicitLocOpBuilder b;
  IRMapping mapping;
  PartInputs inputs;
};

} // namespace

/// Whether the part makes the op's value itself: constants, and views, whose
/// layout an argument could not have.
static bool isMadeAgain(Operation *op) {
  return op->hasTrait<OpTrait::ConstantLike>() || isa<ViewLikeOpInterface>(op);
}

PartBuilder::PartBuilder(Operation *op, Value rankContext, SymbolTable &symbols)
    : op(op), rankContext(rankContext),
      kernel(op->getParentOfType<func::FuncOp>()),
      b(op->getLoc(), op->getContext()), inputs(op, isMadeAgain) {
  SmallVector<Type> types = llvm::map_to_vector(
      inputs.get(), [](Value value) { return value.getType(); });
  types.append(2, b.getIndexType());
  part = func::FuncOp::create(op->getLoc(), (kernel.getName() + "_part").str(),
                              b.getFunctionType(types, {}));
  part.setPrivate();
  part->setAttr(host::attr::kernel, kernel->getAttr(host::attr::kernel));
  symbols.insert(part);
  b.setInsertionPointToStart(part.addEntryBlock());
  for (auto [index, value] : llvm::enumerate(inputs.get())) {
    mapping.map(value, part.getArgument(index));
    // What does not alias in the kernel does not in the part.
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && argument.getOwner() == &kernel.front() &&
        kernel.getArgAttr(argument.getArgNumber(), noAlias))
      part.setArgAttr(index, noAlias, b.getUnitAttr());
  }
  inputs.makeOthers(b, mapping);
}

void PartBuilder::finish(int64_t count) {
  b.setInsertionPointToEnd(&part.front());
  func::ReturnOp::create(b);
  b.setInsertionPoint(op);
  ParallelOp::create(b, rankContext, FlatSymbolRefAttr::get(part), inputs.get(),
                     b.getI64IntegerAttr(count));
  op->erase();
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

static LogicalResult convertForall(scf::ForallOp op, Value rankContext,
                                   SymbolTable &symbols) {
  std::optional<SmallVector<int64_t>> counts =
      getConstantIntValues(op.getMixedUpperBound());
  if (!op.isNormalized() || op.getRank() != 1 || !counts)
    return op.emitError() << "internal error: expected a loop over one "
                             "dimension of known size that starts at 0";
  PartBuilder part(op, rankContext, symbols);
  ImplicitLocOpBuilder &b = part.getBuilder();
  // What a task holds is there once a range, not once a task.
  for (auto allocation : op.getBody()->getOps<memref::AllocaOp>())
    b.clone(*allocation, part.getMapping());
  Value one = arith::ConstantIndexOp::create(b, 1);
  auto loop = scf::ForOp::create(b, part.getFirst(), part.getLast(), one);
  part.getMapping().map(op.getInductionVar(0), loop.getInductionVar());
  b.setInsertionPointToStart(loop.getBody());
  for (Operation &inner : op.getBody()->without_terminator())
    if (!isa<memref::AllocaOp>(inner))
      b.clone(inner, part.getMapping());
  part.finish(counts->front());
  return success();
}

//===----------------------------------------------------------------------===//
// Linalg ops
//===----------------------------------------------------------------------===//

namespace {
/// Along which dimension a linalg op is cut, and in pieces of what size.
struct Cut {
  unsigned dim;
  int64_t size, piece;

  int64_t getCount() const { return llvm::divideCeil(size, piece); }
};
} // namespace

/// Whether every operand has the dimension as one of its own, or not at all.
static bool isPlain(linalg::LinalgOp op, unsigned dim) {
  return llvm::all_of(op.getIndexingMapsArray(), [&](AffineMap map) {
    return llvm::all_of(map.getResults(), [&](AffineExpr expression) {
      return isa<AffineDimExpr>(expression) || !expression.isFunctionOfDim(dim);
    });
  });
}

/// Whether neighbours along the dimension are neighbours in memory, in the
/// operands of most dimensions.
static bool isInnermost(linalg::LinalgOp op, unsigned dim) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  unsigned rank = 0;
  for (AffineMap map : maps)
    rank = std::max(rank, map.getNumResults());
  return llvm::any_of(maps, [&](AffineMap map) {
    return map.getNumResults() == rank &&
           map.getResults().back() == getAffineDimExpr(dim, op.getContext());
  });
}

/// The first long dimension, else the longest, of those that are not summed
/// over.
static std::optional<Cut> chooseCut(linalg::LinalgOp op) {
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  std::optional<unsigned> chosen;
  SmallVector<unsigned> parallel;
  op.getParallelDims(parallel);
  for (unsigned dim : parallel) {
    if (!isPlain(op, dim))
      continue;
    if (!chosen || sizes[dim] > sizes[*chosen])
      chosen = dim;
    if (sizes[*chosen] >= longDimension)
      break;
  }
  if (!chosen)
    return std::nullopt;
  return Cut{*chosen, sizes[*chosen],
             isInnermost(op, *chosen) ? innermostPiece : 1};
}

/// The operand's part from `offset` on, if it has the dimension.
static Value cutOperand(ImplicitLocOpBuilder &b, Value memref, AffineMap map,
                        unsigned dim, Value offset, Value size) {
  auto type = dyn_cast<MemRefType>(memref.getType());
  if (!type || !map.isFunctionOfDim(dim))
    return memref;
  SmallVector<OpFoldResult> offsets(type.getRank(), b.getIndexAttr(0)), sizes,
      strides(type.getRank(), b.getIndexAttr(1));
  for (auto [index, expression] : llvm::enumerate(map.getResults())) {
    bool isCut = expression == getAffineDimExpr(dim, b.getContext());
    if (isCut)
      offsets[index] = offset;
    sizes.push_back(isCut ? OpFoldResult(size)
                          : b.getIndexAttr(type.getDimSize(index)));
  }
  return memref::SubViewOp::create(b, memref, offsets, sizes, strides);
}

static void convertLinalg(linalg::LinalgOp op, const Cut &cut,
                          Value rankContext, SymbolTable &symbols) {
  PartBuilder part(op, rankContext, symbols);
  ImplicitLocOpBuilder &b = part.getBuilder();
  auto atPiece = [&](Value piece) -> Value {
    Value size = arith::ConstantIndexOp::create(b, cut.piece);
    return arith::MulIOp::create(b, piece, size);
  };
  Value offset = part.getFirst(), end = part.getLast();
  if (cut.piece != 1) {
    offset = atPiece(offset);
    end = atPiece(end);
    if (cut.size % cut.piece != 0)
      end = arith::MinSIOp::create(b, end,
                                   arith::ConstantIndexOp::create(b, cut.size));
  }
  Value size = arith::SubIOp::create(b, end, offset);
  SmallVector<Value> operands;
  for (OpOperand &operand : op->getOpOperands())
    operands.push_back(cutOperand(b, part.getMapping().lookup(operand.get()),
                                  op.getMatchingIndexingMap(&operand), cut.dim,
                                  offset, size));
  SmallVector<OpFoldResult> starts(op.getNumLoops(), b.getIndexAttr(0));
  starts[cut.dim] = offset;
  IRMapping &mapping = part.getMapping();
  for (auto [operand, value] : llvm::zip_equal(op->getOperands(), operands))
    mapping.map(operand, value);
  auto clone = cast<linalg::LinalgOp>(b.clone(*op, mapping));
  linalg::offsetIndices(b, clone, starts);
  part.finish(cut.getCount());
}

static LogicalResult parallelize(func::FuncOp kernel, int64_t minPoints,
                                 SymbolTable &symbols) {
  for (Operation &op : llvm::make_early_inc_range(kernel.front())) {
    if (auto loop = dyn_cast<scf::ForallOp>(op)) {
      FailureOr<Value> rankContext = getRankContext(kernel);
      if (failed(rankContext) ||
          failed(convertForall(loop, *rankContext, symbols)))
        return failure();
      continue;
    }
    auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
    if (!linalgOp || linalgOp.hasDynamicShape())
      continue;
    SmallVector<int64_t> sizes = linalgOp.getStaticLoopRanges();
    if (llvm::product_of(sizes) < minPoints)
      continue;
    std::optional<Cut> cut = chooseCut(linalgOp);
    if (!cut || cut->getCount() == 1)
      continue;
    FailureOr<Value> rankContext = getRankContext(kernel);
    if (failed(rankContext))
      return failure();
    convertLinalg(linalgOp, *cut, *rankContext, symbols);
  }
  return success();
}

namespace {

struct ParallelizeKernels
    : mt::impl::ParallelizeKernelsBase<ParallelizeKernels> {
  using Base = ParallelizeKernelsBase;
  using Base::Base;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (func::FuncOp kernel : getKernels(getOperation()))
      if (failed(parallelize(kernel, minPoints, symbols)))
        return signalPassFailure();
  }
};

} // namespace
