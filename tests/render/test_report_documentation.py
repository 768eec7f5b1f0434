import re
from pathlib import Path

import pytest

from infrarsi.records.effect import KnobEffect
from infrarsi.records.estimate import Estimate
from infrarsi.records.experience import Source
from infrarsi.records.forecast import Forecast, Range
from infrarsi.records.report import (
    Confirmed,
    Cost,
    Credit,
    ExperienceUsed,
    IdeaRow,
    LanguageCall,
    PairRow,
    Part,
    PhaseTime,
    Report,
    SessionRow,
    TrialRow,
    Trials,
    Winner,
)
from infrarsi.records.verdict import Finding

DOCUMENT = Path(__file__).parents[2] / "docs" / "report.md"


@pytest.mark.parametrize(
    "record",
    [
        Confirmed,
        Cost,
        Credit,
        ExperienceUsed,
        Source,
        IdeaRow,
        LanguageCall,
        Estimate,
        Finding,
        KnobEffect,
        Forecast,
        PairRow,
        SessionRow,
        Part,
        PhaseTime,
        Range,
        Report,
        TrialRow,
        Trials,
        Winner,
    ],
)
def test_every_field_of_report_json_is_documented(record):
    named = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`[^`]+`", DOCUMENT.read_text()))))
    assert set(record.model_fields) <= named
