//===- RandomModel.cpp - models, meshes and strategies by seed ------------===//

#include "RandomModel.h"

#include <random>

using namespace mt::test;

namespace {

using Shape = std::vector<int64_t>;

std::string tensor(const Shape &shape, const char *element = "f64") {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

/// A value of the module's text.
struct Node {
  std::string name, type;
  Shape shape;
};

class Generator {
public:
  Generator(uint64_t seed, RandomModel &model)
      : model(model), random(seed * 2654435761u + 1) {}
  void run();

private:
  int64_t pick(std::initializer_list<int64_t> list) {
    return *(list.begin() + random() % list.size());
  }
  bool chance(int percent) { return int(random() % 100) < percent; }

  void chooseSizes();
  void chooseStrategy();
  void chooseState();
  std::string chooseRule(const std::string &name, const Shape &shape);

  Node addArgument(const std::string &name, const Shape &shape,
                   const char *element, const std::string &attributes);
  Node addParameter(const std::string &name, const Shape &shape, bool norm);
  Node addInput(const std::string &name, const Shape &shape, int64_t limit);

  /// `%n = op operands attributes : types -> type`.
  Node emit(const std::string &op, const std::vector<Node> &operands,
            const Shape &shape, const std::string &attributes = "");
  Node linear(const std::string &name, const Node &x, int64_t features,
              bool bias);
  Node norm(const std::string &name, const Node &x);
  Node activate(const Node &x);
  Node dropout(const Node &x);
  Node heads(const std::string &name, const Node &x, int64_t count,
             bool rotary);
  Node attention(const std::string &name, const Node &x);
  Node mlp(const std::string &name, const Node &x);
  Node embed();
  Node layer(int64_t number, Node x);
  void head(const Node &x);
  void beginUnit(const std::string &name);
  void endUnit(std::vector<Node *> results);
  Node read(const Node &outer);

  RandomModel &model;
  std::mt19937_64 random;
  int64_t dp, tp, batch, sequence, hidden, queryHeads, keyHeads, width, inner,
      vocabulary, layers;
  bool rms, preNorm, bias, rotary, learned, causal, masked, gated, parallel,
      queryNorm, tied, units, shared, useDropout;
  int activation;
  std::string arguments, body;
  int64_t counter = 0, sites = 0;
  std::map<std::string, Node> parameters;
  Node ids, labels, mask, randomState, table, first;

  /// The unit that is being built: its body, and what it reads.
  bool inUnit = false;
  std::string unitName, outerBody;
  std::vector<std::pair<Node, Node>> unitInputs;
};

} // namespace

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

void Generator::chooseSizes() {
  static const std::pair<int64_t, int64_t> meshes[] = {
      {2, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 2}, {3, 1}, {2, 3}, {1, 5},
      {1, 6}, {3, 2}, {4, 2}, {2, 4}, {1, 8}, {8, 1}, {1, 7}, {4, 1}};
  std::tie(dp, tp) = meshes[random() % std::size(meshes)];
  batch = dp * pick({1, 1, 2});
  sequence = tp * pick({1, 2, 3});
  queryHeads = tp * pick({1, 1, 2, 3});
  do
    keyHeads = 1 + int64_t(random() % uint64_t(queryHeads));
  while (queryHeads % keyHeads != 0);
  width = pick({2, 4});
  hidden = pick({6, 8, 10, 12});
  inner = tp * pick({1, 2, 3});
  vocabulary = tp * pick({3, 5, 8});
  layers = pick({1, 1, 2, 3});
  rms = chance(50), preNorm = chance(70), bias = chance(50);
  rotary = chance(50), learned = chance(40), causal = chance(70);
  masked = chance(25), gated = chance(40), parallel = chance(20);
  queryNorm = chance(25), tied = chance(50), units = chance(80);
  shared = chance(20), useDropout = chance(35);
  activation = int(random() % 5);
}

/// A layout that divides the shape, of axes that no dimension uses twice.
std::string Generator::chooseRule(const std::string &name, const Shape &shape) {
  std::vector<std::pair<std::string, int64_t>> axes{{"dp", dp}, {"tp", tp}};
  std::string text = name + "=[";
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    std::string list;
    int64_t shards = 1;
    for (auto &[axis, size] : axes)
      if (size > 0 && shape[dim] % (shards * size) == 0 && chance(40)) {
        list += (list.empty() ? "" : ", ") + axis;
        shards *= size;
        size = 0;
      }
    text += (dim ? ", {" : "{") + list + "}";
  }
  return text + "]";
}

