"""The spool: results on their way to the service, on disk until it has said that it keeps them.

    SPOOL/DESTINATION/RUN_ID.json       waits to be sent; DESTINATION is a digest of the link
    SPOOL/DESTINATION/link              the link
    SPOOL/DESTINATION/refused/...       what the service will never take, with its reason beside it

A result is on disk before it is sent and removed after it is acknowledged. Whatever dies in between, it is sent
again, and the service knows a run by its id: nothing is lost, and nothing is there twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from io_bench.publishing.destination import Destination
from sizing.errors import InvalidInput


def default_spool() -> Path:
    """A folder for the state of programs, so that every command of the user finds it."""
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state).absolute() / "checkpoint-sizing" / "spool"


@dataclass(frozen=True, slots=True)
class Spool:
    """What waits to be sent to one destination."""

    folder: Path

    @classmethod
    def of(cls, root: Path, destination: Destination) -> Spool:
        """The spool for a destination, made where it is missing. Raises InvalidInput where that is impossible."""
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
        """The run ids that wait, the oldest first."""
        return sorted(path.stem for path in self.folder.glob("[!.]*.json"))

    def document(self, run_id: str) -> bytes | None:
        """A result that waits; None where another process has sent it in the meantime."""
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
