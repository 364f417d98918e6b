//===- Gelu.h - what a product's epilogue computes --------------*- C++ -*-===//

#ifndef MT_RUNTIME_SIMULATED_GELU_H
#define MT_RUNTIME_SIMULATED_GELU_H

#include <cmath>

namespace mt::simulated {

/// In its tanh form (Hendrycks and Gimpel 2016).
inline double gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

} // namespace mt::simulated

#endif // MT_RUNTIME_SIMULATED_GELU_H
