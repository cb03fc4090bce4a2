"""Storage systems and their benchmark runs: published once each, kept as sent, found again."""

import functools
import gzip
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import pytest

from tests.service.conftest import BOTH, bearer, created_token, result_document

DATABASES = BOTH
GZIP = {"content-type": "application/json", "content-encoding": "gzip"}
MIB = 1024**2


@pytest.fixture(scope="session")
def publisher(database_url: str, server: str) -> dict[str, str]:
    """The headers of an agent."""
    assert server
    return bearer(created_token(database_url, "agents-of-tests", scope="publish"))


@pytest.fixture(scope="session")
def runs(client: httpx.Client, token: str) -> str:
    """Where the runs of a storage system are."""
    made = client.post("/v1/storage-systems", json={"name": "runs-of-tests"}, headers=bearer(token))
    assert made.status_code == 201, made.text
    return f"{made.headers['location']}/runs"


def publish(client: httpx.Client, runs: str, publisher: dict[str, str], document: Any) -> httpx.Response:
    return client.post(runs, json=document, headers=publisher)


def problem(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def test_a_storage_system_is_added_once_and_listed_by_name(client: httpx.Client, token: str) -> None:
    systems = [{"name": name, "description": f"of {name}"} for name in ("z-9", "a-1", "m.2_x")]
    for system in systems:
        made = client.post("/v1/storage-systems", json=system, headers=bearer(token))
        assert made.status_code == 201
        again = client.post("/v1/storage-systems", json=system, headers=bearer(token))
        assert (again.status_code, again.json()) == (200, made.json())
        assert client.get(made.headers["location"]).json() == made.json()
    other = client.post("/v1/storage-systems", json={"name": "z-9", "description": "other"}, headers=bearer(token))
    assert problem(other) == (409, "conflict")
    names: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.get("/v1/storage-systems", params={"limit": "2"} | cursor).json()
        names += [item["name"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert names == sorted(names)
    assert {"z-9", "a-1", "m.2_x"} <= set(names)


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "..", "<b>", "'; DROP TABLE runs; --", "a" * 101, "ä", "a b"])
def test_a_name_that_cannot_stand_in_a_link_is_refused(client: httpx.Client, token: str, name: str) -> None:
    refused = client.post("/v1/storage-systems", json={"name": name}, headers=bearer(token))
    assert problem(refused) == (422, "invalid-input")


def test_a_storage_system_with_runs_stays_and_one_without_can_go(
    client: httpx.Client, token: str, runs: str, publisher: dict[str, str]
) -> None:
    publish(client, runs, publisher, result_document("stays"))
    kept = client.delete(runs.removesuffix("/runs"), headers=bearer(token))
    assert problem(kept) == (409, "conflict")
    made = client.post("/v1/storage-systems", json={"name": "brief"}, headers=bearer(token))
    assert client.delete(made.headers["location"], headers=bearer(token)).status_code == 204
    assert problem(client.get(made.headers["location"])) == (404, "not-found")


def test_a_run_is_published_once_and_kept_as_it_was_sent(
    client: httpx.Client, runs: str, publisher: dict[str, str]
) -> None:
    document = result_document("once")
    text = json.dumps(document, indent=3)
    headers = publisher | {"content-type": "application/json"}
    made = client.post(runs, content=text, headers=headers)
    assert made.status_code == 201
    assert made.json()["measurements"][0]["bytes_per_second"] == 5e8
    assert client.get(made.headers["location"]).text == text
    other_order = json.dumps(dict(reversed(document.items())))
    again = client.post(runs, content=other_order, headers=headers)
    assert (again.status_code, again.json()) == (200, made.json())
    assert client.get(made.headers["location"]).text == text


def test_a_run_whose_writes_fell_has_the_rate_that_went_on_in_lists_and_in_its_trend(
    client: httpx.Client, runs: str, publisher: dict[str, str]
) -> None:
    document = result_document("fell")
    fall = {"after_bytes": 10**9, "before_bytes_per_second": 5e8, "after_bytes_per_second": 1e8}
    document["measurements"][0] |= {"engine": "fills", "sustained_bytes_per_second": 1e8, "rate_changes": [fall]}
    made = publish(client, runs, publisher, document)
    assert made.json()["measurements"][0]["bytes_per_second"] == 1e8
    trend = client.get(f"{runs.removesuffix('/runs')}/trend", params={"engine": "fills"}).json()
    assert [point["bytes_per_second"] for series in trend for point in series["points"]] == [1e8]


def test_another_body_under_the_same_run_id_is_refused(
    client: httpx.Client, runs: str, publisher: dict[str, str]
) -> None:
    assert publish(client, runs, publisher, result_document("taken")).status_code == 201
    refused = publish(client, runs, publisher, result_document("taken", seconds=3.0))
    assert problem(refused) == (409, "conflict")
    assert "was already published with different content" in refused.json()["detail"]
    assert client.get(f"{runs}/taken").json() == result_document("taken")


def test_a_run_belongs_to_one_storage_system(
    client: httpx.Client, token: str, runs: str, publisher: dict[str, str]
) -> None:
    assert publish(client, runs, publisher, result_document("mine")).status_code == 201
    other = client.post("/v1/storage-systems", json={"name": "other"}, headers=bearer(token)).headers["location"]
    assert problem(publish(client, f"{other}/runs", publisher, result_document("mine"))) == (409, "conflict")
    assert problem(client.get(f"{other}/runs/mine")) == (409, "conflict")
    assert client.get(f"{other}/runs").json() == {"items": [], "next": None}


def test_a_run_for_nothing_is_refused(client: httpx.Client, publisher: dict[str, str]) -> None:
    refused = publish(client, "/v1/storage-systems/nothing/runs", publisher, result_document("lost"))
    assert problem(refused) == (404, "not-found")
    assert problem(client.get("/v1/storage-systems/nothing/runs")) == (404, "not-found")


def test_many_agents_that_send_the_same_run_at_once_publish_it_once(
    client: httpx.Client, runs: str, publisher: dict[str, str]
) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: publish(client, runs, publisher, result_document("contended")), range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] * 63 + [201]
    listed = client.get(runs, params={"limit": 200}).json()["items"]
    assert [item["run_id"] for item in listed].count("contended") == 1


