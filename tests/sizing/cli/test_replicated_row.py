"""The row of replicated tensors names three of them, and counts the others where there are others."""

from __future__ import annotations

import pytest

from sizing.present.size import checkpoint_section
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

REPORT = answer(scenario_from(REFERENCE_SCENARIO | {"checkpoint": {"format": "megatron", "interval_seconds": "4h"}}))


@pytest.mark.parametrize(("number", "ending"), [(2, "x8"), (3, "x8"), (4, " and 1 more"), (6, " and 3 more")])
def test_what_is_left_out_is_counted(number: int, ending: str) -> None:
    size = REPORT.checkpoint.model_copy(update={"replicated": REPORT.checkpoint.replicated[:number]})
    rows = {row.label: row for row in checkpoint_section(REPORT.model_copy(update={"checkpoint": size})).rows}
    assert rows["replicated"].meaning.endswith(ending)
    assert rows["replicated"].meaning.count(" x") == min(number, 3)


def test_optimizer_state_in_more_files_than_the_weights_is_repeated_as_often() -> None:
    """Flat buffers of 4 tensor ranks each hold 12 bytes of every norm's value, of which the weights are saved once."""
    training = {"framework": "megatron", "distributed_optimizer": True}
    scenario = {"model": {"preset": "llama-3.1-8b"}, "training": training, "parallelism": {"tensor": 4, "data": 8}}
    norm, final = answer(scenario).checkpoint.replicated
    assert (norm.copies, norm.replicated_bytes) == (4, 3 * 12 * 64 * 4096)
    assert (final.copies, final.replicated_bytes) == (4, 3 * 12 * 4096)
