"""Large documents are validated in a thread, once; small ones where they are."""

import asyncio
import gzip
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, Body
from pydantic import BaseModel, field_validator
from starlette.testclient import TestClient

from service.app import create_app
from service.errors import Busy, InvalidJson, explained
from service.http.bodies import MAX_BYTES_AT_ONCE, MAX_FIELDS_OF_AN_OBJECT, MAX_VALUES, parse_json
from service.http.fair_room import room_for_questions
from service.routes.json_route import JsonRoute
from service.settings import Settings
from tests.service.conftest import result_document
from tests.testbed.processes import SECONDS_UNTIL_STUCK

validated_by: list[int] = []
validated_texts: list[str] = []


class Note(BaseModel):
    """A document that notes which thread validates it."""

    text: str

    @field_validator("text")
    @classmethod
    def _noted(cls, text: str) -> str:
        validated_by.append(threading.get_ident())
        validated_texts.append(text)
        return text


router = APIRouter(route_class=JsonRoute)


@router.post("/notes")
async def take(note: Annotated[Note, explained(Note), Body()]) -> dict[str, Any]:
    """Where the event loop runs, and what came."""
    return {"loop": threading.get_ident(), "num_characters": len(note.text)}


@pytest.mark.parametrize(
    ("num_characters", "is_in_loop"), [(10, True), (MAX_BYTES_AT_ONCE, False)], ids=["small", "large"]
)
def test_a_large_document_is_validated_once_and_not_by_the_event_loop(
    tmp_path: Path, num_characters: int, is_in_loop: bool
) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    app.include_router(router)
    validated_by.clear()
    with TestClient(app) as client:
        answer = client.post("/notes", json={"text": "x" * num_characters}).json()
        refused = client.post("/notes", json={"text": ["x" * num_characters]})
    assert answer["num_characters"] == num_characters
    assert [thread == answer["loop"] for thread in validated_by] == [is_in_loop]
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "text")


def test_of_many_small_documents_those_of_one_client_do_not_all_come_first(tmp_path: Path) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    app.include_router(router)
    validated_texts.clear()

    async def send(text: str) -> None:
        transport = httpx.ASGITransport(app, client=(text[0], 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            assert (await client.post("/notes", json={"text": text})).status_code == 200

    async def send_all() -> None:
        await asyncio.gather(*map(send, ("a1", "a2", "a3", "a4", "b1")))

    asyncio.run(send_all())
    assert validated_texts.index("b1") < 3


def test_what_came_packed_is_not_unpacked_by_the_event_loop(tmp_path: Path) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    app.include_router(router)
    validated_by.clear()
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    with TestClient(app) as client:
        answer = client.post("/notes", content=gzip.compress(b'{"text": "x"}'), headers=packed).json()
    assert answer["num_characters"] == 1
    assert validated_by != [answer["loop"]]


def test_a_client_holds_no_more_bytes_of_bodies_than_are_left_to_others() -> None:
    room = room_for_questions(Settings(database_url="sqlite:///x.db"))
    whole = room.num_free
    assert whole >= 4 * Settings.model_fields["max_result_bytes"].default
    with room.of("a") as take, room.of("a") as take_too, room.of("b") as take_of_other:
        take(whole // 4)
        take_too(whole // 4)
        for take_more in (take, take_too):
            with pytest.raises(Busy):
                take_more(1)
        take_of_other(whole // 4)
        with pytest.raises(Busy):
            take_of_other(1)
    assert room.num_free == whole
    with room.of("a") as take:
        take(whole // 2)


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "packed"])
def test_a_body_for_which_there_is_no_room_is_refused_for_now(tmp_path: Path, is_packed: bool) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    app.include_router(router)
    body = json.dumps({"text": "x" * 4000}).encode()
    sent = gzip.compress(body) if is_packed else body
    headers = {"content-type": "application/json"} | ({"content-encoding": "gzip"} if is_packed else {})
    with TestClient(app) as client:
        for num_free, status in ((2 * len(body) - 1, 503), (2 * (len(sent) + len(body)), 200)):
            app.state.body_room.num_free = num_free
            answer = client.post("/notes", content=sent, headers=headers)
            assert answer.status_code == status, answer.text
            assert app.state.body_room.num_free == num_free
            assert status == 200 or int(answer.headers["retry-after"]) > 0


HOSTILE_BYTES = 15 * 10**6
READS_A_RESULT = """
import json, resource, sys
from pathlib import Path
from service.errors import validated
from service.http.bodies import parse_json
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    document = parse_json(Path(sys.argv[1]).read_bytes())
    validated(BenchmarkResult, lambda: BenchmarkResult.model_validate(document))
except InvalidInput as error:
    fields = [problem.field for problem in error.problems]
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps({"bytes": grown * 1024, "fields": fields}))
"""


def hostile(item: bytes, *, num_items: int) -> bytes:
    """A result of 15 MB whose measurements are these items, and then one text."""
    measurements = b"[" + (item + b",") * num_items
    measurements += b'"' + b"x" * (HOSTILE_BYTES - len(measurements)) + b'"]'
    whole = json.dumps(result_document("hostile") | {"measurements": "here"}).encode()
    return whole.replace(b'"here"', measurements)


@pytest.mark.parametrize(
    ("item", "num_items", "field"),
    [
        pytest.param(b'{"a":1.5}', MAX_VALUES // 2 - 100, "measurements.0.a", marks=pytest.mark.long, id="objects"),
        pytest.param(b"1", MAX_VALUES - 100, "measurements.0", id="numbers"),
        pytest.param(b"[]", 5 * 10**6 - 10, "body", id="more values than there may be"),
    ],
)
def test_a_hostile_result_is_refused_within_300_mb_and_its_first_fault_named(
    tmp_path: Path, item: bytes, num_items: int, field: str
) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(hostile(item, num_items=num_items))
    command = [sys.executable, "-c", READS_A_RESULT, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_UNTIL_STUCK, check=True)
    found = json.loads(done.stdout)
    assert field in found["fields"]
    assert len(found["fields"]) < 20
    assert found["bytes"] < 300 * 10**6


def test_an_object_has_no_more_fields_than_can_be_told_as_unknown() -> None:
    fields = {str(number): 0 for number in range(MAX_FIELDS_OF_AN_OBJECT)}
    assert parse_json(json.dumps(fields).encode()) == fields
    with pytest.raises(InvalidJson, match="at most 50,000 fields"):
        parse_json(json.dumps(fields | {"one more": 0}).encode())
