"""Drafting from a program that stands in a test, as init does from a repository."""

import textwrap

from infrarsi.frameworks.catalogue import draft_knobs
from infrarsi.frameworks.config_keys import config_files_named, group_files, hydra_files
from infrarsi.frameworks.reading import read_settings
from infrarsi.frameworks.sources import Sources
from infrarsi.records.task import Surface


def draft(source, *arguments, files=None, command=("python", "train.py"), **others):
    texts = {
        "train.py": textwrap.dedent(source),
        **{k: textwrap.dedent(v) for k, v in others.items()},
    }
    words = (*command, *arguments)
    contents = {name: text.encode() for name, text in (files or {}).items()}
    sources = Sources({k: v for k, v in texts.items() if k not in arguments}, "train.py")
    primary = hydra_files(sources, words, tracked=contents)
    composed = dict(primary)
    for file in primary.values():
        composed |= group_files(file, contents[file], words, tracked=contents)
    named = config_files_named(words, ".", contents)
    settings = read_settings(
        sources, words, texts=texts, configured={name: contents[name] for name in named},
        composed={prefix: (file, contents[file]) for prefix, file in composed.items()},
    )  # fmt: skip
    knobs, constraints = draft_knobs(settings, words, device="none")
    Surface(editable=(), knobs=knobs, constraints=constraints)
    return {knob.name: knob for knob in knobs}, constraints
