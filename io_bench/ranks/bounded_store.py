"""The key-value store through which ranks meet: torch's TCPStore, or a dict for a single rank.

Barriers and gathers are built on a store and not on gloo collectives, because a rank that waits inside a
collective can neither take a signal nor say which peer is missing.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

from io_bench.errors import RanksLost
from sizing.units import seconds_text

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store as TorchStore

CONNECTIONS_PER_RANK = 3
"""Of the store's host to each rank: for its questions, its bell, and a library's collectives."""

_Answer = TypeVar("_Answer")


class Store(Protocol):
    """What ranks need of a store. Values are text going in, bytes coming out.

    `is_lost` says that it no longer answers.
    """

    is_lost: bool

    def set(self, key: str, value: str, /) -> None:
        """Set a key."""

    def get(self, key: str, /) -> bytes:
        """The value of a key that is there."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys are there."""

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """The value of the key, which becomes `desired` if it was absent and `expected` is empty."""

    def beside(self, prefix: str, /) -> TorchStore:
        """A store of torch for the keys under a prefix, with a connection of its own."""

    def bell(self, key: str, seconds: float, /) -> threading.Event:
        """An event that is set as soon as a key is there; never, where that takes longer or cannot be heard."""


class LocalStore:
    """The store of a rank that is alone: needs neither torch nor a network."""

    is_lost = False

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: str, /) -> None:
        """Set a key."""
        self._values[key] = value.encode()

    def get(self, key: str, /) -> bytes:
        """The value of a key that is there."""
        return self._values[key]

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys are there."""
        return all(key in self._values for key in keys)

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """The value of the key, which becomes `desired` if it was absent and `expected` is empty."""
        if self._values.get(key, b"") == expected.encode():
            self.set(key, desired)
        return self._values[key]

    def beside(self, prefix: str, /) -> TorchStore:
        """A store of torch for the keys under a prefix, which nobody else sees."""
        from torch.distributed import HashStore  # type: ignore[attr-defined]  # noqa: PLC0415 - who is alone need not wait for it
        from torch.distributed.distributed_c10d import PrefixStore  # noqa: PLC0415 - likewise

        return PrefixStore(prefix, HashStore())

    def bell(self, key: str, seconds: float, /) -> threading.Event:  # noqa: ARG002 - nobody else sets a key
        """Never set: who is alone waits for nobody."""
        return threading.Event()


class BoundedStore:
    """A store whose every answer comes within a time limit.

    A TCPStore client waits for ever, deaf to signals, where the host of the store is stopped; so each
    question is asked by a thread of its own. After one question without an answer, no more are asked.

    Methods raise RanksLost: for rank 0 where it is the store's host, for no rank where the launcher is.
    """

    def __init__(self, store: TorchStore, limit_seconds: float, *, is_hosted_by_launcher: bool) -> None:
        self._store = store
        self._limit_seconds = limit_seconds
        self._host = "The launcher of rank 0 (host of the rendezvous)" if is_hosted_by_launcher else "Rank 0"
        self._hosting_ranks = () if is_hosted_by_launcher else (0,)
        self.is_lost = False

    def set(self, key: str, value: str, /) -> None:
        """Set a key."""
        self._asked(lambda: self._store.set(key, value))

    def get(self, key: str, /) -> bytes:
        """The value of a key that is there."""
        return self._asked(lambda: self._store.get(key))

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys are there."""
        return self._asked(lambda: self._store.check(keys))

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """The value of the key, which becomes `desired` if it was absent and `expected` is empty."""
        return self._asked(lambda: self._store.compare_set(key, expected, desired))

    def beside(self, prefix: str, /) -> TorchStore:
        """A store of torch for the keys under a prefix, with a connection of its own: who waits blocks his."""
        from torch.distributed.distributed_c10d import PrefixStore  # noqa: PLC0415 - as above

        return PrefixStore(prefix, self._store.clone())  # type: ignore[attr-defined]  # torch's stubs lack it

    def bell(self, key: str, seconds: float, /) -> threading.Event:
        """An event that is set as soon as a key is there, heard on a connection that waits for nothing else."""
        rung = threading.Event()

        def listen() -> None:
            with contextlib.suppress(RuntimeError):
                self._listener.wait([key], timedelta(seconds=seconds))
                rung.set()

        threading.Thread(target=listen, daemon=True).start()
        return rung

    @functools.cached_property
    def _listener(self) -> TorchStore:
        return self._store.clone()  # type: ignore[no-any-return, attr-defined]  # as above

    def _asked(self, question: Callable[[], _Answer]) -> _Answer:
        if self.is_lost:
            raise self._lost("cannot be reached")
        answer: Future[_Answer] = Future()
        threading.Thread(target=_answer, args=(question, answer), daemon=True).start()
        try:
            return answer.result(self._limit_seconds)
        except TimeoutError:
            raise self._lost(f"did not answer within {seconds_text(self._limit_seconds)}: it hangs") from None
        except RuntimeError as error:
            raise self._lost("cannot be reached: it was killed or crashed") from error

    def _lost(self, what: str) -> RanksLost:
        self.is_lost = True
        return RanksLost(self._hosting_ranks, f"{self._host} {what}.")


def _answer(question: Callable[[], _Answer], answer: Future[_Answer]) -> None:
    try:
        answer.set_result(question())
    except RuntimeError as error:
        answer.set_exception(error)
