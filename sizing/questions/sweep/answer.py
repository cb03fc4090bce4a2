"""Answer of a sweep: its rows, block by block, and its Pareto front."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sizing.errors import InvalidInput
from sizing.field_paths import with_fields
from sizing.layout.degrees import degrees_text
from sizing.questions.question import Progress, ignore_progress
from sizing.questions.sweep.axes import RUN_BLOCKS, RowBlock, combine_axes, count_rows, find_axes
from sizing.questions.sweep.figures import OBJECTIVES, ObjectiveName, figure
from sizing.questions.sweep.report import RefusedRows, SweepReport
from sizing.questions.sweep.request import SweepRequest, check_names
from sizing.questions.sweep.table import Column, Table, cells, column, num_rows, pareto_front, stack_tables, take_rows
from sizing.report import find_layout
from sizing.run.evaluation import evaluate
from sizing.run.figures import with_arrays
from sizing.run.workload import CheckpointWorkload
from sizing.scenario import Scenario, open_degrees, scenario_from
from sizing.sized_layout import size_layout
from sizing.storage.storage import resolve_storage

MAX_REPORTED_ROWS = 200_000
"""About 270 bytes each as JSON: 54 MB, which clients still read. The front of more rows is small."""

_MAX_REFUSALS = 100
"""Named one by one; the others are counted."""
_OBJECTIVE = "objective "
_LAYOUT = "parallelism"
"""The column of the layouts that were chosen, in words."""


class Sweep:
    """A sweep whose rows come block by block, as tables; `refused` fills with the scenarios that have no answer.

    Raises InvalidInput where the request asks for too much, before any work is done.
    """

    def __init__(self, request: SweepRequest) -> None:
        self.request = request
        self.axes = find_axes(request.scenario)
        self.num_rows = count_rows(self.axes, request.combine)
        self.refused: list[RefusedRows] = []
        self._blocks = combine_axes(self.axes, request.combine)
        self._document = with_fields(request.scenario, {axis.path: None for axis in self.axes})
        self._workload: dict[tuple[str, object], CheckpointWorkload] = {}
        self._layouts: dict[str, Scenario] = {}
        self._judged_by: list[str] = []
        self._leaves_layout_open = open_degrees(request.scenario)[1] is not None

    def tables(self, progress: Progress = ignore_progress) -> Iterator[Table]:
        """The rows that have an answer: a column for each field that varies, each figure and each objective."""
        done = 0
        for block in self._blocks:
            try:
                yield self._answer_block(block)
            except InvalidInput as error:
                self.refused.append(RefusedRows(fields=block.fixed, num_rows=block.num_rows, problem=str(error)))
            done += block.num_rows
            progress(done / self.num_rows)

    @property
    def layout_warnings(self) -> list[str]:
        """What was assumed to choose the layouts of the rows that have come, each once."""
        chosen = [f"Assumed: the best layout that fits each row's GPUs, as column {_LAYOUT} says"]
        return [*chosen, *dict.fromkeys(self._judged_by)] if self._leaves_layout_open else []

    @property
    def num_refused_rows(self) -> int:
        """How many rows have no answer, of those that have come."""
        return sum(refused.num_rows for refused in self.refused)

    def require_some_answer(self) -> None:
        """Raise InvalidInput, with the first reason, where no row has an answer."""
        if self.num_refused_rows == self.num_rows:
            remedy = self.refused[0].problem.rstrip(".")
            raise InvalidInput.of("the sweep", "has no row with an answer", value=None, remedy=remedy)

    def _answer_block(self, block: RowBlock) -> Table:
        first = {path: values[0].item() for path, values in block.arrays.items()}
        scenario = self._lay_out(with_fields(self._document, block.fixed | first))
        workload = self._find_workload(scenario)
        inputs = with_arrays(scenario, block.arrays).run_inputs
        run = evaluate(workload, inputs).report
        varied = {axis.path: block.arrays.get(axis.path, block.fixed.get(axis.path)) for axis in self.axes}
        figures = {name: figure(name, run, inputs, workload) for name in self.request.shown_figures}
        objectives = {
            f"{_OBJECTIVE}{name}": figure(OBJECTIVES[name][0], run, inputs, workload)
            for name in self.request.objectives
        }
        chosen = {_LAYOUT: degrees_text(scenario.parallelism)} if self._leaves_layout_open else {}
        shown = varied | chosen | figures | objectives
        return {name: column(value, block.num_rows) for name, value in shown.items()}

    def _lay_out(self, document: dict[str, Any]) -> Scenario:
        """Lay the scenario out, in the best layout where it leaves that open: one search for all that share it."""
        scenario = scenario_from(document)
        if not self._leaves_layout_open:
            return scenario
        deciding = {name: block for name, block in document.items() if name not in RUN_BLOCKS}
        text = json.dumps(deciding, sort_keys=True, default=str)
        if text not in self._layouts:
            best = find_layout(deciding)
            self._layouts[text] = best.scenario
            self._judged_by += best.judged_by
        found = self._layouts[text]
        return scenario.model_copy(update={"parallelism": found.parallelism, "training": found.training})

    def _find_workload(self, scenario: Scenario) -> CheckpointWorkload:
        """Find the workload of the scenario's layout, computed once for all that share both and the kind of storage."""
        text, storage = scenario.model_dump_json(exclude=set(RUN_BLOCKS)), resolve_storage(scenario.storage)
        layout = (text, storage and (storage.is_in_nodes, storage.measures_one_process))
        if layout not in self._workload:
            self._workload[layout] = size_layout(scenario).workload
        return self._workload[layout]


