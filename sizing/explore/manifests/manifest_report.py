"""The files of a checkpoint: by class of ranks, and one by one as far as that can be read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from sizing.errors import InvalidInput
from sizing.explore.manifests.manifest_request import ManifestRequest
from sizing.layout.manifest import ManifestRow
from sizing.layout.ranks import RankClass
from sizing.layout.saving_ranks import MAX_RANKS
from sizing.layout.size import CheckpointSize
from sizing.report import SizingReport
from sizing.scenario import Scenario
from sizing.sized import manifest_of

MAX_FILES = 500_000
"""That are named one by one: 30 MB of CSV. A choice; experts of DeepSpeed make more than one file a rank."""


class ManifestFile(BaseModel):
    """One file of a checkpoint, and who writes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str = Field(description="Path in the checkpoint's folder.")
    tensor_bytes: int = Field(description="Bytes of its tensors, without the container's headers.")
    rank: int = Field(description="Global rank that writes it, counted from 0.")
    node: int = Field(description="Node of that rank, counted from 0.")
    stage: int = Field(description="Pipeline stage of that rank, counted from 0.")


class ManifestReport(BaseModel):
    """The files of a checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint: CheckpointSize = Field(description="Bytes and files of one checkpoint in total.")
    rank_classes: list[RankClass] = Field(description="Who writes what: one entry for all ranks that write the same.")
    first: int = Field(description="Files that were passed over.")
    files: list[ManifestFile] | None = Field(
        description=f"The files that follow, class by class. Null for more than {MAX_RANKS:,} ranks or {MAX_FILES:,} "
        "files, of which the classes tell all."
    )
    next: int | None = Field(description="What to pass over for the files that follow. Null when none does.")


def manifest_report(request: ManifestRequest, scenario: Scenario, report: SizingReport) -> ManifestReport:
    """The files that are wanted of a scenario with all its degrees, whose answer is known."""
    files = _files(request, scenario) if _is_listed(report) else None
    reached = request.first + len(files or [])
    return ManifestReport(
        checkpoint=report.checkpoint,
        rank_classes=report.layout.rank_classes,
        first=request.first,
        files=files,
        next=reached if files and reached < report.checkpoint.num_files else None,
    )


def every_file(scenario: Scenario, report: SizingReport) -> Iterator[ManifestRow]:
    """All of them, as CSV has them. Raises InvalidInput where they are too many."""
    if not _is_listed(report):
        found = f"{report.checkpoint.num_files:,} files of {report.layout.num_gpus:,} ranks"
        raise InvalidInput.of(
            "the manifest",
            f"names at most {MAX_FILES:,} files of {MAX_RANKS:,} ranks",
            value=found,
            remedy="read the classes of ranks, which tell the same of all",
        )
    return manifest_of(scenario)


def _is_listed(report: SizingReport) -> bool:
    return report.layout.num_gpus <= MAX_RANKS and report.checkpoint.num_files <= MAX_FILES


def _files(request: ManifestRequest, scenario: Scenario) -> list[ManifestFile]:
    wanted = itertools.islice(manifest_of(scenario), request.first, request.first + request.max_files)
    return [
        ManifestFile(file=row.file, tensor_bytes=row.bytes, rank=row.rank, node=row.node, stage=row.stage)
        for row in wanted
    ]
