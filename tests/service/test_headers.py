"""What the query and the headers of a request ask for: known names, each once, and the state that a client has seen."""

from typing import Any

import httpx
import pytest

from tests.service.conftest import bearer

SENT_TO_PROGRAMS = {"ETag", "Location", "Preference-Applied", "Retry-After", "WWW-Authenticate"}
GPT2 = {"model": {"preset": "gpt2"}}


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


def test_every_address_that_refuses_an_unknown_query_is_documented_with_that(client: httpx.Client, token: str) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    reads = {path: operations["get"]["responses"] for path, operations in paths.items() if "get" in operations}
    without = [
        path
        for path, documented in reads.items()
        if client.get(path, params={"zz": "1"}, headers=bearer(token)).status_code == 422 and "422" not in documented
    ]
    assert without == []


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


ASKED: list[tuple[str, dict[str, Any], int]] = [
    ("POST /v1/sizings", {"json": GPT2}, 200),
    ("POST /v1/sizings", {"json": GPT2, "headers": {"prefer": "respond-async"}}, 202),
    ("GET /v1/models", {}, 200),
    ("GET /v1/models", {"headers": {"if-none-match": "*"}}, 304),
    ("GET /v1/schemas/{name}", {"name": "scenario"}, 200),
    ("POST /v1/storage-systems", {"json": {"name": "described"}}, 201),
    ("POST /v1/storage-systems", {"json": {"name": "described"}}, 200),
    ("POST /v1/storage-systems", {"json": {"name": "described"}, "headers": {"authorization": "Bearer no"}}, 401),
    ("GET /v1/storage-systems/{name}", {"name": "described"}, 200),
    ("GET /v1/storage-systems/{name}", {"name": "described", "headers": {"if-none-match": "*"}}, 304),
    ("PATCH /v1/storage-systems/{name}", {"name": "described", "json": {}, "headers": {"if-match": "*"}}, 200),
    ("PATCH /v1/storage-systems/{name}", {"name": "described", "json": {}, "headers": {"if-match": '"a"'}}, 412),
    ("PATCH /v1/storage-systems/{name}", {"name": "described", "json": {}}, 428),
    ("POST /v1/scenarios", {"json": {"name": "described", "scenario": GPT2}}, 201),
    ("GET /v1/jobs", {"headers": {"authorization": ""}}, 401),
]
"""Route, request and status, one after the other."""


def test_the_headers_and_the_status_of_an_answer_are_those_of_the_document(client: httpx.Client, token: str) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for route, asked, status in ASKED:
        method, path = route.split()
        request = {key: value for key, value in asked.items() if key not in ("name", "headers")}
        headers = bearer(token) | asked.get("headers", {})
        answered = client.request(method, path.format(name=asked.get("name")), headers=headers, **request)
        assert answered.status_code == status, (route, answered.text)
        documented = paths[path][method.lower()]["responses"][str(status)].get("headers", {})
        sent = {name for name in SENT_TO_PROGRAMS if name in answered.headers}
        assert sent == documented.keys(), (route, status)


def test_a_job_that_has_not_ended_says_when_to_ask_again_as_the_document_has_it(client: httpx.Client) -> None:
    made = client.post("/v1/sweeps", json={"scenario": GPT2}, headers={"prefer": "respond-async"})
    state = client.get(made.headers["location"])
    assert ("retry-after" in state.headers) == (state.json()["ended_at"] is None)
    described = client.get("/openapi.json").json()["paths"]["/v1/jobs/{job_id}"]["get"]["responses"]["200"]
    assert described["headers"].keys() == {"Retry-After"}


def test_a_form_that_an_installation_may_lack_is_documented_wherever_it_can_be_asked_for(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    forms = {
        (path, method): operation["responses"]["200"]["content"]
        for path, operations in paths.items()
        for method, operation in operations.items()
        if "content" in operation["responses"].get("200", {})
    }
    may_lack = {at for at, content in forms.items() if "application/pdf" in content}
    assert may_lack
    assert [at for at in may_lack if "501" not in paths[at[0]][at[1]]["responses"]] == []
    assert "501" in paths["/v1/offer-tables"]["post"]["responses"]
