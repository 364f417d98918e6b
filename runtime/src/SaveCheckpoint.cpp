//===- SaveCheckpoint.cpp - a folder to load and to resume from -----------===//

#include "AtomicFolder.h"
#include "Checkpoint.h"
#include "Job.h"

using namespace mt::runtime;

TrainerState mt::runtime::stateAfter(const Job &job, int64_t steps) {
  TrainerState state = job.start;
  state.step = steps;
  state.seed = job.options.seed;
  state.sequences = job.firstSequence(steps);
  state.epochSequences = job.data->epochSequences();
  state.hyperparameters = job.options.hyperparameters;
  return state;
}

void mt::runtime::saveCheckpoint(const Job &job, Communicator &communicator,
                                 int64_t steps, const BufferFn &memory) {
  const std::string &path = job.options.save;
  std::unique_ptr<AtomicFolder> folder;
  if (communicator.rank() == 0)
    folder = std::make_unique<AtomicFolder>(path);
  // Only rank 0 opens files.
  auto file = [&](const char *name) {
    return folder ? folder->file(name) : std::string();
  };
  saveWhole(communicator, job.manifest,
            {file("model.safetensors"),
             path + "/model.safetensors",
             {Role::Parameter},
             1,
             job.options.maxShardBytes},
            memory);
  saveWhole(communicator, job.manifest,
            {file("optimizer.safetensors"), path + "/optimizer.safetensors",
             optimizerState},
            memory);
  if (!folder)
    return;
  if (!job.config.text.empty())
    writeText(file("config.json"), job.config.saved());
  writeText(file("trainer_state.json"), stateAfter(job, steps).text());
  folder->commit();
}
