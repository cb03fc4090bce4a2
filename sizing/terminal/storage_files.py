"""Files about a storage system: profiles, benchmark results and calibrations."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sizing.errors import explain
from sizing.storage.calibration import Calibration
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.one_result import storage_of
from sizing.storage.profile import StorageProfile
from sizing.terminal.files import read_document

_Model = TypeVar("_Model", bound=BaseModel)


def read_storage_profile(path: Path) -> StorageProfile:
    """Read the storage profile in a file: a profile itself, or that of a calibration or of a benchmark result.

    Raises UnreadableFile or InvalidInput.
    """
    storage = _read_profile_or_calibration(path)
    return storage.profile if isinstance(storage, Calibration) else storage


def read_storage(path: Path) -> dict[str, Any]:
    """Read a file as the `storage` block of a scenario. A result with configurations enough is calibrated.

    Raises UnreadableFile or InvalidInput.
    """
    storage = _read_profile_or_calibration(path)
    kind = "calibration" if isinstance(storage, Calibration) else "profile"
    return {kind: storage.model_dump(mode="json", exclude_none=True)}


def _read_profile_or_calibration(path: Path) -> StorageProfile | Calibration:
    document = read_document(path)
    if "measurements" in document:
        return storage_of(_validate(BenchmarkResult, document))
    if "run_ids" in document:
        return _validate(Calibration, document)
    return _validate(StorageProfile, document)


def read_result(path: Path) -> BenchmarkResult:
    """Read the benchmark result in a file.

    Raises UnreadableFile or InvalidInput.
    """
    return _validate(BenchmarkResult, read_document(path))


def _validate(model: type[_Model], document: dict[str, Any]) -> _Model:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise explain(error, model) from None
