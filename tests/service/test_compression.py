"""Answers compressed for who takes that."""

import gzip

import httpx
import pytest

from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import connected

GZIP = {"accept-encoding": "gzip"}


@pytest.mark.parametrize("accept", ["application/json", "text/html", "text/csv"])
def test_an_answer_to_a_question_is_compressed_for_who_takes_gzip(client: httpx.Client, accept: str) -> None:
    plain, packed = (
        client.post("/v1/sizings", json=REFERENCE_SCENARIO, headers={"accept": accept, "accept-encoding": coding})
        for coding in ("identity", "gzip")
    )
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    for answer in (plain, packed):
        assert {"Accept", "Accept-Encoding"} <= set(answer.headers["vary"].replace(" ", "").split(","))
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    if accept != "text/html":  # which says when it was made
        assert packed.content == plain.content


@pytest.mark.parametrize(
    ("path", "is_compressed"),
    [("/v1/models", True), ("/healthz", False), ("/metrics", True), ("/v1/schemas/scenario", True)],
)
def test_what_is_small_is_left_as_it_is(client: httpx.Client, path: str, is_compressed: bool) -> None:
    assert ("content-encoding" in client.get(path, headers=GZIP).headers) == is_compressed


def test_a_refusal_is_compressed_too(client: httpx.Client) -> None:
    body = {f"unknown-{number}": 1 for number in range(50)}
    refused = client.post("/v1/sizings", json=body, headers=GZIP)
    assert (refused.status_code, refused.headers["content-encoding"]) == (422, "gzip")
    assert len(refused.json()["errors"]) == 51


def test_the_head_of_a_compressed_answer_is_that_of_the_answer(server: str, client: httpx.Client) -> None:
    answer, head = (client.request(method, "/metrics", headers=GZIP) for method in ("GET", "HEAD"))
    assert head.headers["content-encoding"] == answer.headers["content-encoding"] == "gzip"
    with connected(server) as connection:
        connection.sendall(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n")
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.endswith(b"\r\n\r\n")
    assert gzip.compress(b"")[:3] not in received
