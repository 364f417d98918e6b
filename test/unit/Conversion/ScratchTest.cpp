//===- ScratchTest.cpp - kernels use the scratch that ops say -------------===//

#include "OpTest.h"

#include "mt/Conversion/Passes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mt::test;

namespace {

std::string replaced(std::string text, const std::string &what,
                     const std::string &with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;)
    text.replace(at, what.size(), with);
  return text;
}

/// The op's kernel takes all of the scratch that is planned for it, and no
/// more, in every type. `op` is a function's signature and body.
void checkScratch(const std::string &op, bool needsScratch = true) {
  for (std::string type : {"f32", "f64", "bf16"}) {
    std::string text = "func.func @f" + replaced(replaced(op, "xT", "x" + type),
                                                 "<T>", "<" + type + ">");
    OwningOpRef<ModuleOp> module = parse(text);
    ASSERT_TRUE(module);
    PassManager manager(module->getContext());
    manager.addPass(mt::createOutlineKernels());
    manager.addNestedPass<func::FuncOp>(mt::createToLinalg());
    manager.addNestedPass<func::FuncOp>(mt::createBufferizeKernels());
    manager.addNestedPass<func::FuncOp>(mt::createFuseRows());
    manager.addNestedPass<func::FuncOp>(mt::createPlaceScratch());
    ASSERT_TRUE(succeeded(manager.run(*module))) << text;
    int64_t planned = 0, used = 0;
    for (auto kernel : module->getOps<func::FuncOp>())
      if (auto bytes =
              kernel->getAttrOfType<IntegerAttr>(mt::host::attr::scratchBytes))
        planned += bytes.getInt();
    module->walk([&](memref::ViewOp view) {
      used += llvm::alignTo(view.getType().getNumElements() *
                                view.getType().getElementTypeBitWidth() / 8,
                            mt::alignmentBytes);
    });
    EXPECT_EQ(used, planned) << text;
    EXPECT_TRUE(used > 0 || !needsScratch) << text;
  }
}

const std::string rows = "tensor<6x50x40xT>", scalars = "tensor<6x50xT>";

} // namespace

TEST(Scratch, Norms) {
  for (std::string weights : {"rms_norm", "layer_norm"}) {
    bool hasBias = weights == "layer_norm";
    std::string bias = hasBias ? ", %w" : "",
                biasType = hasBias ? ", tensor<40xT>" : "";
    std::string epsilon = " {epsilon = 1.0e-05 : f64} : (";
    checkScratch("(%x: " + rows + ", %w: tensor<40xT>) -> " + rows +
                 " {\n%y = mt." + weights + " %x, %w" + bias + epsilon + rows +
                 ", tensor<40xT>" + biasType + ") -> " + rows +
                 "\nreturn %y : " + rows + "\n}",
                 /*needsScratch=*/false);
    checkScratch("(%c: " + rows + ", %x: " + rows + ", %w: tensor<40xT>) -> " +
                 rows + " {\n%y = mt." + weights + "_grad_input %c, %x, %w" +
                 epsilon + rows + ", " + rows + ", tensor<40xT>) -> " + rows +
                 "\nreturn %y : " + rows + "\n}",
                 /*needsScratch=*/false);
    std::string two = hasBias ? "%y, %z" : "%y";
    std::string types =
        hasBias ? "(tensor<40xT>, tensor<40xT>)" : "tensor<40xT>";
    checkScratch("(%c: " + rows + ", %x: " + rows + ") -> tensor<40xT> {\n" +
                 two + " = mt." + weights + "_grad_weight %c, %x" + epsilon +
                 rows + ", " + rows + ") -> " + types +
                 "\nreturn %y : tensor<40xT>\n}");
  }
}

