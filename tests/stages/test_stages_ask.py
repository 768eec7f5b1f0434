"""What a model says, through the real clients, ends as patches or as reasons in the ledger."""

import json
import subprocess

import pytest

from infrarsi.errors import UsageError
from infrarsi.propose.language.consultant import Consultant, Patience
from infrarsi.propose.language.endpoint import endpoint_of
from infrarsi.records.candidate import Candidate, Edit, Patch
from infrarsi.records.plan import Contract, Language, Lock, Plan
from infrarsi.records.task import Flag, Knob, Memory, Surface, Task
from infrarsi.stages.history import History
from infrarsi.stages.searching.ask import ask, open_consultant
from infrarsi.stages.workspace import read_workspace
from infrarsi.store.contract import write_contract
from infrarsi.store.ledger import open_ledger
from infrarsi.testing import LanguageServer, Scripted

TRAIN = "import loss\n\nprint('a')\nprint('a')\nfor step in range(3):\n    loss.step()\n"
KNOBS = (Knob(name="fused", reach=Flag(flag="--fused", style="presence"), values=(False, True),
              default=False),)  # fmt: skip
GOOD = {
    "name": "longer steps", "summary": "Counts further.", "time_ratio": 0.7,
    "edits": [{"path": "train.py", "search": "range(3)", "replace": "range(4)"}],
}  # fmt: skip
PROVIDERS = pytest.mark.parametrize("provider", ["openai", "anthropic"])


@pytest.fixture
def root(tmp_path):
    """A locked repository with a protected file, a link, and a secret."""
    root = tmp_path / "repository"
    (root / "data").mkdir(parents=True)
    (root / "train.py").write_text(TRAIN)
    (root / "dos.py").write_bytes(b"x = 1\r\ny = 2\r\n")
    (root / "loss.py").write_text("def step():\n    pass\n")
    (root / "login.py").write_text('password = "hunter2"\n')
    (root / "outside.py").symlink_to("/etc/hostname")
    (root / "linked").symlink_to("data")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *command], cwd=root,
                       check=True)  # fmt: skip
    return root


@pytest.fixture
def locked(root):
    """Give a workspace under a plan that asks the model at an address, and no trial yet."""

    def lock(provider, url, **changed):
        language = Language(provider=provider, model="stand-in", base_url=url, timeout_s=20.0,
                            usd_per_million_input_tokens=2.0, usd_per_million_output_tokens=10.0,
                            **changed)  # fmt: skip
        task = Task(
            command=("python", "train.py"), memory=Memory(capacity_bytes=2**30),
            surface=Surface(editable=("**/*.py",), protected=("loss.py",), knobs=KNOBS),
        )  # fmt: skip
        plan = Plan(proposers=("patchbook", "language", "sweep"), language=language)
        contract = Contract(name="world", task=task, plan=plan)
        write_contract(root / "infrarsi.yaml", contract)
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, check=True, text=True,
                                capture_output=True).stdout.strip()  # fmt: skip
        held = Lock(name="world", task_digest=task.digest(), commit=commit, protected={}, inputs={})
        with open_ledger(root / ".infrarsi", command="test") as ledger:
            ledger.append("locked", held.model_dump(mode="json"))
            patch = Patch(name="known", proposer="patchbook", summary="known",
                          edits=(Edit(path="train.py", search="import loss", replace="import loss  # k"),))  # fmt: skip
            ledger.append("proposed", {"patches": [patch.model_dump(mode="json")], "declined": [],
                                       "incompatible": []})  # fmt: skip
        return read_workspace(root)

    return lock


@pytest.fixture
def consult(locked):
    """Ask once through a real client; give the event, the workspace, and the server."""

    def once(scripted, provider="openai", *, mending=False, history=None):
        with LanguageServer([scripted]) as server:
            url = server.url if provider == "openai" else server.root_url
            workspace = locked(provider, url)
            language = workspace.contract.plan.language
            consultant = Consultant(endpoint_of(language, {}), language,
                                    patience=Patience(first_pause_s=0.01))  # fmt: skip
            history = history or History.of(workspace.ledger.events)
            asked = ask(workspace, history, consultant, mending=mending)
        return asked, workspace, server

    return once


