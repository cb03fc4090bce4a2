"""The journal of a scan: each configuration is on disk once it is measured, so that a killed scan loses one at most.

Rank 0 keeps it, and makes the result of the scan from it, finished or not.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, Field, JsonValue

from io_bench.errors import RunFailed
from io_bench.measure.configuration import Configuration
from io_bench.options import ScanOptions
from io_bench.request import Request
from io_bench.results.outputs import Outputs
from io_bench.results.software_tax import with_software_tax
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult, Measurement
from sizing.storage.run_events import Corruption
from sizing.strict_model import StrictModel


class MeasuredConfiguration(StrictModel):
    """Measurements of one configuration, with its warnings and conditions."""

    configuration: Configuration = Field(description="Engine, nodes, writers and sizes that were measured.")
    measurements: list[Measurement] = Field(description="Its writes and its restores.")
    warnings: list[str] = Field(description="Doubts about these figures.")
    corruption: list[Corruption] = Field(
        [], description="Data that came back other than it was written; it ended the run."
    )
    hosts: list[str] = Field(description="Hosts whose ranks wrote.")
    conditions: dict[str, JsonValue] = Field(
        description="Conditions of this configuration: bytes, tensors, source of the restore, reason of an early end."
    )


_FREE_TO_CHANGE = {
    "output",
    "csv",
    "charts",
    "resume",
    "timeout_seconds",
    "max_seconds",
    "max_bytes",
    "max_bytes_per_second",
    "publish",
    "seed",
}


class Header(StrictModel):
    """First line of a journal: which scan it is of."""

    schema_version: Literal[1] = Field(1, description="Version of the journal's format.")
    run_id: str = Field(description="Id of the scan: its start time and random characters.")
    seed: int = Field(description="Seed of the payload and of the order of configurations.")
    started_at: AwareDatetime = Field(description="Time at which the scan started.")
    asked: dict[str, JsonValue] = Field(
        description="Flags of the scan and their values, except those that may differ when it is resumed."
    )
    scenario: dict[str, JsonValue] | None = Field(
        None, description="Content of the scenario file when the scan started. Null without --scenario."
    )


class Journal:
    """A file of JSON lines: a header, then a line for each measured configuration."""

    def __init__(self, path: Path, header: Header, measured: list[MeasuredConfiguration]) -> None:
        self.path = path
        self.header = header
        self.measured = measured

    @classmethod
    def begin(cls, path: Path, request: Request[ScanOptions]) -> Journal:
        """Begin a journal. Raises InvalidInput where there is one already, or where none can be written."""
        header = Header(
            run_id=request.run_id,
            seed=request.seed,
            started_at=datetime.datetime.now(datetime.UTC),
            asked=_fixed_flags(request.options),
            scenario=request.scenario_document,
        )
        journal = cls(path, header, [])
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(journal.header.model_dump_json() + "\n")
        except FileExistsError as error:
            rule = f"must not have an unfinished scan ({path})"
            remedy = "continue the scan with --resume, or remove that file"
            raise InvalidInput.of("--output", rule, value=None, remedy=remedy) from error
        except OSError as error:
            rule = f"must be a file that can be written ({error.strerror})"
            raise InvalidInput.of("--output", rule, value=str(path), remedy="give another path") from error
        return journal

    @classmethod
    def resume(cls, path: Path, request: Request[ScanOptions]) -> Journal:
        """Read the journal of an unfinished scan. Raises InvalidInput where there is none, or where flags have changed.

        A last line that was cut off while it was written is removed.
        """
        try:
            whole_lines = path.read_bytes().rpartition(b"\n")[0]
            first, *rest = whole_lines.split(b"\n")
            header = Header.model_validate_json(first)
            measured = [MeasuredConfiguration.model_validate_json(line) for line in rest]
            os.truncate(path, len(whole_lines) + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a journal"
            rule = f"needs the journal of an unfinished scan next to --output ({path}: {reason})"
            remedy = "give the --output of that scan, or start again without --resume"
            raise InvalidInput.of("--resume", rule, value=None, remedy=remedy) from error
        before, now = header.asked, _fixed_flags(request.options)
        for flag in before.keys() | now.keys():
            if before.get(flag) != now.get(flag):
                remedy = f"give {before.get(flag)}, or start a new scan"
                raise InvalidInput.of(
                    flag, "must be unchanged since the scan started", value=now.get(flag), remedy=remedy
                )
        if header.scenario != request.scenario_document:
            rule, remedy = "must be unchanged since the scan started", "start again with another --output"
            raise InvalidInput.of("--scenario", rule, value=request.options.scenario, remedy=remedy)
        return cls(path, header, measured)

    @property
    def done(self) -> set[Configuration]:
        """Configurations that need not be measured again, as they were asked for.

        Where memory was too small, one was measured as a streamed one.
        """
        return {measured.configuration.model_copy(update={"is_streamed": False}) for measured in self.measured}

    def append(self, measured: MeasuredConfiguration) -> None:
        """Keep the measurements of a configuration on disk. Raises RunFailed where they cannot be written."""
        # First in memory: an interruption from here on finds it there, and a line cut off is removed on resuming.
        self.measured.append(measured)
        try:
            with self.path.open("ab") as file:
                file.write(measured.model_dump_json().encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunFailed(f"The journal {self.path} cannot be written: {error.strerror}.") from error

    def remove(self) -> None:
        """Remove the file, once the result holds it all, or where nothing was measured."""
        self.path.unlink(missing_ok=True)


def journal_path(output: str) -> Path:
    """Path of the journal, beside the result document.

    >>> journal_path("scan.json").name
    'scan.journal.jsonl'
    """
    return Path(output).resolve().with_suffix(".journal.jsonl")


def _fixed_flags(options: ScanOptions) -> dict[str, Any]:
    """Flags that decide which configurations there are and what is measured in them."""
    return options.model_dump(mode="json", by_alias=True, exclude=_FREE_TO_CHANGE)


@dataclass(slots=True)
class ScanState:
    """State of a scan on rank 0: its journal, its output files, and how many configurations it has."""

    journal: Journal
    outputs: Outputs
    run_id: str
    environment: Mapping[str, Any] = field(default_factory=dict)
    num_configurations: int = 0
    stopped_by: str = ""

    @property
    def num_left(self) -> int:
        """Configurations that were not measured."""
        return self.num_configurations - len(self.journal.measured)

    @property
    def remedy(self) -> str:
        """Sentence that tells how to go on with a scan that is not finished."""
        measured, output = len(self.journal.measured), self.outputs.document
        return (
            f"{measured} of {self.num_configurations} configurations are in {output}. Repeat the command with "
            f"--resume --output {output} to measure the rest."
        )

    def result(self, notes: Iterable[str] = ()) -> BenchmarkResult | None:
        """Make the result of all that was measured so far; None where nothing was."""
        measured = self.journal.measured
        if not measured:
            return None
        rows = [(each.configuration, measurement) for each in measured for measurement in each.measurements]
        header = self.journal.header
        return BenchmarkResult(
            run_id=self.run_id,
            started_at=header.started_at,
            command=sys.orig_argv,
            environment={
                **self.environment,
                "configurations": [
                    {"configuration": each.configuration.model_dump(exclude_none=True), "hosts": each.hosts}
                    | each.conditions
                    for each in measured
                ],
            },
            warnings=[*notes, *self._warnings()],
            corruption=[corruption for each in measured for corruption in each.corruption] or None,
            measurements=with_software_tax(rows),
        )

    def _warnings(self) -> Iterator[str]:
        header = self.journal.header
        if self.num_left:
            reason = f"{self.stopped_by} ended the scan. " if self.stopped_by else ""
            yield f"{reason}{self.num_left} of {self.num_configurations} configurations were not measured."
        if header.run_id != self.run_id:
            began = f"{header.started_at:%Y-%m-%d %H:%M} UTC"
            hosts_here = {node["host"] for node in self.environment.get("nodes", {}).values()}
            hosts = {host for each in self.journal.measured for host in each.hosts} - hosts_here
            elsewhere = f", on hosts not described in this document: {', '.join(sorted(hosts))}" if hosts else ""
            yield f"Part was measured by run {header.run_id}, started {began}{elsewhere}."
        for each in self.journal.measured:
            for warning in each.warnings:
                yield f"{each.configuration.title}: {warning}"
