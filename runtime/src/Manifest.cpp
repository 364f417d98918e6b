//===- Manifest.cpp - read the description in a compiled step -------------===//

#include "Manifest.h"

#include "Json.h"
#include "mt/error.h"

#include <algorithm>

using namespace mt::runtime;

namespace {

constexpr std::pair<Role, const char *> roleNames[] = {
    {Role::Input, "input"},
    {Role::Parameter, "parameter"},
    {Role::Gradient, "gradient"},
    {Role::FirstMoment, "first_moment"},
    {Role::SecondMoment, "second_moment"},
    {Role::MasterWeight, "master_weight"},
    {Role::Hyperparameters, "hyperparameters"},
    {Role::Random, "random"},
    {Role::LossSum, "loss_sum"},
    {Role::TokenCount, "token_count"},
    {Role::Loss, "loss"},
    {Role::GradientNorm, "gradient_norm"},
    {Role::ValidTokens, "valid_tokens"},
};

Role parseRole(const JsonNode &node) {
  std::string name = node.string(), known;
  for (auto [role, text] : roleNames) {
    if (name == text)
      return role;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  node.expected("one of " + known);
}

ProcessorNeeds parseProcessor(const JsonNode &node) {
  return {node["architecture"].string(), node["name"].string(),
          node["features"].strings()};
}

Mesh parseMesh(const JsonNode &node) {
  Mesh mesh;
  int64_t ranks = 1;
  for (size_t i = 0; i < node.size(); ++i) {
    Axis axis{node.at(i)["name"].string(), node.at(i)["size"].integer(1)};
    if (mesh.find(axis.name) >= 0)
      node.at(i).fail("expected axes of different names, found \"" + axis.name +
                      "\" twice");
    ranks = axis.size > 4096 ? INT64_MAX : ranks * axis.size;
    if (ranks > 4096)
      node.fail("expected at most 4096 ranks, found more");
    mesh.axes.push_back(axis);
  }
  return mesh;
}

AxisList parseAxes(const JsonNode &node, const Mesh &mesh) {
  AxisList list;
  for (size_t i = 0; i < node.size(); ++i) {
    int64_t axis = mesh.find(node.at(i).string());
    if (axis < 0)
      node.at(i).expected("an axis of the mesh");
    if (std::find(list.begin(), list.end(), axis) != list.end())
      node.expected("each axis once");
    list.push_back(axis);
  }
  return list;
}

Sharding parseSharding(const JsonNode &node, const Mesh &mesh) {
  Sharding sharding;
  JsonNode dims = node["dims"];
  for (size_t i = 0; i < dims.size(); ++i)
    sharding.dims.push_back(parseAxes(dims.at(i), mesh));
  sharding.partial = parseAxes(node["partial"], mesh);
  std::string reduction = node["reduction"].string();
  if (reduction == "sum")
    sharding.reduction = MT_SUM;
  else if (reduction == "max")
    sharding.reduction = MT_MAX;
  else if (reduction == "min")
    sharding.reduction = MT_MIN;
  else
    node["reduction"].expected("sum, max or min");

  // Each axis is in one state.
  AxisList used = sharding.partial;
  for (const AxisList &dim : sharding.dims)
    used.insert(used.end(), dim.begin(), dim.end());
  std::sort(used.begin(), used.end());
  if (std::adjacent_find(used.begin(), used.end()) != used.end())
    node.fail("expected each axis once, found one in two places");
  return sharding;
}

Parameter parseParameter(const JsonNode &node) {
  Parameter parameter;
  parameter.name = node["name"].string();
  parameter.trained = node["trained"].boolean();

  JsonNode init = node["init"];
  std::string kind = init["kind"].string();
  parameter.init.normal = kind == "normal";
  if (parameter.init.normal) {
    parameter.init.mean = init["mean"].number();
    parameter.init.std = init["std"].number();
  } else if (kind == "constant") {
    parameter.init.value = init["value"].number();
  } else {
    init["kind"].expected("normal or constant");
  }

  JsonNode checkpoint = node["checkpoint"];
  CheckpointMap &map = parameter.checkpoint;
  map.tensor = checkpoint["tensor"].string();
  map.shape = checkpoint["shape"].shape();
  map.transpose = checkpoint["transpose"].boolean();
  map.offsets = checkpoint["offsets"].shape();
  map.sizes = checkpoint["sizes"].shape();
  if (!checkedElementCount(map.shape))
    checkpoint["shape"].expected("a shape that fits in memory");
  if (map.offsets.size() != map.shape.size() ||
      map.sizes.size() != map.shape.size())
    checkpoint.fail("expected offsets and sizes of " +
                    std::to_string(map.shape.size()) + " dimensions");
  for (size_t d = 0; d < map.shape.size(); ++d)
    if (map.offsets[d] > map.shape[d] ||
        map.sizes[d] > map.shape[d] - map.offsets[d])
      checkpoint.fail("expected a block inside the shape " +
                      toString(map.shape) + ", found offsets " +
                      toString(map.offsets) + " and sizes " +
                      toString(map.sizes));
  if (map.transpose && map.shape.size() != 2)
    checkpoint.fail("expected two dimensions to transpose, found " +
                    std::to_string(map.shape.size()));
  return parameter;
}

Buffer parseBuffer(const JsonNode &node, const Manifest &manifest) {
  Buffer buffer;
  buffer.name = node["name"].string();
  buffer.role = parseRole(node["role"]);
  auto dtype = parseDtype(node["dtype"].string());
  if (!dtype)
    node["dtype"].expected("f32, f64, bf16, i32 or i64");
  buffer.dtype = *dtype;
  buffer.shape = node["shape"].shape();
  buffer.localShape = node["local_shape"].shape();
  buffer.sharding = parseSharding(node["sharding"], manifest.mesh);
  if (node.has("parameter"))
    buffer.parameter = node["parameter"].integer(0);
  if (buffer.parameter >= int64_t(manifest.parameters.size()))
    node["parameter"].expected("an index below " +
                               std::to_string(manifest.parameters.size()));

  if (buffer.sharding.dims.size() != buffer.shape.size() ||
      buffer.localShape.size() != buffer.shape.size())
    node.fail("expected shape, local_shape and sharding of one rank");
  if (!checkedElementCount(buffer.shape))
    node["shape"].expected("a shape that fits in memory");
  for (size_t d = 0; d < buffer.shape.size(); ++d) {
    int64_t pieces = manifest.mesh.size(buffer.sharding.dims[d]);
    if (buffer.shape[d] % pieces != 0 ||
        buffer.localShape[d] != buffer.shape[d] / pieces)
      node.fail("expected dimension " + std::to_string(d) + ", " +
                std::to_string(buffer.shape[d]) + " elements, in " +
                std::to_string(pieces) + " equal pieces, found pieces of " +
                std::to_string(buffer.localShape[d]));
  }
  return buffer;
}

Entry parseEntry(const JsonNode &entries, const char *name, size_t buffers) {
  for (size_t i = 0; i < entries.size(); ++i) {
    JsonNode node = entries.at(i);
    if (node["name"].string() != name)
      continue;
    Entry entry{name, node["symbol"].string(), node["buffers"].shape(),
                node["arena_bytes"].integer(0)};
    for (size_t b = 0; b < entry.buffers.size(); ++b)
      if (entry.buffers[b] >= int64_t(buffers))
        node["buffers"].at(b).expected("an index below " +
                                       std::to_string(buffers));
    return entry;
  }
  entries.fail(std::string("expected an entry \"") + name + "\", found none");
}

CollectiveInfo parseCollective(const JsonNode &node, size_t index,
                               size_t groups) {
  if (node["id"].integer(0) != int64_t(index))
    node["id"].expected("its index, " + std::to_string(index));
  CollectiveInfo info;
  info.unit = node["unit"].string();
  info.direction = node["direction"].string();
  info.kind = node["kind"].string();
  info.axes = node["axes"].strings();
  info.group = node["group"].integer(0);
  if (info.group >= int64_t(groups))
    node["group"].expected("an index below " + std::to_string(groups));
  info.tensors = node["tensors"].integer(0);
  info.dtype = node["dtype"].string();
  info.payloadBytes = node["payload_bytes"].integer(0);
  info.ringBytes = node["ring_bytes"].integer(0);
  info.executions = node["executions"].integer(0);
  info.reason = node["reason"].string();
  info.operation = node["operation"].string();
  info.entry = node["entry"].string();
  info.started = node["started"].boolean();
  info.text = info.kind + " " + std::to_string(index) + " over {" +
              info.axesText() + "} (" + info.unit + ", " + info.direction + ")";
  return info;
}

KernelInfo parseKernel(const JsonNode &node) {
  return {node["name"].string(), node["ops"].strings(),
          node["flops"].integer(0), node["bytes"].integer(0),
          node["executions"].integer(0)};
}

DeviceFunction parseDeviceFunction(const JsonNode &node, size_t kernels) {
  DeviceFunction function;
  function.name = node["name"].string();
  function.kernel = node["kernel"].integer(-1);
  if (function.kernel >= int64_t(kernels))
    node["kernel"].expected("an index below " + std::to_string(kernels));
  function.blocks = node["blocks"].integer(1);
  if (function.blocks > INT32_MAX)
    node["blocks"].expected("at most " + std::to_string(INT32_MAX));
  function.threads = node["threads"].integer(1);
  if (function.threads > 1024)
    node["threads"].expected("at most 1024");
  function.sharedBytes = node["shared_bytes"].integer(0);
  function.arguments = node["arguments"].integer(0);
  return function;
}

DeviceAttention parseDeviceAttention(const JsonNode &node) {
  DeviceAttention attention;
  attention.isGradient = node["gradient"].boolean();
  attention.batch = node["batch"].integer(1);
  attention.queries = node["queries"].integer(1);
  attention.keys = node["keys"].integer(1);
  attention.heads = node["heads"].integer(1);
  attention.keyHeads = node["key_heads"].integer(1);
  if (attention.heads % attention.keyHeads != 0)
    node["key_heads"].expected("a divisor of the " +
                               std::to_string(attention.heads) + " heads");
  attention.width = node["width"].integer(1);
  attention.isCausal = node["causal"].boolean();
  attention.scale = node["scale"].number();
  JsonNode strides = node["strides"];
  size_t tensors = attention.isGradient ? 9 : 5;
  if (strides.size() != tensors)
    strides.fail("expected those of " + std::to_string(tensors) +
                 " tensors, found " + std::to_string(strides.size()));
  for (size_t i = 0; i < tensors; ++i) {
    Shape triple = strides.at(i).shape();
    if (triple.size() != 3)
      strides.at(i).fail(
          "expected strides of batch, sequence and head, found " +
          toString(triple));
    attention.strides.push_back({triple[0], triple[1], triple[2]});
  }
  return attention;
}

DeviceImage parseDeviceImage(const JsonNode &node) {
  DeviceImage image{node["kind"].string(), node["architecture"].string(),
                    node["symbol"].string()};
  if (image.kind != "ptx" && image.kind != "cubin" && image.kind != "twin")
    node["kind"].expected("ptx, cubin or twin");
  return image;
}

DeviceProgram parseDevice(const JsonNode &node, size_t kernels) {
  DeviceProgram program;
  program.scratchBytes = node["scratch_bytes"].integer(0);
  JsonNode functions = node["functions"];
  for (size_t i = 0; i < functions.size(); ++i)
    program.functions.push_back(parseDeviceFunction(functions.at(i), kernels));
  if (node.has("attentions")) {
    JsonNode attentions = node["attentions"];
    for (size_t i = 0; i < attentions.size(); ++i)
      program.attentions.push_back(parseDeviceAttention(attentions.at(i)));
  }
  JsonNode images = node["images"];
  for (size_t i = 0; i < images.size(); ++i)
    program.images.push_back(parseDeviceImage(images.at(i)));
  return program;
}

} // namespace

std::string CollectiveInfo::axesText() const {
  std::string text;
  for (const std::string &axis : axes)
    text += (text.empty() ? "" : ", ") + axis;
  return text;
}

std::vector<std::string> Manifest::collectiveTexts() const {
  std::vector<std::string> texts;
  for (const CollectiveInfo &info : collectives)
    texts.push_back(info.text);
  return texts;
}

bool Manifest::startsCollectives() const {
  return std::any_of(collectives.begin(), collectives.end(),
                     [](const CollectiveInfo &info) { return info.started; });
}

const char *mt::runtime::roleName(Role role) {
  for (auto [known, text] : roleNames)
    if (known == role)
      return text;
  return "unknown";
}

Manifest mt::runtime::parseManifest(const nlohmann::json &value,
                                    const std::string &where) {
  JsonNode root(value, where);
  Manifest manifest;
  manifest.target = root["target"].string();
  if (root.has("processor"))
    manifest.processor = parseProcessor(root["processor"]);
  manifest.mesh = parseMesh(root["mesh"]);
  JsonNode model = root["model"];
  manifest.vocabulary = model["vocabulary"].integer(1);
  manifest.batch = model["batch"].integer(1);
  manifest.sequence = model["sequence"].integer(1);
  manifest.microbatches = model["microbatches"].integer(1);
  if (model.has("config"))
    manifest.config = model["config"].string();
  if (model.has("token_types"))
    manifest.tokenTypes = model["token_types"].integer(1);

  JsonNode groups = root["groups"];
  for (size_t i = 0; i < groups.size(); ++i)
    manifest.groups.push_back(parseAxes(groups.at(i), manifest.mesh));
  JsonNode parameters = root["parameters"];
  for (size_t i = 0; i < parameters.size(); ++i)
    manifest.parameters.push_back(parseParameter(parameters.at(i)));
  JsonNode buffers = root["buffers"];
  for (size_t i = 0; i < buffers.size(); ++i)
    manifest.buffers.push_back(parseBuffer(buffers.at(i), manifest));
  JsonNode entries = root["entries"];
  manifest.microbatch = parseEntry(entries, "microbatch", buffers.size());
  manifest.update = parseEntry(entries, "update", buffers.size());
  JsonNode collectives = root["collectives"];
  for (size_t i = 0; i < collectives.size(); ++i)
    manifest.collectives.push_back(
        parseCollective(collectives.at(i), i, groups.size()));
  JsonNode kernels = root["kernels"];
  for (size_t i = 0; i < kernels.size(); ++i)
    manifest.kernels.push_back(parseKernel(kernels.at(i)));
  if (manifest.target == "cuda")
    manifest.device = parseDevice(root["device"], kernels.size());
  checkManifest(manifest, where);
  return manifest;
}
