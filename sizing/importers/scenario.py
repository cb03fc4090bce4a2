"""Scenarios of this program, given beside config files."""

from __future__ import annotations

from sizing.config_files.reader import SettingReader
from sizing.importers.importer import Importer
from sizing.layout import Parallelism
from sizing.version import __version__


def _read(reader: SettingReader) -> None:
    for name in reader.source.settings:
        reader.take(name, name)
    if reader.has("parallelism.data"):
        for axis in ("tensor", "pipeline", "context"):
            reader.put(f"parallelism.{axis}", Parallelism.model_fields[axis].default)


SCENARIO = Importer(
    name="scenario",
    title="scenario of ckpt-size",
    version=__version__,
    source="fields.md",
    frameworks=(),
    marks=(
        "model.preset",
        "model.num_parameters",
        "model.architecture.*",
        "training.framework",
        "storage.preset",
        "storage.profile.*",
        "cluster.node",
        "cluster.num_gpus",
        "checkpoint.interval_seconds",
        "reliability.*",
        "schema_version",
    ),
    read=_read,
    rank=9,
)
