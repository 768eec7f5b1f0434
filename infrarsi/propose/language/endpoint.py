"""Where a prompt goes, with which key, and whether it may go there at all."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from infrarsi.errors import UsageError
from infrarsi.records.plan import Language

KEY_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_ADDRESS_VARIABLES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
_ADDRESSES = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_NO_KEY = "not-needed"
"""What is sent in place of a key to a server on this machine; both clients insist on one."""


@dataclass(frozen=True)
class Endpoint:
    """A server that may be asked."""

    provider: str
    model: str
    url: str
    host: str
    is_loopback: bool
    key: str = field(repr=False)
    """Never recorded, never printed."""

    @property
    def key_variable(self) -> str:
        """The environment variable that the key comes from."""
        return KEY_VARIABLES[self.provider]


def endpoint_of(
    language: Language, environment: Mapping[str, str], *, typed_url: str | None = None
) -> Endpoint:
    """Give the server that a plan names, if source may be sent there and a key is at hand.

    The address is the one that was typed, else the plan's, else the one in ``OPENAI_BASE_URL`` or
    ``ANTHROPIC_BASE_URL``, else the provider's own. A server on this machine needs neither consent
    nor a key. An address that stands in the plan alone is never sent a key: a plan comes along
    with a repository, whoever wrote it.

    Raises
    ------
    UsageError
        No model is named; the address cannot be used; consent or the key is missing.
    """
    if not language.model:
        raise UsageError(
            "no model is named for the language proposer",
            hint="name one with --model, or as plan.language.model in infrarsi.yaml",
        )
    address_variable = _ADDRESS_VARIABLES[language.provider]
    official = _ADDRESSES[language.provider]
    own = environment.get(address_variable)
    url = (typed_url or language.base_url or own or official).strip()
    parts = _parts_of(url)
    host = parts.hostname or ""
    local = _is_loopback(host)
    is_official = (parts.scheme, host) == ("https", urlsplit(official).hostname)
    gets_key = is_official or url in {typed_url, own}
    if not local and not language.allow_upload:
        raise UsageError(
            f"the language proposer would send source files to {host}, and nobody allowed that",
            hint="allow it with --allow-upload, or name a server on this machine, such as "
            "--base-url http://127.0.0.1:8000/v1",
        )
    if not local and not gets_key:
        raise UsageError(
            f"{host} is named by infrarsi.yaml alone, and your key goes only where you name it",
            hint=f"repeat the address as --base-url, or set {address_variable}",
        )
    variable = KEY_VARIABLES[language.provider]
    key = environment.get(variable, "").strip() if gets_key else ""
    if not key and not local:
        raise UsageError(
            f"the language proposer needs a key for {host}, and {variable} is not set",
            hint=f"set {variable} in the environment (to anything, where the server asks for no "
            "key); a key is read from nowhere else",
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"what stands in {variable} is not a key: it holds a blank or a sign beyond ASCII",
            hint=f"set {variable} to the key alone",
        )
    return Endpoint(
        provider=language.provider, model=language.model, url=url, host=host,
        is_loopback=local, key=key or _NO_KEY,
    )  # fmt: skip


def _parts_of(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(
            "the address of the language proposer's server cannot be read",
            hint="write --base-url as http://HOST:PORT/v1",
        )
    if parts.username or parts.password:
        raise UsageError(
            "the address of the language proposer's server holds credentials",
            hint="leave them out of --base-url; a key is read from the environment only",
        )
    return parts


def _is_loopback(host: str) -> bool:
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
