"""The GPUs of a cluster, one cell each, by the bytes that they write: the data of a picture that a page draws itself.

Vega-Lite would draw a mark for each GPU, which is slow for 16,384. The picture shows what is easily got wrong: the
state of one model replica is written, however many GPUs hold a copy of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from sizing.layout import Parallelism
from sizing.layout.files import WriterClass
from sizing.layout.ranks import RankClass, numbers_in_stage
from sizing.report import SizingReport
from sizing.scenario import Scenario
from sizing.sized import sized
from sizing.state.saved_state import RANK_PART
from sizing.units import bytes_text, counted_text

MAX_CELLS = 4_000_000
"""As many pixels as a large screen has: of more GPUs no picture shows each."""
MAX_RUNS = 20_000
"""About 300 kB as JSON, where every GPU of a large stage writes something else."""
_MAX_ROWS = 12
"""Of the table beside the picture: about its height."""


class GridAxis(BaseModel):
    """A degree of the layout."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str = Field(description="What a number along the axis is called, such as tensor rank.")
    size: int = Field(description="Degree: numbers go from 0 to one less.")
    stride: int = Field(description="By how much the rank grows with each number.")


class GridKind(BaseModel):
    """GPUs that write alike."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_bytes: int = Field(description="Bytes of tensors that each of them writes per save, 0 for none.")
    text: str = Field(description="The same in words, with the number of files.")


class GridStages(BaseModel):
    """Pipeline stages whose GPUs write alike."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_stages: int = Field(description="Consecutive stages, which follow those of the entry before.")
    runs: list[tuple[int, int]] = Field(
        description="Consecutive GPUs of each of the stages, tensor ranks the fastest, then context, then data: how "
        "many, and which of the kinds."
    )


class GpuGrid(BaseModel):
    """Which GPUs write how much of one checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = Field(description="What the picture shows.")
    sentence: str = Field(description="What it says, in words.")
    reading: str = Field(description="How the picture is to be read.")
    place: str = Field(description="Where a GPU is, with {rank} and {node} to be filled in.")
    gpus_per_node: int = Field(description="GPUs of one node, in the order of ranks.")
    tensor: GridAxis = Field(description="Tensor ranks, the rows of a replica.")
    context: GridAxis = Field(description="Context ranks, the faster half of the replicas.")
    data: GridAxis = Field(description="Data ranks, the slower half of the replicas.")
    stage: GridAxis = Field(description="Pipeline stages, the columns of a replica.")
    kinds: list[GridKind] = Field(description="How much GPUs write; what writes most comes first.")
    stages: list[GridStages] = Field(description="All pipeline stages, in their order.")
    columns: list[str] = Field(description="Headings of the table beside the picture.")
    rows: list[list[str]] = Field(description="The same as a table of text.")


def gpu_grid(scenario: Scenario, report: SizingReport) -> GpuGrid | None:
    """The grid of a report's GPUs; None for more than a picture shows."""
    parallelism, writers = scenario.parallelism, sized(scenario).laid_out.writers
    if parallelism.num_gpus > MAX_CELLS:
        return None
    kinds, kind_of_class = _kinds(report)
    stages = list(_stages(parallelism, writers, kind_of_class, nothing=len(kinds) - 1))
    if sum(len(each.runs) for each in stages) > MAX_RUNS:
        return None
    strides = parallelism.strides
    return GpuGrid(
        title="Who writes",
        sentence=_sentence(report),
        reading=_reading(parallelism),
        place="GPU {rank} in node {node}",
        gpus_per_node=report.layout.gpus_per_node,
        tensor=GridAxis(label="tensor rank", size=parallelism.tensor, stride=strides["tensor"]),
        context=GridAxis(label="context rank", size=parallelism.context, stride=strides["context"]),
        data=GridAxis(label="data rank", size=parallelism.data, stride=strides["data"]),
        stage=GridAxis(label="stage", size=parallelism.pipeline, stride=strides["pipeline"]),
        kinds=kinds,
        stages=stages,
        columns=["GPUs", "each of them"],
        rows=list(_rows(kinds, stages)),
    )


def _kinds(report: SizingReport) -> tuple[list[GridKind], list[int]]:
    """How much ranks write, the most first and nothing last; and which of these each class of ranks is."""
    of_classes = [_kind(each) for each in report.layout.rank_classes]
    nothing = GridKind(num_bytes=0, text="writes nothing")
    kinds = [*sorted(set(of_classes), key=lambda kind: (-kind.num_bytes, kind.text)), nothing]
    return kinds, [kinds.index(kind) for kind in of_classes]


def _kind(ranks: RankClass) -> GridKind:
    num_files = counted_text(sum(file.count for file in ranks.files), "file")
    return GridKind(num_bytes=ranks.bytes_per_rank, text=f"writes {bytes_text(ranks.bytes_per_rank)}, {num_files}")


def _stages(
    parallelism: Parallelism, writers: Sequence[WriterClass], kind_of_class: Sequence[int], *, nothing: int
) -> Iterator[GridStages]:
    def classes_of(stage: int) -> tuple[int, ...]:
        return tuple(place for place, writer in enumerate(writers) if stage in writer.span.stages)

    for classes, alike in groupby(range(parallelism.pipeline), key=classes_of):
        kinds = np.full(parallelism.ranks_per_stage, nothing)
        for place in classes:
            kinds[numbers_in_stage(writers[place])] = kind_of_class[place]
        yield GridStages(num_stages=len(list(alike)), runs=_runs(kinds))


def _runs(kinds: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Equal neighbours counted.

    >>> _runs(np.array([2, 2, 0, 2]))
    [(2, 2), (1, 0), (1, 2)]
    """
    starts = np.flatnonzero(np.diff(kinds, prepend=-1))
    counts = np.diff(starts, append=len(kinds))
    return list(zip(counts.tolist(), kinds[starts].tolist(), strict=True))


def _sentence(report: SizingReport) -> str:
    layout = report.layout
    written = bytes_text(report.checkpoint.written_bytes)
    who = (
        f"all {counted_text(layout.num_gpus, 'GPU')} share the writing"
        if layout.num_writers == layout.num_gpus
        else f"by {layout.num_writers:,} of {counted_text(layout.num_gpus, 'GPU')}"
    )
    if layout.num_replicas == 1 or RANK_PART in report.checkpoint.parts:
        return f"{written} are written: {who}."
    return f"One model replica is written, not {layout.num_replicas:,}: {written}, {who}."


def _reading(parallelism: Parallelism) -> str:
    shade = "The stronger its color, the more a GPU writes; grey ones write nothing."
    if parallelism.pipeline * parallelism.tensor == 1:
        return f"Each square is one GPU. {shade}"
    across, down = counted_text(parallelism.pipeline, "stage"), counted_text(parallelism.tensor, "tensor rank")
    return f"Each block is the GPUs of one replica, {across} across and {down} down. {shade}"


def _rows(kinds: Sequence[GridKind], stages: Sequence[GridStages]) -> Iterator[list[str]]:
    counts: dict[str, int] = {}
    for each in stages:
        for num_gpus, kind in each.runs:
            text = kinds[kind].text
            counts[text] = counts.get(text, 0) + num_gpus * each.num_stages
    in_order = list(dict.fromkeys(kind.text for kind in kinds if kind.text in counts))
    shown = in_order if len(in_order) <= _MAX_ROWS else in_order[: _MAX_ROWS - 1]
    yield from ([f"{counts[text]:,}", text] for text in shown)
    if rest := in_order[len(shown) :]:
        yield [f"{sum(map(counts.__getitem__, rest)):,}", f"write less, the last of them: {rest[-1]}"]
