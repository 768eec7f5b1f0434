"""Signatures are ssh-keygen's own: what it refuses is refused, in its words."""

import subprocess

import pytest

from infrarsi.errors import RejectedError, UsageError
from infrarsi.execute.repository import Repository
from infrarsi.execute.signature import sign, signing_key, verify

HERE = "promotion@example"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ann", "bob"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
        )
    return folder


def line(keys, name, options=""):
    return f"{name}@example.org {options} {(keys / f'{name}.pub').read_text()}".encode()


def test_a_signature_tells_who_signed(keys):
    signature = sign(b"said", str(keys / "ann"), namespace=HERE)
    signers = line(keys, "bob") + line(keys, "ann")
    found = verify(b"said", signature, signers=signers, namespace=HERE)
    assert found.principal == "ann@example.org"
    assert found.fingerprint.startswith("SHA256:")


@pytest.mark.parametrize(
    ("content", "namespace", "options", "words"),
    [
        (b"other", HERE, "", "not one of this statement"),
        (b"said", "git", "", "not one of this statement for git"),
        (b"said", HERE, 'valid-before="20200101"', "expired"),
        (b"said", HERE, 'valid-after="29990101"', "not yet valid"),
        (b"said", HERE, 'namespaces="git"', "namespace"),
    ],
)
def test_what_ssh_keygen_refuses_is_refused(keys, content, namespace, options, words):
    signature = sign(b"said", str(keys / "ann"), namespace=HERE)
    with pytest.raises(RejectedError, match=words):
        verify(content, signature, signers=line(keys, "ann", options), namespace=namespace)


def test_a_key_that_no_signer_has_and_a_signature_that_is_none(keys):
    signature = sign(b"said", str(keys / "ann"), namespace=HERE)
    with pytest.raises(RejectedError, match="no allowed signer"):
        verify(b"said", signature, signers=line(keys, "bob"), namespace=HERE)
    for broken in (
        b"",
        b"no signature",
        signature[:100],
        signature + b"\n",
        signature.replace(b"\n", b"\r\n"),
    ):
        with pytest.raises(RejectedError, match="not one of this statement"):
            verify(b"said", broken, signers=line(keys, "ann"), namespace=HERE)


def test_a_key_that_cannot_sign_is_named(keys, tmp_path):
    with pytest.raises(UsageError, match="cannot sign") as error:
        sign(b"said", str(tmp_path / "none"), namespace=HERE)
    assert "--sign KEY" in error.value.hint


def test_without_ssh_keygen_it_is_said_what_is_missing(keys, monkeypatch, tmp_path):
    signature = sign(b"said", str(keys / "ann"), namespace=HERE)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="ssh-keygen is not installed") as error:
        verify(b"said", signature, signers=line(keys, "ann"), namespace=HERE)
    assert "openssh-client" in error.value.hint


def test_the_key_is_the_one_that_git_signs_with_where_that_is_an_ssh_key(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    repository = Repository(tmp_path)
    assert signing_key(repository) is None
    repository.git("config", "user.signingkey", "~/.ssh/id_ed25519")
    assert signing_key(repository) is None
    repository.git("config", "gpg.format", "ssh")
    assert signing_key(repository) == "~/.ssh/id_ed25519"
