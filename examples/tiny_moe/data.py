"""The corpus: the source files of Python's standard library, byte by byte."""

import argparse
import sysconfig
from pathlib import Path

import numpy as np
import torch

LEFT_OUT = ("test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "__pycache__")


def prepare(folder, max_bytes=8_000_000):
    """Write train.bin and val.bin."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    root = Path(sysconfig.get_path("stdlib"))
    corpus = bytearray()
    for path in sorted(root.rglob("*.py")):
        if not any(part in LEFT_OUT for part in path.relative_to(root).parts):
            corpus += path.read_bytes() + b"\0"
            if len(corpus) >= max_bytes:
                break
    corpus = bytes(corpus[:max_bytes])
    split = len(corpus) * 19 // 20
    (folder / "train.bin").write_bytes(corpus[:split])
    (folder / "val.bin").write_bytes(corpus[split:])
    print(f"{len(corpus):,} bytes in {folder}")


class Corpus:
    """Random windows of a file, always the same for the same seed."""

    def __init__(self, path, seq_len, seed):
        self.bytes = np.fromfile(path, dtype=np.uint8)
        self.seq_len = seq_len
        self.random = np.random.default_rng(seed)

    def micro_batches(self, size, count):
        """Give `count` micro-batches of `size` sequences: inputs and targets."""
        starts = self.random.integers(0, len(self.bytes) - self.seq_len, size=(count, size))
        for row in starts:
            windows = np.stack([self.bytes[at : at + self.seq_len + 1] for at in row])
            batch = torch.from_numpy(windows.astype(np.int64))
            yield batch[:, :-1], batch[:, 1:]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the corpus.")
    parser.add_argument("--dir", default=Path(__file__).resolve().parent / "data")
    parser.add_argument("--max-bytes", type=int, default=8_000_000)
    args = parser.parse_args()
    prepare(args.dir, args.max_bytes)
