# Configuration of the lit suite: .mlir files, and shell tests for the tools.
import os
import shutil

import lit.formats

config.name = "mt"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "unit", "lib", "fuzz"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.mt_binary_dir, "test")

path = [config.mt_tools_dir, config.llvm_tools_dir, os.environ["PATH"]]
config.environment["PATH"] = os.pathsep.join(path)
# Tests share kernels with each other, not with the user's steps.
config.environment["MT_CACHE_DIR"] = os.path.join(
    config.mt_binary_dir, "kernel-cache")
# The shared libraries of LLVM are not instrumented: they do not say which bytes
# of an arena they hand out, so marks on arenas mean nothing, and contexts live
# until the process ends. A finding ends the tool by a signal, which no test
# takes for an exit code.
if config.mt_sanitize:
    config.environment["ASAN_OPTIONS"] = (
        "detect_leaks=0:allow_user_poisoning=0:abort_on_error=1")
    config.environment["UBSAN_OPTIONS"] = "abort_on_error=1:print_stacktrace=1"
config.substitutions.append(("%python", config.python or "python3"))
config.substitutions.append(
    ("%golden", os.path.join(config.mt_source_dir, "test", "Golden")))
scripts = os.path.join(config.mt_source_dir, "test")
for name, script in [("%fails", "Tools/Inputs/fails.sh"),
                     ("%safetensors", "Tools/Inputs/safetensors.sh"),
                     ("%train", "Execution/Inputs/train.sh"),
                     ("%sharded-state", "Execution/Inputs/sharded-state.sh"),
                     ("%microbatches", "Execution/Inputs/microbatches.sh"),
                     ("%ptx", "Execution/Inputs/ptx.sh"),
                     ("%shapes", "Execution/Inputs/shapes.sh")]:
    config.substitutions.append((name, "sh " + os.path.join(scripts, script)))
# On a simulated device: `env %device` before a command, or for a whole run of
# the suite `lit --param target=cuda`.
device = os.path.join(scripts, "Execution", "Inputs", "device")
real_run = os.path.join(config.mt_tools_dir, "mt-run")
config.substitutions.append(
    ("%device", "MT_REAL_MT_RUN=%s PATH=%s" % (
        real_run, os.pathsep.join([device] + path))))
if lit_config.params.get("target") == "cuda":
    config.environment["MT_REAL_MT_RUN"] = real_run
    config.environment["PATH"] = os.pathsep.join([device] + path)
else:
    config.available_features.add("host")
# CUDA's assembler, on PATH or where CUDA installs it.
if shutil.which("ptxas", path="/usr/local/cuda/bin") and not shutil.which("ptxas"):
    config.environment["PATH"] += os.pathsep + "/usr/local/cuda/bin"
if shutil.which("ptxas", path=config.environment["PATH"]):
    config.available_features.add("ptxas")
else:
    lit_config.note("ptxas was not found: no tests of a device's machine code")
config.substitutions.append(
    ("%document", "bash " + os.path.join(scripts, "Docs/Inputs/run-document.sh")))
config.substitutions.append(
    ("%docs", os.path.join(config.mt_source_dir, "docs")))
config.substitutions.append(
    ("%mpirun", "mpirun --allow-run-as-root --oversubscribe"))
config.substitutions.append(
    ("%inputs", os.path.join(scripts, "Tools", "Inputs")))
# Ranks as processes: where mpirun is there, and was when mt was built. MPI is
# not instrumented, and taken for racy.
if (shutil.which("mpirun") and "thread" not in config.mt_sanitize and
        os.path.exists(os.path.join(config.mt_binary_dir, "lib",
                                    "libmt_runtime_mpi.so"))):
    config.available_features.add("mpi")
else:
    lit_config.note("MPI was not found: no tests of ranks as processes")
config.substitutions.append(
    ("%examples", os.path.join(config.mt_source_dir, "examples")))
