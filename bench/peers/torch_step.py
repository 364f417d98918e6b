#!/usr/bin/env python3
"""GPT-2 training steps in PyTorch: eager or compiled, f32 or bf16 autocast.

Dense is one process. Of the other modes each rank is a process, joined by gloo:
tensor parallel (with and without sequence parallel) by DTensor, fsdp2 by
fully_shard. AdamW is the fused one, the head is tied to the embedding.
"""
import contextlib
import math
import os
import subprocess
import sys
import tempfile
import time

import common


def arguments():
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, help="threads of a rank")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--bf16", action="store_true", help="bf16 autocast of forward and loss")
    return parser.parse_args()


def launch(ranks):
    """Runs this command once a rank and waits for all; ends all when one fails."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, WORLD_SIZE=str(ranks), MEETING_FILE=os.path.join(folder, "meet"))
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")
        running = [subprocess.Popen([sys.executable, *sys.argv], env=dict(env, RANK=str(rank), LOCAL_RANK=str(rank)))
                   for rank in range(ranks)]
        status = 0
        while running and not status:
            time.sleep(0.2)
            for rank in list(running):
                if rank.poll() is not None:
                    running.remove(rank)
                    status = status or rank.returncode
        for rank in running:
            rank.kill()
            rank.wait()
        return status


# The launcher returns before torch is loaded: it would be a third of the memory.
if __name__ == "__main__":
    args = arguments()
    if common.ranks_of(args.mode) > 1 and "RANK" not in os.environ:
        sys.exit(launch(common.ranks_of(args.mode)))

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    # The rows of qkv are ordered (head, {q, k, v}, feature), as Megatron has them,
    # so that a column split of the fused product gives each rank whole heads.
    def __init__(self, hidden, heads):
        super().__init__()
        self.head_size = hidden // heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.proj = nn.Linear(hidden, hidden)

    def forward(self, x):
        y = self.qkv(x)
        batch, seq = y.shape[:2]  # under sequence parallel the whole sequence comes back here
        q, k, v = y.view(batch, seq, -1, 3, self.head_size).permute(3, 0, 2, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, seq, -1))


class MLP(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.fc = nn.Linear(hidden, 4 * hidden)
        self.out = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        return self.out(F.gelu(self.fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(hidden), Attention(hidden, heads)
        self.ln2, self.mlp = nn.LayerNorm(hidden), MLP(hidden)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, layers, hidden, heads, vocab, seq, batch):
        super().__init__()
        self.wte = nn.Embedding(vocab, hidden)
        self.wpe = nn.Embedding(seq, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.lnf = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocab, bias=False)
        self.head.weight = self.wte.weight
        self.register_buffer("positions", torch.arange(seq), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("proj.weight", "out.weight"))
                nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * layers) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(self.positions[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x)
        return self.head(self.lnf(x))


def loss_of(model, tokens, labels):
    return F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())


def shard_state(model, mesh, compiled):
    from torch.distributed.fsdp import fully_shard
    for block in model.blocks:
        if compiled:
            block.compile()
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def shard_tensors(model, mesh, compiled, sequence):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module)
    stream = Shard(1) if sequence else Replicate()
    plan = {
        "wte": RowwiseParallel(input_layouts=Replicate(), output_layouts=stream),
        "head": ColwiseParallel(input_layouts=stream, output_layouts=Shard(-1), use_local_output=False),
    }
    block_plan = {
        "attn.qkv": ColwiseParallel(),
        "attn.proj": RowwiseParallel(output_layouts=stream),
        "mlp.fc": ColwiseParallel(),
        "mlp.out": RowwiseParallel(output_layouts=stream),
    }
    if sequence:
        gather = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
        plan |= {"wpe": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0)), "lnf": SequenceParallel()}
        block_plan |= {"ln1": SequenceParallel(), "ln2": SequenceParallel(), "attn": gather, "mlp": gather}
    parallelize_module(model, mesh, plan)
    model.head.weight = model.wte.weight  # parallelize_module unties them
    for block in model.blocks:
        parallelize_module(block, mesh, block_plan)
        if compiled:
            block.compile()


def make_update(model):
    """Clips and updates. One fused call may not mix DTensor and Tensor, nor may one norm."""
    from torch.distributed.tensor import DTensor
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [[p for p in parameters if isinstance(p, DTensor)], [p for p in parameters if not isinstance(p, DTensor)]]
    groups = [group for group in groups if group]
    optimizer = torch.optim.AdamW([dict(params=group) for group in groups], fused=True, **common.ADAMW)

    def update():
        norms = [nn.utils.get_total_norm([p.grad for p in group]) for group in groups]
        norms = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
        norm = torch.linalg.vector_norm(torch.stack(norms))
        for group in groups:
            nn.utils.clip_grads_with_norm_(group, common.CLIP_NORM, norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return update


def main(args):
    torch.set_num_threads(args.threads)
    shape = common.shape_of(args.config, args.mode)
    text = common.Text(args.text, shape)
    rank, ranks, mesh = 0, common.ranks_of(args.mode), None
    if ranks > 1:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        rank = int(os.environ["RANK"])
        dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING_FILE"], rank=rank, world_size=ranks)
        mesh = init_device_mesh("cpu", (ranks,))

    torch.manual_seed(0)
    model = GPT(**shape)
    tensors = args.mode in ("tp2", "tp2-sp")
    if args.mode == "fsdp2":
        shard_state(model, mesh, args.compile)
    elif tensors:
        shard_tensors(model, mesh, args.compile, args.mode == "tp2-sp")
    update = make_update(model)

    def forward(tokens, labels):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16):
            return loss_of(model, tokens, labels)

    if args.compile and ranks == 1:
        forward = torch.compile(forward)
    context = contextlib.nullcontext
    if tensors:
        from torch.distributed.tensor.parallel import loss_parallel as context

    log = common.Log(args.log) if rank == 0 else None
    for i in range(args.steps):
        tokens, labels = map(torch.tensor, text.batch_at(i))
        if args.mode == "fsdp2":
            tokens, labels = tokens.chunk(ranks)[rank], labels.chunk(ranks)[rank]
        if ranks > 1:
            dist.barrier()
        start = time.perf_counter()
        with context():
            loss = forward(tokens, labels)
            loss.backward()
        update()
        seconds = time.perf_counter() - start
        loss = loss.detach()
        loss = loss.full_tensor() if tensors else loss
        if args.mode == "fsdp2":
            dist.all_reduce(loss)
            loss /= ranks
        if rank == 0:
            log.write(loss.item(), seconds)
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(args)
