"""Python's standard library as bytes, cut into blocks of equal length."""

import sys
import sysconfig
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

END_OF_TEXT = 256  # the ids below it are bytes
SKIPPED = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "site-packages", "__pycache__"}


def source_files():
    """The library's own modules, in a fixed order."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).parts
        if parts[0].removesuffix(".py") in sys.stdlib_module_names and not SKIPPED & set(parts):
            found.append(path)
    return sorted(found)


def read_corpus(max_bytes):
    """All documents in one row of ids, each with an end-of-text behind it."""
    documents, total = [], 0
    for path in source_files():
        text = np.frombuffer(path.read_bytes(), dtype=np.uint8).astype(np.int16)
        documents += [text, np.array([END_OF_TEXT], dtype=np.int16)]
        total += len(text) + 1
        if total >= max_bytes:
            break
    return np.concatenate(documents)[:max_bytes]


class Blocks(Dataset):
    """Examples for causal language modelling; the model shifts the labels itself."""

    def __init__(self, ids, block_size):
        whole = len(ids) // block_size * block_size
        self.blocks = torch.from_numpy(ids[:whole].astype(np.int64)).view(-1, block_size)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, index):
        block = self.blocks[index]
        return {"input_ids": block, "labels": block.clone()}
