from pathlib import Path

import report_samples as samples
from inline_snapshot import snapshot

from infrarsi.render.markdown import render_markdown

GOLDEN = Path(__file__).with_name("golden_report.md")


def test_the_markdown_of_a_full_report_is_the_golden_one():
    # To accept a change: python tests/render/test_render_markdown_golden.py
    assert render_markdown(samples.full_report()) == GOLDEN.read_text(encoding="utf-8")


def test_the_first_screen_of_a_search_without_a_winner():
    text = render_markdown(samples.winnerless_report()).split("\n## ")[0]
    assert text == snapshot("""\
# ⬜ No winner: No candidate was found that is faster and passed every check.

5 trials in the search; no speedup is claimed.

InfraRSI report for `tiny-gpt`, commit `628f0b3c41d8`, written 2026-11-29T15:02:11Z

| | | |
|---|---|---|
| **Time per update** | 312 ms | reference 312 ms [309, 316] |
| **Confirmation** | not measured | no back-to-back launches |
| **Threshold** | not measured | nothing was put to the test |
| **Peak memory** | 3.10 GiB | capacity 6.00 GiB |
| **Cost of the search** | 47 min 54 s | failed launches 2 min 51 s; dollars $0.48 |
| **Break-even** | none | nothing was accepted |
| **Refused by the judge** | 1 of 5 trials | 1 of them looked faster; 2 more ran out of memory |
| **Branch** | none | nothing was promoted |
| **How far quality was tested** | Paired with the reference over 30 updates on the same seed and data; one further update replayed by the reference's code. Convergence beyond that was not tested. |  |
| **Reference launch** | `python train.py --config 'configs/tiny gpt.yaml' --steps 2000` |  |
| **Machine** | cpu Example CPU, 2 cores; memory 16 GiB; kernel 6.1; python 3.11.9; torch 2.13.0; accelerators none |  |
""")


if __name__ == "__main__":
    GOLDEN.write_text(render_markdown(samples.full_report()), encoding="utf-8")
