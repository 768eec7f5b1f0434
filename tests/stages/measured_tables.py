"""Small made-up tables: a cluster that trains models by a law of its own, written as others write theirs."""

import csv
import itertools

import numpy as np
import yaml

SIDECAR = {
    "table": "cluster.csv",
    "task": ["params_b", "num_gpus"],
    "context": {
        "params_b": "billions", "n_layers": "count", "hidden": "count", "seq_len": "tokens",
        "gpu": "category", "num_gpus": "count", "gpus_per_node": "count",
    },
    "knobs": {
        "tp": {"scale": "log2", "raises_memory": "down"},
        "pp": {"scale": "log2", "raises_memory": "down"},
        "zero_stage": {"scale": "ordinal", "raises_memory": "down"},
        "micro_batch": {"scale": "log2", "raises_memory": "up"},
    },
    "derived": {
        "dp": "num_gpus / (tp * pp)", "grad_accum": "global_batch_samples / (dp * micro_batch)",
    },
    "metric": {"column": "tokens_per_s_per_gpu", "direction": "max", "unit": "tokens/s/GPU"},
    "memory": {"column": "peak_gib", "capacity": "gpu_gib", "unit": "GiB"},
    "status": {"column": "status", "ok": "ok", "oom": "oom"},
}  # fmt: skip
SHAPES = {1.1: (22, 2048), 3.0: (26, 3072), 7.0: (32, 4096)}


def throughput(row):
    """Tokens a second and GPU: not the law that the formulas assume, but of its kind."""
    layers, hidden = row["n_layers"] / row["pp"], row["hidden"]
    tokens = row["micro_batch"] * row["seq_len"]
    arithmetic = 8 * row["params_b"] * 1e9 / (row["tp"] * row["pp"]) * tokens / 150e12
    kernels = layers * (1.5e-3 + 8e-4 * np.log2(row["tp"]))
    talk = 8 * (row["tp"] - 1) / row["tp"] * layers * tokens * hidden * 2
    talk /= 2e11 if row["tp"] <= 8 else 2e10
    step = (
        row["grad_accum"]
        * (arithmetic + kernels + talk)
        * (1 + (row["pp"] - 1) / row["grad_accum"])
    )
    step += 10 * row["params_b"] * 1e9 / (row["tp"] * row["pp"]) * (row["dp"] > 1) / 4e10
    return row["grad_accum"] * tokens / (row["tp"] * row["pp"]) / step


def peak_gib(row):
    params = row["params_b"] * 1e9 / (row["tp"] * row["pp"])
    state = params * (6.5 + 13 / (row["dp"] if row["zero_stage"] else 1))
    kept = min(row["pp"], row["grad_accum"]) * row["n_layers"] / row["pp"]
    activations = kept * row["micro_batch"] * row["seq_len"] * row["hidden"] * (14 + 30 / row["tp"])
    return (state + activations + 2e9) / 2**30


def rows_of(*, gpus=(16,), sizes=(1.1, 7.0), seed=0):
    """Give every possible row of the made-up cluster, with 2 % noise."""
    rng = np.random.default_rng(seed)
    for size, count in itertools.product(sizes, gpus):
        layers, hidden = SHAPES[size]
        for tp, pp, zero, micro in itertools.product((1, 2, 4, 8), (1, 2, 4), (0, 1), (1, 2, 4, 8)):
            dp = count // (tp * pp)
            if dp < 1 or 128 % (dp * micro):
                continue
            row = {
                "params_b": size, "n_layers": layers, "hidden": hidden, "seq_len": 4096,
                "gpu": "A100-80GB", "num_gpus": count, "gpus_per_node": 8, "gpu_gib": 79.2,
                "global_batch_samples": 128, "tp": tp, "pp": pp, "zero_stage": zero,
                "micro_batch": micro, "dp": dp, "grad_accum": 128 // (dp * micro),
            }  # fmt: skip
            peak = peak_gib(row)
            fits = peak < 79.2
            speed = throughput(row) * float(np.exp(rng.normal(0, 0.02)))
            yield {
                **row, "tokens_per_s_per_gpu": f"{speed:.3f}" if fits else "",
                "peak_gib": f"{peak:.3f}" if fits else "", "status": "ok" if fits else "oom",
            }  # fmt: skip


def write_table(folder, rows, sidecar=None):
    """Write a table and its sidecar; give the sidecar's path."""
    folder.mkdir(parents=True, exist_ok=True)
    described = SIDECAR if sidecar is None else sidecar
    rows = list(rows)
    with (folder / described["table"]).open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    place = (folder / described["table"]).with_suffix(".yaml")
    place.write_text(yaml.safe_dump(described, sort_keys=False))
    return place


def changed(**parts):
    """Give the sidecar with some of its parts replaced."""
    return {**SIDECAR, **parts}
