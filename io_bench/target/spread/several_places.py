"""A run's places in several targets: a rank's files are in its own, and who leads the run sees to all."""

# What super() finds here is the class beside this one, never the protocol.
# mypy: disable-error-code="safe-super"

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Sequence

from io_bench.target.run_files import RunFiles


class InSeveralPlaces(RunFiles):
    """What a place does beyond itself where it has peers; the class beside it is the place of this rank.

    Files of the run are created, opened and removed in its own alone. Those named `in_every_place`, and what lost ranks
    have left, concern all places. Two places may be one, reached by two ways: a mount for each network adapter, an
    endpoint for each server. What has happened in one of them has then happened in the other too.
    """

    def spread(self, others: Sequence[RunFiles], in_every_place: Iterable[str]) -> None:
        """Take `others` for the places of other ranks."""
        self._others = tuple(others)
        self._in_every_place = frozenset(in_every_place)

    @property
    def title(self) -> str:
        """All places."""
        own = super().title
        return ", ".join([own, *(other.title for other in self._others)])

    def disown(self, name: str) -> None:
        """Leave a file out of `remove_created`: it goes last. It is whole now, so it can be copied to all places."""
        super().disown(name)
        if name in self._in_every_place:
            with self.open(name) as file:
                content = file.read()
            for other in self._others:
                with contextlib.suppress(FileExistsError), other.create(name) as copy:
                    copy.write(content)
                other.disown(name)

    def touch(self, name: str) -> None:
        """Make a file look as if changed now. Raises OSError."""
        super().touch(name)
        for other in self._with(name):
            other.touch(name)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return super().exists(name) or any(other.exists(name) for other in self._with(name))

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, where they are there. Raises OSError."""
        doomed = tuple(names)
        super().remove(doomed)
        for name in doomed:
            for other in self._with(name):
                other.remove([name])

    def remove_of_lost(self, names: Iterable[str]) -> None:
        """Remove files that lost ranks have written, wherever they are. Raises OSError."""
        doomed = tuple(names)
        super().remove_of_lost(doomed)
        for other in self._others:
            other.remove_of_lost(doomed)

    def names(self) -> list[str]:
        """What is in all places."""
        return sorted({*super().names(), *itertools.chain.from_iterable(other.names() for other in self._others)})

    def unmake(self) -> None:
        """Remove the places, which are empty. Raises OSError."""
        for unmake in (*(other.unmake for other in self._others), super().unmake):
            with contextlib.suppress(FileNotFoundError):
                unmake()

    def close(self) -> None:
        """Let go of the places."""
        super().close()
        for other in self._others:
            other.close()

    def _with(self, name: str) -> Sequence[RunFiles]:
        return self._others if name in self._in_every_place else ()
