//===- UnitAttrs.h - where ops came from, without units ---------*- C++ -*-===//

#ifndef MT_LIB_TRANSFORMS_UNITATTRS_H
#define MT_LIB_TRANSFORMS_UNITATTRS_H

#include "mt/IR/Mt.h"

namespace mt {

/// Gives `to` the unit and the direction of `from`, if it has them.
inline void copyUnitAttrs(mlir::Operation *from, mlir::Operation *to) {
  for (llvm::StringRef name : {attr::unit, attr::direction})
    if (mlir::Attribute value = from->getAttr(name))
      to->setAttr(name, value);
}

} // namespace mt

#endif // MT_LIB_TRANSFORMS_UNITATTRS_H
