"""The key-value stores through which ranks meet: torch's TCPStore, or a dict for a single rank.

Barriers and gathers are built on stores and not on gloo collectives, because a rank that waits inside a
collective can neither take a signal nor say which peer is missing.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

from io_bench.errors import RanksLost
from sizing.units import seconds_text

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store as TorchStore

CONNECTIONS_PER_RANK = 4
"""Of the store's host to each rank: for its questions, its bell, a leader's ear, and a library's collectives."""
_SLICE = timedelta(seconds=1)
"""Of a wait: so late at most does a thread notice that nobody waits any more."""
_SECONDS_TO_STOP = 5.0
"""For the rest of a slice, on a busy machine. Who waits for a store that hangs does not stop."""

_Answer = TypeVar("_Answer")
_Questions = queue.SimpleQueue[Callable[[], None] | None]


class Bell:
    """Rings once what was awaited is there. `is_silent`: nobody is at it any more."""

    def __init__(self) -> None:
        self.is_abandoned = False
        self.is_silent = True
        self._rung = threading.Event()

    def ring(self) -> None:
        """Wake who waits."""
        self._rung.set()

    def wait(self, seconds: float) -> bool:
        """Whether it has rung by then."""
        return self._rung.wait(seconds)

    def close(self) -> None:
        """Nobody waits any more."""
        self.is_abandoned = True


class Store(Protocol):
    """What ranks need of a store. Values are text or bytes going in, bytes coming out.

    `is_lost` says that it no longer answers.
    """

    is_lost: bool

    def set(self, key: str, value: str | bytes, /) -> None:
        """Set a key."""

    def get(self, key: str, /) -> bytes:
        """The value of a key that is there."""

    def values(self, keys: Sequence[str], /) -> list[bytes]:
        """The values of keys that are there."""

    def check(self, keys: Sequence[str], /) -> bool:
        """Whether all keys are there."""

    def remove(self, keys: Iterable[str], /) -> None:
        """Forget keys, where they are there."""

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """The value of the key, which becomes `desired` if it was absent and `expected` is empty."""

    def beside(self, prefix: str, /) -> TorchStore:
        """A store of torch for the keys under a prefix, with a connection of its own."""

    def bell(self, keys: Sequence[str], /) -> Bell:
        """A bell that rings as soon as all keys are there; never, where that cannot be heard."""

    def background(self, work: Callable[[TorchStore, threading.Event], None], /) -> None:
        """Do work in a thread of its own, with a connection of its own, until it ends or the event is set.

        It is to look at the event every second. A connection that breaks ends it.
        """

    def close(self) -> None:
        """End what runs in the background: a thread that waits in torch when Python ends brings the process down."""


class LocalStore:
    """The store of a rank that is alone: needs neither torch nor a network."""

    is_lost = False

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: str | bytes, /) -> None:
        """Set a key."""
        self._values[key] = value.encode() if isinstance(value, str) else value

    def get(self, key: str, /) -> bytes:
        """The value of a key that is there."""
        return self._values[key]

    def values(self, keys: Sequence[str], /) -> list[bytes]:
        """The values of keys that are there."""
        return [self._values[key] for key in keys]

    def check(self, keys: Sequence[str], /) -> bool:
        """Whether all keys are there."""
        return all(key in self._values for key in keys)

    def remove(self, keys: Iterable[str], /) -> None:
        """Forget keys, where they are there."""
        for key in keys:
            self._values.pop(key, None)

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

    def bell(self, keys: Sequence[str], /) -> Bell:  # noqa: ARG002 - nobody else sets a key
        """Never rings: who is alone waits for nobody."""
        return Bell()

    def background(self, work: Callable[[TorchStore, threading.Event], None], /) -> None:
        """Nothing: who is alone has nobody to hear."""

    def close(self) -> None:
        """Nothing runs."""


