"""A command that starts ranks of a program whose settings stand elsewhere: how many GPUs it takes."""

from __future__ import annotations

from sizing.config_files.reader import SettingReader
from sizing.importers.importer import Importer


def _read(reader: SettingReader) -> None:
    reader.ignore("launcher.*")


LAUNCH_COMMAND = Importer(
    name="launch-command",
    title="launch command",
    version="torch 2.13, Slurm 24",
    source="torchrun, deepspeed, accelerate and sbatch, as their help says",
    frameworks=(),
    marks=("launcher.*",),
    read=_read,
)
