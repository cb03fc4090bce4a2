"""Imports of config files in tests: by their text, and fields of what they became."""

from __future__ import annotations

from typing import Any

from sizing.field_paths import value_at
from sizing.importers import ConfigText, ImportReport, ImportRequest, import_config_files


def import_texts(*texts: str, num_gpus: int | None = None, name: str = "train.sh") -> ImportReport:
    """Import texts as the config files of one training."""
    files = [ConfigText(name=name if n == 0 else f"{n}-{name}", content=text) for n, text in enumerate(texts)]
    return import_config_files(ImportRequest(files=files, num_gpus=num_gpus))


def fields_of(report: ImportReport, names: Any) -> dict[str, Any]:
    """Return the values of some fields of an imported scenario, None of those that it leaves open."""
    return {name: value_at(report.scenario, name) for name in names}
