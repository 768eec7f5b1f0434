"""Space on the disk is measured as the disk counts it."""

import shutil
import sys
from pathlib import Path

import pytest

from infrarsi.errors import SpaceError
from infrarsi.execute.disk import free_bytes, is_out_of_space, size_of


def test_a_folder_takes_what_its_files_take_and_links_count_as_links(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "a.bin").write_bytes(b"\1" * 100_000)
    (tmp_path / "b.bin").write_bytes(b"\1" * 50_000)
    (tmp_path / "link").symlink_to(tmp_path / "b.bin")
    assert 150_000 <= size_of(tmp_path) <= 200_000
    assert size_of(tmp_path / "gone") == 0


def test_a_folder_that_could_not_be_copied_for_want_of_space_says_so(tmp_path):
    def full(source, target):
        Path("/dev/full").write_text("x")

    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "kernel.so").touch()
    with pytest.raises(shutil.Error) as error:
        shutil.copytree(tmp_path / "cache", tmp_path / "copy", copy_function=full)
    assert error.value.errno is None
    assert SpaceError.explains(error.value)
    assert not SpaceError.explains(FileNotFoundError(2, "gone"))


def test_what_is_free_is_told_of_a_place(tmp_path):
    assert 0 < free_bytes(tmp_path) < sys.maxsize
    # The kernel's own file system counts no blocks: nothing is known of its space.
    assert free_bytes(Path("/proc")) == sys.maxsize


def test_shared_memory_is_no_disk():
    assert is_out_of_space("OSError: [Errno 28] No space left on device: '/data/x'")
    assert not is_out_of_space("unable to open shared memory object </torch_1_2>: [Errno 28]")
    assert not is_out_of_space("all fine")
