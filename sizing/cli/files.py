"""The user's files: scenarios, storage profiles and benchmark results, as JSON or YAML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from sizing.documents import parsed_json, parsed_yaml
from sizing.errors import UnreadableFile, explain
from sizing.storage.calibration import Calibration
from sizing.storage.measured_profile import profile_of
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.profile import StorageProfile
from sizing.units import binary_bytes_text, parse_bytes

MAX_FILE_BYTES: int = parse_bytes("64 MiB")
"""A calibration of 10,000 points takes some megabytes. More is a mistake, such as a checkpoint's path, and fills
memory."""

_Model = TypeVar("_Model", bound=BaseModel)


def read_document(path: Path) -> dict[str, Any]:
    """The object in a JSON or YAML file; the name's ending says which, JSON where it does not.

    Raises UnreadableFile where there is no such file or it holds no object.
    """
    text = _read_text(path)
    parse: Callable[[str], Any] = parsed_yaml if path.suffix in (".yaml", ".yml") else parsed_json
    try:
        document = parse(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UnreadableFile(f"{path} cannot be parsed: {reason}.") from None
    if not isinstance(document, dict):
        raise UnreadableFile(f"{path} must hold an object with named fields, found {type(document).__name__}.")
    return document


def read_storage_profile(path: Path) -> StorageProfile:
    """The storage profile in a file: one as it stands, that of a benchmark result, or that of a calibration.

    Raises UnreadableFile or InvalidInput.
    """
    found = _storage_in(path)
    return found.profile if isinstance(found, Calibration) else found


def read_storage(path: Path) -> dict[str, Any]:
    """A file as the `storage` block of a scenario.

    Raises UnreadableFile or InvalidInput.
    """
    found = _storage_in(path)
    kind = "calibration" if isinstance(found, Calibration) else "profile"
    return {kind: found.model_dump(mode="json", exclude_none=True)}


def _storage_in(path: Path) -> StorageProfile | Calibration:
    document = read_document(path)
    if "measurements" in document:
        return profile_of(_validated(BenchmarkResult, document))
    if "run_ids" in document:
        return _validated(Calibration, document)
    return _validated(StorageProfile, document)


def read_result(path: Path) -> BenchmarkResult:
    """The benchmark result in a file.

    Raises UnreadableFile or InvalidInput.
    """
    return _validated(BenchmarkResult, read_document(path))


def _validated(model: type[_Model], document: dict[str, Any]) -> _Model:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise explain(error, model) from None


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read ({error.strerror}): check the name and permissions.") from None
    if len(content) > MAX_FILE_BYTES:
        raise UnreadableFile(f"{path} is larger than {binary_bytes_text(MAX_FILE_BYTES)}: give a smaller file.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path} is not a text file: give JSON or YAML.") from None
