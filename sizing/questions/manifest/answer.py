"""Answer about the files of a checkpoint: those that a request wants, and every one of them for CSV."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from sizing.errors import InvalidInput
from sizing.layout.files import MAX_RANKS
from sizing.layout.manifest import ManifestRow
from sizing.questions.manifest.report import MAX_FILES, ManifestFile, ManifestReport
from sizing.questions.manifest.request import ManifestRequest
from sizing.report import SizingReport
from sizing.scenario import Scenario
from sizing.sized_layout import every_file_of


def answer_manifest(request: ManifestRequest, scenario: Scenario, report: SizingReport) -> ManifestReport:
    """List the files that a request wants of a scenario with all its degrees, whose answer is known."""
    files = None
    if _can_be_listed(report):
        rows = itertools.islice(every_file_of(scenario), request.first, request.first + request.max_files)
        files = [ManifestFile(**row._asdict()) for row in rows]
    past = request.first + len(files or [])
    return ManifestReport(
        checkpoint=report.checkpoint,
        rank_classes=report.layout.rank_classes,
        first=request.first,
        files=files,
        next=past if files and past < report.checkpoint.num_files else None,
    )


def list_every_file(scenario: Scenario, report: SizingReport) -> Iterator[ManifestRow]:
    """List all files, as CSV has them. Raises InvalidInput where they are too many."""
    if not _can_be_listed(report):
        raise InvalidInput.of(
            "the manifest",
            f"names at most {MAX_FILES:,} files of {MAX_RANKS:,} ranks",
            value=f"{report.checkpoint.num_files:,} files of {report.layout.num_gpus:,} ranks",
            remedy="read the classes of ranks, which tell the same of all",
        )
    return every_file_of(scenario)


def _can_be_listed(report: SizingReport) -> bool:
    return report.layout.num_gpus <= MAX_RANKS and report.checkpoint.num_files <= MAX_FILES
