#!/usr/bin/env python3
"""The same training step in PyTorch and transformers, on one GPU, in bf16."""
import argparse
import json
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("config", help="a config.json")
parser.add_argument("--tokens", type=int, required=True, help="of a step, in sequences of 1024")
parser.add_argument("--mode", choices=["eager", "compile"], required=True)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--log", required=True)
args = parser.parse_args()

with open(args.config) as file:
    settings = json.load(file)
config = AutoConfig.for_model(**settings)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
step = torch.compile(model) if args.mode == "compile" else model
ids = torch.randint(config.vocab_size, (args.tokens // 1024, 1024), device="cuda")
with open(args.log, "w") as log:
    for number in range(args.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = step(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        print(json.dumps({"step": number + 1, "loss": loss.item(), "step_seconds": time.perf_counter() - start,
                          "peak_bytes": torch.cuda.max_memory_allocated()}), file=log, flush=True)
