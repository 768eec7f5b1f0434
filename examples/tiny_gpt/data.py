"""Python's own standard library as a small language-modelling corpus.

`python data.py` reads the source files of the running interpreter's standard library, builds a
vocabulary of frequent words with single bytes to fall back on, and writes data/train.bin,
data/val.bin and data/vocab.json. Nothing is downloaded. train.py does the same by itself when
the files are missing.
"""

import argparse
import collections
import json
import os
import re
import sys
import sysconfig
from pathlib import Path

import numpy as np
import torch

DATA_DIR = Path(__file__).resolve().parent / "data"
SKIPPED = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "__pycache__"}

# identifiers, numbers, runs of spaces, line ends with the indentation after them, punctuation
WORD = re.compile(rb"[A-Za-z_]+|[0-9]|\n *|[ \t]+|[^A-Za-z0-9_\s]|.", re.DOTALL)


def source_files(root):
    """Standard library sources, in a fixed order."""
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in SKIPPED]
        if Path(folder) == Path(root):  # site-packages and the like sit here too
            subfolders[:] = [name for name in subfolders if name in sys.stdlib_module_names]
            names = [name for name in names if name[:-3] in sys.stdlib_module_names]
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found, key=lambda path: path.relative_to(root).as_posix())


class Tokenizer:
    """Ids 0-255 are bytes, the rest are the most frequent words."""

    def __init__(self, words):
        self.words = words
        self.ids = {word: 256 + i for i, word in enumerate(words)}

    @classmethod
    def train(cls, text, vocab_size):
        counts = collections.Counter(word for word in WORD.findall(text) if len(word) > 1)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls([word for word, _ in ranked[: vocab_size - 256]])

    @property
    def vocab_size(self):
        return 256 + len(self.words)

    def encode(self, text):
        out = []
        for word in WORD.findall(text):
            if word in self.ids:
                out.append(self.ids[word])
            else:
                out.extend(word)
        return out

    def decode(self, ids):
        return b"".join(bytes([i]) if i < 256 else self.words[i - 256] for i in ids)

    def save(self, path):
        path.write_text(json.dumps([word.decode("latin-1") for word in self.words]))

    @classmethod
    def load(cls, path):
        return cls([word.encode("latin-1") for word in json.loads(path.read_text())])


def prepare(data_dir=DATA_DIR, vocab_size=4096, max_bytes=6_000_000):
    """Write the token files and the vocabulary."""
    data_dir = Path(data_dir)
    data_dir.mkdir(parents=True, exist_ok=True)
    root = sysconfig.get_paths()["stdlib"]
    text = b"\n".join(path.read_bytes() for path in source_files(root))[:max_bytes]
    tokenizer = Tokenizer.train(text, vocab_size)
    tokens = np.array(tokenizer.encode(text), dtype=np.uint16)
    split = int(0.95 * len(tokens))
    tokenizer.save(data_dir / "vocab.json")
    tokens[split:].tofile(data_dir / "val.bin")
    tokens[:split].tofile(data_dir / "train.bin")
    print(f"{len(text):,} bytes, {len(tokens):,} tokens, vocabulary {tokenizer.vocab_size}")


class Batches:
    """Random windows of the token stream, the same ones for the same seed.

    Each update draws the start positions of its whole global batch at once, then hands them out
    in micro-batches, so the data of an update does not depend on how it is split.
    """

    def __init__(self, path, block_size, batch_size, grad_accum, seed):
        self.tokens = np.fromfile(path, dtype=np.uint16)
        self.block_size = block_size
        self.batch_size = batch_size
        self.grad_accum = grad_accum
        self.rng = np.random.default_rng(seed)

    def next_update(self):
        """The micro-batches of one update, each a pair of inputs and targets."""
        last = len(self.tokens) - self.block_size - 1
        starts = self.rng.integers(0, last, size=self.batch_size * self.grad_accum)
        for i in range(self.grad_accum):
            chosen = starts[i * self.batch_size : (i + 1) * self.batch_size]
            windows = [self.tokens[s : s + self.block_size + 1].astype(np.int64) for s in chosen]
            batch = torch.from_numpy(np.stack(windows))
            yield batch[:, :-1].contiguous(), batch[:, 1:].contiguous()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Prepare the training data.")
    parser.add_argument("--data-dir", default=DATA_DIR)
    parser.add_argument("--vocab-size", type=int, default=4096)
    args = parser.parse_args()
    prepare(args.data_dir, args.vocab_size)
