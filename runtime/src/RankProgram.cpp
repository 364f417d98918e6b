//===- RankProgram.cpp - what one rank does from start to end -------------===//

#include "KernelClock.h"
#include "KernelTable.h"
#include "MemoryCheck.h"
#include "RankCommunicator.h"
#include "comm/Guarded.h"
#include "host/Context.h"
#include "host/ThreadPool.h"

#include <cmath>
#include <cstdlib>

using namespace mt::runtime;

namespace {

/// One rank's program. Errors leave it as exceptions; whoever runs the ranks
/// ends the job.
class RankProgram {
public:
  RankProgram(Job &job, Communicator &communicator, Recorder &recorder,
              RankDevice &device)
      : job(job), manifest(job.manifest), rank(communicator.rank()),
        recorder(recorder), communicator(communicator), device(device),
        pool(job.threads), kernels(manifest.kernels.size()),
        context{&communicator, &pool,
                job.options.kernels ? &kernels : nullptr} {}

  void run();

private:
  void setParameters();
  const Checkpoint *source(Role role) const;
  void warnOfOddValues(const int64_t *odd);
  void setHyperparameters(int64_t step);
  void setRandom(int64_t step, int64_t microbatch);
  void fillInputs(int64_t step, int64_t microbatch);
  void call(const Entry &entry, mt_entry function, Span::Kind kind,
            int64_t step);
  StepResult trainStep(int64_t step);
  void saveGradients();
  void report(int64_t step, const StepResult &result);
  void save(int64_t steps);
  void trace();
  void account();
  void reportKernels();
  void checkMemory();
  double readScalar(Role role) const;
  double globalTokens();

  std::string stepText(int64_t step) const {
    return "step " + std::to_string(step + 1);
  }

  Job &job;
  const Manifest &manifest;
  int64_t rank;
  Recorder &recorder;
  Communicator &communicator;
  RankDevice &device;
  ThreadPool pool;
  KernelClock kernels;
  mt_context context;
};

/// Fills parameters, and a resumed run's moments; others start at zero.
void RankProgram::setParameters() {
  int64_t odd[] = {INT64_MAX, 0};
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    Buffer buffer = manifest.buffers[i];
    // A new run's master weights are the parameters, unrounded.
    if (buffer.role == Role::MasterWeight && !job.optimizer)
      buffer.role = Role::Parameter;
    const Checkpoint *from = source(buffer.role);
    if (from) {
      int64_t element =
          from->load(manifest, buffer, rank, device.host(int64_t(i)));
      if (element >= 0 && odd[0] == INT64_MAX)
        odd[0] = int64_t(i), odd[1] = element;
    } else if (buffer.role == Role::Parameter) {
      initialize(manifest, buffer, rank, job.options.seed,
                 device.host(int64_t(i)), pool);
    }
  }
  device.upload();
  if (job.checkpoint)
    warnOfOddValues(odd);
}

const Checkpoint *RankProgram::source(Role role) const {
  if (role == Role::Parameter)
    return job.checkpoint.get();
  return isOptimizerState(role) ? job.optimizer.get() : nullptr;
}

/// Each rank has looked at its own part; one warning speaks for all.
void RankProgram::warnOfOddValues(const int64_t *odd) {
  std::pair<int64_t, int64_t> first(INT64_MAX, 0);
  communicator.collect("reading the checkpoint", 0, odd, 2 * sizeof *odd,
                       [&](int64_t, const void *data) {
                         int64_t found[2];
                         std::memcpy(found, data, sizeof found);
                         first = std::min(first, {found[0], found[1]});
                       });
  if (first.first == INT64_MAX)
    return;
  const Buffer &buffer = manifest.buffers[size_t(first.first)];
  *job.options.warnings
      << "mt-run: warning: "
      << source(buffer.role)->notFinite(manifest, buffer, first.second)
      << std::endl;
}

