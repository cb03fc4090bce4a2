"""Large answers take room until their clients have taken them: who reads slowly does not fill the server's memory."""

import asyncio
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from service.http.fair_room import FairRoom
from service.middleware.responses import MIN_HELD_BYTES, AnswersInRoom

SCOPE: Any = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("192.0.2.1", 1)}
CONTENT = bytes(range(256)) * (2 * MIN_HELD_BYTES // 256) + b"end"


class SlowClient:
    """A client that takes what it is sent once it reads."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.reads = asyncio.Event()

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        if message["type"] == "http.response.body":
            await self.reads.wait()

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def content(self) -> bytes:
        return b"".join(message["body"] for message in self.messages[1:])


async def receive() -> Message:
    return {"type": "http.disconnect"}


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(CONTENT)(scope, receive, send)


def test_a_large_answer_takes_room_until_its_client_has_taken_it_and_a_further_one_is_refused() -> None:
    async def ask() -> None:
        room = FairRoom(2 * len(CONTENT))
        app = AnswersInRoom(answer, room=room)
        first, second = SlowClient(), SlowClient()
        asking = asyncio.create_task(app(SCOPE, receive, first.send))
        await asyncio.sleep(0)
        assert room.num_free == len(CONTENT)
        assert len(first.content) < MIN_HELD_BYTES, "a piece at a time"
        second.reads.set()
        await app(SCOPE, receive, second.send)
        assert second.status == 503
        first.reads.set()
        await asking
        assert (first.status, first.content) == (200, CONTENT)
        assert [message["more_body"] for message in first.messages[-2:]] == [True, False]
        assert room.num_free == 2 * len(CONTENT)

    asyncio.run(ask())


def test_small_answers_need_no_room() -> None:
    async def ask() -> None:
        client = SlowClient()
        client.reads.set()
        app = AnswersInRoom(Response(b"x" * (MIN_HELD_BYTES - 1)), room=FairRoom(0))
        await app(SCOPE, receive, client.send)
        assert (client.status, len(client.content)) == (200, MIN_HELD_BYTES - 1)

    asyncio.run(ask())