def idea(path, search, replace, **fields):
    edits = [{"path": path, "search": search, "replace": replace}]
    return {**GOOD, "name": "idea", "edits": edits, **fields}


def says(*ideas, **more):
    return Scripted(json.dumps({"ideas": list(ideas), **more}))


@PROVIDERS
def test_a_good_idea_becomes_a_patch_with_its_price(consult, provider):
    asked, workspace, server = consult(says(GOOD), provider)
    assert asked.outcome == "ok"
    assert [each.name for each in asked.patches] == ["longer_steps"]
    assert asked.patches[0].proposer == "language"
    assert asked.declined == ()
    assert (asked.input_tokens, asked.output_tokens) == (1000, 200)
    assert asked.usd == pytest.approx(1000 * 2e-6 + 200 * 1e-5)
    assert workspace.artifacts.get(asked.reply_digest).decode() == json.dumps({"ideas": [GOOD]})
    kept = workspace.artifacts.get(asked.prompt_digest).decode()
    sent = server.requests[0].prompt
    assert TRAIN in sent
    assert TRAIN in kept
    assert "known (patchbook)" in sent


BAD = {
    "protected": (idea("loss.py", "pass", "return"), "not a file that may be edited"),
    "outside the surface": (idea("README.md", "", "x"), "not a file that may be edited"),
    "absolute": (idea("/etc/hostname", "a", "b"), "absolute, or leads out"),
    "escapes": (idea("../train.py", "a", "b"), "absolute, or leads out"),
    "a link": (idea("outside.py", "", "x = 1"), "outside.py, which is a symbolic link"),
    "through a link": (idea("linked/x.py", "", "x = 1"), "linked, which is a symbolic link"),
    "no match": (idea("train.py", "range(30)", "range(4)"), "is not in train.py"),
    "two matches": (idea("train.py", "print('a')", "pass"), "at lines 3 and 4"),
    "CRLF for LF": (idea("train.py", "import loss\r\n", "import gain\n"), "has CRLF"),
    "LF for CRLF": (idea("dos.py", "x = 1\ny = 2", "x = 2"), "lines with CRLF"),
    "half-open block": (
        idea("train.py", "<<<<<<< SEARCH\nimport loss", "import loss"), "half open"),
    "half-open replacement": (
        idea("train.py", "import loss", "import loss\n>>>>>>> REPLACE"), "half open"),
    "broken Python": (idea("train.py", "    loss.step()", "    loss.step("), "not valid Python"),
    "unknown field": (idea("train.py", "range(3)", "range(4)", speed=3), "speed: unknown field"),
    "a secret": (idea("login.py", 'password = "<<redacted>>"', "x = 1"), "a secret taken out"),
    "a dtype": (idea("train.py", "range(3)", "range(4)", precision="bfloat16"), "not allow"),
    "reaches for the witness": (
        idea("train.py", "import loss", "import ctypes, loss"), "reaches past Python"),
}  # fmt: skip


@pytest.mark.parametrize(("bad", "said"), BAD.values(), ids=BAD.keys())
def test_a_bad_idea_is_declined_with_a_reason_and_the_good_one_stands(consult, bad, said):
    asked, workspace, _ = consult(says(bad, GOOD))
    assert [each.name for each in asked.patches] == ["longer_steps"]
    assert len(asked.declined) == 1
    assert asked.declined[0].name == "idea"
    assert said in asked.declined[0].because
    assert asked.can_be_mended
    body = asked.model_dump(mode="json")
    with open_ledger(workspace.folder, command="test") as ledger:
        history = History.of([*ledger.events, ledger.append("asked", body)])
    assert set(history.patches) == {"known", "longer_steps"}
    assert history.declined[-1].proposer == "language"


