"""Why a program ended before its stop is told in its own most telling words."""

import pytest

from infrarsi.execute.ending import Ending, explain, last_words
from infrarsi.records.trial import Outcome


def ending(log, exit_code=1, **told):
    return Ending(exit_code=exit_code, log=log.encode(), last_update=3, **told)


def test_progress_bars_do_not_hide_the_last_log_line():
    assert last_words("epoch 1:  50%|##   | 5/10\repoch 1: 100%|####| 10/10\nno shards left") == (
        "no shards left"
    )
    after = "Traceback (most recent call last):\nKeyError: 'lm_head'\n100%|####| 10/10 [00:01]\r\n"
    assert last_words(after) == "KeyError: 'lm_head'"


def test_a_launchers_frame_does_not_hide_the_ranks_exception():
    log = (
        "[rank1]: ValueError: vocabulary of 7 is not divisible by 2\n"
        "E1130 api.py:869] failed (exitcode: 1) local_rank: 1 of binary: python\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "============================================================\n"
    )
    assert last_words(log) == "rank 1: ValueError: vocabulary of 7 is not divisible by 2"


def test_a_silent_program_is_said_to_be_one():
    assert last_words("\n \r\n") == "it printed nothing"


def test_exit_0_without_the_final_update_is_a_failure():
    outcome, reason = explain(ending("training done", exit_code=0))
    assert outcome is Outcome.CRASHED
    assert reason == "it ended by itself after update 3, before its hidden stop"


@pytest.mark.parametrize(
    "text",
    ["OSError: [Errno 28] No space left on device: 'ckpt/step_100.pt'",
     "RuntimeError: [enforce fail at inline_container.cc:603] . PytorchStreamWriter failed "
     "writing file data/0: file write failed: No space left on device",
     "OSError: [Errno 122] Disk quota exceeded"],
)  # fmt: skip
def test_a_full_disk_speaks_against_no_candidate(text):
    outcome, reason = explain(ending(f"Traceback ...\n{text}\n"))
    assert outcome is Outcome.HARNESS_ERROR
    assert "a disk was full after update 3" in reason
    assert explain(ending("", fault_text=text, fault_memory="ambiguous"))[0] is outcome


def test_full_shared_memory_is_memory_and_no_disk():
    text = "RuntimeError: unable to write to file </torch_29_31> : No space left on device (28)"
    assert explain(ending(text))[0] is Outcome.AMBIGUOUS_MEMORY


def test_what_the_witness_said_of_memory_counts_over_the_log():
    told = explain(ending("bye", fault_memory="yes", fault_text="OutOfMemoryError: 2 GiB"))
    assert told == (Outcome.OOM, "out of memory after update 3: OutOfMemoryError: 2 GiB")
