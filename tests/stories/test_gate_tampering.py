"""The gate passes a true promotion, and refuses each way of tampering with one, with its reason."""

import hashlib
import json
import random
import shutil

import pytest
from promotions import FASTER, SIGNERS
from speaking_user import patch_of

from infrarsi.records.statement import (
    EVIDENCE,
    LAUNCH_FILE,
    PROMOTION_NAMESPACE,
    REVIEW_NAMESPACE,
    SIGNATURE,
    STATEMENT,
)
from infrarsi.records.verdict import Ruling
from infrarsi.stages.gate import _answer

pytestmark = pytest.mark.training


def said_of(report, check):
    found = next((each for each in report.checks if each.check == check), None)
    assert found is not None, f"{check} was not asked: {report.checks}"
    return found


def test_a_true_promotion_passes(pull):
    report = pull.gate()
    assert report.ruling is Ruling.PASS, report.refusals
    assert report.kind == "promotion"
    assert report.speedup.low > 1.03
    assert "author@example.org" in said_of(report, "signature").reason
    assert {"base", "changes", "statement", "tree", "schedule", "baseline", "verdict"} <= {
        each.check for each in report.checks
    }
    statement = pull.statement
    assert statement.predicate.verdict.subject == report.subject
    assert statement.subject[0].digests["gitTree"]
    assert {"tree", "contract", "patch faster", "train.py", LAUNCH_FILE, EVIDENCE} == {
        each.name for each in statement.subject
    }


def a_byte_of_the_statement(pull):
    pull.write(STATEMENT, pull.read(STATEMENT).replace(b"as expected", b"as expectet", 1))


def white_space_in_the_statement(pull):
    pull.write(STATEMENT, pull.read(STATEMENT) + b"\n")


def a_field_more_in_the_statement(pull):
    pull.write(
        STATEMENT, pull.read(STATEMENT).replace(b'"predicate": {', b'"x": 1, "predicate": {')
    )


def rules_in_the_head(pull):
    contract = pull.git("show", "main:infrarsi.yaml")
    pull.write("infrarsi.yaml", contract.replace("least_effect: 0.03", "least_effect: 0.0001"))
    pull.restate(lambda loaded: loaded["predicate"].update(threshold=1.0001))
    pull.sign()


def a_signer_in_the_head(pull):
    pull.write(SIGNERS, pull.signer("author") + pull.signer("stranger"))
    pull.sign("stranger")


def the_signers_alone_in_the_head(pull):
    pull.write(SIGNERS, pull.signer("author") + pull.signer("stranger"))


def an_unknown_key(pull):
    pull.sign("stranger")


def the_namespace_of_a_review(pull):
    pull.sign(namespace=REVIEW_NAMESPACE)


def a_key_that_has_expired(pull):
    line = pull.signer("author", 'valid-before="20200101"')
    pull.on_main(lambda base: base.write(SIGNERS, line))


def a_key_that_may_sign_reviews_alone(pull):
    line = pull.signer("author", f'namespaces="{REVIEW_NAMESPACE}"')
    pull.on_main(lambda base: base.write(SIGNERS, line))


def no_signers_at_the_base(pull):
    pull.on_main(lambda base: (base.root / SIGNERS).unlink())


def no_signature(pull):
    (pull.root / SIGNATURE).unlink()


def no_review_where_the_base_asks_for_one(pull):
    pull.on_main(ask_for_a_review)


def a_review_by_the_author(pull):
    pull.on_main(ask_for_a_review)
    pull.review("author")


def a_review_that_is_a_copied_signature(pull):
    pull.on_main(ask_for_a_review)
    pull.review("reviewer", namespace=PROMOTION_NAMESPACE)


def ask_for_a_review(base):
    contract = base.read("infrarsi.yaml").decode()
    base.write("infrarsi.yaml", contract.replace("review: false", "review: true"))


def an_extra_file(pull):
    pull.write("notes.py", "print('not judged')\n")


def an_extra_file_beside_the_statement(pull):
    pull.write("infrarsi-promotion/notes.md", "trust me\n")


def a_file_that_may_change_on_the_base_alone(pull):
    pull.write("README.md", "How to train faster.\n")


def another_mode(pull):
    (pull.root / "train.py").chmod(0o755)


