//===- Arguments.cpp - the command line of mt-compile ---------------------===//

#include "Arguments.h"

#include "mt/Pipelines/MemoryBudget.h"
#include "mt/Support/CommandLine.h"
#include "mt/Target/CudaTarget.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

using namespace mlir;
using namespace mt;

LogicalResult mt::fail(const Twine &message) {
  llvm::errs() << "mt-compile: error: " << message << "\n";
  return failure();
}

LogicalResult mt::fail(llvm::Error error) {
  return fail(llvm::toString(std::move(error)));
}

/// One of a few words, or a message that lists them.
static LogicalResult checkWord(StringRef flag, StringRef word,
                               ArrayRef<StringRef> words) {
  if (word.empty() || llvm::is_contained(words, word))
    return success();
  return fail(flag + ": expected one of " + llvm::join(words, ", ") +
              ", found '" + word + "'");
}

bool mt::isScheduled(const Arguments &arguments) {
  return arguments.stopAfter.empty() || arguments.stopAfter == "scheduled";
}

/// What only steps for a device have, and what they have of themselves.
static LogicalResult checkTarget(const CLI::App &app, Arguments &arguments) {
  if (failed(checkWord("--target", arguments.kind, {"host", "cuda"})))
    return failure();
  arguments.pipeline.activationsInProducts = arguments.kind == "cuda";
  for (StringRef flag : {"--cuda-arch", "--twins"})
    if (app.count(flag.str()) && arguments.kind != "cuda")
      return fail(flag + ": expected --target cuda beside it, found " +
                  arguments.kind);
  if (arguments.report == "device" &&
      (arguments.kind != "cuda" || !arguments.stopAfter.empty() ||
       arguments.emit == "mlir" || arguments.emit == "ptx"))
    return fail("--report device: expected --target cuda and a step as output "
                "beside it, found none");
  if (arguments.emit == "ptx" && arguments.kind != "cuda")
    return fail("--emit ptx: expected --target cuda beside it, found " +
                arguments.kind);
  for (StringRef name : arguments.architectures)
    if (!isCudaArchitecture(name))
      return fail("--cuda-arch: expected architectures from sm_80 on, as "
                  "'sm_80,sm_90', found '" +
                  name + "'");
  llvm::sort(arguments.architectures, [](StringRef a, StringRef b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  return success();
}

static LogicalResult checkBudget(Arguments &arguments) {
  arguments.budgetBytes = parseBytes(arguments.memoryBudget);
  if (!arguments.budgetBytes)
    return fail("--memory-budget: expected a number of bytes as '80GiB' or "
                "'16GB', found '" +
                arguments.memoryBudget + "'");
  if (!isScheduled(arguments))
    return fail("--memory-budget: expected scheduled or nothing as "
                "--stop-after beside it, found '" +
                arguments.stopAfter + "'");
  return success();
}

/// Units, buckets and overlap.
static LogicalResult checkSchedule(const CLI::App &app, Arguments &arguments) {
  PipelineOptions &options = arguments.pipeline;
  int64_t blocks = 0;
  if (options.units != "modules" &&
      (StringRef(options.units).getAsInteger(10, blocks) || blocks < 1))
    return fail("--units: expected a number of blocks of at least 1, or "
                "modules, found '" +
                options.units + "'");
  for (StringRef flag : {"--prefetch", "--drain", "--ahead-bytes"})
    if (app.count(flag.str()) && !options.overlap)
      return fail(flag + ": expected --overlap beside it, found none");
  for (auto [flag, value] :
       {std::pair("--prefetch", options.prefetch.getValue()),
        std::pair("--drain", options.drain.getValue())})
    if (value < 0)
      return fail(flag + Twine(": expected an integer of at least 0, found ") +
                  Twine(value));
  std::string error;
  FailureOr<Machine> machine = parseMachine(options.machine, error);
  if (failed(machine))
    return fail("--machine: " + error);
  arguments.machine = *machine;
  for (auto [flag, text] :
       {std::pair("--ahead-bytes", &arguments.aheadBytes),
        std::pair("--bucket-bytes", &arguments.bucketBytes)})
    if (!text->empty() && !parseBytes(*text))
      return fail(flag +
                  Twine(": expected bytes as 1024, 16GB or 80GiB, found '") +
                  *text + "'");
  return success();
}

/// What is sharded, kept, and computed again.
static LogicalResult checkState(const CLI::App &app,
                                const Arguments &arguments) {
  const PipelineOptions &options = arguments.pipeline;
  if (options.zero < 0 || options.zero > 3)
    return fail("--zero: expected 0, 1, 2 or 3, found " +
                Twine(options.zero.getValue()));
  if (options.minShardBytes < 0)
    return fail("--min-shard-bytes: expected an integer of at least 0, found " +
                Twine(options.minShardBytes.getValue()));
  for (StringRef flag : {"--zero-axes", "--min-shard-bytes", "--keep-gathered"})
    if (app.count(flag.str()) && options.zero == 0)
      return fail(flag + ": expected --zero 1, 2 or 3 beside it, found none");
  if (failed(checkWord("--recompute", arguments.recompute,
                       {"none", "selective", "full", "auto"})) ||
      failed(checkWord("--keep-gathered", arguments.keepGathered,
                       {"yes", "no", "auto"})))
    return failure();
  for (auto [flag, value] :
       {std::pair("--recompute", &arguments.recompute),
        std::pair("--keep-gathered", &arguments.keepGathered)})
    if (*value == "auto" && !app.count("--memory-budget"))
      return fail(flag +
                  Twine(": expected --memory-budget beside auto, found none"));
  if (app.count("--recompute-units") && arguments.recompute != "selective" &&
      arguments.recompute != "full")
    return fail("--recompute-units: expected --recompute selective or full "
                "beside it, found " +
                arguments.recompute);
  return checkWord("--reduce-dtype", options.reduceType.getValue(),
                   {"f32", "parameter"});
}

/// Flags that are wrong by themselves, or beside each other.
static LogicalResult check(const CLI::App &app, Arguments &arguments) {
  if (arguments.input.empty())
    return fail("command line: expected MODULE, a file with a function "
                "@forward, found none");
  if (failed(checkWord("--stop-after", arguments.stopAfter,
                       {"annotated", "sharded", "differentiated", "placed",
                        "local", "scheduled"})) ||
      failed(checkWord("--emit", arguments.emit,
                       {"mlir", "llvm", "ptx", "obj", "so"})) ||
      failed(checkTarget(app, arguments)) ||
      failed(checkWord("--report", arguments.report,
                       {"text", "json", "kernels", "device"})))
    return failure();
  const std::optional<std::string> &cache = arguments.cacheFolder;
  if (cache && !cache->empty() && !makeCacheFolder(*cache))
    return fail("--cache-dir: expected a folder that can be written, found '" +
                *cache + "'");
  if (app.count("--cpu") && arguments.target.cpu.empty())
    return fail("--cpu: expected a processor as 'znver3', found ''");
  auto processor = getProcessor(arguments.target);
  if (!processor)
    return fail("--cpu: " + llvm::toString(processor.takeError()));
  arguments.processor = *processor;
  if (arguments.target.optimizationLevel > 3)
    return fail("-O: expected an integer from 0 to 3, found " +
                Twine(arguments.target.optimizationLevel));
  if (app.count("--mesh") && arguments.pipeline.mesh.empty())
    return fail("--mesh: expected axes as 'dp=2,tp=4', found ''");
  if (arguments.pipeline.sequenceParallel && arguments.pipeline.mesh.empty())
    return fail("--sequence-parallel: expected --mesh beside it, found none");
  if (failed(checkSchedule(app, arguments)) ||
      failed(checkState(app, arguments)))
    return failure();
  if (arguments.report == "kernels" && !isScheduled(arguments))
    return fail("--report kernels: expected scheduled or nothing as "
                "--stop-after beside it, found '" +
                arguments.stopAfter + "'");
  if (arguments.pipeline.microbatches < 1)
    return fail("--microbatches: expected an integer of at least 1, found " +
                Twine(arguments.pipeline.microbatches.getValue()));
  for (StringRef flag : {"--data-axes", "--tensor-axis", "--sharding",
                         "--sharding-file", "--zero"})
    if (app.count(flag.str()) && arguments.pipeline.mesh.empty())
      return fail(flag + ": expected --mesh beside it, found none");
  if (app.count("--memory-budget") && failed(checkBudget(arguments)))
    return failure();
  if (!arguments.stopAfter.empty() && !arguments.emit.empty() &&
      arguments.emit != "mlir")
    return fail("--emit: expected mlir beside --stop-after, found '" +
                arguments.emit + "'");
  if (arguments.emit.empty())
    arguments.emit = arguments.stopAfter.empty() ? "so" : "mlir";
  if (arguments.output == "-" && arguments.emit == "so")
    return fail("--output: expected a file for a shared library, found "
                "standard output");
  return success();
}

static std::string describe(const CLI::ArgumentMismatch &error) {
  StringRef text = error.what();
  return (text.split(':').first + (text.contains("received")
                                       ? ": expected one value, found several"
                                       : ": expected a value, found none"))
      .str();
}

// In the order of --help.

/// The model, and how it is sharded.
static void addLayoutOptions(CLI::App &app, Arguments &arguments) {
  PipelineOptions &pipeline = arguments.pipeline;
  app.add_option("MODULE", arguments.input,
                 "a module with a function @forward, - for standard input "
                 "(required)");
  app.add_option("-o,--output", arguments.output, "file to write (step.so)");
  app.add_option("--mesh", pipeline.mesh.getValue(),
                 "axes and sizes, as dp=2,tp=4; without it the step is dense, "
                 "or sharded as the module's annotations say");
  app.add_option("--data-axes", pipeline.dataAxes.getValue(),
                 "the axes that shard the batch, as dp,fsdp (those named dp, "
                 "data, fsdp, replica)");
  app.add_option("--tensor-axis", pipeline.tensorAxis.getValue(),
                 "the axis that shards features (tp, tensor or model)");
  app.add_option("--sharding", arguments.rules,
                 "a layout by name, as 'lm_head.weight=[{}, {tp}]', that wins "
                 "over the strategy; *, ? and [...] match; may be repeated, "
                 "the last that matches wins")
      ->allow_extra_args(false);
  app.add_option("--sharding-file", arguments.ruleFile,
                 "a file of such rules, one a line, # starts a comment; rules "
                 "of the command line come after them");
}

/// What a step is made of, and what it keeps in memory.
static void addStateOptions(CLI::App &app, Arguments &arguments) {
  PipelineOptions &pipeline = arguments.pipeline;
  app.add_option("--microbatches", pipeline.microbatches.getValue(),
                 "parts of the batch that a step takes one after the other "
                 "(1)");
  app.add_option("--units", pipeline.units.getValue(),
                 "what is gathered and recomputed as one: so many blocks, or "
                 "modules, the parts of a block (1)");
  app.add_option(
      "--zero", pipeline.zero.getValue(),
      "shard over the data axes: 1 optimizer state, 2 gradients too, "
      "3 parameters too (0)");
  app.add_option(
      "--zero-axes", pipeline.zeroAxes.getValue(),
      "the axes that shard state (fsdp, if the mesh has it, else the "
      "data axes)");
  app.add_option("--min-shard-bytes", pipeline.minShardBytes.getValue(),
                 "a parameter whose shard would be smaller stays whole (0)");
  app.add_option(
      "--keep-gathered", arguments.keepGathered,
      "do not gather parameters again in the backward pass: yes, no, "
      "or auto, in as many units as --memory-budget allows (no)");
  app.add_option("--recompute", arguments.recompute,
                 "what the backward pass computes again instead of saving: "
                 "none, selective (attention), full, or auto, full in as few "
                 "blocks as --memory-budget needs (none)");
  app.add_option("--recompute-units", pipeline.recomputeUnits.getValue(),
                 "which units do, as 'transformer.h.*' (the blocks)");
}

/// How ranks talk to each other.
static void addCollectiveOptions(CLI::App &app, Arguments &arguments) {
  PipelineOptions &pipeline = arguments.pipeline;
  app.add_option("--bucket-bytes", arguments.bucketBytes,
                 "largest payload of collectives that are joined into one, as "
                 "25MB (no limit)");
  app.add_option("--machine", pipeline.machine.getValue(),
                 "speeds for placing collectives and predicting times, as "
                 "bandwidth=1e11,bandwidth.dp=2.5e10,latency=5e-6,flops=1e14,"
                 "memory=3e12");
  app.add_flag("--overlap", pipeline.overlap.getValue(),
               "run collectives beside computation");
  app.add_option("--prefetch", pipeline.prefetch.getValue(),
                 "units ahead of its own that a gather is started (1)");
  app.add_option("--drain", pipeline.drain.getValue(),
                 "units behind its own that a reduction is waited for (1)");
  app.add_option("--ahead-bytes", arguments.aheadBytes,
                 "bytes of parameters that are gathered ahead at most, as 1GiB "
                 "(no limit)");
  app.add_option("--reduce-dtype", pipeline.reduceType.getValue(),
                 "type of the gradients of bf16 parameters: f32 or parameter "
                 "(f32)");
  app.add_flag("--sequence-parallel", pipeline.sequenceParallel.getValue(),
               "shard the residual stream over tp along the sequence");
  app.add_flag("--whole-vocabulary", arguments.wholeVocabulary,
               "do not shard embedding and head along the vocabulary");
}

/// What is made of the program, and said about it.
static void addOutputOptions(CLI::App &app, Arguments &arguments) {
  PipelineOptions &pipeline = arguments.pipeline;
  app.add_option("--stop-after", arguments.stopAfter,
                 "write the module of a phase: annotated, sharded, "
                 "differentiated, placed, local or scheduled");
  app.add_option("--memory-budget", arguments.memoryBudget,
                 "bytes of memory on a rank, as 80GiB or 16GB: a step that "
                 "needs more is refused, with the options that would help");
  app.add_option("--target", arguments.kind,
                 "what the step runs on: host, or cuda, a GPU a rank (host)");
  app.add_option("--cuda-arch", arguments.architectures,
                 "architectures of devices, as sm_80,sm_90: PTX for the least, "
                 "and machine code for each where ptxas is found (both)")
      ->delimiter(',');
  app.add_flag("--twins", arguments.twins,
               "add what a simulated device runs, for mt-run "
               "--simulate-device");
  app.add_option("--emit", arguments.emit, "mlir, llvm, ptx, obj or so (so)");
  app.add_option("-O", arguments.target.optimizationLevel,
                 "how far the code is optimised, 0 to 3: less compiles faster "
                 "(2)");
  app.add_option("--cpu", arguments.target.cpu,
                 "the processor that the step is to run on, as x86-64-v3 or "
                 "znver3; mt-run refuses others that cannot (this machine's)");
  app.add_option("--cache-dir", arguments.cacheFolder,
                 "where compiled kernels are kept for the next step, '' for "
                 "nowhere ($MT_CACHE_DIR, or mt in the user's cache)");
  app.add_option("--report", arguments.report,
                 "print every collective, and the peak of memory: text or "
                 "json; or every kernel with its ops and bytes, and, with "
                 "--machine, the least it takes: kernels; or the same with the "
                 "grids of a device, and its occupancy: device");
  app.add_flag("--remarks", pipeline.remarks.getValue(),
               "say why layouts and collectives are what they are");
}

std::optional<int> mt::parseArguments(int argc, char **argv,
                                      Arguments &arguments) {
  CLI::App app("Compiles a model into one training step.", "mt-compile");
  addLayoutOptions(app, arguments);
  addStateOptions(app, arguments);
  addCollectiveOptions(app, arguments);
  addOutputOptions(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    llvm::outs() << app.help();
    return 0;
  } catch (const CLI::ArgumentMismatch &error) {
    (void)fail(describe(error));
    return 1;
  } catch (const CLI::ParseError &error) {
    (void)fail("command line: " + oneLine(error.what()));
    return 1;
  }
  return failed(check(app, arguments)) ? std::optional<int>(1) : std::nullopt;
}
