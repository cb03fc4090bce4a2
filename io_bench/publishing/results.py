"""Result documents that a user names, read for publishing."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from sizing.errors import InvalidInput, UnreadableFile, explain
from sizing.storage.measurement import BenchmarkResult


def read_result(path: Path) -> tuple[str, bytes]:
    """Run id and content of a result file.

    Raises UnreadableFile, or InvalidInput where it is no result document of this version.
    """
    try:
        document = path.read_bytes()
        return BenchmarkResult.model_validate_json(document).run_id, document
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read ({error.strerror}): give the path of a result.") from None
    except ValidationError as error:
        problems = explain(error, BenchmarkResult).problems
        raise UnreadableFile(f"{path} is no result of ckpt-bench run: {InvalidInput(problems[:1])}") from None
