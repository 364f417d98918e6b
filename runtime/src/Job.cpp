//===- Job.cpp - set a training job up, and run it ------------------------===//

#include "Job.h"

#include "AtomicFolder.h"
#include "Json.h"
#include "MemoryCheck.h"
#include "WholeFile.h"
#include "comm/LocalWorld.h"
#include "cuda/CudaDevices.h"
#include "host/Blas.h"
#include "host/ThreadPool.h"

#include <algorithm>
#include <filesystem>
#include <ostream>

#include <unistd.h>

using namespace mt::runtime;

namespace fs = std::filesystem;

namespace {

constexpr std::pair<const char *, double Hyperparameters::*>
    hyperparameterFlags[] = {
        {"--lr", &Hyperparameters::learningRate},
        {"--beta1", &Hyperparameters::beta1},
        {"--beta2", &Hyperparameters::beta2},
        {"--eps", &Hyperparameters::epsilon},
        {"--weight-decay", &Hyperparameters::weightDecay},
        {"--clip-norm", &Hyperparameters::clipNorm},
};

void checkOutputs(const JobOptions &options) {
  for (const std::string &file :
       {options.log, options.saveGradients, options.trace})
    if (!file.empty())
      checkFilePlace(file);
  if (options.save.empty()) {
    if (options.saveEvery > 0)
      throw Error("--save-every: expected --save beside it, found none");
    return;
  }
  checkReplaceable(options.save);
  checkWritable(fs::absolute(options.save).parent_path(), options.save, true);
}

/// The share of the processors that a rank of this process has. A launcher may
/// have bound each process to some, and may itself use those of all.
int64_t shareOfProcessors(const std::optional<LaunchedRank> &self,
                          int64_t ranks) {
  if (!self)
    return std::max<int64_t>(availableProcessors() / ranks, 1);
  if (self->ranksHere == 0)
    return 1;
  int64_t share = availableProcessors(getppid()) / self->ranksHere;
  return std::max<int64_t>(std::min(share, availableProcessors()), 1);
}

Manifest readManifest(const StepLibrary &step, const std::string &path) {
  std::string where = path + ": manifest";
  const char *text = step.manifestText();
  Manifest manifest =
      parseManifest(parseJson(text, text + std::strlen(text), where), where);
  if (manifest.target != "host" && manifest.target != "cuda")
    throw Error(path + ": expected a step for the target host or cuda, found " +
                manifest.target);
  if (manifest.processor)
    checkProcessor(*manifest.processor, thisProcessor(), path);
  return manifest;
}

/// Refuses flags that mean nothing for a step's target: measurements of the
/// host, and what only a device has.
void checkTargetOptions(const JobOptions &options, const Manifest &manifest) {
  struct TargetFlag {
    const char *name, *target;
    bool isSet;
  };
  const TargetFlag flags[] = {
      {"--check-memory", "host", options.checkMemory},
      {"--kernels", "host", options.kernels},
      {"--network", "host", options.network.has_value()},
      {"--simulate-device", "cuda", options.simulateDevice},
      {"--no-graph", "cuda", !options.usesGraphs},
      {"--tf32", "cuda", options.allowsTf32},
      {"--cudnn", "cuda", options.usesCudnn},
  };
  for (const TargetFlag &flag : flags)
    if (flag.isSet && manifest.target != flag.target)
      throw Error(std::string(flag.name) + ": expected a step for the target " +
                  flag.target + ", found " + manifest.target);
}

std::unique_ptr<JobDevices> makeDevices(const Job &job) {
  checkTargetOptions(job.options, job.manifest);
  return job.manifest.device ? makeCudaDevices(job) : makeHostDevices(job);
}

} // namespace

Job::Job(const JobOptions &options, std::optional<LaunchedRank> launched)
    : options(options), self(std::move(launched)), step(options.step),
      manifest(readManifest(step, options.step)),
      microbatch(step.entry(manifest.microbatch.symbol)),
      update(step.entry(manifest.update.symbol)),
      threads(options.threads > 0
                  ? options.threads
                  : shareOfProcessors(self, manifest.mesh.ranks())),
      devices(size_t(manifest.mesh.ranks())) {
  int64_t ranks = manifest.mesh.ranks();
  if (options.ranks != 0 && options.ranks != ranks)
    throw Error("--ranks: expected the " + std::to_string(ranks) +
                " ranks of the step's mesh, found " +
                std::to_string(options.ranks));
  target = makeDevices(*this);
  readStart();
  data = openData(dataOptions(), manifest);
  checkData();
  checkOutputs(this->options);
  for (int64_t rank = 0; rank < ranks; ++rank)
    recorders.push_back(std::make_unique<Recorder>(manifest.collectives.size(),
                                                   !options.trace.empty()));
  if (!options.trace.empty())
    trace = std::make_unique<TraceFile>(options.trace, manifest, threads);
  if (options.checkMemory)
    residentBytesBefore = processBytes("VmRSS");
  if (!options.save.empty() && config.text.empty())
    *options.warnings << "mt-run: warning: --save: expected a config.json in "
                         "the step or beside the initial values, found none: "
                         "the folder will have none"
                      << std::endl;
}

