//===- StepLibrary.cpp - open a compiled step -----------------------------===//

#include "StepLibrary.h"

#include "Json.h"
#include "MappedFile.h"
#include "mt/error.h"

#include <filesystem>

#include <dlfcn.h>

using namespace mt::runtime;

namespace {

/// What the loader says, without the path that it starts with.
std::string loaderText(const std::string &absolutePath) {
  const char *text = dlerror();
  std::string message = text ? text : "unknown failure";
  std::string prefix = absolutePath + ": ";
  if (message.compare(0, prefix.size(), prefix) == 0)
    message.erase(0, prefix.size());
  return message;
}

} // namespace

StepLibrary::StepLibrary(const std::string &path) : path(path) {
  // Says what is wrong with the path better than the loader does.
  MappedFile readable(path);
  // A name without a slash would be searched for in the system's folders.
  std::string absolute = std::filesystem::absolute(path).string();
  library = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error(path + ": not an mt step: " + loaderText(absolute));
  try {
    readManifest();
  } catch (...) {
    dlclose(library);
    throw;
  }
}

StepLibrary::~StepLibrary() { dlclose(library); }

void StepLibrary::readManifest() {
  auto version =
      static_cast<const uint32_t *>(dlsym(library, "mt_abi_version"));
  text = static_cast<const char *>(dlsym(library, "mt_manifest"));
  if (!version || !text)
    throw Error(path +
                ": not an mt step: expected symbols mt_abi_version and " +
                "mt_manifest, found none");
  if (*version != MT_ABI_VERSION)
    throw Error(path + ": expected a step of ABI version " +
                std::to_string(MT_ABI_VERSION) + ", found version " +
                std::to_string(*version));
  std::string where = path + ": manifest";
  nlohmann::json value = parseJson(text, text + std::strlen(text), where);
  JsonNode root(value, where);
  if (root["format"].string() != "mt-step")
    root["format"].expected("\"mt-step\"");
  if (root["abi_version"].integer(0) != MT_ABI_VERSION)
    root["abi_version"].expected(std::to_string(MT_ABI_VERSION));
}

mt_entry StepLibrary::entry(const std::string &symbol) const {
  void *address = dlsym(library, symbol.c_str());
  if (!address)
    throw Error(path + ": expected the manifest's entry " + symbol +
                ", found no such symbol");
  return reinterpret_cast<mt_entry>(address);
}
