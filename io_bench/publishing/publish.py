"""`ckpt-bench publish`, and what `ckpt-bench run --publish` does at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from io_bench.publishing.delivery import Delivery, deliver
from io_bench.publishing.destination import Destination, token_of_environment
from io_bench.publishing.spool import Spool, default_spool
from service_client.terms import DEFAULT_MAX_RESULT_BYTES
from sizing.errors import InvalidInput, UnreadableFile, explain
from sizing.storage.measurement import BenchmarkResult
from sizing.units import PositiveSeconds, binary_bytes_text

DEFAULT_PATIENCE = "1min"


class PublishOptions(BaseModel):
    """What `ckpt-bench publish` is asked for. Fields are read under the names of their flags."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    destination: Annotated[Destination, Field(alias="--to"), BeforeValidator(lambda link: Destination.of(link, "--to"))]
    spool: Annotated[Path, Field(alias="--spool", default_factory=default_spool)]
    patience_seconds: Annotated[PositiveSeconds, Field(alias="--patience")]

    @classmethod
    def of(cls, **flags: object) -> Self:
        """The options that the flags spell. Raises InvalidInput, with one Problem per flag."""
        try:
            return cls.model_validate({name: value for name, value in flags.items() if value is not None})
        except ValidationError as error:
            raise explain(error, cls) from error


def publish_files(results: Sequence[Path], options: PublishOptions, note: Callable[[str], None]) -> Delivery:
    """Take result files into the spool, and deliver all that waits there for the same destination.

    Raises InvalidInput or UnreadableFile, before anything is sent, where a file is no result.
    """
    documents = [_read_result(path) for path in results]
    spool = Spool.of(options.spool, options.destination)
    for run_id, document in documents:
        _note_size(run_id, document, note)
        spool.put(run_id, document)
    return deliver(
        spool,
        options.destination,
        token=token_of_environment(),
        patience_seconds=options.patience_seconds,
        note=note,
    )


def publish_result(result: BenchmarkResult, destination: Destination, note: Callable[[str], None]) -> Delivery:
    """Publish the result of a run that has just ended, and what else waits for that destination."""
    options = PublishOptions.of(**{"--to": destination.link, "--patience": DEFAULT_PATIENCE})
    spool = Spool.of(options.spool, destination)
    document = result.model_dump_json().encode()
    _note_size(result.run_id, document, note)
    spool.put(result.run_id, document)
    return publish_files([], options, note)


def _note_size(run_id: str, document: bytes, note: Callable[[str], None]) -> None:
    """Say of a result that it is larger than services take, unless set up otherwise, and which list is the largest."""
    if len(document) <= DEFAULT_MAX_RESULT_BYTES:
        return
    measurements = json.loads(document)["measurements"]
    sizes = Counter[str]()
    for name, value in chain.from_iterable(measurement.items() for measurement in measurements):
        sizes[name] += len(json.dumps(value))
    ((largest, num_bytes),) = sizes.most_common(1)
    size, limit = binary_bytes_text(len(document)), binary_bytes_text(DEFAULT_MAX_RESULT_BYTES)
    note(
        f"{run_id} has {size}, and a service takes {limit} unless its --max-result-bytes is larger: {largest} has "
        f"{binary_bytes_text(num_bytes)} of it, which fewer "
        "repetitions or configurations in one result reduce."
    )


def _read_result(path: Path) -> tuple[str, bytes]:
    """Run id and content of a result file.

    Raises UnreadableFile, or InvalidInput where it is no result document of this version.
    """
    try:
        document = path.read_bytes()
        return BenchmarkResult.model_validate_json(document).run_id, document
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read ({error.strerror}): give the path of a result document.") from None
    except ValidationError as error:
        problems = explain(error, BenchmarkResult).problems
        raise UnreadableFile(f"{path} is not a result document of ckpt-bench: {InvalidInput(problems[:1])}") from None