def test_a_packed_run_is_unpacked(client: httpx.Client, runs: str, publisher: dict[str, str]) -> None:
    text = json.dumps(result_document("packed")).encode()
    made = client.post(runs, content=gzip.compress(text), headers=publisher | GZIP)
    assert made.status_code == 201
    assert client.get(made.headers["location"]).content == text


@functools.cache
def bomb(mebibytes: int) -> bytes:
    """Zeros, packed: made when a test needs it, not in every process that collects the tests."""
    return gzip.compress(bytes(mebibytes * MIB))


@pytest.mark.parametrize(
    ("packed", "status", "code"),
    [
        (lambda: gzip.compress(b"{}")[:-9], 400, "invalid-json"),
        (lambda: gzip.compress(b"{}") + b"more", 400, "invalid-json"),
        (lambda: b"not gzip", 400, "invalid-json"),
        (lambda: bomb(17), 413, "too-large"),
        (lambda: gzip.compress(bomb(200)), 400, "invalid-json"),
    ],
    ids=["cut", "more", "plain", "bomb", "nested"],
)
def test_what_is_packed_badly_is_refused(
    client: httpx.Client,
    runs: str,
    publisher: dict[str, str],
    packed: Callable[[], bytes],
    status: int,
    code: str,
) -> None:
    assert problem(client.post(runs, content=packed(), headers=publisher | GZIP)) == (status, code)


def test_an_unknown_packing_is_refused(client: httpx.Client, runs: str, publisher: dict[str, str]) -> None:
    refused = client.post(runs, content=b"x", headers=publisher | GZIP | {"content-encoding": "br"})
    assert problem(refused) == (415, "unsupported-media-type")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema_version": 2}, "schema_version must be one of 1"),
        ({"run_id": "../../etc/passwd"}, "run_id must match ^"),
        ({"run_id": "<script>"}, "run_id must match ^"),
        ({"started_at": 0}, "started_at must be a date and time, got 0"),
        ({"measurements": []}, "measurements must have at least 1 entries"),
        ({"measurements": result_document("x")["measurements"] * 1001}, "measurements must be at most 1,000"),
        ({"more": 1}, "more is not a known field"),
    ],
)
def test_what_is_no_result_is_not_kept(
    client: httpx.Client, runs: str, publisher: dict[str, str], change: dict[str, Any], sentence: str
) -> None:
    refused = publish(client, runs, publisher, result_document("wrong") | change)
    assert problem(refused) == (422, "invalid-input")
    assert sentence in refused.json()["detail"]
    assert problem(client.get(f"{runs}/wrong")) == (404, "not-found")


def test_numbers_beyond_every_storage_are_refused(client: httpx.Client, runs: str, publisher: dict[str, str]) -> None:
    document = result_document("huge")
    document["measurements"][0]["total_bytes"] = 10**400
    assert problem(publish(client, runs, publisher, document)) == (422, "invalid-input")


