"""The front door parses, maps errors, and is quick to open."""

import subprocess
import sys
from pathlib import Path

import pytest

from infrarsi.cli import parse_bytes, parse_seconds
from infrarsi.errors import InfraRSIError, UsageError

HEAVY = ("torch", "sklearn", "scipy", "numpy", "lifelines", "openai", "anthropic", "matplotlib",
         "pydantic", "libcst", "git", "pandas")  # fmt: skip


def test_help_loads_nothing_heavy():
    script = (
        "import sys\nfrom typer.testing import CliRunner\nfrom infrarsi.cli import app\n"
        "result = CliRunner().invoke(app, ['--help'])\n"
        "assert result.exit_code == 0, result.output\n"
        "for name in 'init doctor run status report show recheck apply'.split():\n"
        "    assert name in result.output\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()).isdisjoint(HEAVY)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1500MB", 1_500_000_000),
        ("1.5GiB", 1_610_612_736),
        ("7", 7),
        ("2 kb", 2000),
        ("1T", 10**12),
    ],
)
def test_sizes_are_read(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GB", "0", "1.2.3GB", "1PB", "nan"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match="is not a size"):
        parse_bytes(text)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200)])
def test_durations_are_read(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1s", "0", "1d", "1h30m"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError, match="is not a duration"):
        parse_seconds(text)


def test_every_error_has_a_documented_exit_code():
    readme = Path(__file__).parents[2] / "README.md"
    text = readme.read_text(encoding="utf-8")

    def below(kind):
        return [kind, *(each for sub in kind.__subclasses__() for each in below(sub))]

    for kind in below(InfraRSIError):
        assert f"| {kind.exit_code} |" in text, kind
