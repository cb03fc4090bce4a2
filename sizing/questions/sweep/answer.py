"""Answer of a sweep: its rows, chunk by chunk, and its Pareto front."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field

from sizing.errors import InvalidInput
from sizing.field_paths import with_fields
from sizing.layout.degrees import degrees_text
from sizing.questions.chunks import Computer, ItemRange, Progress, compute_here, ignore_progress
from sizing.questions.question import CsvTable
from sizing.questions.sweep.axes import RUN_BLOCKS, RowBlock, Rows, find_axes
from sizing.questions.sweep.figures import OBJECTIVES, ObjectiveName, figure, layout_figures
from sizing.questions.sweep.report import RefusedRows, SweepReport
from sizing.questions.sweep.request import SweepRequest, check_names
from sizing.questions.sweep.table import (
    Column,
    Table,
    cells,
    column,
    column_of_cells,
    num_rows,
    pareto_front,
    stack_tables,
    take_rows,
)
from sizing.report import find_layout
from sizing.run.evaluation import evaluate
from sizing.run.figures import with_arrays
from sizing.run.workload import CheckpointWorkload
from sizing.scenario import Scenario, open_degrees, scenario_from
from sizing.sized_layout import size_layout, with_rate_of_link
from sizing.storage.storage import resolve_storage
from sizing.strict_model import StrictModel

MAX_REPORTED_ROWS = 200_000
"""About 270 bytes each as JSON: 54 MB, which clients still read. The front of more rows is small."""

_MAX_REFUSALS = 100
"""Named one by one; the others are counted."""
_OBJECTIVE = "objective "
_LAYOUT = "parallelism"
"""The column of the layouts that were chosen, in words."""


class _LaidOut(NamedTuple):
    """A scenario in its layout, and what was assumed to choose that where it left it open."""

    scenario: Scenario
    judged_by: Sequence[str]


class _LayoutFigures(NamedTuple):
    """What a layout decides of its rows: what a checkpoint asks of the storage, and figures that are shown."""

    workload: CheckpointWorkload
    figures: dict[str, Any]


class SweepPart(StrictModel):
    """Rows of a chunk that have an answer, by column, and the scenarios that have none."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    columns: dict[str, list[Any]] = Field(description="Values of each column. Null when unknown.")
    refused: list[RefusedRows] = Field(description="Scenarios without an answer, and why.")
    layout_judged_by: list[str] = Field(description="What was assumed to choose the layouts of the rows.")

    @property
    def table(self) -> Table:
        """The rows, as they were computed."""
        return {name: column_of_cells(values) for name, values in self.columns.items()}


