"""A calibration finds the limits that the links were set to, and predicts a run that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sizing.storage.calibration import calibrate
from tests.testbed.demo_calibration import NUM_NODES, WITHIN_FRACTION, comparisons, fitted_scan, held_out_run
from tests.testbed.known_storage import known_storage

if TYPE_CHECKING:
    from tests.conftest import Testbed


@pytest.mark.exhaustive(minutes=3)
def test_a_real_scan_of_known_links_is_recovered_and_predicts_what_was_held_out(
    testbed: Testbed, tmp_path: Path
) -> None:
    storage = testbed(known_storage(tmp_path, num_nodes=NUM_NODES))
    for _ in range(3):  # beside busy processes a scan measures these too
        rows = comparisons(calibrate([fitted_scan(storage)]), held_out_run(storage))
        print(*rows, sep="\n")
        if all(abs(row.error_fraction) <= WITHIN_FRACTION for row in rows):
            break
    assert len(rows) == 6
    assert all("measured" in row.what for row in rows if "limit" in row.what)
    assert all(abs(row.error_fraction) <= WITHIN_FRACTION for row in rows)
