"""What a scan has measured so far, on disk after every configuration: a killed scan loses one at most."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from io_bench.campaign.measured import Measured
from io_bench.errors import RunFailed
from io_bench.planning.configuration import Configuration
from io_bench.request.agreed_request import Request
from io_bench.request.options import ScanOptions
from sizing.errors import InvalidInput

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


class Header(BaseModel):
    """The first line: which scan this is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    """A file of JSON lines: a header, then one Measured per line."""

    def __init__(self, path: Path, header: Header, measured: list[Measured]) -> None:
        self.path = path
        self.header = header
        self.measured = measured

    @classmethod
    def begun(cls, path: Path, request: Request[ScanOptions]) -> Journal:
        """A new journal. Raises InvalidInput where there is one, or none can be written."""
        header = Header(
            run_id=request.run_id,
            seed=request.seed,
            started_at=datetime.datetime.now(datetime.UTC),
            asked=_asked(request.options),
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
    def resumed(cls, path: Path, request: Request[ScanOptions]) -> Journal:
        """The journal of an unfinished scan. Raises InvalidInput where there is none, or it asked something else.

        A last line that was cut off while it was written is removed.
        """
        try:
            whole_lines = path.read_bytes().rpartition(b"\n")[0]
            first, *rest = whole_lines.split(b"\n")
            header, measured = Header.model_validate_json(first), [Measured.model_validate_json(line) for line in rest]
            os.truncate(path, len(whole_lines) + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a journal"
            rule = f"needs the journal of an unfinished scan next to --output ({path}: {reason})"
            remedy = "give the --output of that scan, or start again without --resume"
            raise InvalidInput.of("--resume", rule, value=None, remedy=remedy) from error
        _check_same(header.asked, _asked(request.options))
        if header.scenario != request.scenario_document:
            rule, remedy = "must be unchanged since the scan started", "start again with another --output"
            raise InvalidInput.of("--scenario", rule, value=request.options.scenario, remedy=remedy)
        return cls(path, header, measured)

    @property
    def done(self) -> set[Configuration]:
        """What need not be measured again: as it was asked for, which memory may have made a streamed one."""
        return {measured.configuration.model_copy(update={"is_streamed": False}) for measured in self.measured}

    def append(self, measured: Measured) -> None:
        """Keep what a configuration gave, whatever happens next. Raises RunFailed where it cannot be written."""
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
        """The scan is finished and the result holds it all, or nothing was measured."""
        self.path.unlink(missing_ok=True)


def journal_path(output: str) -> Path:
    """Beside the result document.

    >>> journal_path("scan.json").name
    'scan.journal.jsonl'
    """
    return Path(output).resolve().with_suffix(".journal.jsonl")


def _asked(options: ScanOptions) -> dict[str, Any]:
    """What decides the configurations and what is measured in them."""
    return options.model_dump(mode="json", by_alias=True, exclude=_FREE_TO_CHANGE)


def _check_same(before: dict[str, Any], now: dict[str, Any]) -> None:
    for flag in before.keys() | now.keys():
        if before.get(flag) != now.get(flag):
            rule, remedy = "must be unchanged since the scan started", f"give {before.get(flag)}, or start a new scan"
            raise InvalidInput.of(flag, rule, value=now.get(flag), remedy=remedy)
