//===- Job.cpp - set a training job up, and run it ------------------------===//

#include "Job.h"

#include "Json.h"
#include "comm/LocalWorld.h"
#include "host/Blas.h"

#include <filesystem>
#include <ostream>

#include <unistd.h>

using namespace mt::runtime;

namespace fs = std::filesystem;

namespace {

/// Refuses early what would fail after hours of training: a folder, or the
/// nearest one above it that exists, that cannot be written to.
void checkWritable(const fs::path &folder, const std::string &file,
                   bool mayCreate) {
  std::error_code ignored;
  fs::path existing = fs::absolute(folder);
  while (mayCreate && !fs::exists(existing, ignored) &&
         existing.has_relative_path())
    existing = existing.parent_path();
  if (!fs::is_directory(existing, ignored))
    throw Error(file + ": expected a folder to write to, found none at " +
                existing.string());
  if (access(existing.c_str(), W_OK | X_OK) != 0)
    throw Error(file + ": expected a folder that can be written to, found " +
                existing.string());
}

void checkOutputs(const JobOptions &options) {
  std::error_code ignored;
  for (const std::string &file : {options.log, options.saveGradients}) {
    if (file.empty())
      continue;
    checkWritable(fs::absolute(file).parent_path(), file, false);
    if (fs::is_directory(file, ignored))
      throw Error(file + ": expected a file, found a folder");
  }
  if (!options.save.empty())
    checkWritable(options.save, options.save, true);
}

Manifest readManifest(const StepLibrary &step, const std::string &path) {
  std::string where = path + ": manifest";
  const char *text = step.manifestText();
  Manifest manifest =
      parseManifest(parseJson(text, text + std::strlen(text), where), where);
  if (manifest.target != "host")
    throw Error(path + ": expected a step for the target host, found " +
                manifest.target);
  return manifest;
}

DataOptions dataOptions(const JobOptions &options, const Manifest &manifest) {
  int64_t id = options.endOfDocument;
  if (id >= manifest.vocabulary)
    throw Error("--end-of-document: expected an id from 0 to " +
                std::to_string(manifest.vocabulary - 1) + ", found " +
                std::to_string(id));
  DataOptions result;
  result.files = options.data;
  result.seed = options.seed;
  // More than any data has: the product may not fit.
  result.sequences = options.steps > INT64_MAX / manifest.batch
                         ? INT64_MAX
                         : options.steps * manifest.batch;
  result.tokenBytes = options.tokenBytes;
  result.endOfDocument = id;
  return result;
}

} // namespace

Job::Job(const JobOptions &options)
    : options(options), step(options.step),
      manifest(readManifest(step, options.step)),
      microbatch(step.entry(manifest.microbatch.symbol)),
      update(step.entry(manifest.update.symbol)),
      memory(size_t(manifest.mesh.ranks())) {
  int64_t ranks = manifest.mesh.ranks();
  if (options.ranks != 0 && options.ranks != ranks)
    throw Error("--ranks: expected the " + std::to_string(ranks) +
                " ranks of the step's mesh, found " +
                std::to_string(options.ranks));
  data = openData(dataOptions(options, manifest), manifest);
  if (!options.init.empty()) {
    checkpoint = std::make_unique<Checkpoint>(options.init);
    std::string warning = checkpoint->check(manifest);
    if (!warning.empty())
      *options.warnings << "mt-run: warning: " << warning << std::endl;
  }
  checkOutputs(options);
}

void mt::runtime::runJob(const JobOptions &options) {
  auto job = std::make_shared<Job>(options);
  // Before threads start: it sets environment variables.
  if (!blas().sgemm)
    *options.warnings << "mt-run: warning: libopenblas.so.0: not found, matrix "
                         "products will be slow"
                      << std::endl;
  auto world = std::make_shared<LocalWorld>(
      job->manifest.mesh, job->manifest.groups, job->manifest.collectives,
      options.timeoutSeconds);
  try {
    runLocalRanks(world, [job](Communicator &communicator) {
      runRank(*job, communicator);
    });
  } catch (const Error &error) {
    throw Error(options.step + ": " + error.what());
  }
}

std::string mt::runtime::inspectStep(const std::string &path) {
  return nlohmann::ordered_json::parse(StepLibrary(path).manifestText())
      .dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}
