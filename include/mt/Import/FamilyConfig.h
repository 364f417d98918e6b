//===- FamilyConfig.h - what the families' configurations share -*- C++ -*-===//
//
// Keys that several families have, under one name or several, with the checks
// and the messages that belong to them.
//
//===----------------------------------------------------------------------===//

#ifndef MT_IMPORT_FAMILYCONFIG_H
#define MT_IMPORT_FAMILYCONFIG_H

#include "mt/Import/Config.h"
#include "mt/Import/Import.h"
#include "mt/Import/ModelBuilder.h"

namespace mt {

/// More layers are a mistake, and too many ops.
inline constexpr int64_t maximumLayers = 10000;

/// Sizes that every family has.
struct ModelSizes {
  int64_t vocabulary, positions, hidden, layers, heads, inner;
};

/// By the keys that most families have, `hidden_size` and the like.
ModelSizes readSizes(Config &config);

/// The class of the model: the one in `architectures`, or the first of those
/// that are `supported` where the file names none.
std::string readArchitecture(Config &config,
                             llvm::ArrayRef<llvm::StringRef> supported);

/// The keys whose flags must be false.
void refuseFlags(Config &config, llvm::ArrayRef<llvm::StringRef> keys);
/// Weights in other types than a checkpoint's own.
void refuseQuantization(Config &config);

Activation readActivation(Config &config, llvm::StringRef key,
                          llvm::StringRef byDefault);

/// The probability of dropping at `key`, or that of --dropout.
double readDropout(Config &config, llvm::StringRef key, double byDefault,
                   const ImportOptions &options);

/// The token whose lookups train nothing, `pad_token_id`. As in PyTorch a
/// negative one counts from the end.
std::optional<int64_t> readPadding(Config &config, int64_t vocabulary,
                                   std::optional<int64_t> byDefault);

/// Checks that `hidden` is a multiple of the heads.
void checkHeads(Config &config, llvm::StringRef hiddenKey, int64_t hidden,
                llvm::StringRef headsKey, int64_t heads);

/// The shape of the model, checked against its positions and against products
/// that are too large. `hiddenKey` is the key of `sizes.hidden`; `widest` a
/// size beyond those in `sizes`.
ModelShape readShape(Config &config, const ModelSizes &sizes,
                     llvm::StringRef hiddenKey, const ImportOptions &options,
                     int64_t widest = 0);

} // namespace mt

#endif // MT_IMPORT_FAMILYCONFIG_H
