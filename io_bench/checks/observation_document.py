"""The scenario of an observed run, and its observed figures beside those that sizing computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from sizing.checkpoint_files import CheckpointContents
from sizing.checkpoint_files.folder import MAYBE_TORCH_SUFFIX
from sizing.checkpoint_files.folder_layouts import ZERO_STAGE
from sizing.checkpoint_files.safetensors import SHARD_SUFFIX
from sizing.field_paths import with_fields
from sizing.present.inspections import OBSERVED_BYTES, find_config, infer_fields
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.strict_model import StrictModel
from sizing.terminal.files import read_document

Unit = Literal["bytes", "bytes per day", "count", "seconds", "fraction"]
_RATES_OF_FAILURE = ("failures_per_node_day", "failures_per_gpu_hour", "mtbf_seconds", "components", "preset")
_MILLISECONDS = 3
"""Decimals of a duration in a scenario."""


class ObservedComparison(StrictModel):
    """A figure as it was observed, and as sizing computes it."""

    figure: str = Field(description="What is compared, in words.")
    unit: Unit = Field(description="Unit of both values.")
    observed: float | None = Field(description="What the files say, in that unit. Null where they do not tell.")
    model: float | None = Field(description="What sizing says, in that unit. Null where the scenario leaves it open.")


def run_scenario(contents: CheckpointContents, folder: Path) -> dict[str, Any] | None:
    """Make a scenario of what a checkpoint in `folder` holds; None where that does not tell the model.

    A config.json beside the weights gives the model where the optimizer's state follows from shapes.
    """
    config = find_config(contents)
    is_known = contents.num_parameters is not None and not contents.is_adapter
    if not is_known or not contents.is_whole:
        return None
    fields: dict[str, Any] = dict(infer_fields(contents, has_config=config is not None))
    if (export_bytes := exported_bytes(contents)) and contents.num_parameters:
        has_fp16 = any(total.part == "weights" and total.dtype == "float16" for total in contents.tensors)
        of_16_bits = "fp16" if has_fp16 else "bf16"
        fields |= {
            "checkpoint.export.every": 1,
            "checkpoint.export.dtype": "fp32" if export_bytes > 3 * contents.num_parameters else of_16_bits,
        }
    model = {} if config is None else {"model": {"huggingface_config": read_document(folder / config)}}
    return with_fields(model, {field: value for field, value in fields.items() if field != OBSERVED_BYTES})


def exported_bytes(contents: CheckpointContents) -> int:
    """Sum the files of whole weights that a trainer writes beside shards of ZeRO 1 or 2, which hold the weights too.

    Source: transformers 5.23, trainer.py, save_model with DeepSpeed.
    """
    if contents.fields.get(ZERO_STAGE) not in ("1", "2"):
        return 0
    whole = (file for file in contents.files if "weights" in file.holds and "/" not in file.name)
    return sum(file.num_bytes for file in whole if file.name.endswith((SHARD_SUFFIX, MAYBE_TORCH_SUFFIX)))


def observed_scenario(
    scenario: Mapping[str, Any], figures: Mapping[str, Any], *, export_bytes: int = 0
) -> dict[str, Any]:
    """Set what was observed over a scenario. `ckpt-size FILE` takes the result.

    `export_bytes` of a save count as its export where the scenario has one, and not as its checkpoint.
    Raises InvalidInput where the scenario breaks a rule.
    """
    has_export = bool(scenario.get("checkpoint", {}).get("export"))
    own_bytes = figures["checkpoint_bytes"] - (export_bytes if has_export else 0)
    fields = {"checkpoint.observed_bytes": own_bytes, "retention.keep_last": figures["kept_last"]}
    if has_export:
        fields["checkpoint.export.keep"] = figures["kept_last"]
    if figures["interval_seconds"] is not None:
        fields["checkpoint.interval_seconds"] = round(figures["interval_seconds"], _MILLISECONDS)
    if _has_rate(figures):
        fields["checkpoint.observed_write_bytes_per_second"] = round(figures["write_bytes_per_second"])
    document = with_fields(scenario, fields)
    if figures["mtbf_seconds"] is not None:
        document["reliability"] = {
            name: value for name, value in document.get("reliability", {}).items() if name not in _RATES_OF_FAILURE
        } | {"mtbf_seconds": round(figures["mtbf_seconds"], _MILLISECONDS)}
    if "storage" not in document and _has_rate(figures):
        document["storage"] = {"profile": {"write_bytes_per_second": round(figures["write_bytes_per_second"])}}
    scenario_from(document)
    return document


def _has_rate(figures: Mapping[str, Any]) -> bool:
    """Whether a rate was observed, and not only a bound of one."""
    return figures["write_bytes_per_second"] is not None and figures["times"] == "birth and modification"


def compare_figures(
    scenario: Mapping[str, Any], observed: Mapping[str, Any], figures: Mapping[str, Any]
) -> tuple[ObservedComparison, ...]:
    """Put observed figures beside those of sizing.

    Size, writers and write time are those of `scenario` without observed bytes, the rest those of the `observed` one.
    """
    checkpoint = {name: value for name, value in scenario.get("checkpoint", {}).items() if name != "observed_bytes"}
    before, after = answer({**scenario, "checkpoint": checkpoint}), answer(dict(observed))
    return tuple(_rows(figures, before, after))


def _rows(figures: Mapping[str, Any], before: SizingReport, after: SizingReport) -> Iterator[ObservedComparison]:
    """Compare each figure with that of the report that stands for it.

    The bytes of a checkpoint are those of all files, as a run has them: tensors, containers, small state, an export.
    """
    size = before.checkpoint
    file_bytes = size.total_bytes + size.container_bytes + sum(size.small_state_bytes.values())
    file_bytes += before.export.num_bytes if before.export else 0
    seconds, interval = figures["write_seconds"], figures["interval_seconds"]
    has_rate = _has_rate(figures)
    yield _row("size of a checkpoint", "bytes", figures["checkpoint_bytes"], file_bytes)
    yield _row("ranks that write", "count", figures["num_writers"], before.layout.num_writers)
    yield _row("time of a save", "seconds", seconds, before.write.seconds if before.write else None)
    yield _row("interval; the model's is the best", "seconds", interval, after.interval.optimal_seconds)
    overhead = seconds / interval if has_rate and seconds is not None and interval else None
    stalled = after.overhead.fraction if overhead is None else overhead
    share = share_of_stalls(after.overhead.fraction, between=1 - (stalled or 0.0))
    yield _row("share of time for saves, if they stall", "fraction", overhead, share)
    lost = figures["lost_fraction"] if figures["stops"] else None
    yield _row("share of time lost to stops", "fraction", lost, after.overhead.rework_fraction)
    per_day = after.capacity.written_bytes_per_day
    yield _row("written per day", "bytes per day", figures["written_bytes_per_day"], per_day)
    yield _row("kept; the model's with one in flight", "bytes", figures["kept_bytes"], after.capacity.capacity_bytes)


def share_of_stalls(overhead: float | None, *, between: float) -> float | None:
    """Return the fraction of a run that saves stall: overhead / (overhead + between).

    Args: `overhead`, stall over observed interval, above 1 where a save takes longer than that; `between`, the fraction
    of the observed interval in which nothing was saved, and which passes between the stalls of the model too.
    Equal stalls give equal fractions.

    >>> share_of_stalls(0.25, between=0.75), share_of_stalls(4.25, between=0.75)
    (0.25, 0.85)
    """
    return overhead / (overhead + max(0.0, between)) if overhead else overhead


def _row(figure: str, unit: Unit, observed: float | None, model: float | None) -> ObservedComparison:
    return ObservedComparison(figure=figure, unit=unit, observed=observed, model=model)