void Generator::chooseStrategy() {
  model.mesh = "dp:" + std::to_string(dp) + ",tp:" + std::to_string(tp);
  model.ranks = dp * tp;
  model.sequenceParallel = chance(50);
  model.vocabularyParallel = chance(70);
  for (auto &[name, node] : parameters)
    if (chance(8))
      model.rules += chooseRule(name, node.shape) + ";";
  chooseState();
}

/// How state is sharded, over part of the data axes or all, and what is computed
/// again.
void Generator::chooseState() {
  static const char *const policies[] = {"none", "selective", "full"};
  model.zero = int64_t(random() % 4);
  if (dp % 2 == 0 && chance(50))
    model.mesh = "dp:" + std::to_string(dp / 2) +
                 ",fsdp:2,tp:" + std::to_string(tp);
  model.keepGathered = chance(30);
  model.recompute = policies[random() % 3];
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

Node Generator::addArgument(const std::string &name, const Shape &shape,
                            const char *element,
                            const std::string &attributes) {
  Node node{"%" + name, tensor(shape, element), shape};
  arguments += (arguments.empty() ? "" : ",\n  ") + node.name + ": " +
               node.type + " {mt.name = \"" + name + "\", " + attributes + "}";
  return node;
}

Node Generator::addParameter(const std::string &name, const Shape &shape,
                             bool norm) {
  auto known = parameters.find(name);
  if (known != parameters.end())
    return known->second;
  bool isTrained = !chance(8);
  Node node = addArgument(
      name, shape, "f64",
      "mt.role = \"parameter\", mt.parameter = #mt.parameter<name = \"" + name +
          "\", trained = " + (isTrained ? "true" : "false") +
          ", init = <constant, 0.0>>");
  std::uniform_real_distribution<double> real(norm ? 0.5 : -0.5,
                                              norm ? 1.5 : 0.5);
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  for (int64_t i = 0; i < count; ++i)
    model.reals[name].push_back(real(random));
  if (isTrained)
    model.trained.push_back(name);
  return parameters[name] = node;
}

Node Generator::addInput(const std::string &name, const Shape &shape,
                         int64_t limit) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  for (int64_t i = 0; i < count; ++i)
    model.integers[name].push_back(int32_t(random() % uint64_t(limit)));
  return addArgument(name, shape, "i32", "mt.role = \"input\"");
}

//===----------------------------------------------------------------------===//
// Ops and units
//===----------------------------------------------------------------------===//

Node Generator::read(const Node &outer) {
  if (!inUnit)
    return outer;
  for (auto &[value, inside] : unitInputs)
    if (value.name == outer.name || inside.name == outer.name)
      return inside;
  // Values of the unit's own body are numbered after its start.
  if (body.find(outer.name + " = ") != std::string::npos ||
      body.find(outer.name + ", ") != std::string::npos)
    return outer;
  Node inside{"%in" + std::to_string(counter++), outer.type, outer.shape};
  unitInputs.push_back({outer, inside});
  return inside;
}

Node Generator::emit(const std::string &op, const std::vector<Node> &operands,
                     const Shape &shape, const std::string &attributes) {
  std::string names, types;
  for (const Node &operand : operands) {
    Node inside = read(operand);
    names += (names.empty() ? " " : ", ") + inside.name;
    types += (types.empty() ? "" : ", ") + inside.type;
  }
  Node result{"%v" + std::to_string(counter++), tensor(shape), shape};
  body += result.name + " = mt." + op + names +
          (attributes.empty() ? "" : " {" + attributes + "}") + " : (" + types +
          ") -> " + result.type + "\n";
  return result;
}

void Generator::beginUnit(const std::string &name) {
  if (!units)
    return;
  inUnit = true;
  unitName = name;
  unitInputs.clear();
  outerBody = std::move(body);
  body.clear();
}

