"""The two official clients, each behind one function: a prompt in, a reply or a failure out.

The clients' own retries are off, since pauses and their bounds are decided in one place
(:mod:`infrarsi.propose.language.consultant`). A call to this machine follows no redirect and no
proxy: both would carry source elsewhere.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from infrarsi.propose.language.endpoint import Endpoint
from infrarsi.propose.language.prompt import Prompt
from infrarsi.propose.language.redact import redact
from infrarsi.propose.language.reply import reply_schema

Form: TypeAlias = Literal["structured", "plain"]
"""Whether the server is told the schema of the reply, or the prompt alone says it."""

Failure: TypeAlias = Literal["unreachable", "rate_limited", "unauthorized", "rejected", "overflow"]
_TOOL = "propose"
_OVERFLOW = re.compile(
    r"(?i)context[ _-]?(?:length|window|size)|maximum context|prompt is too long|too many tokens"
    r"|request_too_large|n_ctx|exceeds? the (?:model'?s )?(?:maximum|available|context)"
)
_LONGEST_MESSAGE = 300


@dataclass(frozen=True)
class Answer:
    """What a model replied."""

    text: str
    stop: Literal["end", "length", "refusal"] = "end"
    input_tokens: int | None = None
    output_tokens: int | None = None


class Unanswered(Exception):  # noqa: N818 - an answer of its own kind, not a defect
    """No reply came; ``note`` says why in words that hold no key."""

    def __init__(self, failure: Failure, note: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(note)
        self.failure = failure
        self.note = note
        self.retry_after_s = retry_after_s


def load_client(provider: str) -> None:
    """Import a client, which takes seconds, before any clock of a call runs."""
    importlib.import_module(provider)


def send_prompt(
    endpoint: Endpoint, prompt: Prompt, *, form: Form, timeout_s: float, max_output_tokens: int
) -> Answer:
    """Send a prompt once, and give the reply.

    Raises
    ------
    Unanswered
        There was none, or none within so many seconds.
    """
    ask = _ask_anthropic if endpoint.provider == "anthropic" else _ask_openai
    call = ask(endpoint, prompt, form, timeout_s, max_output_tokens)
    return asyncio.run(_within(call, timeout_s, endpoint))


async def _within(call: Any, timeout_s: float, endpoint: Endpoint) -> Answer:
    """Bound the whole call: the clients bound each read, and a server may trickle."""
    try:
        async with asyncio.timeout(timeout_s):
            answer: Answer = await call
            return answer
    except TimeoutError as error:
        raise _late(endpoint, timeout_s) from error


def _late(endpoint: Endpoint, timeout_s: float) -> Unanswered:
    return Unanswered("unreachable", f"{endpoint.host} gave no reply within {timeout_s:.0f} s")


async def _ask_openai(
    endpoint: Endpoint, prompt: Prompt, form: Form, timeout_s: float, max_output_tokens: int
) -> Answer:
    import openai

    options: dict[str, Any] = {}
    if form == "structured":
        schema = {"name": _TOOL, "strict": True, "schema": reply_schema()}
        options["response_format"] = {"type": "json_schema", "json_schema": schema}
    http = openai.DefaultAsyncHttpxClient(
        follow_redirects=False, trust_env=not endpoint.is_loopback
    )
    try:
        async with openai.AsyncOpenAI(
            api_key=endpoint.key, base_url=endpoint.url, max_retries=0, timeout=timeout_s,
            http_client=http,
        ) as client:  # fmt: skip
            reply = await client.chat.completions.create(
                model=endpoint.model,
                messages=[
                    {"role": "system", "content": prompt.system},
                    {"role": "user", "content": prompt.user},
                ],
                **options,
            )
    except openai.APITimeoutError as error:
        raise _late(endpoint, timeout_s) from error
    except openai.APIStatusError as error:
        raise _by_status(error.status_code, str(error), error.response.headers, endpoint) from error
    except openai.APIConnectionError as error:
        raise _not_connected(error, endpoint) from error
    except (openai.OpenAIError, ValueError) as error:
        raise _garbled(error, endpoint) from error
    return _openai_answer(reply, endpoint)


def _openai_answer(reply: Any, endpoint: Endpoint) -> Answer:
    choices: Any = getattr(reply, "choices", None)
    message: Any = getattr(choices[0], "message", None) if choices else None
    if message is None:
        raise _garbled(None, endpoint)
    finish = getattr(choices[0], "finish_reason", None)
    refusal = getattr(message, "refusal", None)
    usage = getattr(reply, "usage", None)
    text = _joined(getattr(message, "content", None))
    stop: Literal["end", "length", "refusal"] = "length" if finish == "length" else "end"
    if (refusal and not text) or finish == "content_filter":
        text, stop = text or str(refusal or ""), "refusal"
    return Answer(
        text=text, stop=stop, input_tokens=_whole(getattr(usage, "prompt_tokens", None)),
        output_tokens=_whole(getattr(usage, "completion_tokens", None)),
    )  # fmt: skip


async def _ask_anthropic(
    endpoint: Endpoint, prompt: Prompt, form: Form, timeout_s: float, max_output_tokens: int
) -> Answer:
    import anthropic

    options: dict[str, Any] = {}
    if form == "structured":
        described = "Give the ideas and settings that you propose."
        tool = {"name": _TOOL, "description": described, "input_schema": reply_schema()}
        options = {"tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}
    http = anthropic.DefaultAsyncHttpxClient(
        follow_redirects=False, trust_env=not endpoint.is_loopback
    )
    try:
        async with anthropic.AsyncAnthropic(
            api_key=endpoint.key, base_url=endpoint.url, max_retries=0, timeout=timeout_s,
            http_client=http,
        ) as client:  # fmt: skip
            reply = await client.messages.create(
                model=endpoint.model, max_tokens=max_output_tokens, system=prompt.system,
                messages=[{"role": "user", "content": prompt.user}], **options,
            )  # fmt: skip
    except anthropic.APITimeoutError as error:
        raise _late(endpoint, timeout_s) from error
    except anthropic.APIStatusError as error:
        raise _by_status(error.status_code, str(error), error.response.headers, endpoint) from error
    except anthropic.APIConnectionError as error:
        raise _not_connected(error, endpoint) from error
    except (anthropic.AnthropicError, ValueError) as error:
        raise _garbled(error, endpoint) from error
    return _anthropic_answer(reply, endpoint)


def _anthropic_answer(reply: Any, endpoint: Endpoint) -> Answer:
    blocks = getattr(reply, "content", None)
    if not isinstance(blocks, list):
        raise _garbled(None, endpoint)
    used = [getattr(each, "input", None) for each in blocks if each.type == "tool_use"]
    said = [str(getattr(each, "text", "")) for each in blocks if each.type == "text"]
    text = json.dumps(used[0]) if used and used[0] is not None else "".join(said)
    usage = getattr(reply, "usage", None)
    match getattr(reply, "stop_reason", None):
        case "max_tokens" | "model_context_window_exceeded":
            stop: Literal["end", "length", "refusal"] = "length"
        case "refusal":
            stop = "refusal"
        case _:
            stop = "end"
    cached = [
        _whole(getattr(usage, name, None)) or 0
        for name in ("cache_creation_input_tokens", "cache_read_input_tokens")
    ]
    fresh = _whole(getattr(usage, "input_tokens", None))
    return Answer(
        text=text, stop=stop, input_tokens=None if fresh is None else fresh + sum(cached),
        output_tokens=_whole(getattr(usage, "output_tokens", None)),
    )  # fmt: skip


def _joined(content: Any) -> str:
    """Give a message's text; some servers give it in parts."""
    if isinstance(content, list):
        parts = [each.get("text") if isinstance(each, dict) else str(each) for each in content]
        return "".join(part for part in parts if part)
    return content if isinstance(content, str) else ""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _by_status(
    status: int, message: str, headers: Mapping[str, str], endpoint: Endpoint
) -> Unanswered:
    """Give the failure that an HTTP status means."""
    said = _cleaned(message, endpoint)
    host = endpoint.host
    if status in {401, 403}:
        words = f"{host} did not accept the key in {endpoint.key_variable} (status {status})"
        return Unanswered("unauthorized", words)
    if status == 429:
        wait = _retry_after(headers)
        return Unanswered(
            "rate_limited", f"{host} limits the rate of calls (429)", retry_after_s=wait
        )
    if status == 413 or (status < 500 and _OVERFLOW.search(message)):
        return Unanswered("overflow", f"the prompt is too long for {endpoint.model}: {said}")
    if status >= 500 or status in {408, 409, 425}:
        return Unanswered(
            "unreachable", f"{host} failed (status {status})", retry_after_s=_retry_after(headers)
        )
    if 300 <= status < 400:
        words = f"{host} answers with a redirect ({status}), which is not followed"
        return Unanswered("rejected", words)
    doubt = "; is the address whole, and the model's name right?" if status == 404 else ""
    words = f"{host} did not accept the call (status {status}): {said}{doubt}"
    return Unanswered("rejected", words)


def _not_connected(error: Exception, endpoint: Endpoint) -> Unanswered:
    cause = error.__cause__ or error
    said = _cleaned(f"{type(cause).__name__}: {cause}".rstrip(": "), endpoint)
    return Unanswered("unreachable", f"{endpoint.host} cannot be reached ({said})")


def _garbled(error: Exception | None, endpoint: Endpoint) -> Unanswered:
    said = f" ({_cleaned(str(error), endpoint)})" if error else ""
    words = f"{endpoint.host} answered, but not as the API of {endpoint.provider} does{said}"
    return Unanswered("rejected", words)


def _cleaned(text: str, endpoint: Endpoint) -> str:
    """Give a server's words without the key, other secrets, or signs that steer a terminal."""
    words = redact(text, known=(endpoint.key,)).text
    words = " ".join("".join(each if each.isprintable() else " " for each in words).split())
    return words[:_LONGEST_MESSAGE]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Read how long a server wants to be left alone: seconds, or a date."""
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    given = headers.get("retry-after")
    if given is None:
        return None
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(given)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
