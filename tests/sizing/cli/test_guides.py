"""What the guides count and name is what the program has."""

import re
from pathlib import Path

from sizing.questions.registry import QUESTIONS
from sizing.state.optimizers import OPTIMIZERS

DOCS = Path(__file__).parents[3] / "docs"
COUNTS = {7: "Seven", 8: "Eight", 9: "Nine", 10: "Ten", 11: "Eleven", 12: "Twelve"}


def test_the_guide_of_many_answers_counts_its_verbs_and_names_those_without_a_chart() -> None:
    text = (DOCS / "explore.md").read_text()
    verbs = re.findall(r"^## .*: `ckpt-size (\w+)`$", text, re.MULTILINE)
    assert f"\n{COUNTS[len(verbs)]} verbs compute many answers" in text
    without = re.search(r"draws it, except for ([^.]*)\.", text)
    assert without is not None
    assert set(re.findall(r"`(\w+)`", without[1])) == {verb for verb in verbs if QUESTIONS[verb].question.chart is None}


def test_the_tour_counts_the_optimizers() -> None:
    assert f"; {len(OPTIMIZERS)} optimizers;" in (DOCS / "tour.md").read_text()
