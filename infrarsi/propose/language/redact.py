"""Taking secrets out of what is about to leave this machine.

Two kinds of evidence count: the shape of a value (the tokens of well-known services, private
keys, credentials in an address), and the name that a value is given (``password = "..."``).
Code must stay code: ``pad_token = "[PAD]"`` and ``q@k.T`` are no secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

MARK = "<<redacted>>"
"""Stands where a secret stood."""

_BEGIN = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_PRIVATE_KEY = re.compile(
    rf"{_BEGIN}.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)", re.DOTALL
)
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic and those that follow them
    r"|gh[opusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{16,}"
    r"|hf_[A-Za-z0-9]{20,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"  # JSON web token
    r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|nvapi-[A-Za-z0-9_-]{20,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|r8_[A-Za-z0-9]{30,}"
    r")"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+)(?=\S*\d)[A-Za-z0-9._~+/-]{16,}=*")
_ADDRESS = re.compile(r"(?<=://)[^\s/@:'\"<>]*:[^\s/@'\"<>]+(?=@)")
_MAIL = re.compile(
    r"\b[A-Za-z0-9][A-Za-z0-9._%+-]*@(?:[A-Za-z0-9-]+\.)+"
    r"(?:com|org|net|edu|gov|io|ai|dev|co|info|de|fr|uk|ch|nl|cn|jp|in|eu|ca|au)\b(?![\w(.\[])"
)
_PLAIN_NAME = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret(?:[_-]?key)?|credentials?|api[_-]?key|apikey"
    r"|access[_-]?key(?:[_-]?id)?|private[_-]?key|client[_-]?secret|auth[_-]?key)"
)
_VAGUE_NAME = r"(?:token|auth|key)"
"""Such names are given to much that is no secret: the value must look like one too."""
_QUOTED = r"(?P<quote>[\"'])(?P<value>[^\"'\n]+)(?P=quote)"


def _assigned(name: str) -> re.Pattern[str]:
    """Match a quoted value that a name is given on its line: by ``=`` or ``:``."""
    return re.compile(
        rf"(?i)(?P<head>(?<![a-z0-9])[\w.-]*{name}[\"']?\]?(?:[ ]*:[ ]*[a-z_][\w.|\[\] ]*)?"
        r"[ \t]*[=:][ \t]*[rbuf]{0,2})" + _QUOTED
    )


def _passed(name: str) -> re.Pattern[str]:
    """Match a quoted value that is passed right after a name: ``setdefault("API_KEY", "...")``."""
    return re.compile(
        rf"(?i)(?P<head>\([ \t]*[\"'][\w-]*{name}[\"'][ \t]*,[ \t]*[rbuf]{{0,2}})" + _QUOTED
    )


def _configured(name: str) -> re.Pattern[str]:
    """Match an unquoted value on a line of its own, as ``.env``, YAML and INI have it."""
    return re.compile(
        rf"(?im)^(?P<head>[ \t]*(?:export[ \t]+|-[ \t]+)?[\w.-]*{name}[ \t]*[=:][ \t]*)"
        r"(?P<quote>)(?P<value>[^\s\"'#][^\s#]*)"
    )


def _flagged(name: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?i)(?P<head>(?<!\S)--?[\w-]*{name}(?:=|[ \t]+))(?P<quote>[\"']?)(?P<value>[^\s\"']+)"
    )


_NAMED = [
    (make(name), vague)
    for make in (_assigned, _passed)
    for name, vague in ((_PLAIN_NAME, False), (_VAGUE_NAME, True))
]
_LOOSE = [
    (make(name), vague)
    for make in (_configured, _flagged)
    for name, vague in ((_PLAIN_NAME, False), (_VAGUE_NAME, True))
]
_NO_SECRET = re.compile(
    r"(?i)^(?:none|null|true|false|\d{1,6}|x{3,}|\*+|\.{3}|<[^>]*>|\[[^\]]*\]|\$.*|\{.*|%.*"
    r"|your[-_ ].*|change[-_ ]?me|os\.environ.*|getenv.*)$"
)
_SECRET_FILES = re.compile(
    r"(?i)^(?:\.env(?:\..*)?|.*\.env|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.htpasswd|id_[a-z0-9]+"
    r"|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)|credentials(?:\..*)?|secrets?\.[a-z]+)$"
)
_SECRET_VARIABLE = re.compile(r"(?i)(?:key|token|secret|passw(?:or)?d|credentials?)$")


@dataclass(frozen=True)
class Redacted:
    """A text without its secrets, and how many there were."""

    text: str
    count: int


def redact(text: str, *, is_python: bool = False, known: Iterable[str] = ()) -> Redacted:
    """Take secrets out of a text.

    Parameters
    ----------
    text
        What is about to leave.
    is_python
        Whether it is Python, where an unquoted value is an expression and no secret.
    known
        Secrets known by value, wherever they stand.
    """
    count = 0
    for value in sorted(set(known), key=len, reverse=True):
        count += text.count(value)
        text = text.replace(value, MARK)
    for pattern in (_PRIVATE_KEY, _SHAPES, _ADDRESS, _MAIL):
        text, found = pattern.subn(MARK, text)
        count += found
    text, found = _BEARER.subn(rf"\1\2{MARK}", text)
    count += found
    for pattern, vague in [*_NAMED, *([] if is_python else _LOOSE)]:
        text, found = _without_values(pattern, text, vague=vague)
        count += found
    return Redacted(text, count)


def is_secret_file(path: str) -> bool:
    """Tell whether a file's name says that it holds credentials: it is not sent at all."""
    return _SECRET_FILES.match(PurePosixPath(path).name) is not None


def secrets_in(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Give the values of environment variables whose names say that they are secret."""
    return tuple(
        value
        for name, value in environment.items()
        if _SECRET_VARIABLE.search(name) and not _is_common(value)
    )


def _is_common(value: str) -> bool:
    """Tell whether a value may stand in any source by itself: short, or a plain word."""
    plain = value.isalpha() and len(value) < 16
    return len(value) < 8 or plain or _NO_SECRET.match(value) is not None


def _without_values(pattern: re.Pattern[str], text: str, *, vague: bool) -> tuple[str, int]:
    count = 0

    def replaced(found: re.Match[str]) -> str:
        nonlocal count
        value = found["value"]
        if MARK in value or _NO_SECRET.match(value) or (vague and not _looks_random(value)):
            return found[0]
        count += 1
        return f"{found['head']}{found['quote']}{MARK}{found['quote']}"

    return pattern.sub(replaced, text), count


def _looks_random(value: str) -> bool:
    """Tell whether a value is long, of letters and digits mixed, and without blanks."""
    plain = re.fullmatch(r"[A-Za-z0-9_.~+/=-]{16,}", value) is not None
    return plain and bool(re.search(r"\d", value)) and bool(re.search(r"[A-Za-z]", value))
