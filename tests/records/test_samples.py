"""Sampled elements stay what they were sent as, and act as tuples of numbers."""

import base64
import json
import struct

import pytest
from pydantic import ValidationError

from infrarsi.records.evidence import read_evidence
from infrarsi.records.samples import Samples
from infrarsi.records.seen import MarkSeen


def mark_line(values, counts):
    packed = struct.pack(f"<{len(values)}f", *values)
    event = {"kind": "mark", "rank": 0, "update": 0, "shapes": [[n] for n in counts],
             "counts": counts, "sketch": base64.b64encode(packed).decode(), "census": {}}  # fmt: skip
    return json.dumps({"t_ns": 5, "event": event})


def test_they_are_the_tuples_that_were_sent():
    (mark,) = read_evidence([mark_line([1.0, 2.5, -3.0], [2, 1])]).marks
    assert mark.sketch == ((1.0, 2.5), (-3.0,))
    assert list(mark.sketch) == [(1.0, 2.5), (-3.0,)]
    assert mark.sketch[1] == (-3.0,)
    assert mark.sketch[:1] == ((1.0, 2.5),)
    assert len(mark.sketch) == 2


def test_what_is_not_finite_reads_nought_and_the_rest_stays():
    (mark,) = read_evidence([mark_line([1.0, float("nan"), float("-inf"), 4.0], [4])]).marks
    assert mark.sketch == ((1.0, 0.0, 0.0, 4.0),)


@pytest.mark.parametrize("counts", [[2], [4], [-1, 4], [float("inf")]])
def test_a_sketch_that_does_not_match_its_counts_is_malformed(counts):
    evidence = read_evidence([mark_line([1.0, 2.0, 3.0], counts)])
    assert evidence.malformed == 1
    assert evidence.marks == ()


def test_a_record_that_holds_them_is_written_and_read_back():
    mark = MarkSeen(update=1, t_ns=2, sketch=((1.5, 2.0), (), (3.0,)))
    assert MarkSeen.from_bytes(mark.to_bytes()) == mark
    assert json.loads(mark.to_bytes())["sketch"] == [[1.5, 2.0], [], [3.0]]
    assert not MarkSeen(update=1, t_ns=2).sketch


@pytest.mark.parametrize("parts", [((float("nan"),),), (("x",),), (1.0,), None])
def test_what_is_no_finite_number_is_refused(parts):
    with pytest.raises(ValidationError):
        MarkSeen(update=1, t_ns=2, sketch=parts)


def test_samples_of_two_sources_are_compared_by_their_numbers():
    sent = Samples.from_float32(struct.pack("<2f", 0.5, 2.0), [1, 1])
    assert sent == Samples.of([(0.5,), (2.0,)])
    assert sent != Samples.of([(0.5, 2.0)])
    assert hash(sent) == hash(Samples.of([(0.5,), (2.0,)]))
