"""The official clients against a server on loopback, whatever that server does."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from infrarsi.errors import UsageError
from infrarsi.propose.language.consultant import Consultant, Patience
from infrarsi.propose.language.endpoint import endpoint_of
from infrarsi.propose.language.prompt import Prompt
from infrarsi.records.plan import Language
from infrarsi.testing import LanguageServer, Scripted

REPLY = json.dumps({"ideas": [], "settings": []})
KEY = "sk-test-0123456789abcdef"
QUICK = Patience(attempts=3, first_pause_s=0.01, longest_pause_s=1.0)
PROVIDERS = pytest.mark.parametrize("provider", ["openai", "anthropic"])


def write(budget):
    return Prompt("be quick", f"{budget} characters", redactions=0, left_out=())


def consultant_for(server, provider, *, timeout_s=20.0, patience=QUICK, key=KEY):
    url = server.url if provider == "openai" else server.root_url
    language = Language(provider=provider, model="stand-in", base_url=url, timeout_s=timeout_s,
                        max_prompt_chars=8_000)  # fmt: skip
    keys = {"OPENAI_API_KEY": key, "ANTHROPIC_API_KEY": key}
    endpoint = endpoint_of(language, keys, typed_url=url)
    return Consultant(endpoint, language, patience=patience)


def asked(script, provider, **options):
    """Ask once; give what came of it, the consultant, and the server."""
    with LanguageServer(script) as server:
        consultant = consultant_for(server, provider, **options)
        return consultant.ask(write, num_trials=0), consultant, server


@PROVIDERS
def test_a_reply_comes_with_its_tokens(provider):
    done, consultant, server = asked([Scripted(REPLY, tokens=(1234, 56))], provider)
    assert done.outcome == "ok"
    assert json.loads(done.answer.text) == json.loads(REPLY)
    assert (done.answer.input_tokens, done.answer.output_tokens) == (1234, 56)
    assert "be quick" in server.requests[0].prompt
    assert "8000 characters" in server.requests[0].prompt
    assert consultant.is_ready(0)


def test_openai_is_given_the_schema():
    _, _, server = asked([Scripted(REPLY)], "openai")
    given = server.requests[0].body["response_format"]
    assert given["type"] == "json_schema"
    assert given["json_schema"]["strict"] is True
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_anthropic_is_given_the_schema_as_a_tool():
    _, _, server = asked([Scripted(REPLY)], "anthropic")
    body = server.requests[0].body
    assert body["tool_choice"] == {"type": "tool", "name": "propose"}
    assert body["tools"][0]["input_schema"]["additionalProperties"] is False
    assert server.requests[0].path == "/v1/messages"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@PROVIDERS
def test_a_server_that_knows_no_schemas_is_asked_in_plain_words(provider):
    refusing = Scripted(status=400, message="response_format or tools are not supported")
    with LanguageServer([refusing, Scripted(f"Well: {REPLY}")]) as server:
        consultant = consultant_for(server, provider)
        done = consultant.ask(write, num_trials=0)
        consultant.ask(write, num_trials=0)
    assert done.outcome == "ok"
    assert REPLY in done.answer.text
    assert len(server.requests) == 3  # the second call asks plainly at once
    for request in server.requests[1:]:
        assert not {"response_format", "tools", "tool_choice"} & set(request.body)


@PROVIDERS
@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_accepted_opens_the_breaker_at_once(provider, status):
    script = [Scripted(status=status, message=f"Incorrect API key provided: {KEY}")]
    done, consultant, server = asked(script, provider)
    assert done.outcome == "unauthorized"
    assert "did not accept the key in" in done.note
    assert "goes on without" in done.note
    assert KEY not in done.note
    assert len(server.requests) == 1
    assert not consultant.is_ready(100)


@PROVIDERS
def test_a_rate_limit_is_waited_for_as_long_as_the_server_asks(provider):
    limit = Scripted(status=429, headers={"retry-after": "0.2"})
    done, consultant, server = asked([limit, limit, Scripted(REPLY)], provider)
    assert done.outcome == "ok"
    assert done.wall_s >= 0.4
    assert done.attempts == len(server.requests) == 3
    assert consultant.is_ready(0)


@PROVIDERS
def test_a_rate_limit_beyond_the_bound_is_not_waited_for(provider):
    limit = Scripted(status=429, headers={"retry-after": "3600"})
    done, consultant, server = asked([limit], provider)
    assert done.outcome == "rate_limited"
    assert len(server.requests) == 1
    assert not consultant.is_open  # one failure alone


def test_a_rate_limit_may_name_a_date():
    limit = Scripted(status=429, headers={"retry-after": "Fri, 31 Dec 2999 23:59:59 GMT"})
    done, _, server = asked([limit], "openai")
    assert done.outcome == "rate_limited"
    assert len(server.requests) == 1


@PROVIDERS
@pytest.mark.parametrize("failure", [Scripted(status=500), Scripted(status=529),
                                     Scripted(drops=True)])  # fmt: skip
def test_a_server_that_fails_is_tried_again_a_bounded_number_of_times(provider, failure):
    done, consultant, server = asked([failure], provider)
    assert done.outcome == "unreachable"
    assert len(server.requests) == 3
    assert not consultant.is_open


@PROVIDERS
def test_a_server_that_recovers_is_heard(provider):
    done, _, _ = asked([Scripted(status=503), Scripted(REPLY)], provider)
    assert done.outcome == "ok"


@PROVIDERS
def test_a_server_that_is_silent_is_given_up_in_time(provider):
    done, _, _ = asked([Scripted(REPLY, delay_s=60.0)], provider, timeout_s=0.7)
    assert done.outcome == "unreachable"
    assert "no reply within" in done.note
    assert done.wall_s < 20


@PROVIDERS
def test_a_server_that_trickles_is_given_up_in_time_too(provider):
    done, _, _ = asked([Scripted(REPLY, trickle_s=0.25)], provider, timeout_s=1.0)
    assert done.outcome == "unreachable"
    assert done.wall_s < 20


@PROVIDERS
def test_a_server_that_is_down_opens_the_breaker_after_two_calls(provider):
    with LanguageServer([Scripted(REPLY)]) as server:
        consultant = consultant_for(server, provider)
    first = consultant.ask(write, num_trials=0)
    assert first.outcome == "unreachable"
    assert "cannot be reached" in first.note
    assert not consultant.is_ready(0)  # not before another trial
    assert consultant.is_ready(1)
    second = consultant.ask(write, num_trials=1)
    assert consultant.is_open
    assert "goes on without the language proposer" in second.note


@PROVIDERS
def test_a_success_in_between_keeps_the_breaker_closed(provider):
    limit = Scripted(status=429, headers={"retry-after": "3600"})
    with LanguageServer([limit, Scripted(REPLY), limit]) as server:
        consultant = consultant_for(server, provider)
        outcomes = [consultant.ask(write, num_trials=n).outcome for n in range(3)]
    assert outcomes == ["rate_limited", "ok", "rate_limited"]
    assert not consultant.is_open


@PROVIDERS
@pytest.mark.parametrize(
    "message", ["This model's maximum context length is 8192 tokens", "prompt is too long: 9 > 8"]
)
def test_a_prompt_that_is_too_long_is_halved_once(provider, message):
    overflow = Scripted(status=400, message=message)
    done, _, server = asked([overflow, Scripted(REPLY)], provider)
    assert done.outcome == "ok"
    shorter = int(server.requests[1].prompt.split()[-2])
    assert shorter <= 4_000


@PROVIDERS
def test_a_prompt_that_is_still_too_long_is_rejected(provider):
    done, consultant, server = asked([Scripted(status=413, message="too large")], provider)
    assert done.outcome == "rejected"
    assert "too long" in done.note
    assert len(server.requests) == 2
    assert consultant.is_open


@PROVIDERS
def test_a_model_that_is_not_there_is_said_and_not_asked_again(provider):
    done, consultant, _ = asked([Scripted(status=404, message="no model stand-in")], provider)
    assert done.outcome == "rejected"
    assert "no model stand-in" in done.note
    assert consultant.is_open


@PROVIDERS
@pytest.mark.parametrize(
    "garbled",
    [
        Scripted(body=b"<html>a proxy's page</html>", headers={"content-type": "text/html"}),
        Scripted(body=b"not json"),
        Scripted(body=b"{}"),
        Scripted(body=b'{"choices": [], "content": null}'),
    ],
)
def test_a_server_that_speaks_another_language_is_rejected(provider, garbled):
    done, consultant, _ = asked([garbled], provider)
    assert done.outcome == "rejected"
    assert done.answer is None
    assert consultant.is_open


@PROVIDERS
def test_a_redirect_is_not_followed(provider):
    with LanguageServer([Scripted(REPLY)]) as other:
        elsewhere = Scripted(status=307, headers={"location": f"{other.url}/chat/completions"})
        done, _, _ = asked([elsewhere], provider)
    assert done.outcome == "rejected"
    assert "redirect" in done.note
    assert other.requests == []


@PROVIDERS
def test_a_call_to_this_machine_takes_no_proxy(provider, monkeypatch):
    with LanguageServer([Scripted(status=502)]) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.root_url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        done, _, _ = asked([Scripted(REPLY)], provider)
    assert done.outcome == "ok"
    assert proxy.requests == []


def test_a_refusal_of_openai_is_told_from_a_reply():
    done, _, _ = asked([Scripted("I can't help with that.", stop="refusal")], "openai")
    assert (done.outcome, done.answer.text) == ("refused", "I can't help with that.")


@PROVIDERS
def test_a_reply_that_was_cut_off_is_marked_so(provider):
    done, _, _ = asked([Scripted(REPLY[:5], stop="length")], provider)
    assert done.answer.stop == "length"


def test_tokens_that_a_server_does_not_report_are_not_zero():
    done, _, _ = asked([Scripted(REPLY, tokens=None)], "openai")
    assert done.answer.input_tokens is None


def test_a_server_on_this_machine_needs_neither_consent_nor_key():
    for url in ("http://127.0.0.1:1/v1", "http://localhost:1/v1", "http://[::1]:1/v1"):
        endpoint = endpoint_of(Language(model="m", base_url=url), {})
        assert endpoint.is_loopback


@pytest.mark.parametrize(
    ("language", "environment", "said", "hint"),
    [
        ({"allow_upload": True}, {"OPENAI_API_KEY": KEY}, "no model is named", "--model"),
        ({"model": "m"}, {"OPENAI_API_KEY": KEY}, "nobody allowed that", "--allow-upload"),
        ({"model": "m", "base_url": "http://10.0.0.9/v1"}, {}, "to 10.0.0.9", "--allow-upload"),
        ({"model": "m", "base_url": "http://127.0.0.1.nip.io/v1"}, {}, "nobody allowed", "--allow"),
        ({"model": "m", "allow_upload": True}, {}, "OPENAI_API_KEY is not set", "environment"),
        ({"model": "m", "allow_upload": True, "provider": "anthropic"}, {"OPENAI_API_KEY": KEY},
         "ANTHROPIC_API_KEY is not set", "environment"),
        ({"model": "m", "allow_upload": True}, {"OPENAI_API_KEY": "a b"}, "not a key", "alone"),
        ({"model": "m", "base_url": "ftp://x"}, {}, "cannot be read", "http://HOST"),
        ({"model": "m", "base_url": "http://u:p@127.0.0.1/v1"}, {}, "holds credentials", "leave"),
        ({"model": "m"}, {"OPENAI_BASE_URL": "http://192.0.2.7/v1"}, "to 192.0.2.7", "--allow"),
        ({"model": "m", "allow_upload": True, "base_url": "https://evil.example/v1"},
         {"OPENAI_API_KEY": KEY}, "named by infrarsi.yaml alone", "--base-url"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_before_anything_is_sent(language, environment, said, hint):
    with pytest.raises(UsageError) as caught:
        endpoint_of(Language(**language), environment)
    assert said in str(caught.value)
    assert hint in caught.value.hint
    assert KEY not in str(caught.value)


def test_a_key_goes_only_where_its_owner_sends_it():
    url = "https://models.example/v1"
    named = Language(model="m", allow_upload=True, base_url=url)
    local = Language(model="m", base_url="http://127.0.0.1:1/v1")
    assert endpoint_of(named, {"OPENAI_API_KEY": KEY}, typed_url=url).key == KEY
    assert endpoint_of(named, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url}).key == KEY
    assert endpoint_of(local, {"OPENAI_API_KEY": KEY}).key != KEY
    assert endpoint_of(local, {"OPENAI_API_KEY": KEY}, typed_url="http://127.0.0.1:1/v1").key == KEY


def test_the_key_stands_in_no_word_about_the_endpoint():
    endpoint = endpoint_of(Language(model="m", allow_upload=True), {"OPENAI_API_KEY": KEY})
    assert KEY not in repr(endpoint)
    assert endpoint.host == "api.openai.com"


def test_the_clients_are_not_loaded_by_the_command_line():
    script = (
        "import sys, infrarsi.stages.run, infrarsi.stages.searching.ask\n"
        "print(*sorted({'openai', 'anthropic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip
    assert done.stdout.strip() == ""


@PROVIDERS
def test_ctrl_c_ends_a_call_at_once(provider):
    script = (
        "import sys\n"
        "from infrarsi.propose.language.clients import send_prompt\n"
        "from infrarsi.propose.language.endpoint import endpoint_of\n"
        "from infrarsi.propose.language.prompt import Prompt\n"
        "from infrarsi.records.plan import Language\n"
        "provider, url = sys.argv[1:]\n"
        "endpoint = endpoint_of(Language(provider=provider, model='m', base_url=url), {})\n"
        "prompt = Prompt('a', 'b', redactions=0, left_out=())\n"
        "try:\n"
        "    send_prompt(endpoint, prompt, form='plain', timeout_s=300, max_output_tokens=9)\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
    )
    with LanguageServer([Scripted(REPLY, delay_s=300.0)]) as server:
        url = server.url if provider == "openai" else server.root_url
        process = subprocess.Popen([sys.executable, "-c", script, provider, url], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        while not server.requests and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said, complaints = process.communicate(timeout=60)
    assert (said.strip(), complaints, process.returncode) == ("stopped", "", 0)