void RankProgram::setHyperparameters(int64_t step) {
  const Hyperparameters &h = job.options.hyperparameters;
  double values[] = {h.learningRate, h.beta1,    h.beta2,         h.epsilon,
                     h.weightDecay,  h.clipNorm, double(step + 1)};
  device.write(manifest.only(Role::Hyperparameters),
               [&](void *data) { std::memcpy(data, values, sizeof values); });
}

void RankProgram::setRandom(int64_t step, int64_t microbatch) {
  int64_t buffer = manifest.only(Role::Random);
  if (buffer < 0)
    return;
  // Rows count over the whole batch: what is dropped does not depend on the
  // number of microbatches.
  int64_t firstRow = microbatch * (manifest.batch / manifest.microbatches);
  int64_t values[] = {int64_t(job.options.seed), step + 1, firstRow};
  device.write(buffer,
               [&](void *data) { std::memcpy(data, values, sizeof values); });
}

void RankProgram::fillInputs(int64_t step, int64_t microbatch) {
  for (size_t i = 0; i < manifest.buffers.size(); ++i)
    if (manifest.buffers[i].role == Role::Input)
      device.write(int64_t(i), [&](void *data) {
        fillInput(*job.data, manifest, manifest.buffers[i], rank,
                  job.firstSequence(step), microbatch, data);
      });
}

void RankProgram::call(const Entry &entry, mt_entry function, Span::Kind kind,
                       int64_t step) {
  auto start = Recorder::Clock::now();
  int32_t result = device.run(entry, function, context);
  recorder.add(kind, step, start);
  // Where a collective ended the entry its reason is already known, and this
  // one is not reported.
  if (result != 0)
    throw Error("expected entry " + entry.name + " to return 0, found " +
                std::to_string(result));
}

double RankProgram::readScalar(Role role) const {
  return *static_cast<const double *>(device.host(manifest.only(role)));
}

StepResult RankProgram::trainStep(int64_t step) {
  auto start = Clock::now();
  device.beginStep();
  setHyperparameters(step);
  for (int64_t m = 0; m < manifest.microbatches; ++m) {
    setRandom(step, m);
    fillInputs(step, m);
    call(manifest.microbatch, job.microbatch, Span::Microbatch, step);
  }
  if (step == job.start.step && !job.options.saveGradients.empty())
    saveGradients();
  call(manifest.update, job.update, Span::Update, step);
  device.finish({manifest.only(Role::Loss), manifest.only(Role::GradientNorm),
                 manifest.only(Role::ValidTokens)});
  std::string place = "the end of " + stepText(step);
  communicator.barrier(place.c_str(), step, /*timed=*/true);
  recorder.add(Span::Step, step, start);
  ++recorder.steps;
  double seconds = secondsSince(start);
  return {readScalar(Role::Loss), readScalar(Role::GradientNorm),
          readScalar(Role::ValidTokens), seconds};
}

/// The sum of the token counts that ranks hold; only rank 0 learns it.
double RankProgram::globalTokens() {
  int64_t index = manifest.only(Role::TokenCount);
  const Buffer &buffer = manifest.buffers[size_t(index)];
  double tokens = 0;
  communicator.collect(
      "counting tokens", index, device.download(index), buffer.localBytes(),
      [&](int64_t from, const void *count) {
        if (speaksForBlock(manifest.mesh, buffer.sharding, from))
          tokens += *static_cast<const double *>(count);
      });
  return tokens;
}

void RankProgram::saveGradients() {
  double tokens = globalTokens();
  if (rank == 0 && !(tokens > 0))
    throw Error(job.options.saveGradients +
                ": expected valid tokens in the first batch, found none");
  const std::string &path = job.options.saveGradients;
  saveWhole(communicator, manifest, {path, path, {Role::Gradient}, tokens},
            [this](int64_t buffer) { return device.download(buffer); });
  device.release();
}

void RankProgram::save(int64_t steps) {
  const JobOptions &options = job.options;
  bool due = steps == options.steps ||
             (options.saveEvery > 0 && steps % options.saveEvery == 0);
  if (!due || options.save.empty())
    return;
  saveCheckpoint(job, communicator, steps,
                 [this](int64_t buffer) { return device.download(buffer); });
  device.release();
}

