"""What the witness costs, at two step sizes and in three ways.

*launches*: paired, interleaved launches with and without it; the mean update of each.
*updates*: one launch in which the witness looks at every second pair of updates only, in ABBA
order, with a mark every eighth time: the median log ratio of neighbours, and the mean time within
the witness's own calls (marks included) of an update that it looks at. Launches on a shared machine
differ by more than the witness costs at a long step.

Run it on an idle machine: ``python tests/benches/witness_cost.py``. It prints Markdown. Not
collected by pytest.
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

SIZES = {"small": (96, 4, 4, 64), "large": (384, 8, 4, 128)}
"""Width, layers, rows and length: near 20 ms, and near 300 ms or more, on two CPU cores."""

PROGRAM = """
import json, sys, time, torch
from torch import nn
width, layers, rows, length, warm, timed, alternate = map(int, sys.argv[1:])
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
recorder = None
if alternate:
    import gc
    recorder, = (o for o in gc.get_objects() if type(o).__name__ == "Recorder")
    within, depth = 0.0, 0
    def timed_call(method):
        def call(*args, **kwargs):
            global within, depth
            depth, began = depth + 1, time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                depth -= 1
                within += 0.0 if depth else time.perf_counter() - began
        return call
    for name, method in list(vars(type(recorder)).items()):
        if hasattr(method, "__wrapped__"):  # what hooks call is guarded
            setattr(type(recorder), name, timed_call(method))
took, inside = [], []
for each in range(timed):
    if recorder is not None:
        recorder.off, within = each % 4 in (0, 3), 0.0
    began = time.perf_counter()
    update()
    took.append(time.perf_counter() - began)
    inside.append(within if recorder is not None else None)
print(json.dumps((took, inside)))
"""


def time_updates(size, *, witness, warm, timed, alternate=False):
    """Give the seconds of each timed update of one fresh launch, and those in the witness."""
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        reader = None
        if witness:
            path = str(Path(folder) / "channel.sock")
            marks = [0, warm, warm + timed // 2, warm + timed]
            if alternate:
                marks = [0, *range(warm, warm + timed, 8)]
            settings = {"schema": SCHEMA, "channel": path, "marks": marks, "sketch_seed": 1,
                        "sketch_elements": 64, "perturb": None}  # fmt: skip
            environment[VARIABLE] = json.dumps(settings)
            environment["PYTHONPATH"] = str(ENTRY)
            reader = subprocess.Popen([sys.executable, "-c", SINK, path], stdout=subprocess.PIPE)
            reader.stdout.readline()
        command = [
            sys.executable,
            "-c",
            PROGRAM,
            *map(str, (*SIZES[size], warm, timed, int(alternate))),
        ]
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


def pair_launches(size, *, pairs, warm, timed):
    """Give plain seconds and the log ratio of each pair of launches, the order alternating."""
    plain, ratios = [], []
    for pair in range(pairs):
        order = (False, True) if pair % 4 in (0, 3) else (True, False)
        took = {
            each: statistics.fmean(time_updates(size, witness=each, warm=warm, timed=timed)[0])
            for each in order
        }
        plain.append(took[False])
        ratios.append(math.log(took[True] / took[False]))
    return plain, ratios


def pair_updates(size, *, warm, timed):
    """Give plain seconds, each pair's log ratio, and the seconds in the witness an update."""
    took, inside = time_updates(size, witness=True, warm=warm, timed=timed, alternate=True)
    pairs = list(zip(took[::2], took[1::2], strict=True))
    plain = [pair[number % 2] for number, pair in enumerate(pairs)]
    seen = [pair[1 - number % 2] for number, pair in enumerate(pairs)]
    ratios = [math.log(b / a) for a, b in zip(plain, seen, strict=True)]
    return plain, ratios, 2 * statistics.fmean(inside)


def row(size, how, plain, *, middle, error):
    """Write one line of the table."""
    base = statistics.median(plain)
    sys.stdout.write(f"| {size} | {how} | {1e3 * base:.1f} | {100 * math.expm1(middle):+.2f} | "
                     f"{1e3 * base * math.expm1(middle):+.2f} | {100 * error:.2f} |\n")  # fmt: skip
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--warm", type=int, default=8)
    parser.add_argument("--timed", type=int, default=20)
    parser.add_argument("--alternated", type=int, default=240, help="updates, a multiple of 4")
    asked = parser.parse_args()
    sys.stdout.write("| Step | Paired | Plain, ms | With the witness, per cent | ms an update | "
                     "Standard error, per cent |\n|---|---|---|---|---|---|\n")  # fmt: skip
    for size in SIZES:
        plain, ratios, inside = pair_updates(size, warm=asked.warm, timed=asked.alternated)
        # The standard error of a median, from the middle half: robust against a neighbour's bursts.
        low, _, high = statistics.quantiles(ratios, n=4)
        error = 1.2533 * (high - low) / 1.349 / math.sqrt(len(ratios))
        middle = statistics.median(ratios)
        row(size, f"{len(ratios)} updates", plain, middle=middle, error=error)
        base = statistics.median(plain)
        row(size, "time within it", plain, middle=math.log1p(inside / base), error=0.0)
    for size in SIZES:
        plain, ratios = pair_launches(size, pairs=asked.pairs, warm=asked.warm, timed=asked.timed)
        error = statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.nan
        row(size, f"{len(ratios)} launches", plain, middle=statistics.fmean(ratios), error=error)


if __name__ == "__main__":
    main()