def test_runs_are_listed_newest_first_and_filtered(client: httpx.Client, token: str, publisher: dict[str, str]) -> None:
    made = client.post("/v1/storage-systems", json={"name": "runs-of-two-engines"}, headers=bearer(token))
    runs = f"{made.headers['location']}/runs"
    moments = []
    for number, (engine, num_nodes) in enumerate((("direct", 1), ("dcp", 8), ("direct", 4))):
        document = result_document(f"f{number}", engine=engine, num_nodes=num_nodes)
        moments.append(publish(client, runs, publisher, document).json()["published_at"])

    def found(**query: str | int) -> list[str]:
        page = client.get(runs, params=query).json()
        return [item["run_id"] for item in page["items"]]

    assert found() == ["f2", "f1", "f0"]
    assert found(engine="direct") == ["f2", "f0"]
    assert found(min_num_nodes=4) == ["f2", "f1"]
    assert found(engine="direct", min_num_nodes=2) == ["f2"]
    assert found(published_since=moments[1]) == ["f2", "f1"]
    assert found(published_before=moments[1]) == ["f0"]
    for offset in (timedelta(hours=9), timedelta(hours=-11), timedelta(hours=5, minutes=45)):
        second_run = datetime.fromisoformat(moments[1]).astimezone(timezone(offset)).isoformat()
        assert found(published_since=second_run) == ["f2", "f1"]
        assert found(published_before=second_run) == ["f0"]
    first = client.get(runs, params={"limit": 2}).json()
    assert [item["run_id"] for item in first["items"]] == ["f2", "f1"]
    second = client.get(runs, params={"limit": 2, "cursor": first["next"]}).json()
    assert ([item["run_id"] for item in second["items"]], second["next"]) == (["f0"], None)


@pytest.mark.parametrize("path", ["/{nul}", "/{nul}/runs", "/{nul}/calibrations", "/runs-of-tests/runs/{nul}"])
def test_no_address_asks_for_what_a_database_cannot_hold(client: httpx.Client, runs: str, path: str) -> None:
    assert runs
    found = client.get(f"/v1/storage-systems{path.format(nul='%00')}")
    assert problem(found) in [(404, "not-found"), (422, "invalid-input")]


def test_what_a_database_cannot_hold_is_refused(
    client: httpx.Client, runs: str, publisher: dict[str, str], token: str
) -> None:
    assert client.get(runs, params={"engine": "a\0"}).status_code in (200, 422)
    for document in (result_document("nul", engine="a\0"), result_document("a\0")):
        assert problem(publish(client, runs, publisher, document)) == (400, "invalid-json")
    calibrations = runs.removesuffix("runs") + "calibrations"
    refused = client.post(calibrations, json={"run_ids": ["a\0"]}, headers=bearer(token))
    assert problem(refused) == (400, "invalid-json")
    spelled_out = result_document("spelled-out") | {"warnings": ["\\u0000"]}
    assert publish(client, runs, publisher, spelled_out).status_code == 201


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("engin=direct", "engin is not a query parameter of this address: did you mean engine"),
        ("min_num_nodes=0", "min_num_nodes must be at least 1"),
        ("published_since=2026-01-01", "published_since must have a time zone"),
        ("published_since=2026-01-01T00:00:00", "published_since must have a time zone"),
        (
            "published_since=1700000000",
            "published_since must be a date and time, got '1700000000': write it as in 2026-",
        ),
        ("published_before=1.7e9", "published_before must be a date and time, got '1.7e9': write it as in 2026-"),
        ("published_since=soon", "published_since must be a date and time, got 'soon': write it as in 2026-"),
        ("cursor=soon", "cursor must be an id"),
    ],
)
def test_a_filter_without_a_meaning_is_refused(client: httpx.Client, runs: str, query: str, sentence: str) -> None:
    refused = client.get(f"{runs}?{query}")
    assert problem(refused) == (422, "invalid-input")
    assert sentence in refused.json()["detail"]


def test_a_token_to_publish_does_nothing_else(client: httpx.Client, publisher: dict[str, str]) -> None:
    for path, body in (("/v1/storage-systems", {"name": "x"}), ("/v1/scenarios", {})):
        assert problem(client.post(path, json=body, headers=publisher)) == (403, "missing-scope")


def test_a_body_is_not_read_before_the_token_is_seen(client: httpx.Client, runs: str) -> None:
    assert problem(client.post(runs, content=bomb(200), headers=GZIP)) == (401, "unauthorized")
