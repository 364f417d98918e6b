//===- StepLibrary.cpp - open a compiled step -----------------------------===//

#include "StepLibrary.h"

#include "Json.h"
#include "MappedFile.h"
#include "Text.h"
#include "mt/error.h"

#include <cstring>
#include <filesystem>

#include <dlfcn.h>
#include <elf.h>

using namespace mt::runtime;

namespace {

/// What the loader says, without the path that it starts with.
std::string loaderText(const std::string &absolutePath) {
  const char *text = dlerror();
  std::string message = text ? text : "unknown failure";
  std::string prefix = absolutePath + ": ";
  if (startsWith(message, prefix))
    message.erase(0, prefix.size());
  return message;
}

/// Refuses what is no shared library of this machine, or only the start of one:
/// the loader would end the process when it reads past the end of the file.
void checkElf(const MappedFile &file, const std::string &path) {
  auto refuse = [&](const std::string &found) {
    throw Error(path + ": not an mt step: expected a shared library, found " +
                found);
  };
  auto isCut = [&](uint64_t offset, uint64_t bytes) {
    return offset > file.size() || bytes > file.size() - offset;
  };
  if (file.size() < SELFMAG || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0)
    refuse("a file of another kind");
  Elf64_Ehdr header;
  const std::string cut =
      "one that is cut off at " + std::to_string(file.size()) + " bytes";
  if (isCut(0, sizeof header))
    refuse(cut);
  std::memcpy(&header, file.data(), sizeof header);
  // What else the header holds is the loader's to judge.
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr))
    return;
  if (isCut(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)))
    refuse(cut);
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, file.data() + header.e_phoff + i * sizeof(Elf64_Phdr),
                sizeof segment);
    if (isCut(segment.p_offset, segment.p_filesz))
      refuse(cut);
  }
}

} // namespace

StepLibrary::StepLibrary(const std::string &path) : path(path) {
  // Says what is wrong with the file better than the loader does.
  checkElf(MappedFile(path), path);
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

void *StepLibrary::symbol(const char *what, const std::string &name) const {
  void *address = dlsym(library, name.c_str());
  if (!address)
    throw Error(path + ": expected the manifest's " + what + " " + name +
                ", found no such symbol");
  return address;
}

mt_entry StepLibrary::entry(const std::string &name) const {
  return reinterpret_cast<mt_entry>(symbol("entry", name));
}

const void *StepLibrary::image(const std::string &name) const {
  return symbol("image", name);
}
