"""What is compared are trees and digests: however a promotion is merged, it is the same one."""

import pytest
from promotions import SIGNERS, promote_at
from speaking_user import patch_of, refused_by

from infrarsi.errors import ContractError, RejectedError, UsageError
from infrarsi.execute.repository import Repository
from infrarsi.records.verdict import Ruling
from infrarsi.stages.gate import gate, raise_for

pytestmark = pytest.mark.training


def passes(pull, *, base, head):
    report = gate(pull.root, base=base, head=head)
    assert report.ruling is Ruling.PASS, report.refusals
    assert report.kind == "promotion"


def test_a_merge_commit_a_squash_and_a_rebase_are_each_the_promotion(pull):
    pull.git("checkout", "-qb", "merged", "main")
    pull.git("merge", "-q", "--no-ff", "--no-edit", "pull")
    passes(pull, base="merged^1", head="merged")

    pull.git("checkout", "-qb", "squashed", "main")
    pull.git("merge", "-q", "--squash", "pull")
    pull.git("commit", "-qm", "one commit with other words")
    passes(pull, base="squashed~1", head="squashed")

    pull.git("checkout", "-qb", "rebased", "pull")
    pull.git("rebase", "-q", "main")
    passes(pull, base="main", head="rebased")
    assert pull.git("rev-list", "--count", "main..rebased") == "3"


def test_documents_may_change_on_the_base_and_nothing_that_trains(pull):
    pull.on_main(lambda base: base.write("README.md", "How to train, at length.\n"))
    passes(pull, base="main", head="pull")


def test_a_rotated_key_of_another_signer_does_not_hinder(pull):
    pull.on_main(lambda base: base.write(SIGNERS, base.signer("author")))
    passes(pull, base="main", head="pull")


def test_a_second_person_signs_where_the_base_asks_for_it(pull):
    def ask(base):
        contract = base.read("infrarsi.yaml").decode()
        base.write("infrarsi.yaml", contract.replace("review: false", "review: true"))

    pull.on_main(ask)
    pull.review("reviewer")
    report = pull.gate()
    assert report.ruling is Ruling.PASS, report.refusals
    assert any("reviewed by reviewer@example.org" in each.reason for each in report.checks)


def test_a_change_without_a_bundle_is_no_promotion(pull):
    pull.git("checkout", "-qB", "pull", "main")
    pull.write("notes.py", "")
    assert pull.gate().kind == "none"
    assert gate(pull.root, base="main", head="main").kind == "none"


def test_a_promotion_that_landed_stands_and_can_be_taken_away(pull):
    pull.git("checkout", "-q", "main")
    pull.git("merge", "-q", "--no-edit", "pull")
    standing = gate(pull.root)
    assert (standing.kind, standing.ruling) == ("standing", Ruling.PASS), standing.refusals
    assert standing.speedup is not None

    pull.git("checkout", "-qB", "pull", "main")
    pull.git("rm", "-rq", "infrarsi-promotion")
    assert pull.gate().kind == "withdrawn"


def test_a_bundle_that_was_pushed_past_the_gate_is_refused_where_it_stands(pull):
    pull.write("infrarsi-promotion/statement.json", b"{}\n")
    pull.commit()
    pull.git("checkout", "-q", "main")
    pull.git("merge", "-q", "--no-edit", "pull")
    report = gate(pull.root)
    assert (report.kind, report.ruling) == ("standing", Ruling.FAIL)
    said = refused_by(RejectedError, lambda: raise_for(report), code=4)
    assert "statement.json cannot be read" in said


def test_a_base_without_a_contract_gives_no_policy(pull):
    pull.on_main(lambda base: (base.root / "infrarsi.yaml").unlink())
    said = refused_by(ContractError, lambda: gate(pull.root, base="main", head="pull"), code=3)
    assert "has no infrarsi.yaml" in said


def test_a_name_that_is_no_commit_and_histories_that_never_met(pull):
    said = refused_by(UsageError, lambda: gate(pull.root, base="origin/main", head="pull"))
    assert "'origin/main' is no commit here" in said
    pull.git("checkout", "-q", "--orphan", "alone")
    pull.git("commit", "-qm", "alone")
    said = refused_by(UsageError, lambda: gate(pull.root, base="main", head="alone"))
    assert "no commit in common" in said
    assert "fetch-depth: 0" in said


def test_a_later_promotion_takes_the_place_of_an_earlier_one(pull):
    pull.git("checkout", "-q", "main")
    pull.git("merge", "-q", "--no-edit", "pull")
    still = patch_of("still-faster", path="train.py", search="0.010)", replace="0.009)")
    repository = Repository(pull.root)
    branch = promote_at(repository, repository.commit(), still, key=pull.key("author"))
    passes(pull, base="main", head=branch)
    pull.git("checkout", "-qB", "pull", branch)
    names = {each.name for each in pull.statement.subject}
    assert "patch still-faster" in names
    assert "patch faster" not in names

    pull.git("checkout", "pull~1", "--", "infrarsi-promotion/statement.json")
    pull.commit("the statement of the earlier one")
    report = pull.gate()
    assert report.ruling is Ruling.FAIL
    assert "not the evidence that the statement names" in report.refusals[0].reason
