"""A parent for the witness's events: a socket that stamps nothing and keeps every line."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from infrarsi.records.evidence import Evidence, read_evidence
from infrarsi.witness import ENTRY, SCHEMA, VARIABLE

PROGRAMS = Path(__file__).parent / "programs"

pytest.importorskip("torch")
sys.path.insert(0, str(ENTRY))


class Parent:
    """Listens on a socket, and keeps the lines of every child that connects."""

    def __init__(self, folder):
        self.path = str(Path(folder) / "channel.sock")
        self.lines = []
        self.readers = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(16)
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            reader = threading.Thread(target=self._read, args=(connection,), daemon=True)
            self.readers.append(reader)
            reader.start()

    def _read(self, connection):
        with connection, connection.makefile("rb") as incoming:
            self.lines.extend(incoming)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)
        for reader in self.readers:
            reader.join(10)


@dataclass
class Launch:
    """What one child did and said."""

    code: int
    stdout: str
    stderr: str
    events: list[dict] = field(default_factory=list)

    @property
    def evidence(self) -> Evidence:
        return read_evidence(
            json.dumps({"t_ns": i, "event": each}) for i, each in enumerate(self.events)
        )

    def kinds(self, kind):
        return [each for each in self.events if each["kind"] == kind]


class Nursery:
    """A process that has imported torch, and forks a child for each program asked of it."""

    def __init__(self, *, witness):
        self.folder = tempfile.mkdtemp(prefix="witness-")
        self.parent = Parent(self.folder)
        environment = make_environment(self.parent.path, witness=witness)
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "nursery.py")], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, command):
        files = {name: f"{self.folder}/{name}" for name in ("stdout", "stderr")}
        already = len(self.parent.readers)
        asked = {"command": command, "environment": {}, **files}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        child, code = json.loads(self.process.stdout.readline())
        for reader in self.parent.readers[already:]:
            reader.join(30)
        events = [json.loads(line) for line in self.parent.lines]
        said = [Path(files[name]).read_text() for name in ("stdout", "stderr")]
        return Launch(code, *said, [each for each in events if each["pid"] == child])

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        self.parent.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def make_environment(channel, *, witness, path=(), **asked):
    settings = {"schema": SCHEMA, "channel": channel, "marks": [0, 2, 3], "sketch_seed": 11,
                "sketch_elements": 8, "perturb": None, **asked}  # fmt: skip
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    environment.pop("PYTHONPATH", None)
    places = [str(each) for each in path]
    if witness:
        environment[VARIABLE] = json.dumps(settings)
        places.insert(0, str(ENTRY))
    if places:
        environment["PYTHONPATH"] = os.pathsep.join(places)
    return environment


class Launcher:
    """Starts children, with or without the witness, and remembers those it has started."""

    def __init__(self):
        self.seen = {}
        self.nurseries = {}

    def __call__(self, command, *, witness=True, path=(), folder=None, **asked):
        place = tempfile.mkdtemp(prefix="witness-")
        parent = Parent(place)
        channel = {"channel": parent.path, **asked}
        try:
            done = subprocess.run(
                command, env=make_environment(witness=witness, path=path, **channel),
                cwd=folder, capture_output=True, text=True, timeout=240, check=False,
            )  # fmt: skip
        finally:
            parent.close()
            shutil.rmtree(place, ignore_errors=True)
        events = [json.loads(line) for line in parent.lines]
        return Launch(done.returncode, done.stdout, done.stderr, events)

    def program(self, name, *arguments, witness=True):
        """Run one of the programs in a fork of a process that has torch already."""
        key = (name, *arguments, witness)
        if key not in self.seen:
            if witness not in self.nurseries:
                self.nurseries[witness] = Nursery(witness=witness)
            command = [str(PROGRAMS / name), *arguments]
            self.seen[key] = self.nurseries[witness].run(command)
        return self.seen[key]

    def loop(self, options=None, *, witness=True):
        """Run the small loop, its options in JSON."""
        return self.program("loop.py", json.dumps(options or {}), witness=witness)

    def fresh_loop(self, options=None, **asked):
        """Run the small loop in a new interpreter."""
        command = [sys.executable, str(PROGRAMS / "loop.py"), json.dumps(options or {})]
        return self(command, **asked)

    def close(self):
        for nursery in self.nurseries.values():
            nursery.close()


@pytest.fixture(scope="session")
def launch():
    launcher = Launcher()
    yield launcher
    launcher.close()
