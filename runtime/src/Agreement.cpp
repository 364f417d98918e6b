//===- Agreement.cpp - what the ranks compare before they start -----------===//

#include "Agreement.h"

#include "Json.h"
#include "mt/error.h"

#include <cstdio>

using namespace mt::runtime;
using Json = nlohmann::ordered_json;

namespace {

/// FNV-1a.
uint64_t hashText(const std::string &text,
                  uint64_t hash = 14695981039346656037u) {
  for (unsigned char c : text)
    hash = (hash ^ c) * 1099511628211u;
  return hash;
}

std::string hexText(uint64_t hash) {
  char text[32];
  std::snprintf(text, sizeof text, "hash 0x%016llx",
                static_cast<unsigned long long>(hash));
  return text;
}

/// `all_reduce 0 over {tp} (transformer.h.0, forward), 1 x f32, 442368 bytes, 1
/// times a step`.
std::string describeCollective(const CollectiveInfo &info) {
  return info.text + ", " + std::to_string(info.tensors) + " x " + info.dtype +
         ", " + std::to_string(info.payloadBytes) + " bytes, " +
         std::to_string(info.executions) + " times a step";
}

/// As the command line has it.
std::string describeNetwork(const std::optional<Network> &network) {
  if (!network)
    return "none";
  char text[96];
  std::snprintf(text, sizeof text, "bandwidth=%g,latency=%g",
                network->bytesPerSecond, network->latencySeconds);
  return text;
}

Json describeOptions(const JobOptions &options) {
  const Hyperparameters &h = options.hyperparameters;
  return {{"--init", options.init},
          {"--resume", options.resume},
          {"--data", options.data},
          {"--token-bytes", options.tokenBytes},
          {"--end-of-document", options.endOfDocument.value_or(-2)},
          {"--steps", options.steps},
          {"--seed", options.seed},
          {"--lr", h.learningRate},
          {"--beta1", h.beta1},
          {"--beta2", h.beta2},
          {"--eps", h.epsilon},
          {"--weight-decay", h.weightDecay},
          {"--clip-norm", h.clipNorm},
          {"--save", options.save},
          {"--save-every", options.saveEvery},
          {"--max-shard-bytes", options.maxShardBytes},
          {"--save-gradients", options.saveGradients},
          {"--trace", options.trace},
          {"--collectives", options.collectives},
          {"--check-memory", options.checkMemory},
          {"--network", describeNetwork(options.network)},
          {"--simulate-device", options.simulateDevice},
          {"--no-graph", !options.usesGraphs},
          {"--tf32", options.allowsTf32},
          {"--cudnn", options.usesCudnn}};
}

/// A value without the quotes of a string.
std::string plainText(const Json &value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string differ(const std::string &what, const std::string &expected,
                   const std::string &found) {
  return "expected " + what + " " + expected + " as on rank 0, found " + found;
}

/// The first collective that differs.
std::string compareCollectives(const Json &first, const Json &other) {
  size_t common = std::min(first.size(), other.size());
  for (size_t i = 0; i < common; ++i)
    if (first[i] != other[i])
      return differ("collective", first[i].get<std::string>(),
                    other[i].get<std::string>());
  // Where the texts are the same, the groups are not.
  return differ("collectives in", std::to_string(first.size()) + " calls",
                std::to_string(other.size()) + " calls of other groups");
}

/// How another rank's set-up differs from rank 0's; empty: not at all.
std::string compareSetUp(const Json &first, const Json &other) {
  if (first["abi_version"] != other["abi_version"])
    return differ("ABI version", first["abi_version"].dump(),
                  other["abi_version"].dump());
  // Before the collectives, whose texts are long: the mesh is what differs most
  // often, and explains the rest.
  for (const auto &[key, value] : first["manifest"].items())
    if (key == "mesh" && value != other["manifest"]["mesh"])
      return differ("mesh", value.dump(), other["manifest"]["mesh"].dump());
  if (first["sequence"] != other["sequence"])
    return compareCollectives(first["collectives"], other["collectives"]);
  for (const auto &[key, value] : first["manifest"].items())
    if (value != other["manifest"].value(key, Json()))
      return differ("the manifest's " + key, plainText(value),
                    plainText(other["manifest"].value(key, Json())));
  if (first["manifest"].size() != other["manifest"].size())
    return differ("a manifest of", std::to_string(first["manifest"].size()),
                  std::to_string(other["manifest"].size()) + " keys");
  for (const auto &[key, value] : first["options"].items())
    if (value != other["options"][key])
      return differ(key, plainText(value), plainText(other["options"][key]));
  return "";
}

} // namespace

uint64_t mt::runtime::sequenceHash(const Manifest &manifest) {
  uint64_t hash = hashText("");
  for (const CollectiveInfo &info : manifest.collectives) {
    std::string text = describeCollective(info) + " in " + info.entry + " of";
    for (int64_t axis : manifest.groups[size_t(info.group)])
      text += " " + std::to_string(axis);
    hash = hashText(text + "\n", hash);
  }
  return hash;
}

std::string mt::runtime::describeSetUp(const JobOptions &options,
                                       const Manifest &manifest,
                                       const char *manifestText) {
  Json parts = Json::object();
  const Json whole = Json::parse(manifestText);
  for (const auto &[key, value] : whole.items())
    // What is long goes as its hash.
    parts[key] = key == "mesh" || !value.is_structured()
                     ? value
                     : Json(hexText(hashText(value.dump())));
  Json texts = Json::array();
  for (const CollectiveInfo &info : manifest.collectives)
    texts.push_back(describeCollective(info));
  Json setUp = {{"abi_version", MT_ABI_VERSION},
                {"sequence", hexText(sequenceHash(manifest))},
                {"collectives", texts},
                {"manifest", parts},
                {"options", describeOptions(options)}};
  return setUp.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string mt::runtime::describeFailedSetUp(const std::string &message) {
  return Json{{"error", message}}.dump(-1, ' ', false,
                                       Json::error_handler_t::replace);
}

std::string mt::runtime::compareSetUps(Communicator &communicator,
                                       const std::string &mine) {
  Json first;
  std::string message;
  communicator.collect(
      "the set-up", 0, mine.c_str(), int64_t(mine.size() + 1),
      [&](int64_t rank, const void *text) {
        Json setUp = Json::parse(static_cast<const char *>(text));
        std::string wrong;
        if (rank == 0)
          first = setUp;
        if (setUp.contains("error"))
          wrong = setUp["error"].get<std::string>();
        else if (rank > 0 && message.empty())
          wrong = compareSetUp(first, setUp);
        if (wrong.empty() || !message.empty())
          return;
        message =
            rank == 0 ? wrong : "rank " + std::to_string(rank) + ": " + wrong;
      });
  return message;
}
