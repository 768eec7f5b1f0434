"""SSH signatures, made and verified by ``ssh-keygen -Y``, as git does it for commits."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from infrarsi.errors import RejectedError, UsageError
from infrarsi.execute.repository import Repository

_FINGERPRINT = re.compile(r"key (SHA256:\S+)")
_DEADLINE_S = 60
_COLUMNS = 70
_NOISE = ("debug", "Could not verify signature", "Signature verification failed:")


@dataclass(frozen=True)
class Signed:
    """Who made a signature, as the allowed signers say it."""

    principal: str
    fingerprint: str


def signing_key(repository: Repository) -> str | None:
    """Give the key that the user's git signs with, where that is an SSH key."""
    if repository.git("config", "--default", "", "--get", "gpg.format") != "ssh":
        return None
    return repository.git("config", "--default", "", "--get", "user.signingkey") or None


def sign(content: bytes, key: str, *, namespace: str) -> bytes:
    """Sign the bytes.

    Parameters
    ----------
    content
        What the signature covers.
    key
        A private key's file; or a public key's file, or a public key itself, whose private half
        is with an ssh-agent.
    namespace
        What the signature is for.

    Raises
    ------
    UsageError
        The key cannot sign, or there is no ssh-keygen.
    """
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "content"
        place.write_bytes(content)
        file = _key_file(key, Path(scratch))
        done = _ssh_keygen("sign", "-n", namespace, "-f", str(file), str(place), deadline_s=None)
        if done.returncode != 0:
            raise UsageError(
                f"the key {key} cannot sign: {_told(done)}",
                hint="name a private key with `--sign KEY` (or a public one that an ssh-agent "
                "holds the other half of), or promote without a signature with `--unsigned`",
            )
        return place.with_name("content.sig").read_bytes()


def verify(content: bytes, signature: bytes, *, signers: bytes, namespace: str) -> Signed:
    """Tell who signed the bytes, by a file of allowed signers in git's format.

    Raises
    ------
    RejectedError
        The signature is not of these bytes, is for something else, or was made with a key
        that no allowed signer has, or has now.
    UsageError
        There is no ssh-keygen.
    """
    with tempfile.TemporaryDirectory() as scratch:
        places = [Path(scratch) / name for name in ("signature", "signers")]
        for place, written in zip(places, (signature, signers), strict=True):
            place.write_bytes(written)
        sig, allowed = map(str, places)
        alone = _ssh_keygen("check-novalidate", "-n", namespace, "-s", sig, stdin=content)
        found = _FINGERPRINT.search(alone.stdout)
        if alone.returncode != 0 or found is None or not _is_canonical(signature):
            raise RejectedError(
                f"the signature is not one of this statement for {namespace}: {_told(alone)}",
                hint="sign the statement as it stands in the tree; docs/gate.md says how",
            )
        named = _ssh_keygen("find-principals", "-s", sig, "-f", allowed)
        refusals = [_told(named)]
        for principal in named.stdout.splitlines() if named.returncode == 0 else ():
            done = _ssh_keygen(
                "verify", "-f", allowed, "-I", principal, "-n", namespace, "-s", sig, stdin=content
            )
            if done.returncode == 0:
                return Signed(principal, found[1])
            refusals.append(_told(done))
    raise RejectedError(
        f"the signature was made with the key {found[1]}, which no allowed signer may use for "
        f"{namespace} now: {refusals[-1]}",
        hint="have an allowed signer sign it, or name the key on the base branch first",
    )


def _ssh_keygen(
    action: str, *arguments: str, stdin: bytes = b"", deadline_s: float | None = _DEADLINE_S
) -> subprocess.CompletedProcess[str]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UsageError(
            "ssh-keygen is not installed, so that no signature can be made or verified",
            hint="install it (Debian: openssh-client), then repeat",
        )
    done = subprocess.run(
        [program, "-Y", action, *arguments], input=stdin, capture_output=True, check=False,
        timeout=deadline_s,
    )  # fmt: skip
    stdout, stderr = (each.decode(errors="replace") for each in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, stdout, stderr)


def _is_canonical(signature: bytes) -> bool:
    """Tell whether a signature is written as ssh-keygen writes it: one form, no byte to spare."""
    head, foot = b"-----BEGIN SSH SIGNATURE-----\n", b"-----END SSH SIGNATURE-----\n"
    if not (signature.startswith(head) and signature.endswith(foot)):
        return False
    written = signature[len(head) : -len(foot)]
    try:
        blob = base64.b64decode(written.replace(b"\n", b""), validate=True)
    except ValueError:
        return False
    again = base64.b64encode(blob)
    lines = [again[at : at + _COLUMNS] + b"\n" for at in range(0, len(again), _COLUMNS)]
    return written == b"".join(lines)


def _key_file(key: str, scratch: Path) -> Path:
    """Give the file of a key; a key that is given as text is written to one."""
    literal = key.removeprefix("key::")
    if literal != key or key.startswith("ssh-"):
        place = scratch / "key.pub"
        place.write_text(literal + "\n", encoding="utf-8")
        return place
    return Path(key).expanduser()


def _told(done: subprocess.CompletedProcess[str]) -> str:
    """Give ssh-keygen's own reason, without the temporary names in it."""
    if done.returncode == 0:
        return "it is not written as ssh-keygen writes one"
    lines = [re.sub(r"^\S*signers:\d+: ", "", line) for line in done.stderr.splitlines()]
    lines = [line.strip().rstrip(".") for line in lines if line.strip()]
    telling = [line for line in lines if not line.startswith(_NOISE)]
    return (telling or lines or ["no reason given"])[0]
