//===- Config.h - a model's config.json -------------------------*- C++ -*-===//

#ifndef MT_IMPORT_CONFIG_H
#define MT_IMPORT_CONFIG_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mt {

/// The keys of a config.json; `a.b` is the key b of the object a. A getter that
/// finds something else than it expects records a message and returns a
/// harmless value, so that a family reads all its keys and asks `failed` once.
/// The first message is kept.
class Config {
public:
  /// Sizes beyond this are mistakes, and would overflow elsewhere.
  static constexpr int64_t maximumSize = int64_t(1) << 24;

  /// Reads `path`, a config.json or a folder with one.
  static mlir::FailureOr<Config> read(llvm::StringRef path, std::string &error);

  llvm::StringRef getFile() const { return file; }
  /// The file as it is.
  llvm::StringRef getText() const { return text; }

  /// Whether the key is there and not null.
  bool has(llvm::StringRef key) const;
  /// Whether the key is there, even if it is null.
  bool hasKey(llvm::StringRef key) const { return find(key); }
  /// Whether the key is there and is an object that is not empty.
  bool hasObject(llvm::StringRef key) const;

  /// An integer from 1 to `maximum`; an error where it is missing and has no
  /// `byDefault`.
  int64_t getSize(llvm::StringRef key,
                  std::optional<int64_t> byDefault = std::nullopt,
                  int64_t maximum = maximumSize);
  /// An integer from `minimum` to `maximum`.
  int64_t getInteger(llvm::StringRef key, int64_t minimum, int64_t maximum,
                     std::optional<int64_t> byDefault = std::nullopt);
  /// A finite number of at least 0.
  double getNumber(llvm::StringRef key, double byDefault);
  /// A finite number above 0.
  double getPositive(llvm::StringRef key,
                     std::optional<double> byDefault = std::nullopt);
  bool getFlag(llvm::StringRef key, bool byDefault);
  std::string getString(llvm::StringRef key,
                        std::optional<std::string> byDefault = std::nullopt);
  /// A list of strings; empty where it is missing or null.
  std::vector<std::string> getStrings(llvm::StringRef key);

  /// The key's value as JSON, shortened; "none" where it is missing.
  std::string show(llvm::StringRef key) const;

  /// Records that the value of `key` is not what is `expected`.
  void failExpecting(llvm::StringRef key, const llvm::Twine &expected);
  /// Records `message`, which names its file or flag.
  void fail(const llvm::Twine &message);
  bool failed() const { return !error.empty(); }
  const std::string &getError() const { return error; }

private:
  Config() = default;
  const nlohmann::json *find(llvm::StringRef key) const;

  std::string file, text;
  std::shared_ptr<const nlohmann::json> object;
  std::string error;
};

} // namespace mt

#endif // MT_IMPORT_CONFIG_H
