//===- mt-run.cpp - run a compiled training step --------------------------===//
//
//   mt-run step.so --init model --data text.txt --steps 100
//
//===----------------------------------------------------------------------===//

#include "mt/runtime.h"

#include <CLI/CLI.hpp>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <sstream>

using namespace mt::runtime;

namespace {

/// Numbers are read as text and converted here, for messages of one form.
struct NumberFlag {
  const char *name;
  const char *help;
  double *value;
  double minimum, limit;
  const char *range;
  std::string text = {};
};

struct IntegerFlag {
  const char *name;
  const char *help;
  int64_t minimum;
  std::string text = {};
};

double parseNumber(const NumberFlag &flag) {
  char *end = nullptr;
  double value = std::strtod(flag.text.c_str(), &end);
  bool isNumber = !flag.text.empty() && *end == '\0' && std::isfinite(value);
  if (!isNumber || value < flag.minimum || value >= flag.limit)
    throw Error(std::string(flag.name) + ": expected a number " + flag.range +
                ", found '" + flag.text + "'");
  return value;
}

template <typename T> T parseInteger(const IntegerFlag &flag) {
  T value = 0;
  const char *end = flag.text.data() + flag.text.size();
  auto [stop, failed] = std::from_chars(flag.text.data(), end, value);
  if (failed != std::errc() || stop != end || value < T(flag.minimum))
    throw Error(std::string(flag.name) + ": expected an integer of at least " +
                std::to_string(flag.minimum) + ", found '" + flag.text + "'");
  return value;
}

/// `bandwidth=BYTES_PER_SECOND,latency=SECONDS`, in any order.
Network parseNetwork(const std::string &text) {
  auto refuse = [&](const std::string &found) {
    throw Error("--network: expected bandwidth=BYTES_PER_SECOND,latency=SECONDS"
                ", found " +
                found);
  };
  Network network{-1, -1};
  NumberFlag bandwidth{
      "--network: bandwidth", "", &network.bytesPerSecond, 1, 1e18,
      "in [1, 1e18)"};
  NumberFlag latency{"--network: latency", "", &network.latencySeconds, 0, 10,
                     "in [0, 10)"};
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    size_t equals = part.find('=');
    std::string name = part.substr(0, equals);
    if (equals == std::string::npos ||
        (name != "bandwidth" && name != "latency"))
      refuse("'" + part + "'");
    NumberFlag &number = name == "latency" ? latency : bandwidth;
    number.text = part.substr(equals + 1);
    *number.value = parseNumber(number);
  }
  if (network.bytesPerSecond < 0 || network.latencySeconds < 0)
    refuse("'" + text + "'");
  return network;
}