class BoundedStore:
    """A store whose every answer comes within a time limit.

    A TCPStore client waits for ever, deaf to signals, where the host of the store is stopped; so each
    question is asked by another thread. After one question without an answer, no more are asked.

    Methods raise RanksLost for the ranks that host the store: none where the launcher does.
    """

    def __init__(
        self, store: TorchStore, limit_seconds: float, *, host: str = "Rank 0", hosting_ranks: tuple[int, ...] = (0,)
    ) -> None:
        """Args: `host`, who is to blame where the store is lost, as people can find it."""
        self._store = store
        self._limit_seconds = limit_seconds
        self._host = host
        self._hosting_ranks = hosting_ranks
        self._questions: _Questions = queue.SimpleQueue()
        self._listener: TorchStore | None = None
        self._bell = Bell()
        self._is_closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self.is_lost = False
        self._run(_keep_asking, self._questions)

    def set(self, key: str, value: str | bytes, /) -> None:
        """Set a key."""
        self.asked(lambda store: store.set(key, value))  # type: ignore[arg-type]  # torch's stubs lack bytes

    def get(self, key: str, /) -> bytes:
        """The value of a key that is there."""
        return self.asked(lambda store: store.get(key))

    def values(self, keys: Sequence[str], /) -> list[bytes]:
        """The values of keys that are there."""
        return self.asked(lambda store: list(store.multi_get(list(keys))))

    def check(self, keys: Sequence[str], /) -> bool:
        """Whether all keys are there."""
        return self.asked(lambda store: store.check(list(keys)))

    def remove(self, keys: Iterable[str], /) -> None:
        """Forget keys, where they are there."""
        self.asked(lambda store: [store.delete_key(key) for key in keys])

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """The value of the key, which becomes `desired` if it was absent and `expected` is empty."""
        return self.asked(lambda store: store.compare_set(key, expected, desired))

    def beside(self, prefix: str, /) -> TorchStore:
        """A store of torch for the keys under a prefix, with a connection of its own: who waits blocks his."""
        from torch.distributed.distributed_c10d import PrefixStore  # noqa: PLC0415 - as above

        return PrefixStore(prefix, self._connected())

    def bell(self, keys: Sequence[str], /) -> Bell:
        """A bell that rings as soon as all keys are there, heard on a connection that waits for nothing else."""
        if self._listener is None or not self._bell.is_silent:
            self._listener = self._connected()
        self._bell = Bell()
        self._bell.is_silent = False
        self._run(_ring, self._listener, list(keys), self._bell, self._is_closed)
        return self._bell

    def background(self, work: Callable[[TorchStore, threading.Event], None], /) -> None:
        """Do work in a thread of its own, with a connection of its own, until it ends or the event is set."""
        self._run(_work, work, self._connected(), self._is_closed)

    def close(self) -> None:
        """End what runs in the background."""
        self._is_closed.set()
        self._questions.put(None)
        for thread in self._threads:
            thread.join(_SECONDS_TO_STOP)

    def asked(self, question: Callable[[TorchStore], _Answer]) -> _Answer:
        """What a question to torch's store gives, as far as that comes in time."""
        if self.is_lost:
            raise self._lost("cannot be reached")
        answer: Future[_Answer] = Future()
        self._questions.put(lambda: _answer(lambda: question(self._store), answer))
        try:
            return answer.result(self._limit_seconds)
        except TimeoutError:
            raise self._lost(f"did not answer within {seconds_text(self._limit_seconds)}: it hangs") from None
        except RuntimeError as error:
            raise self._lost("cannot be reached: it was killed or crashed") from error

    def _connected(self) -> TorchStore:
        """A further connection."""
        return self.asked(lambda store: store.clone())  # type: ignore[attr-defined, no-any-return]  # stubs lack it

    def _run(self, target: Callable[..., None], *arguments: object) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self._threads[-1].start()

    def _lost(self, what: str) -> RanksLost:
        self.is_lost = True
        return RanksLost(self._hosting_ranks, f"{self._host} {what}.")


def wait_in_slices(store: TorchStore, keys: Sequence[str], is_over: Callable[[], bool]) -> bool:
    """Whether all keys are there before it is over; a second late in saying that it is.

    Raises RuntimeError where the store is lost.
    """
    from torch.distributed import DistStoreError  # noqa: PLC0415 - loaded with the store

    while not is_over():
        with contextlib.suppress(DistStoreError):
            store.wait(list(keys), _SLICE)
            return True
    return False


def _keep_asking(questions: _Questions) -> None:
    while question := questions.get():
        question()


def _ring(store: TorchStore, keys: Sequence[str], bell: Bell, is_closed: threading.Event) -> None:
    with contextlib.suppress(RuntimeError):
        if wait_in_slices(store, keys, lambda: bell.is_abandoned or is_closed.is_set()):
            bell.ring()
    bell.is_silent = True


def _work(work: Callable[[TorchStore, threading.Event], None], store: TorchStore, is_closed: threading.Event) -> None:
    with contextlib.suppress(RuntimeError, RanksLost):
        work(store, is_closed)


def _answer(question: Callable[[], _Answer], answer: Future[_Answer]) -> None:
    try:
        answer.set_result(question())
    except RuntimeError as error:
        answer.set_exception(error)
