"""What the query and the headers of a request ask for: known names, each once, and the state that a client has seen."""

import httpx
import pytest

from tests.service.conftest import bearer


@pytest.fixture
def link(client: httpx.Client, token: str) -> str:
    made = client.post("/v1/storage-systems", json={"name": "known-state"}, headers=bearer(token))
    assert made.headers["etag"] == client.get(made.headers["location"]).headers["etag"]
    return made.headers["location"]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/v1/models?limit=3", "limit is not a query parameter of this address: remove it; there is none here."),
        ("/v1/scenarios?limits=3", "limits is not a query parameter of this address: did you mean limit."),
        ("/v1/scenarios?limit=2&limit=3", "limit must not occur twice in the query: keep one of them."),
    ],
)
def test_a_query_has_known_parameters_each_once(client: httpx.Client, path: str, sentence: str) -> None:
    refused = client.get(path)
    assert refused.status_code == 422
    assert [each["sentence"] for each in refused.json()["errors"]] == [sentence]


def test_a_question_takes_no_query(client: httpx.Client) -> None:
    refused = client.post("/v1/sizings?gpus=8", json={"model": {"preset": "gpt2"}})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "gpus")


def test_who_has_the_present_state_is_not_sent_it_again(client: httpx.Client, link: str) -> None:
    etag = client.get(link).headers["etag"]
    known = client.get(link, headers={"if-none-match": f'"older", {etag}'})
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", etag)
    assert client.get(link, headers={"if-none-match": '"older"'}).status_code == 200


def test_a_weak_tag_permits_no_change(client: httpx.Client, token: str, link: str) -> None:
    etag = client.get(link).headers["etag"]

    def status(if_match: str) -> int:
        headers = bearer(token) | {"if-match": if_match}
        return client.patch(link, json={"description": "as it is"}, headers=headers).status_code

    assert status(f"W/{etag}") == 412
    assert status(etag) == 200
    assert status("*") == 200


@pytest.mark.parametrize(("charset", "status"), [("utf-8", 200), ('"UTF-8"', 200), ("latin-1", 415), ("utf-16", 415)])
def test_json_is_utf_8(client: httpx.Client, charset: str, status: int) -> None:
    headers = {"content-type": f"application/json; charset={charset}"}
    answered = client.post("/v1/sizings", content=b'{"model": {"preset": "gpt2"}}', headers=headers)
    assert answered.status_code == status
