"""What a run leaves about itself beside its files, so that they can be found and removed when it cannot."""

from __future__ import annotations

import datetime
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import psutil
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

MANIFEST = "ckpt-bench.json"

Owner = Literal["running", "ended", "elsewhere"]


def _plain_name(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError("a file of a run has a plain name")
    return name


class Manifest(BaseModel):
    """Whose a run is, and every file that it may have written.

    `process_table` tells where `pid` means the process that it meant: one boot of one machine, or one container.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str = Field(description="Id of the run; part of the name of its folder.")
    user: str = Field(description="User of the run's first process.")
    host: str = Field(description="Network name of the node on which that process runs.")
    process_table: str = Field(description="Scope in which pid is valid: one boot of one machine, or one container.")
    pid: int = Field(description="Process id of the run's first process.")
    created: AwareDatetime = Field(description="Time at which the run began to write.")
    is_kept: bool = Field(description="Whether the last checkpoint is kept after the run (--keep).")
    files: tuple[Annotated[str, AfterValidator(_plain_name)], ...] = Field(
        description="Every file that the run may write."
    )

    @classmethod
    def of_this_process(cls, run_id: str, *, files: Iterable[str], is_kept: bool) -> Manifest:
        """The manifest of a run that this process leads."""
        process = psutil.Process()
        return cls(
            run_id=run_id,
            user=process.username(),
            host=socket.gethostname(),
            process_table=_process_table(),
            pid=process.pid,
            created=datetime.datetime.now(datetime.UTC),
            is_kept=is_kept,
            files=tuple(files),
        )

    @property
    def owner(self) -> Owner:
        """Whether the process that leads the run is running, has ended, or cannot be seen from here."""
        if self.process_table != _process_table():
            return "elsewhere"
        try:
            process = psutil.Process(self.pid)
            is_it = process.create_time() <= self.created.timestamp() + 1
            return "running" if is_it and process.status() != psutil.STATUS_ZOMBIE else "ended"
        except psutil.NoSuchProcess:
            return "ended"


def _process_table() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