def answer_sweep(request: SweepRequest, progress: Progress = ignore_progress) -> SweepReport:
    """Answer a SweepRequest.

    Raises InvalidInput where no row has an answer, or there are more than 10,000,000 rows, or more than 200,000 to be
    reported.
    """
    check_names(request)
    sweep = Sweep(request)
    if request.rows == "all" and sweep.num_rows > MAX_REPORTED_ROWS:
        raise InvalidInput.of(
            "rows",
            f"must be front for more than {MAX_REPORTED_ROWS:,} rows",
            value=f"{sweep.num_rows:,} rows",
            remedy="ask for the front alone, or for CSV on the command line",
        )
    table, front = _collect_rows(sweep, progress)
    unknown = [
        f"The objective {name} is unknown in every row, so the front is empty. Give the fields that it needs"
        for name in request.objectives
        if num_rows(table) == 0 or np.isnan(table[f"{_OBJECTIVE}{name}"].astype(np.float64)).all()
    ]
    sweep.require_some_answer()
    shown = shown_columns(table)
    return SweepReport(
        columns=list(shown),
        rows=[list(row) for row in zip(*map(cells, shown.values()), strict=True)],
        front=front,
        objectives=list(request.objectives),
        num_rows=sweep.num_rows,
        num_refused_rows=sweep.num_refused_rows,
        refused=sweep.refused[:_MAX_REFUSALS],
        warnings=[*sweep.layout_warnings, *unknown],
    )


def shown_columns(table: Table) -> Table:
    """The columns of a table that the request wants to see."""
    return {name: values for name, values in table.items() if not name.startswith(_OBJECTIVE)}


def _collect_rows(sweep: Sweep, progress: Progress) -> tuple[Table, list[int] | None]:
    """Collect all rows, or those of the front alone, and the places of the front among them."""
    objectives = sweep.request.objectives
    tables: list[Table] = []
    for table in sweep.tables(progress):
        if sweep.request.rows == "front":
            together = stack_tables([*tables, take_rows(table, _find_front(table, objectives))])
            tables = [take_rows(together, _find_front(together, objectives))]
        else:
            tables.append(table)
    rows = stack_tables(tables)
    return rows, _find_front(rows, objectives).tolist() if objectives and rows else None


def _find_front(table: Mapping[str, Column], objectives: Sequence[ObjectiveName]) -> Any:
    senses = [OBJECTIVES[name][1] for name in objectives]
    values = [table[f"{_OBJECTIVE}{name}"].astype(np.float64) for name in objectives]
    return pareto_front(np.stack(values, axis=1) * senses)
