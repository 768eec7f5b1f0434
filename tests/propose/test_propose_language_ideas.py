"""Ideas become patches and settings, or are refused whole with a reason to mend them by."""

import math

import pytest

from infrarsi.edits import apply_edits
from infrarsi.propose.language.ideas import Ground, accept_ideas, effect_of
from infrarsi.propose.language.reply import GivenIdea, GivenSetting, Parsed
from infrarsi.records.candidate import Edit, Patch
from infrarsi.records.task import Flag, Knob, Numerics, Surface

TRAIN = b"import loss\n\nx = 1\ny = 2\nprint(x)\nprint(x)\n"


def ground(**changed):
    surface = Surface(
        editable=("*.py", "conf/*.yaml"), protected=("loss.py",),
        knobs=(
            Knob(name="micro", reach=Flag(flag="--micro"), values=(2, 4, 8), default=4),
            Knob(name="accum", reach=Flag(flag="--accum"), values=(1, 2, 4), default=2),
            Knob(name="fused", reach=Flag(flag="--fused"), values=(False, True), default=False),
        ),
        constraints=("micro * accum == 8",),
    )  # fmt: skip
    known = Patch(name="known", proposer="patchbook", summary="",
                  edits=(Edit(path="train.py", search="y = 2\n", replace="y = 3\n"),))  # fmt: skip
    given = {
        "files": {"train.py": TRAIN, "dos.py": b"a = 1\r\nb = 2\r\n", "bad.py": b"def:\n"},
        "surface": surface,
        "numerics": Numerics(),
        "tracked": frozenset(
            {"train.py", "dos.py", "bad.py", "loss.py", "link.py", "data", "lib/x.py"}
        ),
        "links": frozenset({"link.py", "data"}),
        "patches": {"known": known},
        **changed,
    }
    return Ground(**given)


def idea(*edits, name="idea", **fields):
    given = [
        {"path": path, "search": search, "replace": replace} for path, search, replace in edits
    ]
    filled = {"name": name, "summary": "s", "edits": given, "time_ratio": 0.8, **fields}
    return GivenIdea.model_validate(filled)


def accepted(*ideas, settings=(), where=None):
    parsed = Parsed(ideas=ideas, settings=tuple(GivenSetting.model_validate(s) for s in settings))
    return accept_ideas(parsed, where or ground())


def because_of(*edits, where=None, **fields):
    found = accepted(idea(*edits, **fields), where=where)
    assert found.patches == ()
    return found.declined[0].because


def test_a_sound_idea_becomes_a_patch_that_applies():
    found = accepted(idea(("./train.py", "x = 1\n", "x = 7\n"), name="Fuse It!"))
    patch = found.patches[0]
    assert (patch.name, patch.proposer) == ("fuse_it", "language")
    assert patch.log_time.mean == pytest.approx(math.log(0.8))
    assert patch.log_time.sd >= 0.25
    assert apply_edits(ground().files, patch.edits)["train.py"] == TRAIN.replace(b"x = 1", b"x = 7")


def test_a_new_file_on_the_surface_may_be_made():
    found = accepted(idea(("fast.py", "", "z = 1\n")))
    assert found.patches[0].edits[0].path == "fast.py"


@pytest.mark.parametrize(
    ("path", "search", "said"),
    [
        ("loss.py", "a", "not a file that may be edited. Editable: *.py"),
        ("README.md", "a", "not a file that may be edited"),
        ("/etc/passwd", "a", "absolute, or leads out of the repository"),
        ("../train.py", "a", "absolute, or leads out of the repository"),
        ("lib/../../x.py", "a", "absolute, or leads out of the repository"),
        ("~/x.py", "a", "absolute, or leads out"),
        ("C:\\x.py", "a", "absolute, or leads out"),
        ("link.py", "", "leads through link.py, which is a symbolic link"),
        ("data/x.py", "", "leads through data, which is a symbolic link or a submodule"),
        (".git/config", "a", "not a file that may be edited"),
        ("new.py", "a", "does not exist"),
        ("train.py", "", "makes a new file, but train.py exists"),
        ("train.py", "y = 4", "is not in train.py. The nearest line is 4"),
        ("train.py", "x  = 1", "differs only in white space"),
        ("train.py", "print(x)", "stands more than once in train.py, at lines 5 and 6"),
        ("train.py", "x = 1\r\n", "The file ends its lines with LF"),
        ("dos.py", "a = 1\nb = 2", "The file ends its lines with CRLF"),
        ("train.py", "<<<<<<< SEARCH\nx = 1", "a search/replace block that is half open"),
        ("train.py", 'key = "<<redacted>>"', "stands for a secret taken out"),
        ("a\nb.py", "", "not a file that may be edited"),
        ("", "", "not a file that may be edited"),
    ],
)
def test_an_edit_that_breaks_a_rule_is_declined_with_the_rule(path, search, said):
    assert said in because_of((path, search, "new"))


