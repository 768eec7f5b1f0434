"""Stand-ins for tests: a server on loopback that speaks the APIs of both language model clients.

It needs the standard library alone, and says what it is told to say::

    with LanguageServer([Scripted(text='{"ideas": []}')]) as server:
        ...  # infrarsi run --model stand-in --base-url <server.url>
    assert server.requests[0].body["model"] == "stand-in"
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias


@dataclass(frozen=True)
class Scripted:
    """One reply."""

    text: str = ""
    """What the model says: an object of JSON becomes a tool call where tools are on offer."""
    stop: Literal["end", "length", "refusal"] = "end"
    tokens: tuple[int, int] | None = (1_000, 200)
    """Input and output tokens that the server reports; ``None``: it reports none."""
    status: int = 200
    message: str = "scripted"
    """Of an error."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Sent as it is, in place of what the API would say."""
    delay_s: float = 0.0
    """Silence before the reply."""
    trickle_s: float = 0.0
    """Pause before each byte of the body: never silent, never done."""
    drops: bool = False
    """Whether the connection is closed without a reply."""


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """All text that was sent to the model."""
        system = self.body.get("system", "")
        return "\n".join([system, *(each["content"] for each in self.body["messages"])])


Script: TypeAlias = Sequence[Scripted | Callable[[Request], Scripted]]


class LanguageServer:
    """A language model's server whose replies are scripted; the last one is repeated."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Request] = []
        self._script = list(script)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The address for clients of OpenAI's API."""
        return f"{self.root_url}/v1"

    @property
    def root_url(self) -> str:
        """The address for clients of Anthropic's API, which add the version themselves."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def reply_to(self, request: Request) -> Scripted:
        """Take a request down, and give the next reply of the script."""
        with self._lock:
            number = min(len(self.requests), len(self._script) - 1)
            self.requests.append(request)
        scripted = self._script[number]
        return scripted if isinstance(scripted, Scripted) else scripted(request)

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until the server stops; tell whether it does."""
        return self._stopping.wait(seconds)


def _handler_of(server: LanguageServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers a call, and closes the connection."""

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.path, headers, json.loads(self.rfile.read(length)))
            scripted = server.reply_to(request)
            self.close_connection = True
            if (scripted.delay_s and server.wait(scripted.delay_s)) or scripted.drops:
                return
            body = scripted.body if scripted.body is not None else _body_of(scripted, request)
            with contextlib.suppress(ConnectionError):  # the client did not wait
                self._send(scripted, body)

        def _send(self, scripted: Scripted, body: bytes) -> None:
            self.send_response(scripted.status)
            named = {"content-type": "application/json", "content-length": str(len(body))}
            for name, value in {**named, "connection": "close", **scripted.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if not scripted.trickle_s:
                self.wfile.write(body)
                return
            for place in range(len(body)):
                if server.wait(scripted.trickle_s):
                    return
                self.wfile.write(body[place : place + 1])
                self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _body_of(scripted: Scripted, request: Request) -> bytes:
    """Give the body of a reply as the API of the called path has it."""
    is_anthropic = request.path.endswith("/messages")
    if scripted.status != 200:
        error = {"message": scripted.message, "type": "scripted_error"}
        return _json({"type": "error", "error": error} if is_anthropic else {"error": error})
    return _json(_message(scripted, request) if is_anthropic else _completion(scripted, request))


def _completion(scripted: Scripted, request: Request) -> dict[str, Any]:
    finish = {"end": "stop", "length": "length", "refusal": "stop"}[scripted.stop]
    refused = scripted.stop == "refusal"
    message = {
        "role": "assistant",
        "content": None if refused else scripted.text,
        "refusal": scripted.text if refused else None,
    }
    reply: dict[str, Any] = {
        "id": "chatcmpl-scripted", "object": "chat.completion", "created": 0,
        "model": request.body["model"],
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
    }  # fmt: skip
    if scripted.tokens is not None:
        names = ("prompt_tokens", "completion_tokens")
        usage = dict(zip(names, scripted.tokens, strict=True))
        reply["usage"] = {**usage, "total_tokens": sum(scripted.tokens)}
    return reply


def _message(scripted: Scripted, request: Request) -> dict[str, Any]:
    used = _object_in(scripted.text) if request.body.get("tools") else None
    content: dict[str, Any] = {"type": "text", "text": scripted.text}
    if used is not None:
        name = request.body["tools"][0]["name"]
        content = {"type": "tool_use", "id": "toolu_scripted", "name": name, "input": used}
    ended = "tool_use" if used is not None else "end_turn"
    stop = {"end": ended, "length": "max_tokens", "refusal": "refusal"}[scripted.stop]
    tokens = scripted.tokens or (0, 0)
    return {
        "id": "msg_scripted", "type": "message", "role": "assistant",
        "model": request.body["model"], "content": [content], "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": tokens[0], "output_tokens": tokens[1]},
    }  # fmt: skip


def _object_in(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
