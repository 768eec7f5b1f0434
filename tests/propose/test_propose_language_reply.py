"""Replies are read however models write them; what cannot be read is declined with a reason."""

import json

import pytest

from infrarsi.propose.language.reply import (
    MOST_IDEAS,
    GivenReply,
    is_refusal,
    parse_reply,
    reply_schema,
)

IDEA = {
    "name": "fused", "summary": "Steps all parameters in one kernel.",
    "edits": [{"path": "train.py", "search": "a", "replace": "b"}], "time_ratio": 0.9,
}  # fmt: skip
REPLY = json.dumps({"ideas": [IDEA], "settings": []})


@pytest.mark.parametrize(
    "text",
    [
        REPLY,
        f"```json\n{REPLY}\n```",
        f"Here is what I would try (note the {{braces}}):\n\n{REPLY}\n\nGood luck!",
        f"<think>maybe {{'ideas': []}} or {json.dumps({'ideas': []})}</think>{REPLY}",
        json.dumps([IDEA]),
        json.dumps(IDEA),
        json.dumps({"answer": {"ideas": [IDEA]}}),
        json.dumps({"reply": REPLY}),
        json.dumps({"ideas": json.dumps([IDEA])}),
        json.dumps({"ideas": [json.dumps(IDEA)]}),
        REPLY.replace('"b"', '"b\nc"'),
    ],
)
def test_a_reply_is_found_in_whatever_stands_around_it(text):
    parsed = parse_reply(text)
    assert [each.name for each in parsed.ideas] == ["fused"]
    assert parsed.declined == ()
    assert parsed.found


def test_prose_alone_is_declined_with_what_it_says():
    parsed = parse_reply("You could try torch.compile, and a fused optimizer.")
    assert not parsed.found
    assert "holds no JSON" in parsed.declined[0].because
    assert "torch.compile" in parsed.declined[0].because


def test_of_a_reply_that_was_cut_off_the_whole_ideas_stand():
    text = json.dumps({"ideas": [IDEA, {**IDEA, "name": "second"}, {**IDEA, "name": "third"}]})
    parsed = parse_reply(text[: text.index("third") + 3], truncated=True)
    assert [each.name for each in parsed.ideas] == ["fused", "second"]
    assert "cut off" in parsed.declined[0].because


def test_a_reply_cut_off_before_its_first_idea_was_whole_says_so():
    parsed = parse_reply(REPLY[:40], truncated=True)
    assert not parsed.found
    assert "cut off" in parsed.declined[0].because
    assert "fewer and smaller" in parsed.declined[0].because


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"speed": 2}, "speed: unknown field"),
        ({"time_ratio": 0}, "time_ratio"),
        ({"time_ratio": float("nan")}, "time_ratio"),
        ({"edits": []}, "edits"),
        ({"edits": [{"path": "a", "search": "b"}]}, "edits.0.replace: field required"),
        ({"precision": "float8"}, "precision"),
        ({"name": 3}, "name"),
        ({"summary": "half \ud83d a character"}, "half a character"),
    ],
)
def test_an_idea_in_another_form_is_declined_alone(change, said):
    parsed = parse_reply(json.dumps({"ideas": [{**IDEA, **change}, {**IDEA, "name": "good"}]}))
    assert [each.name for each in parsed.ideas] == ["good"]
    assert said in parsed.declined[0].because


@pytest.mark.parametrize("item", ["use sdpa", 3, None, ["a"]])
def test_what_is_no_idea_is_declined(item):
    parsed = parse_reply(json.dumps({"ideas": [item, IDEA]}))
    assert len(parsed.ideas) == 1
    assert "instead of an object" in parsed.declined[0].because


def test_fields_of_the_reply_that_nobody_asked_for_are_said():
    parsed = parse_reply(json.dumps({"ideas": [IDEA], "thoughts": "hm"}))
    assert "thoughts" in parsed.note
    assert len(parsed.ideas) == 1


def test_more_ideas_than_a_search_can_try_are_declined():
    parsed = parse_reply(json.dumps({"ideas": [IDEA] * (MOST_IDEAS + 2)}))
    assert len(parsed.ideas) == MOST_IDEAS
    assert len(parsed.declined) == 2


def test_knobs_may_be_given_as_a_mapping():
    parsed = parse_reply(json.dumps({"settings": [{"knobs": {"batch": 8, "fused": True}}]}))
    values = [(each.name, each.value) for each in parsed.settings[0].knobs]
    assert values == [("batch", 8), ("fused", True)]


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 100_000, '{"a":' * 50_000, "", "\x00"])
def test_no_text_breaks_the_reader(text):
    assert not parse_reply(text).found


@pytest.mark.parametrize(
    "text", ["I can't help with that.", "I\u2019m sorry, but no.", "I am unable to assist."]
)
def test_a_refusal_is_known_by_its_words(text):
    assert is_refusal(text)


def test_a_plan_of_work_is_no_refusal():
    assert not is_refusal("We cannot fuse the optimizer here, but try this:")


def test_the_schema_is_strict_and_what_keeps_it_is_read():
    def objects(node):
        if isinstance(node, list):
            return [found for each in node for found in objects(each)]
        if not isinstance(node, dict):
            return []
        here = [node] if node.get("type") == "object" else []
        return here + [found for each in node.values() for found in objects(each)]

    found = objects(reply_schema())
    assert len(found) >= 4
    for each in found:
        assert each["additionalProperties"] is False
        assert set(each["required"]) == set(each["properties"])
    assert "default" not in json.dumps(reply_schema())
    full = GivenReply.model_validate(
        {"ideas": [IDEA], "settings": [{"knobs": [{"name": "a", "value": None}]}]}
    )
    assert parse_reply(full.model_dump_json()).declined == ()
