"""A promotion is signed with the key that was named; one that cannot sign costs no launch."""

import shutil

import pytest
from promotions import CONTRACT
from speaking_user import refused_by

from infrarsi.errors import UsageError
from infrarsi.execute.repository import Repository
from infrarsi.records.candidate import Candidate
from infrarsi.records.plan import Lock
from infrarsi.stages.apply import confirm_and_promote
from infrarsi.stages.workspace import Workspace
from infrarsi.store.ledger import open_ledger

pytestmark = pytest.mark.training


@pytest.fixture
def put_forward(promotion_template, tmp_path):
    """A workspace whose search has put a candidate forward."""
    root = tmp_path / "training"
    shutil.copytree(promotion_template, root)
    with open_ledger(root / ".infrarsi", command="test") as ledger:
        lock = Lock.model_validate(ledger.of_kind("locked")[-1].body)
        candidate = Candidate.of({"workers": 2}, ["faster"]).model_dump(mode="json")
        ledger.append("chosen", {"candidate": candidate, "parts": [], "reason": "a test"})
        yield Workspace(Repository(root), CONTRACT, lock, ledger)


def test_a_key_that_cannot_sign_is_found_out_before_the_first_launch(put_forward):
    before = put_forward.ledger.head
    nowhere = str(put_forward.root / "no-such-key")
    said = refused_by(UsageError, lambda: confirm_and_promote(put_forward, key=nowhere), code=2)
    assert "no-such-key cannot sign" in said
    assert "--unsigned" in said
    assert put_forward.ledger.head == before


def test_to_sign_and_not_to_sign_contradict_each_other(speaking):
    said = speaking.refused("apply", "--sign", "key", "--unsigned", code=2)
    assert "--sign and --unsigned contradict each other" in said
