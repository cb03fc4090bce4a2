"""Capacity counts every checkpoint that is there at once, and what the drives hold beside them."""

import re
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.present.purchase import required_rows
from sizing.questions.answer.first_screen import key_figures
from sizing.report import SizingReport, answer
from tests.sizing.run.scenarios import LLAMA_8B, report

CHECKPOINT = 13_800_000_000_000
WEIGHTS = 2 / 14 * CHECKPOINT


def test_the_last_the_best_and_the_one_being_written_are_whole() -> None:
    capacity = report(retention={"keep_last": 3, "keep_best": 2}).capacity
    assert capacity.num_checkpoints == 6
    assert capacity.capacity_bytes == capacity.checkpoints_bytes == 6 * CHECKPOINT


def test_a_default_of_one_checkpoint_says_what_each_further_one_takes() -> None:
    one, three = (report(retention={"keep_last": kept}).capacity for kept in (1, 3))
    assert one.further_checkpoint_bytes == CHECKPOINT
    assert three.capacity_bytes - one.capacity_bytes == 2 * one.further_checkpoint_bytes
    (assumed,) = [row.reason for row in report().assumptions if row.field == "retention.keep_last"]
    assert assumed.endswith("; each further one takes 13.80 TB")
    (shown,) = [row for row in required_rows(report()) if row.label == "min capacity"]
    assert shown.meaning == "for 2 checkpoints, one being written; each further +13.80 TB"


def test_weights_of_every_nth_add_up_day_by_day() -> None:
    capacity = report(retention={"keep_weights_every": 3, "run_seconds": "30d"}).capacity
    assert capacity.growth_bytes_per_day == pytest.approx(2 * WEIGHTS, rel=1e-3)
    assert capacity.kept_weights_bytes == pytest.approx(60 * WEIGHTS, rel=1e-3)
    assert capacity.capacity_bytes == 2 * CHECKPOINT + capacity.kept_weights_bytes


def test_without_an_end_the_weights_only_grow() -> None:
    capacity = report(retention={"keep_weights_every": 1}).capacity
    assert capacity.growth_bytes_per_day == pytest.approx(6 * WEIGHTS, rel=1e-3)
    assert capacity.capacity_bytes == 2 * CHECKPOINT


@pytest.mark.parametrize(
    ("retention", "said"),
    [
        ({}, ""),
        ({"keep_weights_every": 1}, "; without the 11.83 TB of kept weights that each day adds"),
        ({"keep_weights_every": 3, "run_seconds": "30d"}, "; with 118.3 TB of kept weights, 3.943 TB more per day"),
    ],
)
def test_tables_and_first_screen_say_the_same_of_a_capacity(retention: dict[str, Any], said: str) -> None:
    sized = report(retention=retention)
    (table,) = [row.meaning for row in required_rows(sized) if row.label == "min capacity"]
    (first,) = [row.meaning for row in key_figures(sized) if row.label == "To buy: capacity"]
    assert table == f"for 2 checkpoints, one being written; each further +13.80 TB{said}"
    assert first == f"min usable {table}"


def test_what_stays_free_and_redundancy_come_on_top() -> None:
    capacity = report(retention={"free_fraction": 0.2, "redundancy_fraction": 0.25}).capacity
    assert capacity.usable_bytes == pytest.approx(2 * CHECKPOINT / 0.8)
    assert capacity.raw_bytes == pytest.approx(2 * CHECKPOINT / 0.8 * 1.25)


