"""What rank 0 keeps of a scan, and the result that it makes of it, finished or not."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from io_bench.campaign.journal import Journal
from io_bench.findings.software_tax import with_software_tax
from io_bench.results.outputs import Outputs
from sizing.storage.measurement import BenchmarkResult


@dataclass(slots=True)
class Books:
    """The journal, the files to fill, and how far the scan has come."""

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
        """How to go on with a scan that is not finished."""
        measured, output = len(self.journal.measured), self.outputs.document
        return (
            f"{measured} of {self.num_configurations} configurations are in {output}. Repeat the command with "
            f"--resume --output {output} to measure the rest."
        )

    def result(self, notes: Iterable[str] = ()) -> BenchmarkResult | None:
        """All that was measured so far; None where that is nothing."""
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
            corruption=[found for each in measured for found in each.corruption] or None,
            measurements=with_software_tax(rows),
        )

    @property
    def _elsewhere(self) -> str:
        """The hosts of the runs before resuming that this run does not know."""
        known = {node["host"] for node in self.environment.get("nodes", {}).values()}
        hosts = {host for each in self.journal.measured for host in each.hosts} - known
        return f", on hosts not described in this document: {', '.join(sorted(hosts))}" if hosts else ""

    def _warnings(self) -> Iterator[str]:
        header = self.journal.header
        if self.num_left:
            reason = f"{self.stopped_by} ended the scan. " if self.stopped_by else ""
            yield f"{reason}{self.num_left} of {self.num_configurations} configurations were not measured."
        if header.run_id != self.run_id:
            began = f"{header.started_at:%Y-%m-%d %H:%M} UTC"
            yield f"Part was measured by run {header.run_id}, started {began}{self._elsewhere}."
        for each in self.journal.measured:
            for warning in each.warnings:
                yield f"{each.configuration.title}: {warning}"
