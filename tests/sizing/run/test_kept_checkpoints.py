"""How many checkpoints trainers really keep, and how many are on the disk while one is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sizing.report import answer
from tests.testbed.processes import SECONDS_UNTIL_STUCK

RUN = Path(__file__).with_name("kept_checkpoints.py")


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "limit", "keep_last", "keep_best", "left"),
    [
        ("transformers", 2, 2, 0, 2),
        pytest.param("transformers-best", 1, 1, 1, 1, marks=pytest.mark.exhaustive),
        ("transformers-best", 2, 1, 1, 2),
        ("accelerate", 1, 1, 0, 1),
        pytest.param("accelerate", 2, 2, 0, 2, marks=pytest.mark.exhaustive),
        pytest.param("lightning", 2, 2, 0, 2, marks=pytest.mark.exhaustive),
    ],
)
def test_as_many_checkpoints_are_on_the_disk_at_once_as_the_report_says(
    tmp_path: Path, kind: str, limit: int, keep_last: int, keep_best: int, left: int
) -> None:
    """Trainer keeps the best beside the last, whatever the limit, and with limit 1 only the best when training has ended.

    accelerate deletes before it saves.
    """
    done = subprocess.run(
        [sys.executable, RUN, kind, tmp_path / "run", str(limit)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_UNTIL_STUCK,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    most, at_end = map(int, done.stdout.split()[-2:])
    report = capacity(kind.partition("-")[0], keep_last=keep_last, keep_best=keep_best)
    assert (most, at_end) == (report["num_checkpoints"], left)


def capacity(framework: str, **retention: int) -> dict[str, int]:
    """The block of the report, of a small model."""
    document = {"model": {"preset": "gpt2"}, "training": {"framework": framework}, "retention": retention}
    return answer(document).capacity.model_dump()


def test_a_framework_that_deletes_before_a_save_needs_the_room_of_one_less() -> None:
    """GPT-2 has 124,439,808 parameters of 12 bytes."""
    before, after = (capacity(framework, keep_last=2) for framework in ("accelerate", "transformers"))
    assert (before["num_checkpoints"], after["num_checkpoints"]) == (2, 3)
    assert (before["checkpoints_bytes"], after["checkpoints_bytes"]) == (2 * 1_493_277_696, 3 * 1_493_277_696)


def test_a_last_checkpoint_that_goes_before_the_next_is_written_is_warned_of() -> None:
    document = {"model": {"preset": "gpt2"}, "training": {"framework": "accelerate"}}
    warned = [
        any("deleted before the next one is written" in text for text in answer(document | more).warnings)
        for more in ({}, {"retention": {"keep_last": 2}})
    ]
    assert warned == [True, False]
