"""One key of a configuration file changes, and not one other byte."""

import json
import tomllib

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from infrarsi.edits.config_file import has_key, keys_in, value_at, with_key
from infrarsi.errors import ContractError

YAML = """\
# what we train
model: &base {width: 64, depth: [1, 2]}   # small
train:
    micro_batch: 4  # rows
    name: 'a b'
    lr: 3e-4
    amp: "on"
    empty:
    steps: &steps 100
    text: |
        many
        lines
eval:
    micro_batch: 8
    steps: *steps
"""

TOML = """\
# what we train
title = "x"
owner.name = 'me'
[train]   # here
micro_batch = 4 # rows
lr = 3e-4
shape = [ 1, 2, # two
  3 ]
opt = { kind = "adam", beta = { one = 0.9 } }
text = '''
many [train] = lines'''
"odd key" = true
when = 1979-05-27 07:32:00
[[layers]]
width = 1
[[layers]]
width = 2
[layers.inner]
deep = "y"
"""

JSON = """{
  "train" : {"micro_batch":4,
\t"lr": 3e-4, "names": ["a", "b,}\\"" ], "none": null},
  "eval": {"micro_batch": 8}, "empty": {}
}
"""


LAUGHS = "b0: &b0 [0, 0, 0, 0, 0, 0, 0, 0]\n" + "".join(
    f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 8)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("file", "text", "key", "value", "old", "new"),
    [
        ("c.yaml", YAML, "train.micro_batch", 8, "    micro_batch: 4  #", "    micro_batch: 8  #"),
        ("c.yaml", YAML, "eval.micro_batch", 2, "micro_batch: 8\n", "micro_batch: 2\n"),
        ("c.yaml", YAML, "train.name", "it's", "'a b'", "'it''s'"),
        ("c.yaml", YAML, "train.name", True, "'a b'", "true"),
        ("c.yaml", YAML, "train.lr", 1e-5, "3e-4", "1.0e-05"),
        ("c.yaml", YAML, "train.lr", "3e-5", "3e-4", '"3e-5"'),
        ("c.yaml", YAML, "train.lr", "on", "3e-4", '"on"'),
        ("c.yaml", YAML, "train.lr", "sdpa", "3e-4", "sdpa"),
        ("c.yaml", YAML, "train.lr", -1, "3e-4", "-1"),
        ("c.yaml", YAML, "train.amp", "off", '"on"', '"off"'),
        ("c.yaml", YAML, "train.amp", None, '"on"', "null"),
        ("c.yaml", YAML, "train.empty", 3, "empty:\n", "empty: 3\n"),
        ("c.yaml", YAML, "model.width", 128, "width: 64", "width: 128"),
        ("c.yaml", YAML, "model.depth.1", 5, "[1, 2]", "[1, 5]"),
        ("c.toml", TOML, "train.micro_batch", 8, "micro_batch = 4 #", "micro_batch = 8 #"),
        ("c.toml", TOML, "owner.name", "you", "'me'", "'you'"),
        ("c.toml", TOML, "owner.name", "it's", "'me'", '"it\'s"'),
        ("c.toml", TOML, "title", 'a"\\b', '"x"', '"a\\"\\\\b"'),
        ("c.toml", TOML, "train.lr", 1e-5, "3e-4", "1e-05"),
        ("c.toml", TOML, "train.shape.2", 9, "3 ]", "9 ]"),
        ("c.toml", TOML, "train.opt.beta.one", 0.5, "one = 0.9", "one = 0.5"),
        ("c.toml", TOML, "train.text", "short", "'''\nmany [train] = lines'''", "'short'"),
        ("c.toml", TOML, "train.odd key", False, "= true", "= false"),
        ("c.toml", TOML, "layers.1.width", 7, "width = 2", "width = 7"),
        ("c.toml", TOML, "layers.1.inner.deep", "z", '"y"', '"z"'),
        ("c.json", JSON, "train.micro_batch", 8, '"micro_batch":4', '"micro_batch":8'),
        ("c.json", JSON, "train.names.1", "ü", '"b,}\\""', '"ü"'),
        ("c.json", JSON, "train.none", True, "null", "true"),
        ("c.json", JSON, "train.lr", None, "3e-4", "null"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_only_the_value_changes(*, file, text, key, value, old, new, ends, mark):
    before = (mark + text.rstrip("\n")).replace("\n", ends)
    old, new = old.replace("\n", ends), new.replace("\n", ends)
    assert before.count(old) == 1
    after = with_key(file, before.encode(), key, value).decode()
    assert after == before.replace(old, new)
    assert value_at(file, after.encode(), key) == value


@pytest.mark.parametrize(
    ("file", "text", "key", "says"),
    [
        ("c.yaml", YAML, "train.steps", "an anchor and an alias"),
        ("c.yaml", YAML, "eval.steps", "an anchor and an alias"),
        ("c.yaml", YAML, "train.text", "a block of text"),
        ("c.yaml", "a: !!int 3\n", "a", "has a tag"),
        ("c.yaml", "a: !env X\n", "a", "has a tag"),
        ("c.yaml", "a: 2020-01-01\n", "a", "neither text nor a number"),
        ("c.yaml", "a: 1\na: 2\n", "a", "stands there twice"),
        ("c.yaml", "a: {b: 1}\na: {c: 2}\n", "a.b", "stands there twice"),
        ("c.yaml", "base: &b {x: 1}\na: {<<: *b, y: 2}\n", "base.x", "an anchor and an alias"),
        ("c.yaml", "base: &b {x: 1}\na: {<<: *b, y: 2}\n", "a.x", "no key a.x"),
        ("c.yaml", "a: 1\n---\nb: 2\n", "a", "several YAML documents"),
        ("c.yaml", "a: [1\n", "a", "cannot be read"),
        ("c.yaml", "a: &a [*a]\n", "a", "within its own anchor"),
        ("c.yaml", "a.b: 1\na: {b: 2}\n", "a.b", "may mean 2 keys"),
        ("c.yaml", LAUGHS, "a", "more than 100,000 values"),
        ("c.yaml", "a: {}\n", "a", "no single value"),
        ("c.toml", TOML, "train", "no single value"),
        ("c.toml", TOML, "train.when", "neither text nor a number"),
        ("c.toml", "a = \n", "a", "cannot be read"),
        ("c.json", '{"a": 1, "a": 2}', "a", "stands there twice"),
        ("c.json", '{"a": 1} // no', "a", "cannot be read"),
        ("c.json", "", "a", "cannot be read"),
        ("c.ini", "", "a", "must be YAML, TOML or JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_set_alone_is_refused_and_said_why(file, text, key, says):
    with pytest.raises(ContractError, match=says) as caught:
        with_key(file, text.encode(), key, 7)
    assert caught.value.hint
    assert caught.value.exit_code == 3


def test_a_key_that_is_not_there_is_refused_with_the_nearest_ones():
    with pytest.raises(ContractError, match=r"has no key train.micro_bach") as caught:
        with_key("c.yaml", YAML.encode(), "train.micro_bach", 8)
    assert "train.micro_batch" in caught.value.hint
    with pytest.raises(ContractError, match="has no key micro_batch") as caught:
        with_key("c.toml", TOML.encode(), "micro_batch", 8)
    assert "train.micro_batch" in caught.value.hint


def test_a_missing_file_and_bytes_that_are_no_text_are_refused():
    with pytest.raises(ContractError, match=r"conf/c.yaml is not in the commit"):
        with_key("conf/c.yaml", None, "a", 1)
    with pytest.raises(ContractError, match="cannot be read"):
        with_key("c.yaml", "a: ä\n".encode("utf-16"), "a", 1)


def test_toml_has_no_word_for_an_absent_value():
    with pytest.raises(ContractError, match="no word for an absent value"):
        with_key("c.toml", TOML.encode(), "train.lr", None)


@pytest.mark.parametrize(
    ("file", "text", "key", "after"),
    [
        ("c.json", '{\n  "a": 1\n}\n', "b", '{\n  "b": 2,\n  "a": 1\n}\n'),
        ("c.json", '{"t": {}}', "t.b", '{"t": {"b": 2}}'),
        ("c.yaml", "# top\nt:\n  # in\n  a: 1\n", "t.b", "# top\nt:\n  # in\n  b: 2\n  a: 1\n"),
        ("c.yaml", "- a: 1\r\n- c: 1\r\n", "0.b", "- b: 2\r\n  a: 1\r\n- c: 1\r\n"),
        ("c.yaml", "t: {a: 1}\n", "t.b", "t: {b: 2, a: 1}\n"),
        ("c.yaml", "# nothing", "b", "# nothing\nb: 2\n"),
        ("c.toml", "[t] # here\na = 1\n", "t.b", "[t] # here\nb = 2\na = 1\n"),
        ("c.toml", "[t]", "b", "b = 2\n[t]"),
        ("c.toml", "[[t]]\n[[t]]\n", "t.1.b", "[[t]]\n[[t]]\nb = 2\n"),
    ],
)
def test_a_key_is_added_where_the_contract_says_it_is_absent(file, text, key, after):
    assert not has_key(file, text.encode(), key)
    assert with_key(file, text.encode(), key, 2, add=True).decode() == after
    with pytest.raises(ContractError, match="has no key"):
        with_key(file, text.encode(), key, 2)


def test_a_key_is_added_only_to_a_table_that_is_there_and_not_shared():
    shared = b"base: &b {x: 1}\na: *b\n"
    for file, content, key in (("c.toml", TOML.encode(), "tain.b"), ("c.yaml", shared, "a.b")):
        with pytest.raises(ContractError, match="no table"):
            with_key(file, content, key, 2, add=True)


def test_the_keys_of_a_file_are_those_that_can_be_set():
    found = keys_in("c.yaml", YAML.encode())
    assert found["train.micro_batch"] == 4
    assert found["model.depth.0"] == 1
    assert found["train.empty"] is None
    assert not {"train.steps", "eval.steps", "train.text"} & set(found)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
    st.sampled_from(["on", "no", "null", "~", "1e-4", "0x1f", "1:30", "- a", "a: b", "#", "'", "=",
                     "1_000", ".5", "yes", "2020-01-01", "{", "&a", "*a", "!x", " a", "%"]),
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.from_regex(r"\A[a-z]{1,6}\Z"), inner, max_size=4),
    ),
    max_leaves=8,
)
TABLES = st.dictionaries(st.from_regex(r"\A[a-z]{1,6}\Z"), TREES, min_size=1, max_size=4)


def changed_at(tree, key, value):
    *path, last = key.split(".")
    inner = tree
    for name in path:
        inner = inner[int(name) if isinstance(inner, list) else name]
    inner[int(last) if isinstance(inner, list) else last] = value
    return tree


@settings(max_examples=60, deadline=None, derandomize=True)
@given(table=TABLES, value=SCALARS, flow=st.sampled_from([None, True, False]), data=st.data())
def test_any_value_in_any_yaml_or_json_is_read_back_as_what_it_is(table, value, flow, data):
    for file, text, read in (
        ("c.json", json.dumps(table, indent=data.draw(st.sampled_from([None, 2]))), json.loads),
        (
            "c.yaml",
            yaml.safe_dump(table, default_flow_style=flow, allow_unicode=True),
            yaml.safe_load,
        ),
    ):
        keys = sorted(keys_in(file, text.encode()))
        if not keys:
            continue
        key = data.draw(st.sampled_from(keys))
        try:
            after = with_key(file, text.encode(), key, value)
        except ContractError:
            # PyYAML refuses some characters even where they are escaped by others.
            assert isinstance(value, str)
            assert not value.isprintable()
            continue
        expected = changed_at(read(text), key, value)
        assert read(after.decode()) == expected
        assert type(value_at(file, after, key)) is type(value)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(value=SCALARS.filter(lambda value: value is not None), data=st.data())
def test_any_value_in_toml_is_read_back_as_what_it_is(value, data):
    key = data.draw(st.sampled_from(sorted(keys_in("c.toml", TOML.encode()))))
    after = with_key("c.toml", TOML.encode(), key, value).decode()
    expected = changed_at(tomllib.loads(TOML), key, value)
    assert tomllib.loads(after) == expected
