"""`ckpt-size validate`: every published fact agrees, or its miss is explained."""

import pytest

from sizing.validation import Comparison, comparisons


@pytest.mark.parametrize("comparison", comparisons(), ids=lambda c: c.fact)
def test_a_published_fact_is_reproduced_or_its_miss_explained(comparison: Comparison) -> None:
    assert comparison.as_expected, f"predicted {comparison.predicted}, published {comparison.truth}"


def test_all_kinds_of_facts_are_compared() -> None:
    facts = " ".join(comparison.fact for comparison in comparisons())
    for kind in (
        "parameters of",
        "by the paper's formula",
        "write seconds",
        "goodput",
        "GPT-3",
        "state GB",
        "5 a s/h",
        "selective recomputation saves",
        "bubble",
        "young",
        "Azure AMLFS, 128 hosts: write 405b",
        "bloom-176b saved",
        "52b saved on 64 nodes",
        "shared store drained",
    ):
        assert kind in facts


def test_a_wrong_prediction_and_a_vanished_miss_both_count_as_differing() -> None:
    assert not Comparison("f", 1.01, 1.0, 1e-3, "s").as_expected
    assert not Comparison("f", 1.0, 1.0, 1e-3, "s", miss="known").as_expected


def test_a_time_without_published_storage_has_no_prediction_and_says_why() -> None:
    rows = [comparison for comparison in comparisons() if comparison.predicted is None]
    assert {row.fact.split(",")[0] for row in rows} >= {"bloom-176b saved", "megatron-deepspeed-181b saved"}
    assert all("published" in row.unpublished for row in rows)
    assert not Comparison("f", None, 1.0, 1e-3, "s").as_expected