/// The library's messages, on one line and lower case.
std::string oneLine(std::string text) {
  for (char &c : text)
    if (c == '\n')
      c = ' ';
  if (!text.empty())
    text[0] = char(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

/// The flags whose values are converted here.
struct Flags {
  std::vector<NumberFlag> numbers;
  IntegerFlag ranks{"--ranks", "number of ranks; the mesh decides it", 1};
  IntegerFlag threads{"--threads",
                      "threads of each rank; by default the processors that "
                      "this machine's ranks may use, divided by their number",
                      1};
  IntegerFlag steps{"--steps",
                    "number of steps (10), those before --resume included", 1};
  IntegerFlag seed{"--seed", "seed of initial values and the data's order (0)",
                   0};
  IntegerFlag tokenBytes{
      "--token-bytes", "width of a token of a .bin file: 2 (default) or 4", 2};
  IntegerFlag endOfDocument{"--end-of-document",
                            "token id put after each file of text or tokens "
                            "that does not end with it, or none; by default "
                            "the configuration's eos_token_id, if there",
                            0};
  IntegerFlag saveEvery{"--save-every", "save after every so many steps too",
                        1};
  IntegerFlag maxShardBytes{"--max-shard-bytes",
                            "largest file of weights (5000000000)", 1};
  std::string network;
  bool inspect = false;
};

std::vector<NumberFlag> numberFlags(JobOptions &options) {
  Hyperparameters &h = options.hyperparameters;
  return {
      {"--lr", "learning rate (1e-3)", &h.learningRate, 0, INFINITY,
       "of at least 0"},
      {"--beta1", "decay of the first moment (0.9)", &h.beta1, 0, 1,
       "in [0, 1)"},
      {"--beta2", "decay of the second moment (0.95)", &h.beta2, 0, 1,
       "in [0, 1)"},
      {"--eps", "added to the root of the second moment (1e-8)", &h.epsilon, 0,
       INFINITY, "of at least 0"},
      {"--weight-decay",
       "decoupled decay of tensors of two or more dimensions (0.1)",
       &h.weightDecay, 0, INFINITY, "of at least 0"},
      {"--clip-norm", "largest gradient norm, 0 for none (1)", &h.clipNorm, 0,
       INFINITY, "of at least 0"},
      {"--timeout", "seconds to wait for other ranks (60)",
       &options.timeoutSeconds, 1e-3, INFINITY, "of at least 0.001"},
  };
}

void declare(CLI::App &app, JobOptions &options, Flags &flags) {
  app.allow_extras();
  app.add_option("step", options.step, "the compiled step");
  app.add_option("--init", options.init,
                 "folder or file of safetensors with the initial values, as "
                 "Hugging Face lays them out");
  app.add_option("--resume", options.resume,
                 "folder that --save has written, to go on from instead "
                 "of --init; flags that are not given are as they were");
  app.add_option("--data", options.data,
                 "files of one kind: .safetensors with input_ids and labels; "
                 "token ids, little endian, .u16, .u32 or .bin (2 bytes each "
                 "as nanoGPT and llm.c write them, or --token-bytes); any "
                 "other name is text, read as bytes");
  for (IntegerFlag *flag :
       {&flags.ranks, &flags.threads, &flags.steps, &flags.seed,
        &flags.tokenBytes, &flags.endOfDocument, &flags.saveEvery,
        &flags.maxShardBytes})
    app.add_option(flag->name, flag->text, flag->help);
  for (NumberFlag &flag : flags.numbers)
    app.add_option(flag.name, flag.text, flag.help);
  app.add_option("--rendezvous", options.rendezvous,
                 "file that ranks meet by which torchrun, srun or mpirun has "
                 "started as processes, without MPI; in a folder that all see, "
                 "written and removed by rank 0");
  app.add_option("--log", options.log, "write a JSON line a step");
  app.add_option("--save", options.save,
                 "folder for the weights, the configuration and the "
                 "optimizer's state after the last step, replaced as a whole");
  app.add_option("--save-gradients", options.saveGradients,
                 "write the first step's gradients as safetensors");
  app.add_option("--trace", options.trace,
                 "write a timeline of all ranks, for Chrome or Perfetto");
  app.add_flag("--kernels", options.kernels,
               "at the end, print what each kernel of a step took, with its "
               "operations and bytes a second");
  app.add_flag("--collectives", options.collectives,
               "at the end, print bytes and time of all collectives, beside "
               "the bytes predicted");
  app.add_flag("--check-memory", options.checkMemory,
               "at the end, print how much of the memory planned for it the "
               "step has touched; it is an error where that is more");
  app.add_option("--network", flags.network,
                 "bandwidth=BYTES_PER_SECOND,latency=SECONDS: collectives take "
                 "as much longer as they would over such a network");
  app.add_flag("--simulate-device", options.simulateDevice,
               "run a step for a GPU on the simulated one, which needs none");
  app.add_flag("!--no-graph", options.usesGraphs,
               "queue each step's work anew, instead of replaying the "
               "second's on the device");
  app.add_flag("--tf32", options.allowsTf32,
               "let products of f32 round their factors to tf32 on a GPU");
  app.add_flag("--cudnn", options.usesCudnn,
               "attention by cuDNN, where it has it: faster, but gradients "
               "are summed in no fixed order");
  app.add_flag("--inspect", flags.inspect,
               "print the step's manifest and exit");
}

/// Turns the texts of the flags that were given into numbers.
void convert(const CLI::App &app, const Flags &flags, JobOptions &options) {
  if (!app.remaining().empty())
    throw Error(app.remaining()[0] + ": expected one step and known flags, " +
                "found this");
  if (options.step.empty())
    throw Error("step: expected a compiled step, found none");
  for (const CLI::Option *option : app.parse_order())
    options.given.insert(option->get_name());
  if (app.count("--rendezvous") && options.rendezvous.empty())
    throw Error("--rendezvous: expected a file, found none");
  for (const NumberFlag &flag : flags.numbers)
    if (app.count(flag.name))
      *flag.value = parseNumber(flag);
  if (app.count(flags.ranks.name))
    options.ranks = parseInteger<int64_t>(flags.ranks);
  if (app.count(flags.threads.name))
    options.threads = parseInteger<int64_t>(flags.threads);
  if (app.count(flags.steps.name))
    options.steps = parseInteger<int64_t>(flags.steps);
  if (app.count(flags.seed.name))
    options.seed = parseInteger<uint64_t>(flags.seed);
  if (app.count("--network"))
    options.network = parseNetwork(flags.network);
  if (flags.endOfDocument.text == "none")
    options.endOfDocument = -1;
  else if (app.count(flags.endOfDocument.name))
    options.endOfDocument = parseInteger<int64_t>(flags.endOfDocument);
  if (app.count(flags.saveEvery.name))
    options.saveEvery = parseInteger<int64_t>(flags.saveEvery);
  if (app.count(flags.maxShardBytes.name))
    options.maxShardBytes = parseInteger<int64_t>(flags.maxShardBytes);
  if (app.count(flags.tokenBytes.name))
    options.tokenBytes = parseInteger<int64_t>(flags.tokenBytes);
  if (options.tokenBytes != 2 && options.tokenBytes != 4)
    throw Error("--token-bytes: expected 2 or 4, found '" +
                flags.tokenBytes.text + "'");
}

/// Throws CLI::CallForHelp where help is asked for, Error where flags are
/// wrong.
void parse(CLI::App &app, int argc, char **argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    throw;
  } catch (const CLI::ArgumentMismatch &error) {
    std::string text = error.what();
    throw Error(text.substr(0, text.find(':')) +
                (text.find("received") == std::string::npos
                     ? ": expected a value, found none"
                     : ": expected one value, found several"));
  } catch (const CLI::ParseError &error) {
    throw Error(oneLine(error.what()));
  }
}

/// What --rendezvous says, also where the rest cannot be read: the other ranks
/// are to hear of it.
std::string rendezvousOf(int argc, char **argv) {
  const std::string flag = "--rendezvous";
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == flag && i + 1 < argc)
      return argv[i + 1];
    if (argument.rfind(flag + "=", 0) == 0)
      return argument.substr(flag.size() + 1);
  }
  return "";
}

void run(int argc, char **argv) {
  JobOptions options;
  options.progress = &std::cout;
  options.warnings = &std::cerr;
  Flags flags;
  flags.numbers = numberFlags(options);
  CLI::App app("Runs a compiled training step. Ranks are threads of one "
               "process, or under mpirun or srun the processes of that job, "
               "with --rendezvous also under torchrun.",
               "mt-run");
  declare(app, options, flags);
  try {
    parse(app, argc, argv);
    convert(app, flags, options);
  } catch (const CLI::CallForHelp &) {
    std::cout << app.help();
    return;
  } catch (const Error &error) {
    options.rendezvous = rendezvousOf(argc, argv);
    refuseJob(error.what(), options);
  }
  if (flags.inspect)
    std::cout << inspectStep(options.step) << std::endl;
  else
    runJob(options);
}

} // namespace

int main(int argc, char **argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const std::exception &error) {
    std::cout.flush();
    // In one piece: under a launcher other processes write between pieces.
    std::cerr << "mt-run: error: " + std::string(error.what()) + "\n";
  }
  endLaunchedJob();
  // A rank stuck in compiled code may still run: no destructors under its feet.
  std::_Exit(1);
}
