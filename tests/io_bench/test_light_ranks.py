"""Many ranks as threads, over the real stores: what passes rank 0, who is missing, and when all start."""

from __future__ import annotations

import math
import random
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import pytest

from io_bench.errors import PeerFailed, RanksLost
from io_bench.ranks import bounded_store, clock, liveness
from io_bench.ranks.clock import MAX_DRIFT_FRACTION, NodeClock, keep_answering
from io_bench.ranks.process_group import ProcessGroup
from io_bench.ranks.slurm import node_by_launcher
from io_bench.ranks.topology import store_for
from tests.testbed.light_ranks import World, meeting_at, passage
from tests.testbed.ports import free_port
from tests.testbed.processes import SECONDS_UNTIL_STUCK

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

RANKS_PER_NODE = 4
MISSED_SECONDS = 8.0
"""After which a rank is missed that never comes; the others come at once, however busy the machine is."""
# Of a rank in a repetition, at its leader or beyond: keys, times, counters, phases of two operations.
MAX_BYTES_PER_RANK = 2_500


def world(num_ranks: int, *, clocks_apart_seconds: float = 0.0) -> World:
    return World(num_ranks, RANKS_PER_NODE, 2, free_port(), 0, num_ranks, clocks_apart_seconds)


@pytest.fixture
def _no_bytes_for_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine leaders look after silent ranks, all ask again for what they wait for, and ask rank 0's time again.

    These bytes tell how busy it is.
    """
    monkeypatch.setattr(bounded_store, "_SLICE", timedelta(seconds=4))
    monkeypatch.setattr(liveness, "SECONDS_BETWEEN_LOOKS", 600.0)
    monkeypatch.setattr(clock, "GOOD_ERROR_SECONDS", math.inf)


@pytest.mark.long
@pytest.mark.usefixtures("_no_bytes_for_time")
@pytest.mark.parametrize("num_few", [5, pytest.param(16, marks=pytest.mark.long)])
def test_what_passes_rank_0_grows_with_the_ranks_and_no_faster_and_all_start_together(num_few: int) -> None:
    few, many = passage(world(num_few)), passage(world(4 * num_few, clocks_apart_seconds=1.0))
    # Whoever waits long asks again after a few seconds, and clocks are asked in the background: a busy machine adds bytes to
    # some repetition, and takes none away.
    assert 0 < min(many.repetition_bytes) < 4 * num_few * MAX_BYTES_PER_RANK
    assert min(many.repetition_bytes) < 4 * min(few.repetition_bytes)
    # Clocks are a second apart: whoever started by his own would be that early. How late one wakes up is the machine's.
    assert min(many.late_seconds) >= 0
    for rank, notes in many.notes.items():
        for agreed, truth, error in zip(notes.agreed, many.notes[0].agreed, notes.errors, strict=True):
            assert abs(agreed - truth) <= error + 1e-6, rank
    assert all(0 < error < 0.5 for error in many.clock_error_seconds)
    print(
        f"\n{4 * num_few} ranks: {max(many.repetition_bytes):,} B a repetition, starts {many.start_spread_seconds} s apart"
    )


@pytest.fixture
def groups() -> Callable[..., dict[int, BaseException | None]]:
    """Runs something on ranks that are threads, each with a group; what each raised."""

    def run(
        here: World,
        work: Callable[[ProcessGroup], object],
        *,
        but: int | None = None,
        patience_seconds: float = SECONDS_UNTIL_STUCK,
    ) -> dict[int, BaseException | None]:
        def live(rank: int) -> BaseException | None:
            placement = here.placement(rank)
            store = store_for(placement, limit_seconds=SECONDS_UNTIL_STUCK)
            group = ProcessGroup(placement, store, 2 * SECONDS_UNTIL_STUCK)
            wait_for(group, patience_seconds)
            try:
                group.introduce()
                work(group)
            except (RanksLost, PeerFailed) as error:
                group.ending.publish(error)
                group.say_who_is_missing()
                return error
            else:
                return None
            finally:
                all_have_ended.wait()
                group.close()

        ranks = [rank for rank in range(here.num_ranks) if rank != but]
        all_have_ended = threading.Barrier(len(ranks))
        with meeting_at(here.port), ThreadPoolExecutor(len(ranks)) as pool:
            return dict(zip(ranks, pool.map(live, ranks), strict=True))

    return run


def wait_for(group: ProcessGroup, patience_seconds: float) -> None:
    """Let a rank wait so long for others: by its timeout it would wait for all that it does, the work of others too."""
    vars(group)["_waiting"].patience_seconds = patience_seconds


def test_values_go_to_rank_0_and_to_neighbours_and_peers(groups: Callable[..., dict[int, object]]) -> None:
    seen: dict[int, object] = {}

    def talk(group: ProcessGroup) -> None:
        source = (group.rank + RANKS_PER_NODE) % group.num_ranks
        seen[group.rank] = (
            group.gather(group.rank, doing="x"),
            group.decide(group.rank, sum, doing="x"),
            group.gather_on_node(group.rank, doing="x"),
            group.from_peer(f"of {group.rank}", source, doing="x"),
            group.broadcast(f"by {group.rank}", doing="x"),
        )

    assert set(groups(world(12), talk).values()) == {None}
    for rank, found in seen.items():
        first = rank - rank % RANKS_PER_NODE
        here = list(range(first, first + RANKS_PER_NODE))
        assert found == (list(range(12)) if rank == 0 else [], 66, here, f"of {(rank + 4) % 12}", "by 0")


def test_ranks_that_never_came_are_listed_on_every_rank(
    groups: Callable[..., dict[int, BaseException]], capsys: pytest.CaptureFixture[str]
) -> None:
    raised = groups(world(8), lambda _: None, but=6, patience_seconds=MISSED_SECONDS)
    said = capsys.readouterr().err
    assert len(raised) == 7
    for error in raised.values():
        assert "Rank 6 timeout: did not finish starting within " in str(error)
    assert said.splitlines() == ["Missing: rank 6."] * 7


def test_a_rank_that_hangs_is_listed_with_its_node_and_nobody_else_is(
    groups: Callable[..., dict[int, BaseException]], capsys: pytest.CaptureFixture[str]
) -> None:
    have_ended, are_there = threading.Event(), threading.Barrier(11)

    def hang(group: ProcessGroup) -> None:
        if group.rank == 10:
            have_ended.wait()
            return
        are_there.wait()
        wait_for(group, MISSED_SECONDS)
        try:
            group.meet(doing="writing")
        finally:
            if group.rank == 0:
                have_ended.set()

    raised = groups(world(12), hang)
    said = capsys.readouterr().err
    assert raised.pop(10) is None
    for error in raised.values():
        assert re.fullmatch(
            r"Rank 10 \(process \d+ on node-0002\) timeout: did not finish writing within .* It hangs, or --timeout is "
            "too short.",
            str(error),
        )
    assert said.splitlines() == ["Missing: rank 10 on node-0002."] * 11


def test_the_launcher_says_on_which_node_a_rank_should_be() -> None:
    step = {"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}
    assert [node_by_launcher(rank, step) for rank in range(5)] == ["n1", "n1", "n2", "n2", ""]
    assert node_by_launcher(2, step | {"SLURM_DISTRIBUTION": "cyclic"}) == ""
    uneven = {"WORLD_SIZE": "9", "LOCAL_WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "2"}
    assert node_by_launcher(5, uneven) == ""
    assert node_by_launcher(5, {}) == ""


@pytest.mark.parametrize("apart", [1.0, -86_400.0])
def test_the_offset_of_a_clock_is_off_by_no_more_than_it_says(apart: float) -> None:
    """Whatever else the machine does meanwhile: half of a round trip bounds the error."""
    from torch.distributed import HashStore  # type: ignore[attr-defined]  # noqa: PLC0415 - a second

    store, is_over = HashStore(), threading.Event()
    clock = NodeClock(num_leaders=1, now=lambda: time.monotonic() - apart)
    threads = [threading.Thread(target=work, args=(store, is_over)) for work in (keep_answering, clock.follow)]
    for thread in threads:
        thread.start()
    assert clock.is_known.wait(300)
    offset = clock.offset
    is_over.set()
    for thread in threads:
        thread.join()
    assert abs(offset.seconds - apart) <= offset.error_seconds + 1e-6
    assert offset.error_at(offset.taken + 100) == pytest.approx(offset.error_seconds + 0.01)


class Journeys:
    """A store that rank 0 answers, and time that passes only on the way there and back: a pause is a long way.

    Clocks of the node and of rank 0 drift as far apart as crystals may, and begin `apart` seconds from each other.
    """

    def __init__(self, source: random.Random, apart: float) -> None:
        self._source, self._apart = source, apart
        self.true_seconds, self._answer = 0.0, ""

    def here(self) -> float:
        return self.true_seconds * (1 + MAX_DRIFT_FRACTION / 2) - self._apart

    def there(self) -> float:
        return self.true_seconds * (1 - MAX_DRIFT_FRACTION / 2)

    def truth_of_here(self, moment: float) -> float:
        return (moment + self._apart) / (1 + MAX_DRIFT_FRACTION / 2)

    def add(self, *_: object) -> int:
        return 1

    def set(self, *_: object) -> None:
        self._travel()
        self._answer = repr(self.there())

    def wait(self, *_: object) -> None:
        self._travel()

    def get(self, _: str) -> bytes:
        return self._answer.encode()

    def delete_key(self, _: str) -> None: ...

    def _travel(self) -> None:
        pause = self._source.uniform(0.05, 0.3) if self._source.random() < 0.1 else 0.0
        self.true_seconds += self._source.lognormvariate(-7, 0.5) + pause


class End:
    """Over once so much time has passed; at every wait `look` is called first."""

    def __init__(self, journeys: Journeys, look: Callable[[], None], *, after_seconds: float) -> None:
        self._journeys, self._look, self._after_seconds = journeys, look, after_seconds

    def is_set(self) -> bool:
        return self._journeys.true_seconds > self._after_seconds

    def wait(self, seconds: float) -> bool:
        self._journeys.true_seconds += seconds
        self._look()
        return self.is_set()


@pytest.mark.parametrize("apart", [1.0, -86_400.0])
def test_agreed_instants_lie_within_ten_milliseconds_however_busy_the_machine(apart: float) -> None:
    """An hour of 20 nodes by clocks of their own: one journey in ten takes 50 to 300 ms, the others 1 ms."""
    errors: list[float] = []
    for node in range(20):
        journeys = Journeys(random.Random(node), apart)  # noqa: S311 - not to be unguessable
        clock = NodeClock(num_leaders=20, now=journeys.here)

        def look(journeys: Journeys = journeys, clock: NodeClock = clock) -> None:
            if clock.is_known.is_set() and journeys.true_seconds > 1:
                instant = journeys.there() + 0.1
                offset = clock.offset
                agreed = instant - offset.seconds
                error = journeys.truth_of_here(agreed) - instant / (1 - MAX_DRIFT_FRACTION / 2)
                assert abs(error) <= offset.error_at(agreed) + 1e-6
                errors.append(error)

        clock.follow(cast("Store", journeys), cast("threading.Event", End(journeys, look, after_seconds=3600.0)))
    assert len(errors) > 20 * 200
    assert max(errors) - min(errors) < 0.01