REPLIES = {
    "prose": (Scripted("Use torch.compile."), "unreadable", "holds no JSON"),
    "nothing": (Scripted(""), "unreadable", "holds no JSON"),
    "cut off": (Scripted('{"ideas": [{"name": "a", "su', stop="length"), "truncated", "cut off"),
    "refusal": (Scripted("I can't help with that."), "refused", "would not help"),
    "refusal by its mark": (Scripted("No.", stop="refusal"), "refused", "would not help"),
    "another form": (Scripted('{"patches": []}'), "unreadable", "holds no JSON"),
}


@PROVIDERS
@pytest.mark.parametrize(("scripted", "outcome", "said"), REPLIES.values(), ids=REPLIES.keys())
def test_a_reply_without_ideas_is_declined_whole(consult, provider, scripted, outcome, said):
    asked, _, _ = consult(scripted, provider)
    assert asked.outcome == outcome
    assert asked.patches == ()
    assert said in asked.declined[0].because
    assert asked.was_answered
    assert asked.can_be_mended == (outcome != "refused")


@PROVIDERS
@pytest.mark.parametrize(
    ("status", "outcome", "usd"),
    [(401, "unauthorized", 0.0), (404, "rejected", 0.0), (500, "unreachable", None)],
)
def test_a_failed_call_is_an_event_without_ideas_or_tokens(consult, provider, status, outcome, usd):
    asked, _, _ = consult(Scripted(status=status), provider)
    assert asked.outcome == outcome
    assert not asked.was_answered
    assert (asked.patches, asked.declined, asked.reply_digest) == ((), (), None)
    assert (asked.input_tokens, asked.usd) == (None, usd)
    assert asked.note


def test_secrets_and_paths_of_this_machine_do_not_leave(consult, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "import loss\n\nprint")
    asked, workspace, server = consult(says(GOOD))
    sent = json.dumps(server.requests[0].body)
    assert "hunter2" not in sent
    assert "import loss" not in sent
    assert str(workspace.root) not in sent
    assert asked.redactions == 2


def test_dollars_are_not_known_where_the_tokens_are_not(consult):
    asked, _, _ = consult(Scripted(json.dumps({"ideas": [GOOD]}), tokens=None))
    assert asked.outcome == "ok"
    assert asked.usd is None


def test_a_setting_is_taken_from_a_reply(consult):
    asked, _, _ = consult(says(settings=[{"knobs": [{"name": "fused", "value": True}],
                                          "patches": ["known"], "reason": "cheap"}]))  # fmt: skip
    assert [each.candidate for each in asked.settings] == [Candidate.of({"fused": True}, ["known"])]


def test_to_mend_it_is_shown_its_reply_and_the_reasons(consult):
    first, workspace, _ = consult(says(BAD["two matches"][0]))
    with open_ledger(workspace.folder, command="test") as ledger:
        events = [*ledger.events, ledger.append("asked", first.model_dump(mode="json"))]
    mended, _, server = consult(says(GOOD), mending=True, history=History.of(events))
    sent = server.requests[0].prompt
    assert "at lines 3 and 4" in sent
    assert 'print(\'a\')", "replace": "pass"' in sent
    assert mended.mending
    assert len(mended.patches) == 1


def test_without_language_among_the_proposers_nobody_is_asked(locked):
    workspace = locked("openai", "http://127.0.0.1:1/v1")
    plan = workspace.contract.plan.model_copy(update={"proposers": ("patchbook",)})
    assert open_consultant(workspace.contract.model_copy(update={"plan": plan}), {}) is None


def test_a_missing_key_ends_the_command_before_the_search(locked):
    workspace = locked("anthropic", None, allow_upload=True)
    with pytest.raises(UsageError, match="ANTHROPIC_API_KEY is not set"):
        open_consultant(workspace.contract, {"OPENAI_API_KEY": "x"})
