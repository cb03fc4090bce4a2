"""Figures that a sweep can show, by their dotted names in the report, and the objectives made of them."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel

from sizing.errors import model_in
from sizing.field_paths import value_at
from sizing.layout import CheckpointSize, Layout
from sizing.run.evaluation import RunInputs, RunReport
from sizing.run.workload import CheckpointWorkload
from sizing.sized_layout import SizedLayout
from sizing.training import GpuMemory
from sizing.training.step_time import StepTime

_BLOCKS = {
    name: block
    for name, field in RunReport.model_fields.items()
    if typing.get_origin(field.annotation) is not list and (block := model_in(field.annotation)) is not None
}
"""Blocks of a report of which a row of a sweep has one."""

_OF_WORKLOAD = {
    "checkpoint.written_bytes": "unreduced_bytes",
    "layout.num_gpus": "num_gpus",
    "layout.num_nodes": "num_nodes",
    "layout.num_writing_nodes": "num_writing_nodes",
}
_LAYOUT_BLOCKS: dict[str, type[BaseModel]] = {
    "checkpoint": CheckpointSize,
    "layout": Layout,
    "training": GpuMemory,
    "training.step": StepTime,
}
"""Blocks of a report that the layout alone decides, which all rows of a scenario share."""
SEARCHED_FIGURES = ("training.cannot_run", "training.remedy")
"""Figures that an answer alone has: the nearest layout that can run takes a search."""
_BANDWIDTH = "storage.profile.write_bytes_per_second"
_MET = "targets.met"


def _is_single(annotation: Any) -> bool:
    """Whether a field holds one number, text or truth value."""
    return not any(
        (typing.get_origin(kind) or kind) in (list, tuple, dict)
        or (isinstance(kind, type) and issubclass(kind, BaseModel))
        for kind in (annotation, *typing.get_args(annotation))
    )


def _list_figures(blocks: Mapping[str, type[BaseModel]]) -> list[str]:
    return [
        f"{name}.{field}"
        for name, block in blocks.items()
        for field, info in block.model_fields.items()
        if _is_single(info.annotation)
    ]


LAYOUT_FIGURES = tuple(
    name for name in _list_figures(_LAYOUT_BLOCKS) if name not in _OF_WORKLOAD and name not in SEARCHED_FIGURES
)
"""Figures of the layout, beside those of its workload."""
FIGURES = (
    *_OF_WORKLOAD,
    *LAYOUT_FIGURES,
    *_list_figures(_BLOCKS),
    _BANDWIDTH,
    _MET,
)
"""Every figure that can be asked for."""

DEFAULT_FIGURES = (
    "checkpoint.written_bytes",
    "layout.num_gpus",
    "write.seconds",
    "write.stall_seconds",
    "write.bottleneck",
    "restore.seconds",
    "overhead.fraction",
    "overhead.rework_fraction",
    "interval.goodput_at_interval_fraction",
    "interval.optimal_period_seconds",
    "interval.goodput_at_optimum_fraction",
    "required.write_bytes_per_second",
    "capacity.capacity_bytes",
    "cost.total",
    "targets.met",
)

ObjectiveName = Literal[
    "stall", "overhead", "rework", "goodput", "best-goodput", "recovery", "bandwidth", "capacity", "gpus", "cost"
]
OBJECTIVES: dict[ObjectiveName, tuple[str, int]] = {
    "stall": ("write.stall_seconds", 1),
    "overhead": ("overhead.fraction", 1),
    "rework": ("overhead.rework_fraction", 1),
    "goodput": ("interval.goodput_at_interval_fraction", -1),
    "best-goodput": ("interval.goodput_at_optimum_fraction", -1),
    "recovery": ("restore.time_to_first_step_seconds", 1),
    "bandwidth": (_BANDWIDTH, 1),
    "capacity": ("capacity.capacity_bytes", 1),
    "gpus": ("layout.num_gpus", 1),
    "cost": ("cost.total", 1),
}
"""The figure of each objective: 1 where less is better, -1 where more is."""


def figure(name: str, run: RunReport, inputs: RunInputs, workload: CheckpointWorkload) -> Any:
    """Read a figure by its dotted name: a number or an array, None where it is not known."""
    if name in _OF_WORKLOAD:
        return getattr(workload, _OF_WORKLOAD[name])
    if name == _BANDWIDTH:
        return inputs.profile.write.file_system_bytes_per_second if inputs.profile else None
    if name == _MET:
        known = [np.asarray(check.met, dtype=np.float64) == 1.0 for check in run.targets if check.found is not None]
        return np.logical_and.reduce(np.broadcast_arrays(*known)) if known else None
    return value_at(run, name)


def layout_figures(layout: SizedLayout, names: Iterable[str]) -> dict[str, Any]:
    """Read those of the named figures that the layout decides, None where one is not known."""
    laid_out = layout.checkpoint_layout
    blocks = {"checkpoint": laid_out.size, "layout": laid_out.layout, "training": layout.memory}
    return {name: value_at(blocks, name) for name in names if name in LAYOUT_FIGURES}
