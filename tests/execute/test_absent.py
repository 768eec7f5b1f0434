"""What a program did not find is read from the end of its output, whoever printed it."""

import pytest

from infrarsi.execute.absent import modules_named, paths_named


@pytest.mark.parametrize(
    ("log", "path"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'prepared/train.bin'",
         "prepared/train.bin"),
        ('OSError: "my data/größe.bin" does not exist', "my data/größe.bin"),
        ("h5py: [Errno 2] Unable to open file (name = 'tokens.h5', errno = 2)", "tokens.h5"),
        ("ValueError: no shards in prepared/tokens", "prepared/tokens"),
        ("datasets: Unable to find /data/corpus/train.jsonl.", "/data/corpus/train.jsonl"),
        ("RuntimeError: Error(s): cannot open ../shared/vocab.txt", "../shared/vocab.txt"),
    ],
)  # fmt: skip
def test_the_path_is_among_those_named(log, path):
    frames = 'Traceback (most recent call last):\n  File "/x/train.py", line 3, in <module>\n'
    assert path in paths_named(frames + log)
    assert "/x/train.py" not in paths_named(frames + log)


def test_the_last_one_comes_first_and_old_output_is_left_alone():
    log = "'old.bin'\n" + "step\n" * 50 + "'a.bin'\n'b.bin'\n"
    assert paths_named(log)[:2] == ("b.bin", "a.bin")
    assert "old.bin" not in paths_named(log)


def test_modules_that_could_not_be_imported_are_named():
    assert modules_named("ModuleNotFoundError: No module named 'model.rope'") == ("model.rope",)