def a_statement_that_is_a_link(pull):
    shutil.move(pull.root / STATEMENT, pull.root / "train.json")
    (pull.root / STATEMENT).symlink_to("../train.json")


def a_patch_that_was_taken_out(pull):
    pull.git("checkout", "main", "--", "train.py")


def other_launch_settings(pull):
    text = pull.read(LAUNCH_FILE).decode()
    pull.write(LAUNCH_FILE, text.replace('"train.py"', '"train.py", "--lr=1"'))


def a_base_that_has_moved_on(pull):
    pull.on_main(lambda base: base.write("data.py", "more = True\n"))


def a_bundle_on_another_patch(pull):
    pull.write("train.py", pull.read("train.py").replace(b"0.010", b"0.001"))


def a_bundle_on_another_tree(pull):
    """The promotion of one base, replayed upon another one."""
    pull.commit()
    pull.git("checkout", "-q", "main")
    train = pull.read("train.py").replace(b"2.0 + 1 / update", b"2.5 + 1 / update")
    pull.write("train.py", train)
    pull.commit("another training")
    pull.git("checkout", "-qB", "replayed", "main")
    pull.write("train.py", train.replace(b"time.sleep(0.024)", b"time.sleep(0.010)"))
    pull.git("checkout", "pull", "--", "infrarsi-promotion", LAUNCH_FILE)
    pull.git("branch", "-qM", "replayed", "pull")


