"""What the steps of the peers and bench/compare share: shapes, tokens, the log."""
import argparse
import json

SHAPES = {
    "tiny": dict(layers=2, hidden=128, heads=4, vocab=256, seq=64, batch=4),
    "demo": dict(layers=6, hidden=384, heads=6, vocab=256, seq=256, batch=8),
    "gpt2-124m": dict(layers=12, hidden=768, heads=12, vocab=50304, seq=512, batch=1),
}
MODES = ["dense", "tp2", "tp2-sp", "fsdp2"]
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
CLIP_NORM = 1.0


def ranks_of(mode):
    return 1 if mode == "dense" else 2


def shape_of(config, mode):
    """The shape of a configuration; a batch that is shared out needs a sequence a rank."""
    shape = dict(SHAPES[config])
    if mode == "fsdp2":
        shape["batch"] = max(shape["batch"], ranks_of(mode))
    return shape


def parser(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--config", default="demo", choices=SHAPES)
    parser.add_argument("--mode", default="dense", choices=MODES)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--text", required=True, help="file whose bytes are the tokens")
    parser.add_argument("--log", required=True, help="write a JSON line a step")
    return parser


class Text:
    """A file's bytes as tokens, cut into batches of sequences that follow each other."""

    def __init__(self, path, shape):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.batch, self.seq = shape["batch"], shape["seq"]
        self.sequences = (len(self.bytes) - 1) // self.seq

    def batch_at(self, step):
        """Tokens and labels, each a list of a list of ids a sequence."""
        starts = [(step * self.batch + i) % self.sequences * self.seq for i in range(self.batch)]
        return ([list(self.bytes[at:at + self.seq]) for at in starts],
                [list(self.bytes[at + 1:at + 1 + self.seq]) for at in starts])


class Log:
    """The lines that mt-run --log writes, as far as bench/compare reads them."""

    def __init__(self, path):
        self.file = open(path, "w")
        self.step = 0

    def write(self, loss, seconds):
        self.step += 1
        self.file.write(json.dumps(dict(step=self.step, loss=loss, step_seconds=seconds)) + "\n")
        self.file.flush()
