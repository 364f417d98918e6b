//===- Polynomials.h - functions of 32 bits as polynomials ------*- C++ -*-===//

#ifndef MT_LIB_CONVERSION_POLYNOMIALS_H
#define MT_LIB_CONVERSION_POLYNOMIALS_H

#include "mlir/IR/PatternMatch.h"

namespace mt {

/// Those of exp, log, tanh and erf: the same on the host and on a device.
void addPolynomials(mlir::RewritePatternSet &patterns);

} // namespace mt

#endif // MT_LIB_CONVERSION_POLYNOMIALS_H
