"""The key-value stores through which ranks meet: torch's TCPStore, or a dict for a single rank.

Barriers and gathers are built on stores and not on gloo collectives, because a rank that waits inside a
collective can neither take a signal nor say which peer is missing.

Values are JSON, compressed where they leave a node.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import queue
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from io_bench import interruption
from io_bench.errors import RanksLost
from sizing.units import seconds_text

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store as TorchStore


CONNECTIONS_PER_RANK = 4
"""Connections of the store's host to each rank: for its questions, its bell, a leader's ear, and a library's
collectives."""
_SLICE = timedelta(seconds=1)
"""Slice of a wait: so late at most does a thread notice that nobody waits any more."""
_SECONDS_BETWEEN_LOOKS = 0.3
"""While a connection is made."""
_SECONDS_TO_STOP = 5.0
"""Time to stop a wait: the rest of a slice, on a busy machine. Who waits for a store that hangs does not stop."""

_Answer = TypeVar("_Answer")
_Questions = queue.SimpleQueue[Callable[[], None] | None]


class Bell:
    """A bell that rings once awaited keys are there. `is_silent`: nobody listens for it any more."""

    def __init__(self) -> None:
        self.is_abandoned = False
        self.is_silent = True
        self._rung = threading.Event()

    def ring(self) -> None:
        """Wake the waiting thread."""
        self._rung.set()

    def wait(self, seconds: float) -> bool:
        """Wait for the bell; whether it has rung by then."""
        return self._rung.wait(seconds)

    def close(self) -> None:
        """Say that nobody waits any more."""
        self.is_abandoned = True


class Store(Protocol):
    """A key-value store as ranks need it. Values are text or bytes going in, bytes coming out.

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
        self._values[key] = value.encode() if isinstance(value, str) else value

    def get(self, key: str, /) -> bytes:
        return self._values[key]

    def values(self, keys: Sequence[str], /) -> list[bytes]:
        return [self._values[key] for key in keys]

    def check(self, keys: Sequence[str], /) -> bool:
        return all(key in self._values for key in keys)

    def remove(self, keys: Iterable[str], /) -> None:
        for key in keys:
            self._values.pop(key, None)

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        if self._values.get(key, b"") == expected.encode():
            self.set(key, desired)
        return self._values[key]

    def beside(self, prefix: str, /) -> TorchStore:
        from torch.distributed import HashStore  # type: ignore[attr-defined]  # noqa: PLC0415 - who is alone need not wait for it
        from torch.distributed.distributed_c10d import PrefixStore  # noqa: PLC0415 - likewise

        return PrefixStore(prefix, HashStore())

    def bell(self, keys: Sequence[str], /) -> Bell:  # noqa: ARG002 - nobody else sets a key
        """Make a bell that never rings: a rank that is alone waits for nobody."""
        return Bell()

    def background(self, work: Callable[[TorchStore, threading.Event], None], /) -> None:
        """Do nothing: a rank that is alone has nobody to hear."""

    def close(self) -> None:
        """Do nothing: no thread runs."""


