"""How many rows a sweep answers in a second. Prints, judges nothing."""

import copy
import time

import pytest

from sizing.questions.chunks import ItemRange
from sizing.questions.registry import SWEEP
from sizing.questions.sweep.answer import Sweep
from sizing.questions.sweep.request import REFERENCE_SWEEP
from sizing.questions.sweep.table import num_rows


@pytest.mark.benchmark
def test_a_million_rows_over_storage_interval_and_failures() -> None:
    document = copy.deepcopy(REFERENCE_SWEEP) | {"rows": "front"}
    scenario = document["scenario"]
    for block, field in (
        (scenario["storage"]["profile"], "write_bytes_per_second"),
        (scenario["checkpoint"], "interval_seconds"),
    ):
        block[field] |= {"num": 100}
    scenario["reliability"]["failures_per_node_day"] = {"from": 0.001, "to": 0.01, "num": 100}
    for attempt in range(3):
        start = time.process_time()
        sweep = Sweep(SWEEP.question.parse_request(document))
        rows = sum(num_rows(table) for table in sweep.tables(ItemRange(0, sweep.num_rows), [], {}))
        columns = time.process_time() - start
        start = time.process_time()
        report = SWEEP.answer(document)
        front = time.process_time() - start
        print(
            f"\n{attempt}: {rows:,} rows, {rows / columns / 1e6:.2f} million a second of one core; "
            f"with the front of {len(report.rows)} rows {rows / front / 1e6:.2f} million"
        )
