"""What is written instead of everything, and beside it, is said in words."""

from typing import Any

import pytest

from sizing.present.targets import verdict
from sizing.questions.answer.first_screen import key_figures
from sizing.questions.answer.words import sections
from sizing.report import SizingReport, answer
from sizing.scenario import REFERENCE_SCENARIO

TITLE = "Less than everything, and beside it"
DELTAS = {"reduction": {"delta": {"full_every": 5, "fraction": 0.3}}}


def asked(checkpoint: dict[str, Any], **blocks: Any) -> SizingReport:
    return answer(REFERENCE_SCENARIO | {"checkpoint": REFERENCE_SCENARIO["checkpoint"] | checkpoint} | blocks)


def rows(report: SizingReport) -> dict[str, tuple[str, str]]:
    (section,) = [section for section in sections(report) if section.title == TITLE]
    return {row.label: (row.figure, row.meaning) for row in section.rows}


def test_a_scenario_without_any_of_it_has_no_such_section() -> None:
    assert TITLE not in [section.title for section in sections(answer(REFERENCE_SCENARIO))]


def test_full_and_reduced_saves_stand_side_by_side() -> None:
    found = rows(asked(DELTAS))
    assert found["save with reduction"] == ("6.072 TB", "44.0 % of the bytes, 22.24 s instead of 50.55 s")
    assert found["restore with reduction"][1] == "on average, at most 182.16 s; 82.80 s from a save of everything"
    assert found["reduction pays"][1].startswith("the write bandwidth does not decide; here the reduction ")


def test_a_compression_says_below_which_bandwidth_it_pays() -> None:
    found = rows(asked({"reduction": {"compression": {}}}))
    assert found["reduction pays"][0].startswith("below ")
    assert "goodput" in found["reduction pays"][1]


def test_an_export_says_who_writes_and_what_waits() -> None:
    value, meaning = rows(asked({"export": {"every": 4}}))["export"]
    assert value == "~57.8 min"
    assert meaning == "33.8 to 99.0 min; 2.016 TB in 41 files by 1 writer; stalls training for 57.8 min"
    assert rows(asked({"export": {"every": 4, "written_by": "afterwards"}}))["export"][1].endswith("in the background")


def test_the_rate_of_a_writer_that_is_known_is_not_marked() -> None:
    profile = REFERENCE_SCENARIO["storage"]["profile"] | {"writer_write_bytes_per_second": "1 GB/s"}
    meaning = rows(asked({"export": {"every": 4}}, storage={"profile": profile}))["export"][1]
    assert meaning.startswith("2.016 TB in 41 files by 1 writer; stalls training")


def test_a_publication_says_its_bytes_and_its_share_of_the_interval() -> None:
    sent = {"interval_seconds": 60, "replica_bytes_per_second": "100 GB/s"}
    training = REFERENCE_SCENARIO["training"] | {"reinforcement": {"publication": sent}}
    value, meaning = rows(asked({}, training=training))["publication"]
    assert value == "20.16 s"
    assert meaning == "full: 2.016 TB to each inference engine; 33.6 % of the interval between publications"


@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [(DELTAS, "with up to 4 older ones that they need"), ({"export": {"every": 4}}, "with 4.032 TB of exports")],
)
def test_the_capacity_says_what_else_it_holds(checkpoint: dict[str, Any], said: str) -> None:
    (row,) = [row for row in key_figures(asked(checkpoint)) if row.label == "To buy: capacity"]
    assert said in row.meaning


def first_screen_rows(report: SizingReport) -> dict[str, tuple[str, str]]:
    return {row.label: (row.figure.removeprefix("~"), row.meaning) for row in key_figures(report)}


def test_the_first_screen_says_what_a_save_writes_where_that_is_not_all() -> None:
    found = first_screen_rows(asked(DELTAS))
    assert found["One checkpoint"][0] == "13.80 TB"
    assert "of 6.072 TB on average, at 273.0 GB/s" in found["Write time"][1]
    assert "on average, at most 182.16 s; all ranks read " in found["Restore time"][1]
    assert first_screen_rows(asked({}))["Write time"][1].startswith("at 273.0 GB/s")


def test_one_checkpoint_is_what_is_stored_of_it_with_compression() -> None:
    """Half of each part: 13.8 TB become 6.9 TB, in the row, beside the capacity, and in the verdict of a size alone."""
    halves = {"weights_fraction": 0.5, "master_fraction": 0.5, "moments_fraction": 0.5}
    report = asked({"reduction": {"compression": halves}})
    figure, meaning = first_screen_rows(report)["One checkpoint"]
    assert figure == "6.900 TB"
    assert "13.80 TB without the reduction" in meaning
    assert report.capacity.further_checkpoint_bytes == pytest.approx(6.9e12, rel=1e-3)
    bare = answer({"model": {"preset": "gpt2"}, "checkpoint": {"reduction": {"compression": halves}}})
    assert verdict(bare).startswith("A checkpoint has 871.1 MB.")


def test_an_export_and_a_publication_have_a_line_on_the_first_screen() -> None:
    training = REFERENCE_SCENARIO["training"] | {"reinforcement": {"publication": {"interval_seconds": 60}}}
    report = asked({"export": {"every": 4}}, training=training)
    found, told = first_screen_rows(report), rows(report)
    for label in ("Export", "Publication"):
        figure, meaning = told[label.lower()]
        assert found[label] == (figure.removeprefix("~"), meaning)
        assert figure.startswith("~")
    assert not {"Export", "Publication"} & set(first_screen_rows(asked({})))
