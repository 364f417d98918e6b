#!/usr/bin/env python3
"""GPT-2 training steps in JAX: one jitted step, sharded by NamedSharding over virtual CPU devices.

No flax, no optax: parameters are a dict of arrays. Written as a careful JAX user
would, and where there is a choice, in the way that is kinder to XLA:
  * q, k and v are one weight: one gather of the input, one partial sum of its gradient;
  * the target's logit is a masked sum, not take_along_axis;
  * tensors of one dimension stay whole under fsdp2;
  * gradients are pinned to the layouts of their parameters; parameters and the
    optimizer's state are donated.
"""
import os
import time

import common

if __name__ == "__main__":
    args = common.parser(__doc__.splitlines()[0]).parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = (f"--xla_force_host_platform_device_count={common.ranks_of(args.mode)} "
                               + os.environ.get("XLA_FLAGS", ""))

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def parameter_shapes(shape):
    D, H, V, S = shape["hidden"], shape["heads"], shape["vocab"], shape["seq"]
    K, F = D // H, 4 * D
    block = {
        "ln1_g": (D,), "ln1_b": (D,), "wqkv": (D, 3, H, K), "bqkv": (3, H, K), "wo": (H, K, D), "bo": (D,),
        "ln2_g": (D,), "ln2_b": (D,), "w1": (D, F), "b1": (F,), "w2": (F, D), "b2": (D,),
    }
    return {"wte": (V, D), "wpe": (S, D), "blocks": [dict(block) for _ in range(shape["layers"])],
            "lnf_g": (D,), "lnf_b": (D,)}


def parameter_specs(shape, t, f, sequence):
    """Layouts of the parameters; t and f are the mesh's axes for tensors and state, or None."""
    block = {
        "ln1_g": P(), "ln1_b": P(), "wqkv": P(f, None, t, None), "bqkv": P(None, t, None), "wo": P(t, None, f), "bo": P(),
        "ln2_g": P(), "ln2_b": P(), "w1": P(f, t), "b1": P(t), "w2": P(t, f), "b2": P(),
    }
    return {"wte": P(t, f), "wpe": P(t if sequence else None, f), "blocks": [dict(block) for _ in range(shape["layers"])],
            "lnf_g": P(), "lnf_b": P()}


def initial_parameters(shape):
    generator = np.random.default_rng(0)

    def make(path, dims):
        name = path[-1].key
        if name.endswith("_g"):
            return np.ones(dims, np.float32)
        if name.startswith("b") or name.endswith("_b"):
            return np.zeros(dims, np.float32)
        return generator.standard_normal(dims, dtype=np.float32) * np.float32(0.02)

    return jax.tree_util.tree_map_with_path(make, parameter_shapes(shape), is_leaf=lambda x: isinstance(x, tuple))


def layer_norm(x, gain, bias):
    d = x - jnp.mean(x, -1, keepdims=True)
    return d * jax.lax.rsqrt(jnp.mean(d * d, -1, keepdims=True) + 1e-5) * gain + bias


