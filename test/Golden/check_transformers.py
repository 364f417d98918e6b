#!/usr/bin/env python3
"""Loads a folder that mt-run has saved with transformers, and compares losses. Not part of the tests.

    pip install torch==2.15.0 transformers==5.24.0 safetensors==0.8.0 numpy==2.4.6
    mt-run step.so --init gpt2-tiny --data gpt2-tiny/batches.safetensors --steps 5 --save saved
    mt-run step.so --resume saved --data gpt2-tiny/batches.safetensors --steps 6 --log log.jsonl
    python check_transformers.py saved gpt2-tiny/batches.safetensors log.jsonl

The loss of the step after those that the folder knows is that of the loaded model on the step's batch.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file

TOLERANCE = 2e-6  # float32, on both sides


def main(folder, data, log):
    step = json.loads((pathlib.Path(folder) / "trainer_state.json").read_text())["step"]
    batches = load_file(data)
    ids, labels = (batches[name][step % len(batches[name])].long() for name in ("input_ids", "labels"))
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[problem], (problem, report[problem])
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=ids).logits.double()
    # labels are targets of their position already: transformers would shift them
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100).item()
    lines = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
    expected = next(line["loss"] for line in lines if line["step"] == step + 1)
    error = abs(loss - expected) / abs(expected)
    print(f"step {step + 1}: transformers {loss:.8f}, mt-run {expected:.8f}, relative difference {error:.1e}")
    return error > TOLERANCE


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
