"""An answer as data for those who show it: word for word what the page and the PDF say."""

from datetime import UTC, datetime
from html import unescape

from sizing.present import page
from sizing.present.document import Presentation, presentation_of
from sizing.questions.answer.question import sizing_document
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

MISSED = REFERENCE_SCENARIO | {"targets": {"max_stall_seconds": "1s", "min_goodput_fraction": 0.9}}


def presented(document: dict[str, object]) -> tuple[Presentation, str]:
    """The presentation of an answer, and its page as text."""
    scenario = scenario_from(document)
    made = sizing_document(scenario, answer(scenario))
    text = page.render_page(made, made_at=datetime(2026, 1, 1, tzinfo=UTC))
    return presentation_of(made), unescape(text.replace("<wbr>", "")).replace("\N{NO-BREAK SPACE}", " ")


def test_every_word_of_it_stands_on_the_page() -> None:
    shown, text = presented(MISSED)
    words = [shown.title, shown.headline, *shown.verdict.splitlines(), *shown.remedies, *shown.guesses, *shown.warnings]
    words += [cell for table in shown.tables for row in table.rows for cell in row]
    words += [
        word for section in shown.sections for row in section.rows for word in (row.label, row.figure, row.meaning)
    ]
    words += [word for row in shown.figures for word in (row.label, row.figure, row.meaning)]
    assert shown.gpus is not None
    words += [shown.gpus.title, shown.gpus.sentence, shown.gpus.reading]
    assert [word for word in words if word not in text and page.name_fields(word) not in text] == []
    assert len(shown.charts) > 0
    assert text.count("<figure>") == len([shown.gpus, *shown.charts])


def test_how_a_verdict_stands_out() -> None:
    met = REFERENCE_SCENARIO | {"reliability": None}
    assert [presented(each)[0].standing for each in (MISSED, REFERENCE_SCENARIO, met)] == ["misses", "weak", "meets"]


def test_it_is_read_back_as_it_was_sent() -> None:
    shown, _ = presented(REFERENCE_SCENARIO)
    assert Presentation.model_validate_json(shown.model_dump_json()) == shown