def earlier_stamps(events, artifacts):
    """Rewrite the stamps of the winner's launches, and every digest that follows from them."""
    for number, event in enumerate(events):
        body = event.body
        if event.kind == "trial_ended" and body["arm"] == "winner":
            rows = [
                json.loads(line) for line in artifacts.pop(body["evidence_digest"]).splitlines()
            ]
            sooner = [{**row, "t_ns": row["t_ns"] * 9 // 10} for row in rows]
            content = b"".join(json.dumps(row).encode() + b"\n" for row in sooner)
            name = hashlib.sha256(content).hexdigest()
            artifacts[name] = content
            events[number] = event.model_copy(update={"body": {**body, "evidence_digest": name}})


def a_chain_made_anew(pull):
    pull.forge(earlier_stamps)


def with_body(events, kind, change):
    """Change the body of the events of one kind."""
    for number, event in enumerate(events):
        if event.kind == kind:
            body = change(event.body)
            if body is not None:
                events[number] = event.model_copy(update={"body": body})


def evidence_of_another_launch(pull):
    """One who may sign gives two launches the faster one's evidence."""

    def swap(events, _artifacts):
        winners = [e.body for e in events if e.kind == "trial_ended" and e.body["arm"] == "winner"]
        first, other = winners[0]["evidence_digest"], winners[1]["trial_id"]
        with_body(
            events, "trial_ended",
            lambda body: {**body, "evidence_digest": first} if body["trial_id"] == other else None,
        )  # fmt: skip

    pull.forge(swap)
    pull.sign()


def other_block_times(pull):
    def faster(body):
        rows = [{**row, "update_s": [t * 0.9 for t in row["update_s"]]} for row in body["blocks"]]
        return {**body, "blocks": rows}

    pull.forge(lambda events, _: with_body(events, "confirmed", faster))
    pull.sign()


def another_order_of_the_blocks(pull):
    def turned(body):
        other = {"ABBA": "BAAB", "BAAB": "ABBA"}
        return {**body, "blocks": [{**r, "order": other[r["order"]]} for r in body["blocks"]]}

    pull.forge(lambda events, _: with_body(events, "confirmed", turned))
    pull.sign()


def a_block_less(pull):
    pull.forge(
        lambda events, _: with_body(
            events, "confirmed", lambda body: {**body, "blocks": body["blocks"][:2]}
        )
    )
    pull.sign()


def another_error_rate(pull):
    pull.forge(lambda events, _: with_body(events, "confirmed", lambda b: {**b, "alpha": 0.5}))
    pull.sign()


def a_lower_threshold(pull):
    pull.forge(lambda events, _: with_body(events, "confirmed", lambda b: {**b, "threshold": 1.0}))
    pull.sign()


def a_finding_less(pull):
    def without_one(body):
        verdict = body["verdict"]
        return {**body, "verdict": {**verdict, "findings": verdict["findings"][1:]}}

    pull.forge(lambda events, _: with_body(events, "confirmed", without_one))
    pull.sign()


def wider_bands(pull):
    def widened(body):
        bands = [{**band, "limit": band["limit"] * 100} for band in body["baseline"]["bands"]]
        return {**body, "baseline": {**body["baseline"], "bands": bands}}

    pull.forge(lambda events, _: with_body(events, "baseline", widened))
    pull.sign()


def controls_that_the_verdict_does_not_speak_of(pull):
    blind = {"kind": "coarse_gradients", "what": "", "trial_id": "t0001", "seen_by": []}
    seen = {**blind, "kind": "frozen_tensor", "seen_by": ["numerics loss"]}

    def tried(body):
        return {**body, "baseline": {**body["baseline"], "controls": [seen, blind]}}

    pull.forge(lambda events, _: with_body(events, "baseline", tried))
    pull.sign()


def other_settings_of_a_launch(pull):
    def slower(body):
        is_reference = body["arm"] == "reference"
        return {**body, "argv": [*body["argv"], "--slowly"]} if is_reference else None

    pull.forge(lambda events, _: with_body(events, "trial_ended", slower))
    pull.sign()


def a_launch_of_another_tree(pull):
    tree = pull.git("rev-parse", "pull^{tree}")

    def ran(body):
        return {**body, "tree_digest": tree} if body["arm"] == "winner" else None

    pull.forge(lambda events, _: with_body(events, "trial_ended", ran))
    pull.sign()


def a_stop_that_was_chosen(pull):
    def sooner(body):
        is_winner = body["arm"] == "winner"
        return {**body, "stop_update": body["stop_update"] - 1} if is_winner else None

    pull.forge(lambda events, _: with_body(events, "trial_ended", sooner))
    pull.sign()


def another_patch_in_the_ledger(pull):
    other = patch_of("faster", path="train.py", search="time.sleep(0.024)", replace="pass")

    def replaced(body):
        return {**body, "patches": [other.model_dump(mode="json")]}

    pull.forge(lambda events, _: with_body(events, "proposed", replaced))
    pull.sign()


def a_patch_of_a_protected_file(pull):
    edits = (*FASTER.edits, FASTER.edits[0].model_copy(update={"path": "README.md", "search": "How",
                                                               "replace": "Why"}))  # fmt: skip
    other = FASTER.model_copy(update={"edits": edits})

    def replaced(body):
        return {**body, "patches": [other.model_dump(mode="json")]}

    pull.forge(lambda events, _: with_body(events, "proposed", replaced))
    pull.sign()


def another_subject(pull):
    def swapped(loaded):
        loaded["subject"][0]["digest"]["gitTree"] = pull.git("rev-parse", "main^{tree}")

    pull.restate(swapped)
    pull.sign()


def another_reference_tree(pull):
    tree = pull.git("rev-parse", "pull^{tree}")
    pull.restate(lambda loaded: loaded["predicate"].update(base_tree=tree))
    pull.sign()


def a_reference_that_was_never_pushed(pull):
    pull.restate(lambda loaded: loaded["predicate"].update(base_tree="1" * 40))
    pull.sign()


def a_contract_of_the_base_that_changed(pull):
    def stricter(base):
        contract = base.read("infrarsi.yaml").decode()
        base.write("infrarsi.yaml", contract.replace("least_effect: 0.03", "least_effect: 0.05"))

    pull.on_main(stricter)


def more_blocks_asked_for(pull):
    def more(base):
        contract = base.read("infrarsi.yaml").decode()
        base.write("infrarsi.yaml", contract.replace("_blocks: 3", "_blocks: 4"))

    pull.on_main(more)


TAMPERINGS = [
    (a_byte_of_the_statement, "signature", "not one of this statement"),
    (white_space_in_the_statement, "bundle", "not written as InfraRSI writes it"),
    (a_field_more_in_the_statement, "bundle", "statement.json cannot be read"),
    (rules_in_the_head, "changes", "also touches infrarsi.yaml"),
    (a_signer_in_the_head, "signature", "no allowed signer may use"),
    (the_signers_alone_in_the_head, "changes", f"also touches {SIGNERS}"),
    (an_unknown_key, "signature", "no allowed signer may use"),
    (the_namespace_of_a_review, "signature", "not one of this statement"),
    (a_key_that_has_expired, "signature", "expired"),
    (a_key_that_may_sign_reviews_alone, "signature", "namespace"),
    (no_signers_at_the_base, "signature", "says who may sign"),
    (no_signature, "signature", "it is not signed"),
    (no_review_where_the_base_asks_for_one, "review", "there is none"),
    (a_review_by_the_author, "review", "who signed the promotion"),
    (a_review_that_is_a_copied_signature, "review", "not one of this statement"),
    (an_extra_file, "changes", "also touches notes.py"),
    (an_extra_file_beside_the_statement, "changes", "infrarsi-promotion/notes.md"),
    (a_file_that_may_change_on_the_base_alone, "changes", "also touches README.md"),
    (another_mode, "changes", "train.py in the head is not what was confirmed"),
    (a_statement_that_is_a_link, "bundle", "no plain file"),
    (a_patch_that_was_taken_out, "changes", "train.py in the head is not what was confirmed"),
    (other_launch_settings, "changes", f"{LAUNCH_FILE} in the head is not what was confirmed"),
    (a_base_that_has_moved_on, "base", "data.py differ"),
    (a_bundle_on_another_patch, "changes", "train.py in the head is not what was confirmed"),
    (a_bundle_on_another_tree, "base", "train.py differ"),
    (a_chain_made_anew, "signature", "not one of this statement"),
    (evidence_of_another_launch, "launches", "one and the same evidence"),
    (other_block_times, "schedule", "its stamps give"),
    (another_order_of_the_blocks, "schedule", "another order than was drawn"),
    (a_block_less, "schedule", "confirmed in 2 blocks; the base's plan asks for 3"),
    (another_error_rate, "schedule", "another error rate"),
    (a_lower_threshold, "verdict", "the speedup had to exceed"),
    (a_finding_less, "verdict", "findings is not what the judge says"),
    (wider_bands, "baseline", "bands is not what its"),
    (other_settings_of_a_launch, "launches", "the settings of its arm"),
    (a_launch_of_another_tree, "tree", "this promotion's winner is"),
    (a_stop_that_was_chosen, "schedule", "is not the one that was due"),
    (another_patch_in_the_ledger, "changes", "train.py in the head is not what was confirmed"),
    (a_patch_of_a_protected_file, "patch", "a patch edits README.md"),
    (controls_that_the_verdict_does_not_speak_of, "verdict", "is not what the judge says"),
    (another_subject, "statement", "subject is not what was promoted: tree"),
    (another_reference_tree, "patch", "does not apply"),
    (a_reference_that_was_never_pushed, "patch", "is not in this clone"),
    (a_contract_of_the_base_that_changed, "bundle", "it was measured under the task"),
    (more_blocks_asked_for, "schedule", "asks for 4"),
]


@pytest.mark.parametrize(
    ("tamper", "check", "words"),
    TAMPERINGS,
    ids=[f"{tamper.__name__}-{check}" for tamper, check, _ in TAMPERINGS],
)
def test_what_was_tampered_with_is_refused(pull, tamper, check, words):
    tamper(pull)
    report = pull.gate()
    assert report.ruling is Ruling.FAIL
    found = said_of(report, check)
    assert found.ruling is Ruling.FAIL
    assert words in found.reason, found.reason
    assert found.hint


@pytest.mark.parametrize("path", [STATEMENT, EVIDENCE, SIGNATURE, "train.py", LAUNCH_FILE])
def test_no_byte_of_what_was_promoted_can_be_another(pull, path):
    content = pull.read(path)
    for place in (0, random.Random(path).randrange(len(content)), len(content) - 1):
        pull.write(path, content)
        pull.flip(path, place)
        report = pull.gate()
        assert report.ruling is Ruling.FAIL, place
        assert report.refusals[0].check in {"bundle", "signature", "changes"}


@pytest.mark.parametrize("error", [AttributeError("no get"), KeyError("x"), RecursionError()])
def test_whatever_a_strangers_bundle_ends_in_is_a_refusal_and_no_traceback(error):
    def question():
        raise error

    check = _answer("bundle", question)
    assert check.ruling == "fail"
    assert "does not say what one must" in check.reason