/// Opens the files of --resume or else --init, so that the command of a run
/// that was interrupted needs no more than --resume. What the command line does
/// not say is then as in the resumed run.
void Job::readStart() {
  options.init = existingFolder(options.init);
  options.resume = existingFolder(options.resume);
  bool resumes = !options.resume.empty();
  std::string from = resumes ? options.resume : options.init;
  if (resumes)
    readState();
  config = findConfig(manifest, options.step, from);
  if (from.empty())
    return;
  checkpoint = std::make_unique<Checkpoint>(from);
  std::string warning = checkpoint->check(manifest, {Role::Parameter});
  if (!warning.empty())
    *options.warnings << "mt-run: warning: " << warning << std::endl;
  if (!resumes)
    return;
  optimizer = std::make_unique<Checkpoint>(from + "/optimizer.safetensors");
  optimizer->check(manifest, optimizerState);
}

void Job::readState() {
  std::error_code ignored;
  if (!fs::is_directory(options.resume, ignored))
    throw Error(options.resume + ": expected a folder that --save has written, "
                                 "found none");
  start = TrainerState::read(options.resume);
  if (options.steps <= start.step)
    throw Error(
        "--steps: expected more than the " + std::to_string(start.step) +
        " steps of the resumed run, found " + std::to_string(options.steps));
  if (options.given.count("--seed") && options.seed != start.seed)
    throw Error("--seed: expected the " + std::to_string(start.seed) +
                " of the resumed run, found " + std::to_string(options.seed));
  options.seed = start.seed;
  for (const auto &[flag, value] : hyperparameterFlags)
    if (!options.given.count(flag))
      options.hyperparameters.*value = start.hyperparameters.*value;
}

void Job::checkData() const {
  if (start.step > 0 && data->epochSequences() != start.epochSequences)
    *options.warnings << "mt-run: warning: --data: expected the "
                      << start.epochSequences
                      << " sequences of the resumed run, found "
                      << data->epochSequences()
                      << ": they come in another order" << std::endl;
}

DataOptions Job::dataOptions() const {
  int64_t id = options.endOfDocument
                   ? *options.endOfDocument
                   : config.endOfDocument(manifest.vocabulary);
  if (id >= manifest.vocabulary)
    throw Error("--end-of-document: expected an id from 0 to " +
                std::to_string(manifest.vocabulary - 1) + ", found " +
                std::to_string(id));
  DataOptions result;
  result.files = options.data;
  result.seed = options.seed;
  result.firstSequence = start.sequences;
  // More than any data has: the product may not fit.
  int64_t steps = options.steps - start.step;
  result.sequences =
      steps > INT64_MAX / manifest.batch ? INT64_MAX : steps * manifest.batch;
  result.tokenBytes = options.tokenBytes;
  result.endOfDocument = id;
  return result;
}

void mt::runtime::runJob(const JobOptions &options) {
  if (std::optional<LaunchedRank> self = findLaunchedRank(options.rendezvous))
    return runLaunchedJob(options, *self);
  auto job = std::make_shared<Job>(options);
  warnWithoutBlas(options);
  auto world = std::make_shared<LocalWorld>(
      job->manifest.mesh, job->manifest.groups, job->manifest.collectiveTexts(),
      options.timeoutSeconds);
  try {
    runLocalRanks(world, [job](Communicator &communicator) {
      runRank(*job, communicator);
    });
  } catch (const Error &error) {
    traceEnd(*job);
    throw Error(options.step + ": " + error.what());
  }
}

void mt::runtime::warnWithoutBlas(const JobOptions &options) {
  // Before threads start: it sets environment variables.
  if (!blas().openBlas.sgemm && !blas().oneDnn.sgemm)
    *options.warnings << "mt-run: warning: " << oneDnnName << ", "
                      << openBlasName
                      << ": not found, matrix products will be slow"
                      << std::endl;
}

std::string mt::runtime::inspectStep(const std::string &path) {
  return nlohmann::ordered_json::parse(StepLibrary(path).manifestText())
      .dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}
