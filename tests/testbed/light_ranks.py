"""Ranks as threads: the agent's own protocol over real stores, from meeting to repetitions, without storage.

So what passes rank 0 is what would pass it on as many machines. In one process they have the agent's own stores; spread
over several processes, which is for many ranks, slim ones.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from io_bench.engines import EnginePlan, IoReport
from io_bench.measure.configuration import Configuration
from io_bench.measure.evidence import Evidence
from io_bench.measure.plan import MeasurementPlan
from io_bench.measure.rank_roles import IdleRole
from io_bench.measure.sample import Bench
from io_bench.payload.device import Device
from io_bench.ranks import topology
from io_bench.ranks.bounded_store import Store
from io_bench.ranks.placement import Placement
from io_bench.ranks.process_group import ProcessGroup, Start, Writers
from io_bench.ranks.topology import store_for
from tests.testbed.slim_store import SlimStore

_Found = TypeVar("_Found")
_TIMEOUT_SECONDS = 600.0
MAX_SECONDS = 420.0
"""For all that a number of ranks does. A machine that needs longer measures only its own queues."""
# torch asks for the name of every address that it is connected to, which a name server may leave unanswered: resolver(5).
_NO_PATIENCE_WITH_NAMES = {"RES_OPTIONS": "timeout:1 attempts:1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
# linux, include/uapi/linux/tcp.h: struct tcp_info, tcpi_bytes_acked and tcpi_bytes_received.
_TCP_INFO_BYTES, _BYTES_COUNTED = 136, struct.Struct("=120xQQ")
# linux, include/net/tcp_states.h
_TCP_ESTABLISHED = 1
_PHASES = {"plan": 0.000123, "create": 0.001234, "write": 1.234567, "fsync": 0.123456, "close": 0.000012}


@dataclass(frozen=True)
class World:
    """So many ranks on nodes of so many, and which of them this process is."""

    num_ranks: int
    ranks_per_node: int
    num_repetitions: int
    port: int
    first: int
    last: int
    clocks_apart_seconds: float = 0.0

    def placement(self, rank: int) -> Placement:
        """A rank whose process no other rank looks for."""
        node, local = divmod(rank, self.ranks_per_node)
        name = f"node-{node:04d}"
        return Placement(rank, self.num_ranks, local, name, name, 100_000 + 37 * rank, f"pid:[{rank}]")

    def ahead_seconds(self, rank: int) -> float:
        """How far the clock of a rank's node is ahead of the one clock that all have in truth."""
        return self.clocks_apart_seconds * (rank // self.ranks_per_node % 2)

    def now(self, rank: int) -> Callable[[], float]:
        """The clock of a rank's node, which is off that of its neighbours."""
        ahead_seconds = self.ahead_seconds(rank)
        return lambda: time.monotonic() + ahead_seconds


@dataclass(frozen=True)
class Notes:
    """What a rank saw, in seconds by the one clock that all have in truth.

    `agreed` are the instants at which it was to start, `errors` how far it took each to be off at most, `starts` when it
    did start. `rounds` are the gatherings and tellings that it went through: which, and when they began and ended.
    """

    agreed: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    rounds: list[tuple[str, float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Passage:
    """What passed rank 0: when the ranks met, and in each repetition; with the time that either took, and all notes."""

    meeting_bytes: int
    meeting_seconds: float
    repetition_bytes: list[int]
    repetition_seconds: list[float]
    notes: dict[int, Notes]

    @property
    def start_spread_seconds(self) -> list[float]:
        """Of each start, from the first rank to the last."""
        return [max(starts) - min(starts) for starts in self._of_all("starts")]

    @property
    def agreed_spread_seconds(self) -> list[float]:
        """How far the agreed instants of each start lie apart: the error of the protocol, whatever the machine does."""
        return [max(agreed) - min(agreed) for agreed in self._of_all("agreed")]

    @property
    def clock_error_seconds(self) -> list[float]:
        """The error that the ranks of each start reckon with, at most."""
        return [max(errors) for errors in self._of_all("errors")]

    @property
    def late_seconds(self) -> list[float]:
        """How long after its instant each rank started, over all starts: the machine's share."""
        return [
            started - agreed
            for notes in self.notes.values()
            for started, agreed in zip(notes.starts, notes.agreed, strict=True)
        ]

    def seconds_of(self, kind: str) -> list[float]:
        """Of each gathering, from the last rank's word to rank 0 having all; of each telling, from rank 0's to the last."""
        by_round = list(zip(*(self.notes[rank].rounds for rank in sorted(self.notes)), strict=True))
        found = [of_ranks for of_ranks in by_round if of_ranks[0][0] == kind]
        if kind == "gathered":
            return [of_ranks[0][2] - max(begun for _, begun, _ in of_ranks) for of_ranks in found]
        return [max(ended for *_, ended in of_ranks) - of_ranks[0][1] for of_ranks in found]

    def _of_all(self, what: str) -> Iterator[tuple[float, ...]]:
        return zip(*(getattr(notes, what) for notes in self.notes.values()), strict=True)


class _NotingGroup(ProcessGroup):
    """A group that notes its rounds and starts."""

    def __init__(self, placement: Placement, store: Store, world: World) -> None:
        super().__init__(placement, store, _TIMEOUT_SECONDS, now=world.now(placement.rank))
        self._ahead_seconds = world.ahead_seconds(placement.rank)
        self.notes = Notes()

    def gather(self, value: Any, *, doing: str) -> list[Any]:
        return self._noted("gathered", functools.partial(super().gather, value, doing=doing))

    def broadcast(self, value: Any, *, doing: str) -> Any:
        return self._noted("told", functools.partial(super().broadcast, value, doing=doing))

    def start(self, *, doing: str) -> Start:
        start = super().start(doing=doing)
        # The agreement is a telling too, which follows a gathering at once.
        self.notes.rounds.append(("told", self.notes.rounds[-1][2], time.monotonic()))
        self.notes.agreed.append(start.instant - self._ahead_seconds)
        self.notes.errors.append(start.error_seconds)
        return start

    def _noted(self, kind: str, take_part: Callable[[], _Found]) -> _Found:
        begun = time.monotonic()
        found = take_part()
        self.notes.rounds.append((kind, begun, time.monotonic()))
        return found


class _LightRole(IdleRole):
    """A rank's part that notes when it began, and reports as the engine `direct` does."""

    def __init__(self, rank: int, starts: list[float]) -> None:
        self.rank = rank
        self.starts = starts

    def begin(self, repetition: int) -> str:
        return f"{repetition * 10**9 + self.rank:016x}"

    def write(self) -> IoReport:
        self.starts.append(time.monotonic())
        return IoReport(is_direct=True, phase_seconds=_PHASES, generator_wait_fraction=0.0123)

    def restore(self, plan: EnginePlan) -> IoReport:  # noqa: ARG002 - nothing is read
        self.starts.append(time.monotonic())
        return IoReport(is_direct=True, phase_seconds=_PHASES)

    def num_bytes(self) -> int:
        return 268_435_456 + self.rank

    def check(self, plan: EnginePlan, expected: str) -> Evidence:
        assert expected, plan
        return Evidence()


class _Silent:
    def begin(self, doing: str) -> None: ...

    def end(self, bytes_per_second: float) -> None: ...


def passage(world: World) -> Passage:
    """The ranks of this process, rank 0 among them."""
    with meeting_at(world.port), ThreadPoolExecutor(world.last - world.first) as pool:
        ranks = range(world.first, world.last)
        lives = [pool.submit(_lived, world, rank) for rank in ranks]
        counted, seconds, _ = lives[0].result()
        notes = {rank: life.result()[-1] for rank, life in zip(ranks, lives, strict=True)}
    passed = [later - earlier for earlier, later in itertools.pairwise(counted)]
    return Passage(counted[0], seconds[0], passed, seconds[1:], notes)


def passage_of_processes(world: World, num_processes: int, *, max_seconds: float = MAX_SECONDS) -> Passage:
    """All ranks, in so many processes. Raises TimeoutError where it takes longer, or a process has failed."""
    bounds = [world.num_ranks * number // num_processes for number in range(num_processes + 1)]
    worlds = [asdict(world) | {"first": first, "last": last} for first, last in itertools.pairwise(bounds)]
    # Each ends where its input does, so none outlives this process.
    start = functools.partial(subprocess.Popen, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    environment = os.environ | _NO_PATIENCE_WITH_NAMES
    with contextlib.ExitStack() as stack:
        started = []
        for each in worlds:
            command = [sys.executable, "-m", __name__, json.dumps(each)]
            started.append(stack.enter_context(start(command, cwd=_REPOSITORY, env=environment)))
            stack.callback(started[-1].kill)
        late = threading.Timer(max_seconds, _kill, [started])
        late.start()
        stack.callback(late.cancel)
        outputs = [cast("IO[str]", process.stdout).read() for process in started]
    if not all(outputs):
        raise TimeoutError(f"{world.num_ranks} ranks have not got through within {max_seconds} s")
    documents = [json.loads(output) for output in outputs]
    notes = {int(rank): Notes(**noted) for document in documents for rank, noted in document["notes"].items()}
    return Passage(**documents[0] | {"notes": notes})


def _kill(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()


def _lived(world: World, rank: int) -> tuple[list[int], list[float], Notes]:
    """One rank's life: what rank 0 counted in it, the time of meeting and repetitions, and what the rank noted."""
    placement = world.placement(rank)
    store = store_for(placement, limit_seconds=_TIMEOUT_SECONDS / 2)
    begun = time.monotonic()
    group = _NotingGroup(placement, store, world)
    group.introduce()
    counted, seconds = [_bytes_through(world.port, rank)], [time.monotonic() - begun]
    group.notes.rounds.clear()
    part = _LightRole(rank, group.notes.starts)
    bench = Bench(_plan(world, group), part, None, _Silent())
    for repetition in range(world.num_repetitions):
        begun = time.monotonic()
        bench.sample(repetition)
        group.broadcast(None, doing="going on")
        counted.append(_bytes_through(world.port, rank))
        seconds.append(time.monotonic() - begun)
    group.ending.roll_call()
    # The process of rank 0 may have ended, and its store with it.
    with contextlib.suppress(RuntimeError):
        group.ending.farewell()
    group.close()
    return counted, seconds, group.notes


def _plan(world: World, group: ProcessGroup) -> MeasurementPlan:
    engine_plan = EnginePlan(("rank-00000.pt",), 300_000_000, 0, 0, 8 << 20, 8)
    num_nodes = len(group.nodes)
    return MeasurementPlan(
        Configuration(engine="direct", num_nodes=num_nodes, writers_per_node=world.ranks_per_node),
        Writers(tuple(range(world.num_ranks)), group),
        Device("cpu"),
        own=None,
        engine_plans=(engine_plan,) * world.num_ranks if group.rank == 0 else (),
        payload_bytes=(268_435_456,) * world.num_ranks if group.rank == 0 else (),
        workload_title="",
        node_host_bytes=0,
        gpu_bytes=0,
        cpus_of_node={},
        restores_from_other_node=num_nodes > 1,
        max_disk_bytes=0,
        is_streamed=False,
        source_plan=engine_plan,
        files_of=lambda _: (),
    )


def _bytes_through(port: int, rank: int) -> int:
    """What the kernel counted on all connections to a store that this process hosts, in both directions."""
    return sum(map(_bytes_of, _connections_to(port))) if rank == 0 else 0


def _connections_to(port: int) -> Iterator[socket.socket]:
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if path.readlink().as_posix().startswith("socket:"):
                with socket.socket(fileno=os.dup(int(path.name))) as connection:
                    if connection.family != socket.AF_UNIX and connection.getsockname()[1] == port:
                        yield connection


def _bytes_of(connection: socket.socket) -> int:
    found = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    return sum(_BYTES_COUNTED.unpack(found)) if found[0] == _TCP_ESTABLISHED else 0


@contextmanager
def meeting_at(port: int) -> Iterator[None]:
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} | _NO_PATIENCE_WITH_NAMES
    before = {name: os.environ.get(name) for name in meeting}
    os.environ.update(meeting)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


_REPOSITORY = Path(__file__).parents[2]


def _end_with_who_started_it() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_who_started_it, daemon=True).start()
    threading.stack_size(256 << 10)
    vars(topology)["BoundedStore"] = SlimStore
    found = passage(World(**json.loads(sys.argv[1])))
    json.dump(asdict(found), sys.stdout)
    sys.stdout.flush()
    # Threads that wait in a store would be waited for.
    os._exit(0)
