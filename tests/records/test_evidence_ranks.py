"""What several ranks said becomes one piece of evidence."""

import base64
import json
import struct

import pytest

from infrarsi.records.evidence import is_echo, read_evidence


def mark(rank, t_ns, *, dtype="float32", values=(1.0, 2.0), flags=None, peak=100):
    return (
        t_ns,
        {
            "kind": "mark", "rank": rank, "update": 2, "counts": [2], "shapes": [[2]],
            "sketch": base64.b64encode(struct.pack("<2f", *values)).decode(),
            "census": {"parameters": {"float32": 2}, "matmul": {dtype: 4}},
            "flags": {"float32_matmul_precision": "highest", **(flags or {})},
            "memory": {"max_allocated": peak},
        },
    )  # fmt: skip


def hello(rank, world_size=2):
    return 1, {"kind": "hello", "rank": rank, "world_size": world_size}


def updates(rank, count, *, tokens=8, start=10):
    rows = []
    for k in range(1, count + 1):
        t_ns = start + 10 * k + rank
        rows.append((t_ns, {"kind": "update", "rank": rank, "update": k}))
        values = {"kind": "values", "rank": rank, "update": k, "tokens": tokens, "forwards": 1}
        rows.append((t_ns + 1, values))
    return rows


def fault(rank, type, message):
    return 99, {
        "kind": "fault", "rank": rank, "type": type, "message": message, "phase": "between",
    }  # fmt: skip


def read(*stamped):
    return read_evidence(json.dumps({"t_ns": t, "event": event}) for t, event in stamped)


def test_every_rank_is_counted_also_one_that_made_no_update():
    evidence = read(hello(0), hello(1), *updates(0, 3))
    assert evidence.world_size == 2
    assert evidence.greeted == (0, 1)
    assert evidence.missing_ranks == ()
    assert {rank: len(rows) for rank, rows in evidence.ranks.items()} == {0: 3, 1: 0}


def test_a_rank_that_never_spoke_is_missing():
    evidence = read(hello(0, 4), hello(2, 4), *updates(0, 1), *updates(2, 1))
    assert evidence.missing_ranks == (1, 3)


def test_tokens_are_those_of_all_ranks():
    evidence = read(hello(0), hello(1), *updates(0, 2, tokens=8), *updates(1, 2, tokens=6))
    assert evidence.tokens_per_update == 14
    assert read(hello(0, 1), *updates(0, 2)).tokens_per_update == 8
    assert read(hello(0), hello(1), *updates(0, 2)).tokens_per_update is None


def test_a_mark_holds_rank_0s_sketch_and_everybodys_precision():
    flags = {"float32_matmul_precision": "medium", "precision_calls": "set_x(medium)"}
    evidence = read(
        hello(0), hello(1), mark(0, 50, flags={"precision_calls": "set_y(high)"}),
        mark(1, 70, dtype="bfloat16", values=(3.0, 4.0), flags=flags, peak=300),
    )  # fmt: skip
    (seen,) = evidence.marks
    assert seen.t_ns == 70
    assert seen.sketch == ((1.0, 2.0),)
    assert seen.census == {"parameters": {"float32": 4}, "matmul": {"float32": 4, "bfloat16": 4}}
    assert seen.flags["float32_matmul_precision"] == "highest"
    assert seen.flags["float32_matmul_precision (rank 1)"] == "medium"
    assert seen.flags["precision_calls"] == "set_y(high); set_x(medium)"
    assert seen.memory == {"max_allocated": 300}


def test_a_mark_that_rank_0_did_not_reach_is_none():
    assert read(hello(0), hello(1), mark(1, 70)).marks == ()


def test_the_fault_is_the_first_that_is_no_echo():
    echo = fault(0, "RuntimeError", "Connection closed by peer [127.0.0.1]:50001")
    assert read(echo, fault(1, "KeyError", "'x'")).fault.type == "KeyError"
    assert read(fault(1, "KeyError", "'x'"), fault(0, "ValueError", "")).fault.rank == 1
    assert read(echo).fault.is_echo


@pytest.mark.parametrize(
    ("text", "echo"),
    [
        ("RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:547] Connection closed by peer", True),
        ("RuntimeError: Timed out waiting 1800000ms for recv operation to complete", True),
        ("DistBackendError: NCCL error: remote process exited or there was a network error", True),
        ("DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed", True),
        ("ValueError: bad batch", False),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", False),
        ("DistBackendError: NCCL error: unhandled cuda error, out of memory", False),
    ],
)
def test_words_about_another_ranks_end_are_an_echo(text, echo):
    assert is_echo(text) is echo
