# Configuration of the lit suite: .mlir files, and shell tests for the tools.
import os

import lit.formats

config.name = "mt"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "unit", "lib"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.mt_binary_dir, "test")

path = [config.mt_tools_dir, config.llvm_tools_dir, os.environ["PATH"]]
config.environment["PATH"] = os.pathsep.join(path)
config.substitutions.append(("%python", config.python or "python3"))
config.substitutions.append(
    ("%golden", os.path.join(config.mt_source_dir, "test", "Golden")))
config.substitutions.append(
    ("%examples", os.path.join(config.mt_source_dir, "examples")))
