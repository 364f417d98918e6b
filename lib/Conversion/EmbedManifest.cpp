//===- EmbedManifest.cpp - the constants that the runtime reads -----------===//

#include "Manifest.h"
#include "mt/Conversion/Passes.h"
#include "mt/IR/Mt.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mt/abi.h"

using namespace mlir;
using namespace mt;

namespace mt {
#define GEN_PASS_DEF_EMBEDMANIFEST
#include "mt/Conversion/Passes.h.inc"
} // namespace mt

#define DEBUG_TYPE "embed-manifest"

namespace {

struct EmbedManifest : mt::impl::EmbedManifestBase<EmbedManifest> {
  using EmbedManifestBase::EmbedManifestBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<llvm::json::Value> manifest =
        buildManifest(module, target, getProcessor(), images);
    if (failed(manifest))
      return signalPassFailure();
    // With the NUL that ends it.
    std::string text = llvm::formatv("{0}", *manifest).str();
    text.push_back('\0');
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    addConstant(builder, "mt_manifest",
                LLVM::LLVMArrayType::get(builder.getI8Type(), text.size()),
                builder.getStringAttr(text));
    addConstant(builder, "mt_abi_version", builder.getI32Type(),
                builder.getI32IntegerAttr(MT_ABI_VERSION));
  }

private:
  Processor getProcessor() const {
    Processor result{architecture, processor, {}};
    result.features.assign(features.begin(), features.end());
    return result;
  }

  void addConstant(OpBuilder &builder, StringRef name, Type type,
                   Attribute value) {
    LLVM::GlobalOp::create(builder, getOperation().getLoc(), type,
                           /*isConstant=*/true, LLVM::Linkage::External, name,
                           value);
  }
};

} // namespace