class BoundedStore:
    """A store whose every answer comes within a time limit.

    A TCPStore client waits for ever, deaf to signals, where the host of the store is stopped; so each
    question is asked by another thread. After one question without an answer, no more are asked.

    Methods raise RanksLost for the ranks that host the store: none where the launcher does.
    """

    def __init__(
        self, store: TorchStore, limit_seconds: float, *, host: str = "Rank 0", hosting_ranks: tuple[int, ...] = (0,)
    ) -> None:
        """Args: `host` names the process that is at fault where the store is lost."""
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

        def keep_asking() -> None:
            while question := self._questions.get():
                question()

        self._run(keep_asking)

    def set(self, key: str, value: str | bytes, /) -> None:
        self.asked(lambda store: store.set(key, value))  # type: ignore[arg-type]  # torch's stubs lack bytes

    def get(self, key: str, /) -> bytes:
        return self.asked(lambda store: store.get(key))

    def values(self, keys: Sequence[str], /) -> list[bytes]:
        return self.asked(lambda store: list(store.multi_get(list(keys))))

    def check(self, keys: Sequence[str], /) -> bool:
        return self.asked(lambda store: store.check(list(keys)))

    def remove(self, keys: Iterable[str], /) -> None:
        self.asked(lambda store: [store.delete_key(key) for key in keys])

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        return self.asked(lambda store: store.compare_set(key, expected, desired))

    def beside(self, prefix: str, /) -> TorchStore:
        """A store of torch for the keys under a prefix, with a connection of its own: a wait blocks its connection."""
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
        store = self._connected()

        def run() -> None:
            with contextlib.suppress(RuntimeError, RanksLost):
                work(store, self._is_closed)

        self._run(run)

    def close(self) -> None:
        self._is_closed.set()
        self._questions.put(None)
        for thread in self._threads:
            thread.join(_SECONDS_TO_STOP)

    def asked(self, question: Callable[[TorchStore], _Answer]) -> _Answer:
        """Ask torch's store in another thread, and return its answer where it comes in time."""
        if self.is_lost:
            raise self._lost("cannot be reached")
        answer: Future[_Answer] = Future()

        def ask() -> None:
            try:
                answer.set_result(question(self._store))
            except RuntimeError as error:
                answer.set_exception(error)

        self._questions.put(ask)
        try:
            with interruption.at_once():
                return answer.result(self._limit_seconds)
        except TimeoutError:
            raise self._lost(f"did not answer within {seconds_text(self._limit_seconds)}: it hangs") from None
        except RuntimeError as error:
            raise self._lost("cannot be reached: it was killed or crashed") from error

    def _connected(self) -> TorchStore:
        """Open a further connection to the store."""
        return self.asked(lambda store: store.clone())  # type: ignore[attr-defined, no-any-return]  # stubs lack it

    def _run(self, target: Callable[..., None], *arguments: object) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self._threads[-1].start()

    def _lost(self, what: str) -> RanksLost:
        self.is_lost = True
        return RanksLost(self._hosting_ranks, f"{self._host} {what}.")


def in_thread(work: Callable[[], _Answer], *, heeded: Callable[[], None], seconds_to_let_go: float = 0.0) -> _Answer:
    """Run `work` in a thread of its own, left behind where a signal comes or `heeded` raises.

    Requests fail once a signal has come: then the work may end by itself, and has `seconds_to_let_go` for that.
    """
    answer: Future[_Answer] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        while not concurrent.futures.wait([answer], _SECONDS_BETWEEN_LOOKS).done:
            interruption.heed()
            heeded()
    except BaseException:
        concurrent.futures.wait([answer], seconds_to_let_go)
        raise
    return answer.result()


def wait_in_slices(store: TorchStore, keys: Sequence[str], is_over: Callable[[], bool]) -> bool:
    """Wait for keys. True once all are there; False once it is over, which may be noticed a second late.

    Raises RuntimeError where the store is lost.
    """
    from torch.distributed import DistStoreError  # noqa: PLC0415 - loaded with the store

    while not is_over():
        with contextlib.suppress(DistStoreError):
            store.wait(list(keys), _SLICE)
            return True
    return False


def _ring(store: TorchStore, keys: Sequence[str], bell: Bell, is_closed: threading.Event) -> None:
    with contextlib.suppress(RuntimeError):
        if wait_in_slices(store, keys, lambda: bell.is_abandoned or is_closed.is_set()):
            bell.ring()
    bell.is_silent = True


def text_of(value: Any) -> bytes:
    """Encode a value as one rank gives it.

    >>> text_of({"seconds": [1.5, 2]})
    b'{"seconds":[1.5,2]}'
    """
    return json.dumps(value, separators=(",", ":")).encode()


def bundle_of(texts: Iterable[bytes]) -> bytes:
    """Compress the values of several ranks as one: what they have in common is sent once.

    >>> value_of(bundle_of([text_of(1), text_of("two")]))
    [1, 'two']
    """
    return zlib.compress(b"[" + b",".join(texts) + b"]")


def pack(value: Any) -> bytes:
    """Compress one value."""
    return zlib.compress(text_of(value))


def value_of(package: bytes) -> Any:
    """Read a package or a bundle."""
    return json.loads(zlib.decompress(package))


def read(text: bytes) -> Any:
    """Read the value that one rank gave."""
    return json.loads(text)