@pytest.mark.parametrize(
    ("retention", "message"),
    [
        ({"keep_last": 0}, "retention.keep_last must be at least 1, got 0: give 1 or more"),
        ({"free_fraction": 1}, "retention.free_fraction must be at most 0.95"),
        ({"run_seconds": "1d"}, "retention has run_seconds without keep_weights_every"),
    ],
)
def test_keeping_nothing_or_filling_everything_is_refused(retention: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        report(retention=retention)


def gpt_8b_on(disk: str, **retention: Any) -> SizingReport:
    """A checkpoint of 96.4 GB: 12 bytes of 8.03 billion parameters, every 4 hours."""
    document = {"model": {"preset": "llama-3.1-8b"}, "training": {"framework": "fsdp2"}, "parallelism": {"data": 8}}
    return answer(document | {"retention": {"disk_bytes": disk, **retention}})


def test_a_disk_says_how_many_checkpoints_it_holds_and_when_it_is_full() -> None:
    """The third of 96.4 GB finds no room on 250 GB, 3 x 4 hours after the begin."""
    capacity = gpt_8b_on("250 GB").capacity
    assert (capacity.disk_checkpoints, capacity.disk_full_seconds, capacity.fits_disk) == (2, 3 * 14_400, True)


def test_a_target_that_is_full_before_the_file_system_leaves_less() -> None:
    """Of 220 GB 90 % are 198 GB, room for two; of 200 GB they are 180 GB, room for one."""
    held = [gpt_8b_on(f"{size} GB", free_fraction=0.1).capacity.disk_checkpoints for size in (220, 200)]
    assert held == [2, 1]


@pytest.mark.parametrize(
    ("disk", "keep_last", "remedy"),
    [("400 GB", 5, "Keep 3 (retention.keep_last)"), ("150 GB", 1, "Save less (training.saved_state.weights_alone)")],
)
def test_a_disk_that_is_too_small_is_told_with_a_remedy_that_fits(disk: str, keep_last: int, remedy: str) -> None:
    (warning,) = [each for each in gpt_8b_on(disk, keep_last=keep_last).warnings if each.startswith("Saves will fail")]
    assert remedy in warning
    if kept := re.search(r"Keep (\d+)", warning):
        assert gpt_8b_on(disk, keep_last=int(kept[1])).capacity.fits_disk
        assert not gpt_8b_on(disk, keep_last=int(kept[1]) + 1).capacity.fits_disk
    else:
        document = {"model": {"preset": "llama-3.1-8b"}, "training": {"framework": "fsdp2"}, "parallelism": {"data": 8}}
        alone = {"framework": "fsdp2", "saved_state": {"weights_alone": True}}
        assert answer(document | {"training": alone, "retention": {"disk_bytes": disk}}).capacity.fits_disk


SAVE, OF_WEIGHTS = 112.42e9, 16.06e9
TWO_MONTHS = {"keep_weights_every": 10, "run_seconds": "60d"}


def disk_warnings(found: SizingReport) -> list[str]:
    return [each for each in found.warnings if each.startswith("Saves will fail")]


def test_a_disk_that_kept_weights_fill_is_full_when_they_do() -> None:
    """The weights of 4.8 saves are added each day to two checkpoints."""
    found = report(LLAMA_8B, retention=TWO_MONTHS | {"disk_bytes": "1 TB"})
    days = (1e12 - 2 * SAVE) / (4.8 * OF_WEIGHTS)
    assert found.capacity.disk_exceeded_seconds == pytest.approx(days * 86_400, rel=1e-3)
    last_that_fits = [at for at in found.capacity_over_time if at.usable_bytes <= 1e12][-1]
    assert last_that_fits.at_seconds < days * 86_400
    (warning,) = disk_warnings(found)
    assert "4.625 TB of kept weights: full after 10.1 days" in warning


@pytest.mark.parametrize(
    ("retention", "checkpoint", "remedy", "cure"),
    [
        (TWO_MONTHS | {"disk_bytes": "1 TB"}, {}, "every 60th", {"retention": {"keep_weights_every": 60}}),
        (
            {"disk_bytes": "260 GB"},
            {"export": {"every": 1, "keep": 5}},
            "Keep 1 export (checkpoint.export.keep)",
            {"checkpoint": {"export": {"every": 1, "keep": 1}}},
        ),
        (
            TWO_MONTHS | {"disk_bytes": "200 GB"},
            {},
            "Use a larger disk (retention.disk_bytes) of 4.851 TB or more",
            {"retention": {"disk_bytes": "4.851 TB"}},
        ),
    ],
)
def test_the_remedy_for_a_disk_cures(
    retention: dict[str, Any], checkpoint: dict[str, Any], remedy: str, cure: dict[str, dict[str, Any]]
) -> None:
    asked = {"retention": retention, "checkpoint": checkpoint}
    (warning,) = disk_warnings(report(LLAMA_8B, **asked))
    assert remedy in warning
    cured = {name: fields | cure.get(name, {}) for name, fields in asked.items()}
    assert not disk_warnings(report(LLAMA_8B, **cured))


def test_a_disk_that_holds_all_that_is_kept_is_never_exceeded() -> None:
    assert gpt_8b_on("250 GB").capacity.disk_exceeded_seconds is None


def test_the_length_of_the_run_that_is_priced_is_that_over_which_weights_are_kept() -> None:
    """90 days at 4.8 weights a day, at 20 per terabyte."""
    every_tenth = {"keep_weights_every": 10, "disk_bytes": "1 TB"}
    found = report(LLAMA_8B, retention=every_tenth, costs={"per_terabyte": 20, "run_seconds": "90d"})
    held = 2 * SAVE + 90 * 4.8 * OF_WEIGHTS
    assert found.capacity.usable_bytes == pytest.approx(held, rel=1e-3)
    assert found.capacity.usable_bytes == pytest.approx(found.capacity_over_time[-1].usable_bytes)
    assert found.cost is not None
    assert found.cost.capacity == pytest.approx(held / 1e12 * 20, rel=1e-3)
    assert not found.capacity.fits_disk


def test_weights_kept_for_an_unknown_time_are_told_by_the_day() -> None:
    found = report(LLAMA_8B, retention={"keep_weights_every": 10, "disk_bytes": "1 TB"})
    assert any("Kept weights add 77.09 GB a day" in each for each in found.warnings)
    assert found.capacity.disk_exceeded_seconds == pytest.approx(10.06 * 86_400, rel=1e-3)
    known = report(LLAMA_8B, retention=TWO_MONTHS)
    assert not any("Kept weights add" in each for each in known.warnings)


@pytest.mark.parametrize("observed_bytes", [1, 3, 7_001, 99_991])
def test_tiny_checkpoints_on_the_largest_disk_have_an_answer(observed_bytes: int) -> None:
    """More of them fit than a float can count one by one."""
    for kept in ({}, {"keep_weights_every": 3, "run_seconds": "30d"}):
        document = {"model": {"preset": "gpt2"}, "checkpoint": {"observed_bytes": observed_bytes}}
        capacity = answer(document | {"retention": {"disk_bytes": "1000 EB", "free_fraction": 0} | kept}).capacity
        assert capacity.disk_checkpoints == 2**53
        assert capacity.fits_disk
