"""Turns go round by client: who asks much waits for itself."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from service.compute.fair_turns import FairTurns
from service.errors import Busy
from tests.testbed.processes import SECONDS_UNTIL_STUCK

Ask = Callable[[str], "asyncio.Task[None]"]


class Desk:
    """Clients who take turns at one place, each until it is told to leave."""

    def __init__(self, *, max_asked: int) -> None:
        self.turns = FairTurns(1, max_asked=max_asked)
        self.served: list[str] = []
        self.leave = asyncio.Semaphore(0)

    async def ask(self, name: str, *, max_seconds: float = SECONDS_UNTIL_STUCK) -> None:
        async with self.turns.turn(name.partition("-")[0], max_seconds=max_seconds):
            self.served.append(name)
            await self.leave.acquire()

    async def asked(self, *names: str) -> list["asyncio.Task[None]"]:
        """The questions, which stand in the queue in this order."""
        asking = [asyncio.create_task(self.ask(name)) for name in names]
        await settled()
        return asking

    async def close(self, *asking: Awaitable[None]) -> list[BaseException | None]:
        for _ in range(50):
            self.leave.release()
        return await asyncio.gather(*asking, return_exceptions=True)


async def settled() -> None:
    """All that can go on has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_clients_take_turns() -> None:
    async def ask() -> None:
        desk = Desk(max_asked=20)
        asking = await desk.asked("a-1", "a-2", "a-3", "a-4", "b-1", "c-1", "b-2")
        await desk.close(*asking)
        assert desk.served == ["a-1", "a-2", "b-1", "c-1", "a-3", "b-2", "a-4"]

    asyncio.run(ask())


def test_steps_of_the_event_loop_go_round_by_client_though_they_never_wait() -> None:
    turns, served = FairTurns(1, max_asked=20), []

    async def step(name: str) -> None:
        async with turns.step(name.partition("-")[0], max_seconds=SECONDS_UNTIL_STUCK):
            served.append(name)

    async def ask() -> None:
        await asyncio.gather(*map(step, ("a-1", "a-2", "a-3", "a-4", "b-1", "a-5")))

    asyncio.run(ask())
    assert served == ["a-1", "a-2", "b-1", "a-3", "a-4", "a-5"]


def test_where_all_is_full_the_longest_queue_gives_way() -> None:
    async def ask() -> None:
        desk = Desk(max_asked=4)
        asking = await desk.asked("a-1", "a-2", "a-3", "a-4", "b-1", "a-5", "b-2")
        ends = await desk.close(*asking)
        assert [type(end) for end in ends] == [type(None)] * 3 + [Busy, type(None), Busy, Busy]
        assert desk.served == ["a-1", "a-2", "b-1", "a-3"]

    asyncio.run(ask())


def test_who_leaves_the_queue_holds_nobody_up() -> None:
    async def ask() -> None:
        desk = Desk(max_asked=20)
        first, second, third = await desk.asked("a-1", "b-1", "c-1")
        second.cancel()
        await desk.close(first, second, third)
        assert desk.served == ["a-1", "c-1"]

    asyncio.run(ask())


@pytest.mark.parametrize("is_first_to_know", [True, False])
def test_a_turn_that_comes_to_one_who_leaves_is_passed_on(is_first_to_know: bool) -> None:
    async def ask() -> None:
        desk = Desk(max_asked=20)
        first, second, third = await desk.asked("a-1", "b-1", "c-1")
        if is_first_to_know:
            second.cancel()
            desk.leave.release()
        else:
            desk.leave.release()
            while not first.done():
                await asyncio.sleep(0)
            second.cancel()
        await desk.close(first, second, third)
        assert "c-1" in desk.served
        await asyncio.wait_for(desk.ask("d-1"), SECONDS_UNTIL_STUCK)

    asyncio.run(ask())


def test_a_turn_that_does_not_come_in_time_is_refused() -> None:
    async def ask() -> None:
        desk = Desk(max_asked=20)
        (first,) = await desk.asked("a-1")
        with pytest.raises(Busy):
            await desk.ask("b-1", max_seconds=0.01)
        await desk.close(first)
        await desk.ask("b-2")
        assert desk.served == ["a-1", "b-2"]

    asyncio.run(ask())
