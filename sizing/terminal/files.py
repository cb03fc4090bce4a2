"""The user's files: text, and objects as JSON or YAML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from sizing.documents import parse_json, parse_yaml
from sizing.errors import InvalidInput, UnreadableFile
from sizing.units import binary_bytes_text, parse_bytes

MAX_FILE_BYTES: int = parse_bytes("64 MiB")
"""A calibration of 10,000 points takes some megabytes. More is a mistake, such as a checkpoint's path, and fills
memory."""


def tell_apart(paths: Sequence[Path]) -> list[str]:
    """Name files by their names without ending, and by as many of their folders as tell all of them apart.

    Raises InvalidInput where one is there twice.

    >>> tell_apart([Path("today.yaml"), Path("faster.yaml")]), tell_apart([Path("old/run.yaml"), Path("new/run.yaml")])
    (['today', 'faster'], ['old/run', 'new/run'])
    """
    for num_parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.with_suffix("").parts[-num_parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    twice = str(next(path for path in paths if paths.count(path) > 1))
    raise InvalidInput.of("files", "must be given once each", value=twice, remedy="remove one, or give another file")


def read_document(path: Path) -> dict[str, Any]:
    """Read the object in a JSON or YAML file; the name's ending says which, JSON where it does not.

    Raises UnreadableFile where there is no such file or it holds no object.
    """
    text = read_text(path)
    parse: Callable[[str], Any] = parse_yaml if path.suffix in (".yaml", ".yml") else parse_json
    try:
        document = parse(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UnreadableFile(f"{path} cannot be parsed: {reason}.") from None
    if document is None:
        raise UnreadableFile(f"{path} is empty: write a scenario into it, such as `model: {{preset: gpt2}}`.")
    if not isinstance(document, dict):
        raise UnreadableFile(f"{path} must hold an object with named fields, found {type(document).__name__}.")
    return document


def read_text(path: Path) -> str:
    """Read a file of text. Raises UnreadableFile where there is none, it is too large or it is no text."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path} is not a text file: give JSON or YAML.") from None


def read_bytes(path: Path) -> bytes:
    """Read a file. Raises UnreadableFile where there is none or it is too large."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read ({error.strerror}): check the name and permissions.") from None
    if len(content) > MAX_FILE_BYTES:
        raise UnreadableFile(f"{path} is larger than {binary_bytes_text(MAX_FILE_BYTES)}: give a smaller file.")
    return content


def write_bytes(path: Path, content: bytes, *, option: str) -> None:
    """Write a file that an option names; what was there is replaced. Raises InvalidInput where it cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InvalidInput.of(
            option, f"cannot be written ({error.strerror})", value=str(path), remedy="check folder and permissions"
        ) from None