void RankProgram::report(int64_t step, const StepResult &result) {
  if (!std::isfinite(result.loss))
    throw Error(stepText(step) + ": expected a finite loss, found " +
                std::to_string(result.loss));
  if (!std::isfinite(result.gradientNorm))
    throw Error(stepText(step) + ": expected a finite gradient norm, found " +
                std::to_string(result.gradientNorm));
  reportStep(job, step + 1, result);
}

/// Hands the step's spans to rank 0, which writes the file: their number, then
/// they themselves.
void RankProgram::trace() {
  std::vector<Span> spans = recorder.takeSpans();
  Span number{};
  number.id = int64_t(spans.size());
  spans.insert(spans.begin(), number);
  communicator.collect("tracing", 0, spans.data(),
                       int64_t(spans.size() * sizeof(Span)),
                       [&](int64_t from, const void *data) {
                         auto *all = static_cast<const Span *>(data);
                         job.trace->add(from, all + 1, size_t(all->id));
                       });
}

/// Rank 0 learns what all counted, and reports it.
void RankProgram::account() {
  Account account(manifest, recorder.steps, communicator.ranks());
  std::vector<CollectiveCount> counts = recorder.counts();
  counts.emplace_back();
  communicator.collect("counting collectives", 0, counts.data(),
                       int64_t(counts.size() * sizeof(CollectiveCount)),
                       [&](int64_t, const void *data) {
                         account.add(
                             static_cast<const CollectiveCount *>(data));
                       });
  if (rank == 0)
    reportAccount(job, account);
}

void RankProgram::reportKernels() {
  if (rank == 0 && kernels.steps() > 0)
    printKernels(*job.options.progress, manifest, kernels, pool);
}

/// Rank 0 learns what all have used, and says so.
void RankProgram::checkMemory() {
  MemoryUse use{device.touchedArenaBytes(), processBytes("VmHWM"),
                job.residentBytesBefore};
  MemoryReport report(manifest);
  communicator.collect("checking memory", 0, &use, sizeof use,
                       [&](int64_t from, const void *data) {
                         report.add(from,
                                    *static_cast<const MemoryUse *>(data));
                       });
  if (rank != 0)
    return;
  report.print(*job.options.progress, job.self ? 1 : communicator.ranks());
  report.check();
}

void RankProgram::run() {
  setParameters();
  // Ranks read files at different speeds.
  communicator.barrier("the start", 0, /*timed=*/false);
  recorder.start();
  recorder.takeSpans();
  if (rank == 0)
    job.startSeconds = secondsSince(job.options.asked);
  for (int64_t step = job.start.step; step < job.options.steps; ++step) {
    StepResult result = trainStep(step);
    if (rank == 0)
      report(step, result);
    kernels.addStep(result.seconds);
    // The first step touches its memory for the first time.
    if (step == job.start.step && step + 1 < job.options.steps)
      kernels.reset();
    if (job.trace)
      trace();
    save(step + 1);
  }
  if (job.options.collectives)
    account();
  if (job.options.kernels)
    reportKernels();
  if (job.options.checkMemory)
    checkMemory();
  communicator.barrier("the end", 0, /*timed=*/false);
}

} // namespace

void mt::runtime::runRank(Job &job, Communicator &backend) {
  Recorder &recorder = *job.recorders[size_t(backend.rank())];
  runGuarded(backend, [&](Communicator &) {
    auto &device = job.devices[size_t(backend.rank())];
    device = job.target->makeRank(backend.rank());
    std::unique_ptr<Communicator> ofDevice = device->makeCommunicator(backend);
    RankCommunicator communicator(job, ofDevice ? *ofDevice : backend,
                                  recorder);
    // Guarded here, while the communicator is there: what the program throws is
    // to end the job before calls that are under way keep it.
    runGuarded(communicator.outermost(), [&](Communicator &outermost) {
      RankProgram(job, outermost, recorder, *device).run();
    });
  });
}
