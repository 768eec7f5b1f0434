"""Where the ranks of a launch meet: on this machine, at a port of the launch's own.

A contained trial has a network of its own, so that its ports cannot be taken. An uncontained one
shares them with whatever else runs here, also with what is left of the trial before.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping, Sequence

from infrarsi.records.launcher import Command, read_command

LOOPBACK = "127.0.0.1"
_ENDPOINT = "--rdzv_endpoint"
_ASSIGNED = re.compile(r"(MASTER_ADDR|MASTER_PORT|MAIN_PROCESS_PORT)=(.*)")
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def free_port() -> int:
    """Give a TCP port that nothing listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def with_own_meeting_place(argv: Sequence[str], *, port: int | None) -> list[str]:
    """Have the ranks of a launch meet on this machine, at a port of their own.

    Parameters
    ----------
    argv
        The launch; one without a launcher is left as it is, but for ``MASTER_PORT=...``.
    port
        The port; ``None`` leaves the ports that the command names.
    """
    command = read_command(argv)
    words = [_reassigned(each, port) for each in argv[: command.program or 0]]
    words += argv[command.program or 0 :]
    if command.launcher is None or command.options is None or command.num_machines > 1:
        return words
    start, end = command.options, command.script if command.script is not None else len(words)
    options = words[start:end]
    launcher = command.launcher
    _replace(options, launcher.address, lambda _: LOOPBACK)
    _replace(options, _ENDPOINT, lambda said: _endpoint(said, port))
    if port is not None:
        named = _replace(options, launcher.port, lambda _: str(port))
        if not named and _needs_port(command):
            options = [launcher.port, str(port), *options]
    return [*words[:start], *options, *words[end:]]


def meeting_environment(source: Mapping[str, str], *, port: int | None) -> dict[str, str]:
    """Give the variables that say where ranks meet, where the user's environment says it too."""
    found = {}
    if "MASTER_ADDR" in source:
        found["MASTER_ADDR"] = LOOPBACK
    if "MASTER_PORT" in source:
        found["MASTER_PORT"] = str(port) if port is not None else source["MASTER_PORT"]
    return found


def loopback_environment() -> dict[str, str]:
    """Give the variables that have ranks talk over loopback: contained ones have nothing else."""
    return dict.fromkeys(_INTERFACES, "lo")


def _needs_port(command: Command) -> bool:
    """Tell whether a launcher would meet at its default port."""
    own = command.words[command.options : command.script]
    names = {each.partition("=")[0].replace("-", "_") for each in own}
    return not names & {"__standalone", "__rdzv_endpoint"}


def _endpoint(said: str, port: int | None) -> str:
    host, colon, named = said.rpartition(":")
    if not colon:
        host, named = said, ""
    if host in {"", "localhost", LOOPBACK, "[::1]"} and named in {"", "0"}:
        return said
    return f"{LOOPBACK}:{port if port is not None and named != '0' else named or 0}"


def _reassigned(word: str, port: int | None) -> str:
    match = _ASSIGNED.fullmatch(word)
    if match is None:
        return word
    name, value = match.groups()
    if name == "MASTER_ADDR":
        return f"{name}={LOOPBACK}"
    return f"{name}={value if port is None else port}"


def _replace(options: list[str], option: str, change: Callable[[str], str]) -> bool:
    """Change an option's value in its own spelling; tell whether it was there."""
    found = False
    for index, word in enumerate(options):
        name, equals, value = word.partition("=")
        if not name.startswith("--") or "--" + name[2:].replace("-", "_") != option:
            continue
        if equals:
            options[index], found = f"{name}={change(value)}", True
        elif index + 1 < len(options):
            options[index + 1], found = change(options[index + 1]), True
    return found