TEST(Scratch, Sums) {
  checkScratch("(%x: " + rows +
               ") -> tensor<40xT> {\n%y = mt.sum_leading %x : (" + rows +
               ") -> tensor<40xT>\nreturn %y : tensor<40xT>\n}");
  checkScratch("(%x: " + rows + ", %m: " + scalars + ") -> " + scalars +
               " {\n%y = mt.exp_sum %x, %m {classes = 38 : i64} : (" + rows +
               ", " + scalars + ") -> " + scalars + "\nreturn %y : " + scalars +
                   "\n}",
               /*needsScratch=*/false);
}

/// Sums of bf16 only.
TEST(Scratch, Products) {
  auto check = [](const std::string &op, const std::string &a,
                  const std::string &b, const std::string &result) {
    checkScratch("(%a: " + a + ", %b: " + b + ") -> " + result +
                     " {\n%y = mt." + op + " %a, %b : (" + a + ", " + b +
                     ") -> " + result + "\nreturn %y : " + result + "\n}",
                 /*needsScratch=*/false);
  };
  check("linear", rows, "tensor<30x40xT>", "tensor<6x50x30xT>");
  check("linear_grad_input", rows, "tensor<40x30xT>", "tensor<6x50x30xT>");
  check("linear_grad_weight", rows, "tensor<6x50x30xT>", "tensor<40x30xT>");
  check("embedding_grad", "tensor<6x50xi32>", rows, "tensor<30x40xT>");
  checkScratch("(%x: tensor<2x50x6x8xT>) -> tensor<2x50x2x8xT> {\n"
               "%y = mt.repeat_heads_grad %x {repeats = 3 : i64} : "
               "(tensor<2x50x6x8xT>) -> tensor<2x50x2x8xT>\n"
               "return %y : tensor<2x50x2x8xT>\n}",
               /*needsScratch=*/false);
}

TEST(Scratch, Rope) {
  // A table of more than 32 frequencies does not lie on the stack.
  for (int half : {4, 40}) {
    std::string frequencies = "1.0";
    for (int i = 1; i < half; ++i)
      frequencies += ", 0." + std::to_string(i);
    std::string type = "tensor<2x50x4x" + std::to_string(2 * half) + "xT>";
    checkScratch("(%x: " + type + ", %p: tensor<50xi32>) -> " + type +
                 " {\n%y = mt.rope %x, %p {frequencies = array<f64: " +
                 frequencies + ">} : (" + type + ", tensor<50xi32>) -> " +
                 type + "\nreturn %y : " + type + "\n}");
  }
}

/// Gradients of bf16 only: tiles lie on the stack.
TEST(Scratch, Attention) {
  std::string q = "tensor<2x70x6x8xT>", k = "tensor<2x30x2x8xT>",
              l = "tensor<2x70x6xT>", p = "tensor<70xi32>, tensor<30xi32>";
  for (bool drops : {false, true}) {
    std::string key = drops ? " key %e" : "",
                keyType = drops ? ", tensor<3xi64>" : "";
    std::string attributes = drops ? ", dropout = 1.0e-01 : f64" : "";
    attributes = " {causal = true, scale = 5.0e-01 : f64" + attributes + "}";
    std::string arguments = "(%q: " + q + ", %k: " + k + ", %l: " + l +
                            ", %p: tensor<70xi32>, %r: tensor<30xi32>, "
                            "%e: tensor<3xi64>) -> " +
                            q + " {\n";
    checkScratch(arguments + "%y, %z = mt.attention %q, %k, %k, %p, %r" + key +
                 attributes + " : (" + q + ", " + k + ", " + k + ", " + p +
                 keyType + ") -> (" + q + ", " + l + ")\nreturn %y : " + q +
                     "\n}",
                 /*needsScratch=*/false);
    checkScratch(
        arguments +
        "%y, %a, %b = mt.attention_grad %q, %q, %k, %k, %q, %l, %p, %r" + key +
        attributes + " : (" + q + ", " + q + ", " + k + ", " + k + ", " + q +
        ", " + l + ", " + p + keyType + ") -> (" + q + ", " + k + ", " + k +
            ")\nreturn %y : " + q + "\n}",
        /*needsScratch=*/false);
  }
}