def test_a_path_below_a_file_is_declined():
    where = ground(surface=Surface(editable=("**",)))
    assert "lies below train.py, which is a file" in because_of(
        ("train.py/x.py", "", "a"), where=where
    )


def test_what_is_not_valid_python_is_declined_with_the_line():
    because = because_of(("train.py", "x = 1\n", "x = (1\n"))
    assert "not valid Python: line 3" in because


def test_a_file_that_was_no_python_before_may_be_edited():
    assert accepted(idea(("bad.py", "def:", "def :"))).patches


def test_an_idea_is_refused_whole():
    because = because_of(("train.py", "x = 1\n", "x = 2\n"), ("train.py", "absent", ""))
    assert "is not in train.py" in because


def test_an_idea_that_changes_nothing_or_repeats_a_known_one_is_declined():
    assert "change nothing" in because_of(("train.py", "x = 1", "x = 1"))
    assert "the same as known" in because_of(("train.py", "y = 2", "y = 3"))


def test_a_precision_that_the_contract_does_not_allow_is_declined():
    because = because_of(("train.py", "x = 1", "x = 3"), precision="bfloat16")
    assert "does not allow bfloat16" in because
    allowed = ground(numerics=Numerics(matmul=("float32", "bfloat16")))
    assert accepted(
        idea(("train.py", "x = 1", "x = 3"), precision="bfloat16"), where=allowed
    ).patches


def test_the_other_ideas_of_a_reply_stand():
    found = accepted(idea(("train.py", "absent", ""), name="bad"),
                     idea(("train.py", "x = 1", "x = 5"), name="good"))  # fmt: skip
    assert [each.name for each in found.patches] == ["good"]
    assert [each.name for each in found.declined] == ["bad"]


def test_a_name_that_is_taken_gets_a_number():
    found = accepted(idea(("train.py", "x = 1", "x = 5"), name="known"),
                     idea(("train.py", "x = 1", "x = 6"), name="Known"))  # fmt: skip
    assert [each.name for each in found.patches] == ["known_2", "known_3"]


def test_patches_that_change_the_same_lines_are_told_apart_from_those_that_do_not():
    found = accepted(idea(("train.py", "x = 1", "x = 5"), name="a"),
                     idea(("train.py", "x = 1", "x = 6"), name="b"))  # fmt: skip
    assert ("a", "b") in found.incompatible
    assert ("a", "known") not in found.incompatible


def test_settings_are_read_in_the_knobs_own_values():
    found = accepted(settings=[{"knobs": {"micro": "8", "accum": 1, "fused": "true"}}])
    assert found.settings[0].candidate.knobs == {"micro": 8, "accum": 1, "fused": True}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"knobs": {"speed": 1}}, "speed is not a knob"),
        ({"knobs": {"micro": 3}}, "micro cannot be 3"),
        ({"knobs": {"fused": 1}}, "fused cannot be 1"),
        ({"knobs": {"micro": 8}}, "breaks the constraint micro * accum == 8"),
        ({"knobs": {}, "patches": ["absent"]}, "absent is not a patch that is known"),
        ({"knobs": {"micro": 4}}, "the reference itself"),
    ],
)
def test_a_setting_that_cannot_be_tried_is_declined(setting, said):
    found = accepted(settings=[setting])
    assert found.settings == ()
    assert said in found.declined[0].because


def test_a_setting_may_carry_a_patch_of_the_same_reply():
    found = accepted(
        idea(("train.py", "x = 1", "x = 5"), name="new one"),
        settings=[{"knobs": {"fused": True}, "patches": ["new one", "known"]}],
    )
    assert found.settings[0].candidate.patches == ("known", "new_one")


def test_patches_that_clash_make_no_setting():
    clash = idea(("train.py", "y = 2", "y = 9"), name="clash")
    found = accepted(clash, settings=[{"patches": ["clash", "known"]}])
    assert "do not go together" in found.declined[0].because


@pytest.mark.parametrize("ratio", [1e-9, 1e9])
def test_a_wild_claim_is_bounded(ratio):
    assert abs(effect_of(ratio, "high").mean) <= math.log(4)