def make_loss(mesh, t, f, sequence):
    def pin(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec))) if mesh.size > 1 else x

    def pin_stream(x):
        return pin(x, f, t if sequence else None, None)

    def block(x, p):
        h = pin_stream(layer_norm(x, p["ln1_g"], p["ln1_b"]))
        qkv = pin(jnp.einsum("bsd,dchk->bschk", h, p["wqkv"]) + p["bqkv"], f, None, None, t, None)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        scores = jnp.einsum("bqhk,bshk->bhqs", q, k) * q.shape[-1] ** -0.5
        causal = jnp.tril(jnp.ones((q.shape[1], q.shape[1]), bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e30), axis=-1)
        o = pin(jnp.einsum("bhqs,bshk->bqhk", weights, v), f, None, t, None)
        x = pin_stream(x + pin_stream(jnp.einsum("bqhk,hkd->bqd", o, p["wo"])) + p["bo"])
        h = pin_stream(layer_norm(x, p["ln2_g"], p["ln2_b"]))
        h = jnp.einsum("bsd,df->bsf", h, p["w1"]) + p["b1"]
        h = pin(jax.nn.gelu(h, approximate=True), f, None, t)
        return pin_stream(x + pin_stream(jnp.einsum("bsf,fd->bsd", h, p["w2"])) + p["b2"])

    def loss(params, tokens, labels):
        # Pinned twice: first whole in the sequence, then cut. In one step Shardy shards the lookup's sequence too,
        # and the partitioner answers with permutes and gathers in two steps.
        x = pin(jnp.take(params["wte"], tokens, axis=0, mode="clip"), f, None, None)
        x = pin_stream(pin_stream(x) + params["wpe"])
        for p in params["blocks"]:
            x = block(x, p)
        h = pin_stream(layer_norm(x, params["lnf_g"], params["lnf_b"]))
        logits = pin(jnp.einsum("bsd,vd->bsv", h, params["wte"]), f, None, t)
        ids = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 2)
        target = jnp.sum(jnp.where(ids == labels[..., None], logits, 0.0), axis=-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - target)

    return loss


def adamw(params, grads, state):
    lr, (b1, b2), eps, decay = (common.ADAMW[key] for key in ("lr", "betas", "eps", "weight_decay"))
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, common.CLIP_NORM / (norm + 1e-6))
    n = state["n"] + 1
    c1 = 1 - b1 ** n.astype(jnp.float32)
    c2 = 1 - b2 ** n.astype(jnp.float32)

    def one(p, g, m, v):
        g = g * scale
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        u = (m / c1) / (jnp.sqrt(v / c2) + eps)
        return p - lr * (u + decay * p if p.ndim >= 2 else u), m, v

    leaves, tree = jax.tree.flatten(params)
    new = [one(*x) for x in zip(leaves, *(jax.tree.leaves(t) for t in (grads, state["m"], state["v"])))]
    params, m, v = (jax.tree.unflatten(tree, part) for part in zip(*new))
    return params, {"m": m, "v": v, "n": n}


def main(args):
    shape = common.shape_of(args.config, args.mode)
    text = common.Text(args.text, shape)
    t = "tp" if args.mode in ("tp2", "tp2-sp") else None
    f = "fsdp" if args.mode == "fsdp2" else None
    sequence = args.mode == "tp2-sp"
    devices = np.array(jax.devices())
    mesh = Mesh(devices, (f or "tp",))

    layouts = jax.tree.map(lambda spec: NamedSharding(mesh, spec), parameter_specs(shape, t, f, sequence),
                           is_leaf=lambda x: isinstance(x, P))
    whole, batch = NamedSharding(mesh, P()), NamedSharding(mesh, P(f, None))
    state_layouts = {"m": layouts, "v": layouts, "n": whole}
    loss_of = make_loss(mesh, t, f, sequence)

    def step(params, state, tokens, labels):
        loss, grads = jax.value_and_grad(loss_of)(params, tokens, labels)
        if mesh.size > 1:
            grads = jax.lax.with_sharding_constraint(grads, layouts)
        params, state = adamw(params, grads, state)
        return params, state, loss

    step = jax.jit(step, donate_argnums=(0, 1), in_shardings=(layouts, state_layouts, batch, batch),
                   out_shardings=(layouts, state_layouts, whole))

    def zeros():
        return jax.tree.map(lambda p, layout: jax.device_put(np.zeros(p.shape, p.dtype), layout), params, layouts)

    params = jax.tree.map(jax.device_put, initial_parameters(shape), layouts)
    state = {"m": zeros(), "v": zeros(), "n": jax.device_put(np.int32(0), whole)}
    log = common.Log(args.log)
    for i in range(args.steps):
        tokens, labels = (jax.device_put(np.array(ids, np.int32), batch) for ids in text.batch_at(i))
        start = time.perf_counter()
        params, state, loss = jax.block_until_ready(step(params, state, tokens, labels))
        log.write(float(loss), time.perf_counter() - start)


if __name__ == "__main__":
    main(args)
