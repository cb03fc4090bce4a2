"""What sizing says for a run, and the scenario to go on from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from io_bench.observation.saves import Save
from sizing.checkpoint_files import CheckpointContents
from sizing.cli.flags import with_flags
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.summary.inspected import inspected_flags

Unit = Literal["bytes", "bytes per day", "count", "seconds", "fraction"]
_RATES_OF_FAILURE = ("failures_per_node_day", "failures_per_gpu_hour", "mtbf_seconds", "components", "preset")
_MILLISECONDS = 3
"""Decimals of a duration in a scenario."""


class Comparison(BaseModel):
    """A figure as it was observed and as sizing has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    figure: str = Field(description="What is compared, in words.")
    unit: Unit = Field(description="Unit of both values.")
    observed: float | None = Field(description="What the files say, in that unit. Null where they do not tell.")
    model: float | None = Field(description="What sizing says, in that unit. Null where the scenario leaves it open.")


def run_scenario(contents: CheckpointContents, save: Save) -> dict[str, Any] | None:
    """The scenario of a run by what a checkpoint holds and by who wrote it; None where parameters are not known.

    Degrees are those that names tell. Ranks of torch DCP are taken for data-parallel ones, among which bytes divide.
    """
    given = inspected_flags(contents)
    if contents.num_parameters is None or not contents.is_whole:
        return None
    return with_flags({}, {flag: value for flag, value in given.items() if flag != "observed_bytes"} | _degrees(save))


def _degrees(save: Save) -> dict[str, int]:
    grids = [re.fullmatch(r"mp_rank_(\d+)(?:_(\d+))?", writer) for writer in save.by_writer]
    if all(grids):
        return {
            "tensor": 1 + max(int(found[1]) for found in grids if found),
            "pipeline": 1 + max(int(found[2] or 0) for found in grids if found),
        }
    shards = [re.fullmatch(r"zero_pp_rank_(\d+)_mp_rank_(\d+)", writer) for writer in save.by_writer]
    if any(shards):
        return {
            "data": 1 + max(int(found[1]) for found in shards if found),
            "tensor": 1 + max(int(found[2]) for found in shards if found),
        }
    return {"data": len(save.writers)} if len(save.writers) > 1 else {}


def found_scenario(asked: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario with what was observed set over it, as `ckpt-size FILE` takes it.

    Raises InvalidInput where the scenario breaks a rule.
    """
    document = {name: dict(block) if isinstance(block, Mapping) else block for name, block in asked.items()}
    _set(document, "checkpoint", _checkpoint(figures))
    kept = figures["kept_last"]
    _set(document, "retention", {"keep_last": kept})
    if figures["mtbf_seconds"] is not None:
        document["reliability"] = {
            name: value for name, value in document.get("reliability", {}).items() if name not in _RATES_OF_FAILURE
        } | {"mtbf_seconds": round(figures["mtbf_seconds"], _MILLISECONDS)}
    if "storage" not in document and _has_rate(figures):
        document["storage"] = {"profile": {"write_bytes_per_second": round(figures["write_bytes_per_second"])}}
    scenario_from(document)
    return document


def _checkpoint(figures: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "observed_bytes", figures["checkpoint_bytes"]
    if figures["interval_seconds"] is not None:
        yield "interval_seconds", round(figures["interval_seconds"], _MILLISECONDS)
    if _has_rate(figures):
        yield "observed_write_bytes_per_second", round(figures["write_bytes_per_second"])


def _has_rate(figures: Mapping[str, Any]) -> bool:
    """Whether a rate was observed, and not only a bound of one."""
    return figures["write_bytes_per_second"] is not None and figures["times"] == "birth and modification"


def _set(document: dict[str, Any], block: str, values: Mapping[str, Any] | Iterator[tuple[str, Any]]) -> None:
    document[block] = {**document.get(block, {}), **dict(values)}


def compared(asked: Mapping[str, Any], found: Mapping[str, Any], figures: Mapping[str, Any]) -> tuple[Comparison, ...]:
    """What was observed beside what sizing says.

    Size, writers and write time are those of the scenario without what was observed, the rest those with it.
    """
    before, after = answer(_unmeasured(asked)), answer(dict(found))
    return tuple(_rows(figures, before, after))


def _unmeasured(asked: Mapping[str, Any]) -> dict[str, Any]:
    checkpoint = {name: value for name, value in asked.get("checkpoint", {}).items() if name != "observed_bytes"}
    return {**asked, "checkpoint": checkpoint}


def _rows(figures: Mapping[str, Any], before: SizingReport, after: SizingReport) -> Iterator[Comparison]:
    seconds, interval = figures["write_seconds"], figures["interval_seconds"]
    has_rate = _has_rate(figures)
    yield _row("size of a checkpoint", "bytes", figures["checkpoint_bytes"], before.checkpoint.total_bytes)
    yield _row("ranks that write", "count", figures["num_writers"], before.layout.num_writers)
    yield _row("time of a save", "seconds", seconds, before.write.seconds if before.write else None)
    yield _row("interval; the model's is the best", "seconds", interval, after.interval.optimal_seconds)
    overhead = seconds / interval if has_rate and seconds is not None and interval else None
    yield _row("share of time for saves, if they stall", "fraction", overhead, after.overhead.fraction)
    lost = figures["lost_fraction"] if figures["stops"] else None
    yield _row("share of time lost to stops", "fraction", lost, after.overhead.rework_fraction)
    per_day = after.capacity.written_bytes_per_day
    yield _row("written per day", "bytes per day", figures["written_bytes_per_day"], per_day)
    yield _row("kept; the model's with one in flight", "bytes", figures["kept_bytes"], after.capacity.capacity_bytes)


def _row(figure: str, unit: Unit, observed: float | None, model: float | None) -> Comparison:
    return Comparison(figure=figure, unit=unit, observed=observed, model=model)
