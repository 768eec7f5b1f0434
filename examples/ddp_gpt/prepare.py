"""Write the training corpus: the source of Python's own standard library, byte by byte.

    python prepare.py            # writes corpus/train.bin and corpus/valid.bin

The first 95 % of the bytes are for training, the rest for validation. Nothing is downloaded.
"""

import argparse
import sys
import sysconfig
from pathlib import Path

import numpy as np

CORPUS = Path(__file__).resolve().parent / "corpus"


def modules(root):
    """Top-level modules and packages of the standard library, without its tests."""
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        top = parts[0].removesuffix(".py")
        if top in sys.stdlib_module_names and not {"test", "tests", "idlelib"} & set(parts):
            yield path


def prepare(folder=CORPUS, max_bytes=8_000_000):
    root = Path(sysconfig.get_paths()["stdlib"])
    text = b"\n".join(path.read_bytes() for path in modules(root))[:max_bytes]
    data = np.frombuffer(text, dtype=np.uint8)
    split = len(data) * 95 // 100
    folder.mkdir(parents=True, exist_ok=True)
    data[:split].tofile(folder / "train.bin")
    data[split:].tofile(folder / "valid.bin")
    print(f"{split:,} bytes to train on, {len(data) - split:,} to validate on, in {folder}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--max-bytes", type=int, default=8_000_000)
    options = parser.parse_args()
    prepare(options.corpus, options.max_bytes)