void Generator::endUnit(std::vector<Node *> results) {
  if (!units)
    return;
  std::string inputs, names, types, outer;
  for (auto &[value, inside] : unitInputs)
    inputs += (inputs.empty() ? "" : ", ") + inside.name + " = " + value.name +
              " : " + value.type;
  for (Node *result : results) {
    names += (names.empty() ? "" : ", ") + result->name;
    types += (types.empty() ? "" : ", ") + result->type;
  }
  std::string value = "%u" + std::to_string(counter++);
  outer = value + ":" + std::to_string(results.size()) + " = mt.unit \"" +
          unitName + "\" forward (" + inputs + ") -> (" + types + ") {\n" +
          body + "mt.yield " + names + " : " + types + "\n}\n";
  body = outerBody + outer;
  inUnit = false;
  for (size_t i = 0; i < results.size(); ++i)
    results[i]->name = value + "#" + std::to_string(i);
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

Node Generator::linear(const std::string &name, const Node &x, int64_t features,
                       bool withBias) {
  Node weight =
      addParameter(name + ".weight", {features, x.shape.back()}, false);
  Shape shape = x.shape;
  shape.back() = features;
  Node y = emit("linear", {x, weight}, shape);
  if (!withBias)
    return y;
  return emit("add", {y, addParameter(name + ".bias", {features}, false)},
              shape);
}

Node Generator::norm(const std::string &name, const Node &x) {
  Node weight = addParameter(name + ".weight", {x.shape.back()}, true);
  if (rms)
    return emit("rms_norm", {x, weight}, x.shape, "epsilon = 1.0e-05 : f64");
  Node shift = addParameter(name + ".bias", {x.shape.back()}, false);
  return emit("layer_norm", {x, weight, shift}, x.shape,
              "epsilon = 1.0e-05 : f64");
}

Node Generator::activate(const Node &x) {
  switch (activation) {
  case 0:
    return emit("gelu", {x}, x.shape, "kind = #mt.gelu_kind<tanh>");
  case 1:
    return emit("gelu", {x}, x.shape, "kind = #mt.gelu_kind<exact>");
  case 2:
    return emit("silu", {x}, x.shape);
  case 3:
    return emit("tanh", {x}, x.shape);
  default:
    return emit("relu", {x}, x.shape);
  }
}

Node Generator::dropout(const Node &x) {
  if (!useDropout || chance(50))
    return x;
  Node key = emit("random_key", {randomState}, {3},
                  "site = \"s" + std::to_string(sites++) + "\"");
  // The key's elements are integers.
  key.type = "tensor<3xi32>";
  body.replace(body.rfind("tensor<3xf64>"), 13, key.type);
  return emit("dropout", {x, key}, x.shape, "rate = 0.3 : f64");
}

Node Generator::heads(const std::string &name, const Node &x, int64_t count,
                      bool turned) {
  Node y = linear(name, x, count * width, bias);
  y = emit("split_heads", {y}, {batch, sequence, count, width});
  if (turned && queryNorm)
    y = norm(name + "_norm", y);
  if (!turned || !rotary)
    return y;
  Node positions{
      "%p" + std::to_string(counter++), tensor({sequence}, "i32"), {sequence}};
  body += positions.name + " = mt.positions : () -> " + positions.type + "\n";
  return emit("rope", {y, positions}, y.shape,
              width == 2 ? "frequencies = array<f64: 0.7>"
                         : "frequencies = array<f64: 1.0, 0.3>");
}

Node Generator::attention(const std::string &name, const Node &x) {
  Node query = read(heads(name + ".q", x, queryHeads, true));
  Node key = read(heads(name + ".k", x, keyHeads, true));
  Node value = read(heads(name + ".v", x, keyHeads, false));
  std::string number = std::to_string(counter++);
  std::string positions = tensor({sequence}, "i32");
  body += "%q" + number + " = mt.positions : () -> " + positions + "\n";
  std::string text = "%v" + number + ", %l" + number + " = mt.attention " +
                     query.name + ", " + key.name + ", " + value.name + ", %q" +
                     number + ", %q" + number;
  std::string types = query.type + ", " + key.type + ", " + value.type + ", " +
                      positions + ", " + positions;
  if (masked) {
    Node inside = read(mask);
    text += " mask " + inside.name;
    types += ", " + inside.type;
  }
  std::string rate;
  if (useDropout && chance(60)) {
    std::string keyName = "%k" + number;
    body += keyName + " = mt.random_key " + read(randomState).name +
            " {site = \"s" + std::to_string(sites++) +
            "\"} : (tensor<3xi32>) -> tensor<3xi32>\n";
    text += " key " + keyName;
    types += ", tensor<3xi32>";
    rate = ", dropout = 0.2 : f64";
  }
  Node result{"%v" + number, query.type, query.shape};
  body += text + " {causal = " + (causal ? "true" : "false") +
          ", scale = 0.6 : f64" + rate + "} : (" + types + ") -> (" +
          query.type + ", " + tensor({batch, sequence, queryHeads}) + ")\n";
  Node merged =
      emit("merge_heads", {result}, {batch, sequence, queryHeads * width});
  return linear(name + ".o", merged, hidden, bias);
}

Node Generator::mlp(const std::string &name, const Node &x) {
  Node up = linear(name + ".up", x, inner, bias);
  if (gated) {
    Node gate = activate(linear(name + ".gate", x, inner, bias));
    up = emit("mul", {gate, up}, up.shape);
  } else {
    up = activate(up);
  }
  return linear(name + ".down", up, hidden, bias);
}

Node Generator::layer(int64_t number, Node x) {
  std::string name = "h" + std::to_string(shared ? 0 : number);
  beginUnit("h." + std::to_string(number));
  x = read(x);
  Node earlier = chance(15) ? read(first) : Node();
  auto join = [&](const std::string &part, Node y, Node f) {
    y = emit("add", {y, dropout(f)}, y.shape);
    return preNorm ? y : norm(name + part, y);
  };
  Node normed = preNorm ? norm(name + ".n1", x) : x;
  if (parallel) {
    Node sum =
        emit("add", {attention(name + ".a", normed), mlp(name + ".m", normed)},
             x.shape);
    x = join(".n1", x, sum);
  } else {
    x = join(".n1", x, attention(name + ".a", normed));
    if (chance(20))
      x = emit("scale", {x}, x.shape, "factor = 0.5 : f64");
    x = join(".n2", x, mlp(name + ".m", preNorm ? norm(name + ".n2", x) : x));
  }
  if (!earlier.name.empty())
    x = emit("add", {x, earlier}, x.shape);
  endUnit({&x});
  return x;
}

Node Generator::embed() {
  table = addParameter("wte", {vocabulary, hidden}, false);
  beginUnit("embed");
  Node x = emit("embedding", {ids, table}, {batch, sequence, hidden});
  if (learned) {
    Node places = addParameter("wpe", {sequence + 2, hidden}, false);
    Node inside = read(places);
    std::string type = tensor({sequence}, "i32"),
                result = tensor({sequence, hidden});
    body += "%places = mt.positions : () -> " + type + "\n";
    body += "%rows = mt.embedding %places, " + inside.name + " : (" + type +
            ", " + inside.type + ") -> " + result + "\n";
    x = emit("add", {x, Node{"%rows", result, {sequence, hidden}}}, x.shape);
  }
  x = dropout(x);
  endUnit({&x});
  return x;
}

void Generator::head(const Node &x) {
  Node weight = tied ? table : addParameter("lm", {vocabulary, hidden}, false);
  beginUnit("head");
  Node y = preNorm ? norm("nf", x) : read(x);
  Node logits = emit("linear", {y, weight}, {batch, sequence, vocabulary});
  Shape rows{batch, sequence};
  std::string classes =
      "classes = " + std::to_string(vocabulary - 1) + " : i64";
  Node maxima = emit("row_max", {logits}, rows, classes);
  Node sums = emit("exp_sum", {logits, maxima}, rows, classes);
  Node target = emit("pick", {logits, labels}, rows);
  Node inside = read(labels);
  body += "%loss, %count = mt.token_loss " + sums.name + ", " + target.name +
          ", " + maxima.name + ", " + inside.name + " : (" + sums.type + ", " +
          target.type + ", " + maxima.type + ", " + inside.type +
          ") -> (tensor<f64>, tensor<f64>)\n";
  Node loss{"%loss", "tensor<f64>", {}}, count{"%count", "tensor<f64>", {}};
  endUnit({&loss, &count});
  body += "return " + loss.name + ", " + count.name +
          " : tensor<f64>, tensor<f64>\n";
}

void Generator::run() {
  chooseSizes();
  ids = addInput("ids", {batch, sequence}, vocabulary - 1);
  labels = addInput("labels", {batch, sequence}, vocabulary - 1);
  for (int32_t &label : model.integers["labels"])
    if (chance(20))
      label = -100;
  model.integers["labels"][0] = 1;
  if (masked) {
    mask = addInput("mask", {batch, sequence}, 2);
    // A row whose keys are all hidden has no softmax.
    for (int64_t row = 0; row < batch; ++row)
      model.integers["mask"][size_t(row * sequence)] = 1;
  }
  if (useDropout) {
    randomState = addArgument("random", {3}, "i32", "mt.role = \"random\"");
    model.integers["random"] = {int32_t(random() % 1000), 1, 0};
  }
  Node x = first = embed();
  for (int64_t number = 0; number < layers; ++number)
    x = layer(number, x);
  head(x);
  chooseStrategy();
  model.text = "func.func private @forward(" + arguments +
               ") -> (tensor<f64>, tensor<f64>) {\n" + body + "}\n";
}

RandomModel::RandomModel(uint64_t seed) { Generator(seed, *this).run(); }
