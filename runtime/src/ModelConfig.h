//===- ModelConfig.h - the model's config.json ------------------*- C++ -*-===//

#ifndef MT_RUNTIME_MODELCONFIG_H
#define MT_RUNTIME_MODELCONFIG_H

#include "Manifest.h"

namespace mt::runtime {

/// The configuration that goes with a model's weights, and where it stands.
struct ModelConfig {
  std::string text;
  std::string where;

  /// The token that ends a document, or -1 where the configuration names none
  /// that is in the vocabulary.
  int64_t endOfDocument(int64_t vocabulary) const;
  /// The text that describes what is saved: weights of float32.
  std::string saved() const;
};

/// What the step embeds; else config.json of `folder`; else nothing. Text that
/// is not a JSON object throws Error.
ModelConfig findConfig(const Manifest &manifest, const std::string &step,
                       const std::string &folder);

} // namespace mt::runtime

#endif // MT_RUNTIME_MODELCONFIG_H
