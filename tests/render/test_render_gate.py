"""The gate's summary is Markdown that says what it means, whoever wrote the words in it."""

from infrarsi.records.estimate import Estimate
from infrarsi.records.gate import GateCheck, GateReport
from infrarsi.records.verdict import Ruling
from infrarsi.render.gate import gate_markdown

BARE = GateReport(kind="none", base="a" * 40, head="b" * 40, ruling=Ruling.PASS)


def test_a_change_that_is_no_promotion_takes_two_lines():
    assert gate_markdown(BARE) == (
        "# ✅ infrarsi gate: no promotion in this change\n\n"
        "Base `aaaaaaaaaaaa`, head `bbbbbbbbbbbb`.\n"
    )


def test_what_was_refused_stands_in_the_table_and_what_to_do_below_it():
    check = GateCheck(
        check="changes", ruling=Ruling.FAIL, reason="it touches a|b <script> @someone",
        hint="bring `git rm a|b` in a change of its own",
    )  # fmt: skip
    said = gate_markdown(
        BARE.model_copy(
            update={
                "kind": "promotion", "ruling": Ruling.FAIL, "checks": (check,), "subject": "c" * 12,
                "speedup": Estimate(low=1.9, point=2.0, high=2.1),
            }
        )
    )  # fmt: skip
    assert said.startswith("# ❌ infrarsi gate: the promotion is refused\n")
    assert "Candidate `cccccccccccc`, 2.00x [1.90, 2.10]; base" in said
    row = next(line for line in said.splitlines() if "| changes |" in line)
    assert "a\\|b" in row
    assert "<script>" not in row
    assert "@someone" not in row
    assert "**changes:** bring `git rm a|b` in a change of its own" in said


def test_a_revert_is_said_not_to_be_pushed():
    stands = {"kind": "standing", "ruling": Ruling.FAIL, "revert_branch": "infrarsi/revert-x"}
    said = gate_markdown(BARE.model_copy(update=stands))
    assert said.startswith("# ❌ infrarsi gate: what was promoted does not hold\n")
    assert "`infrarsi/revert-x` takes it back. It was not pushed" in said