class Sweep:
    """A sweep as chunks of rows, or as tables, block by block.

    Raises InvalidInput where the request asks for too much, before any work is done.
    """

    part = SweepPart

    def __init__(self, request: SweepRequest) -> None:
        check_names(request)
        self.request = request
        self.axes = find_axes(request.scenario)
        self.rows = Rows(self.axes, request.combine)
        self.num_rows = self.rows.num_rows
        self._document = with_fields(request.scenario, {axis.path: None for axis in self.axes})
        self._sizes: dict[tuple[str, object], _LayoutFigures] = {}
        self._layouts: dict[str, _LaidOut] = {}
        self._leaves_layout_open = open_degrees(request.scenario)[1] is not None
        self.chunks = self.rows.chunks(are_searched=self._leaves_layout_open)

    def compute(self, items: ItemRange, progress: Progress = ignore_progress) -> SweepPart:
        """Compute the rows of a range, or those of them that are on its front where the request keeps no others."""
        refused: list[RefusedRows] = []
        judged_by: dict[str, None] = {}
        tables: list[Table] = []
        for table in self.tables(items, refused, judged_by, progress):
            _keep(tables, table, self.request)
        columns = {name: cells(values) for name, values in stack_tables(tables).items()}
        return SweepPart(columns=columns, refused=refused, layout_judged_by=list(judged_by))

    def merge(self, parts: Iterable[SweepPart]) -> SweepReport:
        """Report the rows of all parts, and the places of the front among them."""
        refused: list[RefusedRows] = []
        tables: list[Table] = []
        judged_by: list[str] = []
        num_refused = 0
        for part in parts:
            num_refused += sum(each.num_rows for each in part.refused)
            _add_refused(refused, part.refused)
            judged_by += part.layout_judged_by
            if part.columns:
                _keep(tables, part.table, self.request)
        if num_refused == self.num_rows:
            raise self.no_answer(refused)
        table, objectives = stack_tables(tables), self.request.objectives
        unknown = [
            f"The objective {name} is unknown in every row, so the front is empty. Give the fields that it needs"
            for name in objectives
            if num_rows(table) == 0 or np.isnan(table[f"{_OBJECTIVE}{name}"].astype(np.float64)).all()
        ]
        shown = shown_columns(table)
        return SweepReport(
            columns=list(shown),
            rows=[list(row) for row in zip(*map(cells, shown.values()), strict=True)],
            front=_find_front(table, objectives).tolist() if objectives and table else None,
            objectives=list(objectives),
            num_rows=self.num_rows,
            num_refused_rows=num_refused,
            refused=refused[:_MAX_REFUSALS],
            warnings=[*self._layout_warnings(judged_by), *unknown],
        )

    def tables(
        self,
        items: ItemRange,
        refused: list[RefusedRows],
        judged_by: dict[str, None],
        progress: Progress = ignore_progress,
    ) -> Iterator[Table]:
        """The rows of a range that have an answer: a column for each field that varies, each figure and each objective.

        `refused` fills with the scenarios that have none, and `judged_by` with what was assumed to choose layouts.
        """
        done, num_items = 0, items.stop - items.start
        for block in self.rows.blocks(items):
            try:
                yield self._answer_block(block, judged_by)
            except InvalidInput as error:
                refused.append(RefusedRows(fields=block.fixed, num_rows=block.num_rows, problem=str(error)))
            done += block.num_rows
            progress(done / num_items)

    def no_answer(self, refused: Sequence[RefusedRows]) -> InvalidInput:
        """Return the refusal of a sweep without an answer: that of each row where all are refused alike."""
        if len({each.problem for each in refused}) == 1:
            try:
                self._answer_block(next(self.rows.blocks(ItemRange(0, 1))), {})
            except InvalidInput as error:
                return error.within("scenario")
        remedy = refused[0].problem.rstrip(".")
        return InvalidInput.of("the sweep", "has no row with an answer", value=None, remedy=remedy)

    def _layout_warnings(self, judged_by: Sequence[str]) -> list[str]:
        """What was assumed to choose the layouts of the rows, each once."""
        chosen = [f"Assumed: the best layout that fits each row's GPUs, as column {_LAYOUT} says"]
        return [*chosen, *dict.fromkeys(judged_by)] if self._leaves_layout_open else []

    def _answer_block(self, block: RowBlock, judged_by: dict[str, None]) -> Table:
        laid_out = self._lay_out(with_fields(self._document, block.fixed | block.first))
        judged_by |= dict.fromkeys(laid_out.judged_by)
        scenario = laid_out.scenario
        workload, of_layout = self._find_sizes(scenario)
        inputs = with_arrays(scenario, block.arrays).run_inputs
        run = evaluate(workload, inputs).report
        varied = {axis.path: block.arrays.get(axis.path, block.fixed.get(axis.path)) for axis in self.axes}
        figures = {
            name: of_layout[name] if name in of_layout else figure(name, run, inputs, workload)
            for name in self.request.shown_figures
        }
        objectives = {
            f"{_OBJECTIVE}{name}": figure(OBJECTIVES[name][0], run, inputs, workload)
            for name in self.request.objectives
        }
        chosen = {_LAYOUT: degrees_text(scenario.parallelism)} if self._leaves_layout_open else {}
        shown = varied | chosen | figures | objectives
        return {name: column(value, block.num_rows) for name, value in shown.items()}

    def _lay_out(self, document: dict[str, Any]) -> _LaidOut:
        """Lay the scenario out, in the best layout where it leaves that open: one search for all that share it."""
        scenario = scenario_from(document)
        if not self._leaves_layout_open:
            return _LaidOut(scenario, ())
        deciding = {name: block for name, block in document.items() if name not in RUN_BLOCKS}
        text = json.dumps(deciding, sort_keys=True, default=str)
        if text not in self._layouts:
            best = find_layout(deciding)
            self._layouts[text] = _LaidOut(best.scenario, best.judged_by)
        found, judged_by = self._layouts[text]
        chosen = {"parallelism": found.parallelism, "training": found.training}
        return _LaidOut(scenario.model_copy(update=chosen), judged_by)

    def _find_sizes(self, scenario: Scenario) -> _LayoutFigures:
        """Size the scenario's layout, once for all that share it, the kind of storage and the rate of its link."""
        linked, storage = with_rate_of_link(scenario), resolve_storage(scenario.storage)
        text = linked.model_dump_json(exclude=set(RUN_BLOCKS))
        key = (text, storage and (storage.is_in_nodes, storage.measures_one_process))
        if key not in self._sizes:
            layout = size_layout(scenario)
            self._sizes[key] = _LayoutFigures(layout.workload, layout_figures(layout, self.request.shown_figures))
        return self._sizes[key]


