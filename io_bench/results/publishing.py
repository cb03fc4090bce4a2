"""`ckpt-bench publish`, and what `ckpt-bench run --publish` does at the end: send results by way of a spool.

    SPOOL/DESTINATION/RUN_ID.json       waits to be sent; DESTINATION is a digest of the link
    SPOOL/DESTINATION/link              the link
    SPOOL/DESTINATION/refused/...       what the service will never take, with its reason beside it

A result is on disk before it is sent and removed after it is acknowledged. Whatever dies in between, it is sent
again, with longer pauses each time, and the service knows a run by its id: nothing is lost, and nothing is there twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, ValidationError

from io_bench import interruption
from io_bench.results.destination import TOKEN_VARIABLE, Destination, token_of_environment
from service_client.client import Client
from service_client.errors import Refused, Unavailable
from service_client.terms import DEFAULT_MAX_RESULT_BYTES
from sizing.errors import InvalidInput, UnreadableFile, explain
from sizing.storage.measurement import BenchmarkResult
from sizing.strict_model import StrictModel
from sizing.units import PositiveSeconds, binary_bytes_text


def default_spool() -> Path:
    """Choose the folder of the spool: the user's own for the state of programs, so that every command finds it."""
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state).absolute() / "checkpoint-sizing" / "spool"


@dataclass(frozen=True, slots=True)
class Spool:
    """The results that wait to be sent to one destination."""

    folder: Path

    @classmethod
    def of(cls, root: Path, destination: Destination) -> Spool:
        """Open the spool for a destination, made where it is missing. Raises InvalidInput where that is impossible."""
        folder = root / hashlib.sha256(destination.link.encode()).hexdigest()[:16]
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / "link").write_text(destination.link + "\n")
        except OSError as error:
            rule = f"must be a folder that can be written ({error.strerror})"
            raise InvalidInput.of("--spool", rule, value=root, remedy="choose another folder") from None
        return cls(folder)

    def put(self, run_id: str, document: bytes) -> None:
        """Take a result to be sent. It is on disk when this returns. Raises InvalidInput where it cannot be."""
        draft = self.folder / f".{run_id}.{os.getpid()}.part"
        try:
            with draft.open("wb") as file:
                file.write(document)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path(run_id))
            _sync(self.folder)
        except OSError as error:
            draft.unlink(missing_ok=True)
            rule = f"must have space for the result ({error.strerror})"
            raise InvalidInput.of(
                "--spool", rule, value=self.folder, remedy="free space, or choose another folder"
            ) from None

    def waiting(self) -> list[str]:
        """Run ids of the results that wait, the oldest first."""
        return sorted(path.stem for path in self.folder.glob("[!.]*.json"))

    def document(self, run_id: str) -> bytes | None:
        """Read a result that waits; None where another process has sent it in the meantime."""
        try:
            return self._path(run_id).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, run_id: str) -> None:
        """Forget a result that the service keeps."""
        self._path(run_id).unlink(missing_ok=True)

    def set_aside(self, run_id: str, reason: str) -> Path:
        """Move a result that the service will never take out of the way, and say where to."""
        refused = self.folder / "refused"
        refused.mkdir(exist_ok=True)
        (refused / f"{run_id}.reason").write_text(reason + "\n")
        place = refused / f"{run_id}.json"
        with contextlib.suppress(FileNotFoundError):  # another process has set it aside in the meantime
            self._path(run_id).replace(place)
        return place

    def _path(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.json"


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


FIRST_PAUSE_SECONDS = 0.5
"""A service that restarts is back in a second or two."""
MAX_PAUSE_SECONDS = 30.0
"""Max pause between two attempts, so that a service which was away for an hour is not asked by a thousand nodes at
once, and not much later than needed."""

_TOKEN_IS_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_WRONG_ADDRESS_OR_TOKEN = (*_TOKEN_IS_REFUSED, HTTPStatus.NOT_FOUND)


@dataclass(slots=True)
class Delivery:
    """How a delivery went, by run ids. `reason` says why something still waits."""

    published: list[str] = field(default_factory=list)
    already_there: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the service keeps every run."""
        return not (self.refused or self.waiting)

    def sentences(self) -> Iterator[str]:
        """Sentences that report the delivery."""
        if self.published:
            yield f"Published {', '.join(self.published)}."
        if self.already_there:
            yield f"Already published: {', '.join(self.already_there)}."
        yield from self.refused
        if self.waiting:
            yield f"{self.reason} Kept in the spool for the next ckpt-bench publish: {', '.join(self.waiting)}."


def deliver(
    spool: Spool,
    destination: Destination,
    *,
    token: str | None,
    patience_seconds: float,
    note: Callable[[str], None],
) -> Delivery:
    """Send everything that waits; what cannot be delivered within `patience_seconds` goes on waiting.

    `note` is told of every pause.
    """
    delivery = Delivery()
    with Client(destination.url, token=token) as client:
        service = _Patient(client, destination.system, time.monotonic() + patience_seconds, note)
        for run_id in spool.waiting():
            try:
                _deliver_one(run_id, spool, delivery, service)
            except Unavailable as error:
                delivery.reason = f"{error}."
                if error.status != HTTPStatus.INTERNAL_SERVER_ERROR:  # a defect may be met by this run alone
                    break
            except Refused as error:
                delivery.reason = str(error)
                if error.status in _TOKEN_IS_REFUSED:
                    delivery.reason += f" Check the token in {TOKEN_VARIABLE}."
                if error.status == HTTPStatus.NOT_FOUND:
                    delivery.reason += (
                        f" Correct the name {destination.system} in the link and give the results again, or create "
                        "that storage system."
                    )
                break
    if delivery.reason:
        delivery.waiting = spool.waiting()
    return delivery


@dataclass(frozen=True, slots=True)
class _Patient:
    """A client that tries again until a deadline."""

    client: Client
    system: str
    deadline: float
    note: Callable[[str], None]

    def publish(self, document: bytes) -> bool:
        """Publish a result; whether the run is new. Raises Refused, or Unavailable at the deadline."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return self.client.publish(self.system, document)
            except Unavailable as error:
                # Nodes that failed together must not come back together.
                wait = max(error.retry_after_seconds, pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
                if time.monotonic() + wait > self.deadline:
                    raise
                self.note(f"{error}. Retry in {wait:.0f} s.")
                interruption.sleep(wait)
                pause = min(2 * pause, MAX_PAUSE_SECONDS)


def _deliver_one(run_id: str, spool: Spool, delivery: Delivery, service: _Patient) -> None:
    document = spool.document(run_id)
    if document is None:
        return
    try:
        is_new = service.publish(document)
    except Refused as error:
        if _concerns_every_run(error):
            raise
        place = spool.set_aside(run_id, str(error))
        delivery.refused.append(f"The service refused {run_id}: {error} It was moved to {place}.")
        return
    spool.remove(run_id)
    (delivery.published if is_new else delivery.already_there).append(run_id)


def _concerns_every_run(error: Refused) -> bool:
    """Whether a refusal is of all runs: it ends once link or token are right, or no proxy answers for the service.

    A proxy that redirects has no `code` of the service's. One that finds a run too large speaks of that run.
    """
    is_the_services = bool(error.code) or error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return error.status in _WRONG_ADDRESS_OR_TOKEN or not is_the_services


DEFAULT_PATIENCE = "1min"


class PublishOptions(StrictModel):
    """Options of `ckpt-bench publish`. Fields are read under the names of their flags."""

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
    """Note that a result is larger than services take by default, and which list is the largest."""
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
    """Read the run id and the content of a result file.

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
