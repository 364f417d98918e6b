//===- EmbedTwins.cpp - the table of the twins ----------------------------===//

#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"
#include "mt/device.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace mt;
using namespace mt::host;

namespace mt {
#define GEN_PASS_DEF_EMBEDTWINS
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "embed-twins"

namespace {

/// Builds the image of a module's twins.
class ImageBuilder {
public:
  explicit ImageBuilder(ModuleOp module)
      : module(module), b(module.getLoc(), module.getContext()),
        pointer(LLVM::LLVMPointerType::get(module.getContext())) {
    b.setInsertionPointToEnd(module.getBody());
  }

  void build(ArrayRef<LLVM::LLVMFuncOp> twins);

private:
  LLVM::LLVMFuncOp createThread(LLVM::LLVMFuncOp twin);
  LLVM::GlobalOp createText(StringRef name, StringRef text);
  LLVM::GlobalOp createGlobal(Type type, StringRef name, LLVM::Linkage linkage,
                              function_ref<Value()> value);

  ModuleOp module;
  ImplicitLocOpBuilder b;
  Type pointer;
};

} // namespace

/// An mt_twin: reads the arguments from where the pointers point. The twin
/// itself stays a function of its own, so that it is compiled as kernels are.
LLVM::LLVMFuncOp ImageBuilder::createThread(LLVM::LLVMFuncOp twin) {
  OpBuilder::InsertionGuard guard(b);
  auto thread = LLVM::LLVMFuncOp::create(
      b, (twin.getName() + "_thread").str(),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  {pointer, pointer}));
  thread.setVisibility_(LLVM::Visibility::Hidden);
  b.setInsertionPointToStart(thread.addEntryBlock(b));
  auto place = [&](Value base, Type type, int32_t index) -> Value {
    return LLVM::GEPOp::create(b, pointer, type, base,
                               ArrayRef<LLVM::GEPArg>{index});
  };
  Value shared =
      LLVM::LoadOp::create(b, pointer,
                           place(thread.getArgument(0), b.getI8Type(),
                                 offsetof(mt_twin_thread, shared)));
  SmallVector<Value> arguments{thread.getArgument(0), shared};
  for (auto [index, type] :
       llvm::enumerate(twin.getArgumentTypes().drop_front(2))) {
    Value argument = LLVM::LoadOp::create(
        b, pointer, place(thread.getArgument(1), pointer, int32_t(index)));
    arguments.push_back(LLVM::LoadOp::create(b, type, argument));
  }
  LLVM::CallOp::create(b, twin, arguments);
  LLVM::ReturnOp::create(b, ValueRange());
  return thread;
}

LLVM::GlobalOp ImageBuilder::createText(StringRef name, StringRef text) {
  std::string bytes = text.str();
  bytes.push_back('\0');
  return LLVM::GlobalOp::create(
      b, LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size()),
      /*isConstant=*/true, LLVM::Linkage::Internal, name,
      b.getStringAttr(bytes));
}

LLVM::GlobalOp ImageBuilder::createGlobal(Type type, StringRef name,
                                          LLVM::Linkage linkage,
                                          function_ref<Value()> value) {
  auto global = LLVM::GlobalOp::create(b, type, /*isConstant=*/true, linkage,
                                       name, Attribute());
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&global.getInitializerRegion());
  LLVM::ReturnOp::create(b, value());
  return global;
}

void ImageBuilder::build(ArrayRef<LLVM::LLVMFuncOp> twins) {
  auto entryType =
      LLVM::LLVMStructType::getLiteral(b.getContext(), {pointer, pointer});
  auto tableType = LLVM::LLVMArrayType::get(entryType, twins.size());
  SmallVector<std::pair<LLVM::GlobalOp, LLVM::LLVMFuncOp>> entries;
  for (LLVM::LLVMFuncOp twin : twins) {
    StringRef name =
        twin->getAttrOfType<StringAttr>(host::attr::twin).getValue();
    entries.emplace_back(createText((twin.getName() + "_name").str(), name),
                         createThread(twin));
  }
  LLVM::GlobalOp table = createGlobal(
      tableType, "mt_twins", LLVM::Linkage::Internal, [&]() -> Value {
        Value value = LLVM::UndefOp::create(b, tableType);
        for (auto [index, entry] : llvm::enumerate(entries)) {
          int64_t place = int64_t(index);
          value = LLVM::InsertValueOp::create(
              b, value, LLVM::AddressOfOp::create(b, entry.first),
              ArrayRef<int64_t>{place, 0});
          value = LLVM::InsertValueOp::create(
              b, value, LLVM::AddressOfOp::create(b, entry.second),
              ArrayRef<int64_t>{place, 1});
        }
        return value;
      });
  auto magicType =
      LLVM::LLVMArrayType::get(b.getI8Type(), sizeof MT_TWIN_MAGIC);
  auto imageType = LLVM::LLVMStructType::getLiteral(
      b.getContext(), {magicType, b.getI64Type(), pointer});
  createGlobal(
      imageType, "mt_image_twin", LLVM::Linkage::External, [&]() -> Value {
        Value value = LLVM::UndefOp::create(b, imageType);
        Value magic = LLVM::ConstantOp::create(
            b, magicType,
            b.getStringAttr(StringRef(MT_TWIN_MAGIC, sizeof MT_TWIN_MAGIC)));
        value =
            LLVM::InsertValueOp::create(b, value, magic, ArrayRef<int64_t>{0});
        Value count = LLVM::ConstantOp::create(
            b, b.getI64IntegerAttr(int64_t(twins.size())));
        value =
            LLVM::InsertValueOp::create(b, value, count, ArrayRef<int64_t>{1});
        return LLVM::InsertValueOp::create(b, value,
                                           LLVM::AddressOfOp::create(b, table),
                                           ArrayRef<int64_t>{2});
      });
}

namespace {

struct EmbedTwins : mt::impl::EmbedTwinsBase<EmbedTwins> {
  void runOnOperation() override {
    SmallVector<LLVM::LLVMFuncOp> twins;
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>())
      if (function->hasAttr(host::attr::twin))
        twins.push_back(function);
    if (!twins.empty())
      ImageBuilder(getOperation()).build(twins);
    for (LLVM::LLVMFuncOp twin : twins)
      twin->removeAttr(host::attr::twin);
  }
};

} // namespace
