"""From a SweepRequest to its rows and its Pareto front."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sizing.errors import InvalidInput
from sizing.explore.sweeps.axes import RUN_BLOCKS, axes_of
from sizing.explore.sweeps.blocks import Block, blocks_of, num_rows_of
from sizing.explore.sweeps.figures import OBJECTIVES, ObjectiveName, figure
from sizing.explore.sweeps.front import pareto_front
from sizing.explore.sweeps.sweep_report import Refused, SweepReport
from sizing.explore.sweeps.sweep_request import SweepRequest, sweep_request_from
from sizing.explore.sweeps.table import Column, Table, cells, column, num_rows, rows_at, stacked
from sizing.layout.degrees import degrees_text
from sizing.report import laid_out
from sizing.run.demands.demands import Demands
from sizing.run.evaluation import evaluate
from sizing.run.figures import with_arrays
from sizing.scenario import Scenario, open_degrees, scenario_from
from sizing.sized import sized
from sizing.storage.storage import is_in_nodes

MAX_REPORTED_ROWS = 200_000
"""About 270 bytes each as JSON: 54 MB, which clients still read. The front of more rows is small."""

_MAX_REFUSALS = 100
"""Named one by one; the others are counted."""
_OBJECTIVE = "objective "
_LAYOUT = "parallelism"
"""The column of the layouts that were chosen, in words."""

Progress = Callable[[float], None]


class Sweep:
    """A sweep whose rows come block by block, as tables; `refused` fills with the scenarios that have no answer.

    Raises InvalidInput where the request asks for too much, before any work is done.
    """

    def __init__(self, request: SweepRequest) -> None:
        self.request = request
        self.axes = axes_of(request.scenario)
        self.num_rows = num_rows_of(self.axes, request.combine)
        self.refused: list[Refused] = []
        self._blocks = blocks_of(self.axes, request.combine)
        self._document = _with_fields(request.scenario, {axis.path: None for axis in self.axes})
        self._demands: dict[tuple[str, bool], Demands] = {}
        self._layouts: dict[str, Scenario] = {}
        self._judged_by: list[str] = []
        self._leaves_layout_open = open_degrees(request.scenario)[1] is not None

    def tables(self, *, progress: Progress | None = None) -> Iterator[Table]:
        """The rows that have an answer: a column for each field that varies, each figure and each objective."""
        done = 0
        for block in self._blocks:
            try:
                yield self._table(block)
            except InvalidInput as error:
                self.refused.append(Refused(fields=block.fixed, num_rows=block.num_rows, problem=str(error)))
            done += block.num_rows
            if progress is not None:
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

    def _table(self, block: Block) -> Table:
        first = {path: values[0].item() for path, values in block.arrays.items()}
        scenario = self._laid_out(_with_fields(self._document, block.fixed | first))
        demands = self._demands_of(scenario)
        inputs = with_arrays(scenario, block.arrays).run_inputs
        run = evaluate(demands, inputs).report
        varied = {axis.path: block.arrays.get(axis.path, block.fixed.get(axis.path)) for axis in self.axes}
        figures = {name: figure(name, run, inputs, demands) for name in self.request.shown_figures}
        objectives = {
            f"{_OBJECTIVE}{name}": figure(OBJECTIVES[name][0], run, inputs, demands) for name in self.request.objectives
        }
        chosen = {_LAYOUT: degrees_text(scenario.parallelism)} if self._leaves_layout_open else {}
        shown = varied | chosen | figures | objectives
        return {name: column(value, block.num_rows) for name, value in shown.items()}

    def _laid_out(self, document: dict[str, Any]) -> Scenario:
        """The scenario, in the best layout where it leaves that open: searched once for all that differ in the run."""
        scenario = scenario_from(document)
        if not self._leaves_layout_open:
            return scenario
        deciding = {name: block for name, block in document.items() if name not in RUN_BLOCKS}
        text = json.dumps(deciding, sort_keys=True, default=str)
        if text not in self._layouts:
            best = laid_out(deciding)
            self._layouts[text] = best.scenario
            self._judged_by += best.judged_by
        found = self._layouts[text]
        return scenario.model_copy(update={"parallelism": found.parallelism, "training": found.training})

    def _demands_of(self, scenario: Scenario) -> Demands:
        """What the scenario's layout demands, computed once for all that share it and the way to the storage."""
        text = scenario.model_dump_json(exclude=set(RUN_BLOCKS))
        layout = (text, is_in_nodes(scenario.storage))
        if layout not in self._demands:
            self._demands[layout] = sized(scenario).demands
        return self._demands[layout]


def sweep(document: object, *, progress: Progress | None = None) -> SweepReport:
    """The SweepReport of a parsed document: a SweepRequest, or a scenario with lists and ranges alone.

    Raises InvalidInput where a field breaks a rule, no row has an answer, or there are more than 10,000,000 rows, or
    more than 200,000 to be reported.
    """
    request = sweep_request_from(document)
    asked = Sweep(request)
    if request.rows == "all" and asked.num_rows > MAX_REPORTED_ROWS:
        raise InvalidInput.of(
            "rows",
            f"must be front for more than {MAX_REPORTED_ROWS:,} rows",
            value=f"{asked.num_rows:,} rows",
            remedy="ask for the front alone, or for CSV on the command line",
        )
    table, front = _collected(asked, progress)
    asked.require_some_answer()
    shown = shown_columns(table)
    return SweepReport(
        columns=list(shown),
        rows=[list(row) for row in zip(*map(cells, shown.values()), strict=True)],
        front=front,
        objectives=list(request.objectives),
        num_rows=asked.num_rows,
        num_refused_rows=asked.num_refused_rows,
        refused=asked.refused[:_MAX_REFUSALS],
        warnings=[*asked.layout_warnings, *_unknown_objectives(table, request.objectives)],
    )


def shown_columns(table: Table) -> Table:
    """The columns of a table that the request asked to see."""
    return {name: values for name, values in table.items() if not name.startswith(_OBJECTIVE)}


def _collected(asked: Sweep, progress: Progress | None) -> tuple[Table, list[int] | None]:
    """All rows, or those of the front alone; and the places of the front among them."""
    objectives = asked.request.objectives
    tables: list[Table] = []
    for table in asked.tables(progress=progress):
        if asked.request.rows == "front":
            together = stacked([*tables, rows_at(table, _front(table, objectives))])
            tables = [rows_at(together, _front(together, objectives))]
        else:
            tables.append(table)
    rows = stacked(tables)
    return rows, _front(rows, objectives).tolist() if objectives and rows else None


def _front(table: Mapping[str, Column], objectives: Sequence[ObjectiveName]) -> Any:
    senses = [OBJECTIVES[name][1] for name in objectives]
    values = [table[f"{_OBJECTIVE}{name}"].astype(np.float64) for name in objectives]
    return pareto_front(np.stack(values, axis=1) * senses)


def _unknown_objectives(table: Mapping[str, Column], objectives: Sequence[ObjectiveName]) -> Iterator[str]:
    for name in objectives:
        if num_rows(table) == 0 or np.isnan(table[f"{_OBJECTIVE}{name}"].astype(np.float64)).all():
            yield f"The objective {name} is unknown in every row, so the front is empty. Give the fields that it needs"


def _with_fields(document: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The document with one value at each dotted path."""
    changed = copy.deepcopy(document)
    for path, value in values.items():
        *blocks, name = path.split(".")
        block: Any = changed
        for part in blocks:
            block = block[int(part)] if isinstance(block, list) else block[part]
        block[name] = value
    return changed
