"""What the witness costs: paired, interleaved launches with and without it, two step sizes.

Run it on an idle machine: ``python tests/benches/witness_cost.py --pairs 6``. It prints
Markdown. Not collected by pytest.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from infrarsi.witness import ENTRY, SCHEMA, VARIABLE

SIZES = {"small": (96, 4, 4, 64), "large": (384, 8, 8, 192)}
"""Width, layers, rows and length: near 20 ms, and near 300 ms or more, on two CPU cores."""

PROGRAM = """
import json, sys, time, torch
from torch import nn
width, layers, rows, length, warm, timed = map(int, sys.argv[1:])
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(512, width), nn.Linear(width, 512)
        block = lambda: nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
        self.blocks = nn.ModuleList(block() for _ in range(layers))
    def forward(self, idx, targets):
        x = self.embed(idx)
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())
torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
def update():
    x, y = torch.randint(0, 512, (2, rows, length))
    model(x, y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
for _ in range(warm):
    update()
began = time.perf_counter()
for _ in range(timed):
    update()
print(json.dumps((time.perf_counter() - began) / timed))
"""


def time_update(size, *, witness, warm, timed):
    """Give the seconds an update of one fresh launch took, over its window."""
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        reader = None
        if witness:
            path = str(Path(folder) / "channel.sock")
            marks = [0, warm, warm + timed // 2, warm + timed]
            settings = {"schema": SCHEMA, "channel": path, "marks": marks, "sketch_seed": 1,
                        "sketch_elements": 64, "perturb": None}  # fmt: skip
            environment[VARIABLE] = json.dumps(settings)
            environment["PYTHONPATH"] = str(ENTRY)
            reader = subprocess.Popen([sys.executable, "-c", SINK, path], stdout=subprocess.PIPE)
            reader.stdout.readline()
        command = [sys.executable, "-c", PROGRAM, *map(str, (*SIZES[size], warm, timed))]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        if reader is not None:
            reader.wait(30)
            reader.stdout.close()
    return json.loads(done.stdout)


SINK = """
import socket, sys
listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]); listener.listen(1)
print(flush=True)
listener.settimeout(120)
with listener.accept()[0] as connection:
    while connection.recv(1 << 16):
        pass
"""


def measure(size, *, pairs, warm, timed):
    """Give plain seconds and the log ratio of each pair, the order alternating ABBA."""
    plain, ratios = [], []
    for pair in range(pairs):
        order = (False, True) if pair % 4 in (0, 3) else (True, False)
        took = {each: time_update(size, witness=each, warm=warm, timed=timed) for each in order}
        plain.append(took[False])
        ratios.append(math.log(took[True] / took[False]))
    return plain, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--warm", type=int, default=10)
    parser.add_argument("--timed", type=int, default=20)
    asked = parser.parse_args()
    write = sys.stdout.write
    write(
        "| Step | Plain, ms | With the witness, per cent | ms an update | Standard error, per cent |\n"
    )
    write("|---|---|---|---|---|\n")
    for size in SIZES:
        plain, ratios = measure(size, pairs=asked.pairs, warm=asked.warm, timed=asked.timed)
        base, mean = statistics.median(plain), statistics.fmean(ratios)
        error = statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.nan
        write(f"| {size} | {1e3 * base:.1f} | {100 * math.expm1(mean):+.2f} | "
              f"{1e3 * base * math.expm1(mean):+.2f} | {100 * error:.2f} |\n")  # fmt: skip
        sys.stdout.flush()


if __name__ == "__main__":
    main()