def sweep_to_report(request: SweepRequest) -> Sweep:
    """Make the work of a request whose answer is a report.

    Raises InvalidInput where there are more than 1,000,000,000 rows, or more than 200,000 to be reported.
    """
    sweep = Sweep(request)
    if request.rows == "all" and sweep.num_rows > MAX_REPORTED_ROWS:
        raise InvalidInput.of(
            "rows",
            f"must be front for more than {MAX_REPORTED_ROWS:,} rows",
            value=f"{sweep.num_rows:,} rows",
            remedy="ask for the front alone, or for CSV on the command line",
        )
    return sweep


def shown_columns(table: Table) -> Table:
    """The columns of a table that the request wants to see."""
    return {name: values for name, values in table.items() if not name.startswith(_OBJECTIVE)}


def stream_sweep(request: SweepRequest, computer: Computer = compute_here) -> CsvTable | None:
    """Stream every row, computed while it is read; None for a front. Raises InvalidInput where no row has an answer.

    Rows come block by block where this process computes them, and else chunk by chunk.
    """
    if request.rows == "front":
        return None
    refused: list[RefusedRows] = []
    sweep = Sweep(request)
    if computer is compute_here:
        found = sweep.tables(ItemRange(0, sweep.num_rows), refused, {})
    else:
        found = tables_of_parts(computer(sweep, partial(Sweep, request), ignore_progress), refused)
    tables = map(shown_columns, found)
    first = next(tables, None)
    if first is None:
        raise sweep.no_answer(refused)
    rows = (row for table in chain([first], tables) for row in zip(*map(cells, table.values()), strict=True))
    omissions = (f"no answer for {each.num_rows:,} rows: {each.problem}" for each in refused)
    return CsvTable(list(first), rows, lambda: omissions)


def tables_of_parts(parts: Iterable[SweepPart], refused: list[RefusedRows]) -> Iterator[Table]:
    """Yield the rows of parts as they come; `refused` fills with the scenarios that have none."""
    for part in parts:
        _add_refused(refused, part.refused)
        if part.columns:
            yield part.table


def _add_refused(refused: list[RefusedRows], further: Iterable[RefusedRows]) -> None:
    """Add the refusals of a chunk; where a chunk ended in the midst of equal ones, they are one."""
    for each in further:
        before = refused[-1] if refused else None
        if before is not None and (before.fields, before.problem) == (each.fields, each.problem):
            refused[-1] = before.model_copy(update={"num_rows": before.num_rows + each.num_rows})
        else:
            refused.append(each)


def _keep(kept: list[Table], table: Table, request: SweepRequest) -> None:
    """Keep a table behind others: all of its rows, or of all together those of the front."""
    if request.rows == "all":
        kept.append(table)
        return
    together = stack_tables([*kept, take_rows(table, _find_front(table, request.objectives))])
    kept[:] = [take_rows(together, _find_front(together, request.objectives))]


def _find_front(table: Mapping[str, Column], objectives: Sequence[ObjectiveName]) -> Any:
    senses = [OBJECTIVES[name][1] for name in objectives]
    values = [table[f"{_OBJECTIVE}{name}"].astype(np.float64) for name in objectives]
    return pareto_front(np.stack(values, axis=1) * senses)
