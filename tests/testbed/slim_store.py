"""A store that costs a rank one thread and one connection, so that a thousand ranks fit on two cores.

The agent's own has four threads for each rank, to bound every answer and to hear a signal meanwhile. Here the rank's own
thread asks, and waits in torch. What goes over the connections is the same, but for looks at ranks that are silent.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from torch.distributed import DistStoreError
from torch.distributed.distributed_c10d import PrefixStore

from io_bench.ranks.bounded_store import Bell

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store as TorchStore

_BETWEEN_LOOKS = timedelta(seconds=20)
"""The agent looks after a third of a second. Where ranks queue for a CPU, most of what they did would be looking."""


class SlimStore:
    """Fulfils Store, for ranks that all live: raises RuntimeError where the connection breaks."""

    is_lost = False

    def __init__(self, store: TorchStore, *_: object, **__: object) -> None:
        """Args: those of BoundedStore, whose bounds and blame are left out."""
        self._store = store
        self._is_closed = threading.Event()

    def set(self, key: str, value: str | bytes, /) -> None:
        self._store.set(key, value)  # type: ignore[arg-type]  # torch's stubs lack bytes

    def get(self, key: str, /) -> bytes:
        return self._store.get(key)

    def values(self, keys: Sequence[str], /) -> list[bytes]:
        return list(self._store.multi_get(list(keys)))

    def check(self, keys: Sequence[str], /) -> bool:
        return self._store.check(list(keys))

    def remove(self, keys: Iterable[str], /) -> None:
        for key in keys:
            self._store.delete_key(key)

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        return self._store.compare_set(key, expected, desired)

    def beside(self, prefix: str, /) -> TorchStore:
        return PrefixStore(prefix, self._connected())

    def bell(self, keys: Sequence[str], /) -> Bell:
        return _SlimBell(self._store, keys)

    def background(self, work: Callable[[TorchStore, threading.Event], None], /) -> None:
        threading.Thread(target=_work, args=(work, self._connected(), self._is_closed), daemon=True).start()

    def close(self) -> None:
        self._is_closed.set()

    def _connected(self) -> TorchStore:
        return self._store.clone()  # type: ignore[attr-defined, no-any-return]  # stubs lack it


def _work(work: Callable[[TorchStore, threading.Event], None], store: TorchStore, is_closed: threading.Event) -> None:
    with contextlib.suppress(RuntimeError):
        work(store, is_closed)


class _SlimBell(Bell):
    """Heard by who waits for it."""

    def __init__(self, store: TorchStore, keys: Sequence[str]) -> None:
        super().__init__()
        self._store, self._keys = store, list(keys)

    def wait(self, seconds: float) -> bool:  # noqa: ARG002 - the agent's, which is too often here
        try:
            self._store.wait(self._keys, _BETWEEN_LOOKS)
        except DistStoreError:
            return False
        return True
